// Sells to a Lightwork buyer with plain events.
import { listen, publish, pubkey, sign } from './client.mjs'
import { announcement, domain, KIND, options, say, SCHEMA, Sold, Wallet } from '../market.mjs'

const price = 3000
const wallet = new Wallet(options.ledger)
await wallet.open(options.name)
const node = (await wallet.call('Node')).pub_key

const feedback = (request, status, content = '', more = []) =>
  publish(sign(KIND.feedback, [['status', status], ['e', request.id], ['p', request.pubkey], ...more], content))

async function serve(request) {
  const sold = new Sold(request, pubkey)
  if (sold.mode === 'prepay') {
    const quote = sold.quote(price, node)
    const bolt11 = await sold.invoice(wallet, price)
    await feedback(request, 'payment-required', quote, [['amount', String(price), bolt11], domain('quote')])
    await wallet.paid(sold.paymentHash)
    say('earned', { msats: price })
  }
  if (sold.mode === 'free') await feedback(request, 'processing', sold.quote(0, null), [domain('quote')])
  else await feedback(request, 'processing')
  const output = sold.result()
  const tags = [
    ['request', JSON.stringify(request)], ['e', request.id], ['p', request.pubkey],
    ['amount', String(sold.mode === 'free' ? 0 : price)], ...sold.bindings(output),
  ]
  await publish(sign(KIND.result, tags, output))
  await feedback(request, 'success')
  say('delivered', { request: request.id })
}

process.on('SIGINT', () => process.exit(0))
await listen({ kinds: [KIND.request], '#p': [pubkey] }, serve)
await publish(sign(KIND.announcement, [['d', 'outside'], ['k', '5050'], ['t', SCHEMA], domain('announcement')], announcement('nostr-tools', price, node)))
say('selling', { pubkey })
