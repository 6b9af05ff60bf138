// A DVM written with nostr-tools: it answers each request with its first input.
import WebSocket from 'ws'
import { finalizeEvent, generateSecretKey, getPublicKey } from 'nostr-tools/pure'
import { Relay, useWebSocketImplementation } from 'nostr-tools/relay'

useWebSocketImplementation(WebSocket)
const secret = generateSecretKey()
const pubkey = getPublicKey(secret)
const relay = await Relay.connect(process.argv[2])

async function answer(request) {
  const input = request.tags.find(([name]) => name === 'i')
  await relay.publish(finalizeEvent({
    kind: 6050,
    created_at: Math.floor(Date.now() / 1000),
    tags: [['request', JSON.stringify(request)], input, ['e', request.id], ['p', request.pubkey]],
    content: input[1],
  }, secret))
}

process.on('SIGTERM', () => process.exit(0))
relay.subscribe([{ kinds: [5050], '#p': [pubkey] }], {
  onevent: (event) => answer(event).catch((err) => console.error(err)),
  oneose: () => console.log(pubkey),
})
