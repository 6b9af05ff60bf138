// Asks for a price and goes away: NIP-09 on the request.
import { decode } from 'light-bolt11-decoder'
import { listen, playMoney, pool, publish, relays, sign } from './client.mjs'
import { KIND, options, requestTags, say, SCHEMA, Wallet } from '../market.mjs'

const { pubkey: provider } = await pool.get(relays, { kinds: [KIND.announcement], '#t': [SCHEMA] })
const wallet = new Wallet(options.ledger)
await wallet.open(options.name)
const request = sign(KIND.request, requestTags('prepay', 5000, provider))
let invoice

await listen({ kinds: [KIND.feedback], '#e': [request.id], authors: [provider] }, async (event) => {
  const [, status, info] = event.tags.find((t) => t[0] === 'status')
  say('feedback', { status, info })
  if (status === 'payment-required') {
    invoice = event.tags.find((t) => t[0] === 'amount')[2]
    await publish(sign(KIND.deletion, [['e', request.id], ['k', String(KIND.request)]]))
  }
  if (status !== 'error') return
  const hash = decode(invoice, playMoney).sections.find((s) => s.name === 'payment_hash').value
  say('paid', { late: await wallet.pay(invoice, 2000, hash).then((p) => p.state, (error) => error.message) })
  process.exit(0)
})
await publish(request)
