// Buys a job whose request nobody else can read, and reads the answers.
import * as nip04 from 'nostr-tools/nip04'
import { decrypt, encrypt, getConversationKey } from 'nostr-tools/nip44'
import { listen, pool, publish, relays, secret, sign } from './client.mjs'
import { both, KIND, options, requestTags, say, SCHEMA, Wallet } from '../market.mjs'

const { pubkey: provider } = await pool.get(relays, { kinds: [KIND.announcement], '#t': [SCHEMA] })
const wallet = new Wallet(options.ledger)
await wallet.open(options.name)
const key = getConversationKey(secret, provider)
const schemes = {
  nip04: { hide: (text) => nip04.encrypt(secret, provider, text), open: (text) => nip04.decrypt(secret, provider, text) },
  nip44: { hide: (text) => encrypt(text, key), open: (text) => decrypt(text, key) },
}
const { hide, open } = schemes[options.encrypt]
const tags = requestTags(options.mode, 5000, provider).filter((t) => t[0] !== 'p')
const request = sign(KIND.request, [['p', provider], ['encrypted']], await hide(JSON.stringify(tags)))
const came = both(() => process.exit(0))

await listen({ kinds: [KIND.feedback, KIND.result], '#e': [request.id], authors: [provider] }, async (event) => {
  const text = await open(event.content)
  if (event.kind === KIND.result) {
    say('result', { first: JSON.parse(text).topk[0].id })
    return came('result')
  }
  const inside = new Map(JSON.parse(text).map(([name, ...more]) => [name, more]))
  const [status, info] = inside.get('status')
  say('feedback', { status, info })
  if (status === 'payment-required') {
    const [msats, bolt11] = inside.get('amount')
    await wallet.pay(bolt11, Number(msats), JSON.parse(inside.get('content')[0]).payment_hash)
  }
  if (status === 'success') came('success')
  if (status === 'error') process.exit(1)
})
await publish(request)
