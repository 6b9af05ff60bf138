// A SimplePool and a key.
import WebSocket from 'ws'
import { finalizeEvent, generateSecretKey, getPublicKey } from 'nostr-tools/pure'
import { SimplePool, useWebSocketImplementation } from 'nostr-tools/pool'
import { options } from '../market.mjs'

useWebSocketImplementation(WebSocket)
export const pool = new SimplePool()
export const secret = generateSecretKey()
export const pubkey = getPublicKey(secret)
export const relays = [options.relay]

export const sign = (kind, tags, content = '', created_at = Math.floor(Date.now() / 1000)) =>
  finalizeEvent({ kind, tags, content, created_at }, secret)

// publish wants every relay's OK.
export const publish = (event) => Promise.all(pool.publish(relays, event))

// listen returns once the relay has sent EOSE: nothing can be missed then.
export const listen = (filter, onevent) =>
  new Promise((resolve) => pool.subscribe(relays, filter, { onevent, oneose: resolve }))

// Decoders of invoices know Bitcoin's networks only; play money's prefix is "play".
export const playMoney = { bech32: 'play', pubKeyHash: 0, scriptHash: 5, validWitnessVersions: [0, 1] }
