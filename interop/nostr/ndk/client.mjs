// An NDK on one relay.
import WebSocket from 'ws'
import NDK, { NDKPrivateKeySigner } from '@nostr-dev-kit/ndk'
import { options } from '../market.mjs'

globalThis.WebSocket ??= WebSocket // Node.js has one of its own from version 22 on

export async function connect() {
  const signer = NDKPrivateKeySigner.generate()
  const ndk = new NDK({ explicitRelayUrls: [options.relay], signer, enableOutboxModel: false, autoConnectUserRelays: false })
  await ndk.connect(5000)
  const user = await signer.user()
  ndk.activeUser = user
  return { ndk, user }
}

// listen returns once the relay has sent EOSE: nothing can be missed then.
export const listen = (ndk, filter, onEvent) =>
  new Promise((resolve) => ndk.subscribe(filter, { closeOnEose: false, groupable: false }, { onEvent, onEose: resolve }))
