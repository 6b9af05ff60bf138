// A remote signer (NIP-46): it signs what its client asked permission for when
// it connected, and nothing of the kind that the test has it deny.
import { finalizeEvent, generateSecretKey, getPublicKey } from 'nostr-tools/pure'
import * as nip44 from 'nostr-tools/nip44'
import { listen, publish, pubkey, relays, secret } from './client.mjs'
import { options, say } from '../market.mjs'

const NostrConnect = 24133
const user = generateSecretKey()
const clients = new Map() // key: permissions

const methods = {
  connect(client, [signer, token, permissions]) {
    if (signer !== pubkey || token !== options.secret) throw new Error('wrong secret')
    clients.set(client, (permissions ?? '').split(','))
    say('connected', { permissions: permissions ?? '' })
    return 'ack'
  },
  get_public_key: () => getPublicKey(user),
  sign_event(client, [template]) {
    const event = JSON.parse(template)
    if (!clients.get(client).includes(`sign_event:${event.kind}`)) throw new Error('no permission')
    if (options.deny === String(event.kind)) throw new Error(`kind ${event.kind} is not for you`)
    say('signed', { kind: event.kind })
    return JSON.stringify(finalizeEvent(event, user))
  },
  nip44_encrypt: (_, [peer, text]) => nip44.encrypt(text, nip44.getConversationKey(user, peer)),
  nip44_decrypt: (_, [peer, text]) => nip44.decrypt(text, nip44.getConversationKey(user, peer)),
  ping: () => 'pong',
}

async function answer(event) {
  const key = nip44.getConversationKey(secret, event.pubkey)
  const { id, method, params } = JSON.parse(nip44.decrypt(event.content, key))
  const said = { id }
  try {
    if (method !== 'connect' && !clients.has(event.pubkey)) throw new Error('connect first')
    said.result = methods[method](event.pubkey, params)
  } catch (error) {
    said.error = error.message
  }
  await publish(finalizeEvent({
    kind: NostrConnect, created_at: Math.floor(Date.now() / 1000), tags: [['p', event.pubkey]],
    content: nip44.encrypt(JSON.stringify(said), key),
  }, secret))
}

await listen({ kinds: [NostrConnect], '#p': [pubkey], limit: 0 }, answer)
say('bunker', { address: `bunker://${pubkey}?relay=${encodeURIComponent(relays[0])}&secret=${options.secret}`, user: getPublicKey(user) })
