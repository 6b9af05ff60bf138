// A DVM written with NDK's own classes: it answers each request with its first input.
import WebSocket from 'ws'
import NDK, { NDKDVMJobResult, NDKDVMRequest, NDKPrivateKeySigner } from '@nostr-dev-kit/ndk'

globalThis.WebSocket ??= WebSocket // Node.js has one of its own from version 22 on

const signer = NDKPrivateKeySigner.generate()
const ndk = new NDK({ explicitRelayUrls: [process.argv[2]], signer, enableOutboxModel: false, autoConnectUserRelays: false })
await ndk.connect(5000)
const { pubkey } = await signer.user()

async function answer(event) {
  const request = NDKDVMRequest.from(event)
  const result = new NDKDVMJobResult(ndk)
  result.kind = 6050
  result.jobRequest = request
  result.result = request.getMatchingTags('i')[0][1]
  await result.publish()
}

process.on('SIGTERM', () => process.exit(0))
ndk.subscribe(
  { kinds: [5050], '#p': [pubkey] },
  { closeOnEose: false, groupable: false },
  { onEvent: (event) => answer(event).catch((err) => console.error(err)), onEose: () => console.log(pubkey) },
)
