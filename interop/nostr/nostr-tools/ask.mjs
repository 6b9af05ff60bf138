// nostr-tools' own BunkerSigner at our test's signer: what our client takes for
// NIP-46 is what this one takes for it.
import { verifyEvent } from 'nostr-tools/pure'
import { BunkerSigner, parseBunkerInput } from 'nostr-tools/nip46'
import { pool, secret } from './client.mjs'
import { options, say } from '../market.mjs'

const signer = BunkerSigner.fromBunker(secret, await parseBunkerInput(options.address), { pool })
await signer.sendRequest('connect', [(await parseBunkerInput(options.address)).pubkey, options.secret, 'sign_event:1'])
const event = await signer.signEvent({ kind: 1, created_at: 1700000000, tags: [], content: 'hello' })
say('signed', { good: String(verifyEvent(event) && event.pubkey === options.user) })
process.exit(0)
