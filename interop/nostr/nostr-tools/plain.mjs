// A provider with the habits of ordinary NIP-90 programs, which know nothing of
// docs/protocol/protocol.md. The Go test wants to see what our buyer makes of each.
import { listen, publish, pubkey, sign } from './client.mjs'
import { announcement, canonical, domain, KIND, options, say, SCHEMA, sha256, Sold, Wallet } from '../market.mjs'

const price = 3000
const wallet = new Wallet(options.ledger)
await wallet.open(options.name)
const node = (await wallet.call('Node')).pub_key

const send = (kind, request, tags, content = '') => publish(sign(kind, [...tags, ['e', request.id], ['p', request.pubkey]], content))
const feedback = (request, status, content, more = []) => send(KIND.feedback, request, [['status', ...status], ...more], content)
const goodbye = (request) => feedback(request, ['error', 'outside: that is all'])
const hashes = (sold, output) => [domain('result'), ['job_hash', sold.jobHash], ['output_hash', `sha256:${sha256(output)}`]]

// asks for money with an invoice that commits to the quote, or to anything.
async function asks(request, sold, status, content, more = []) {
  const bolt11 = await sold.invoice(wallet, price)
  await feedback(request, [status], content, [['amount', String(price), bolt11], ...more])
}

const habits = {
  // The least that binds a result in mode free: its domain, the hashes of job and output.
  async minimal(request, sold) {
    await feedback(request, ['processing'])
    const output = sold.result()
    await send(KIND.result, request, hashes(sold, output), output)
  },
  async words(request, sold) {
    await feedback(request, ['processing', 'thinking ...'], 'plain words')
    await feedback(request, ['partial'], 'half of the')
    await feedback(request, ['scheduled'])
    await habits.minimal(request, sold)
  },
  async unbound(request, sold) {
    await send(KIND.result, request, [['request', JSON.stringify(request)]], sold.result())
    await goodbye(request)
  },
  async unhashed(request, sold) {
    await send(KIND.result, request, [['job_hash', sold.jobHash]], sold.result())
    await goodbye(request)
  },
  async untyped(request, sold) {
    const output = 'The banana.'
    await send(KIND.result, request, hashes(sold, output), output)
    await goodbye(request)
  },
  // NIP-90 lets a provider deliver first and ask in the result.
  async afterwards(request, sold) {
    sold.quoteText = 'anything'
    const bolt11 = await sold.invoice(wallet, price)
    const output = sold.result()
    await send(KIND.result, request, [...hashes(sold, output), ['amount', String(price), bolt11]], output)
    await goodbye(request)
  },
  async bare(request, sold) {
    sold.quoteText = 'Pay for your job'
    await asks(request, sold, 'payment-required', '')
  },
  // A quote that leaves out a field.
  async incomplete(request, sold) {
    const { inputs, ...rest } = JSON.parse(sold.quote(price, node))
    sold.quoteText = canonical(rest)
    await asks(request, sold, 'payment-required', sold.quoteText, [domain('quote')])
    await goodbye(request)
  },
  async description(request, sold) {
    sold.quote(price, node)
    const quote = sold.quoteText
    sold.quoteText = `not ${sha256(quote)}`
    await asks(request, sold, 'payment-required', quote, [domain('quote')])
  },
  // The least that NIP-90 asks of a provider that wants money first.
  async stranger(request) {
    const sold = new Sold(request, pubkey)
    sold.quoteText = 'Pay for your job'
    await asks(request, sold, 'payment-required', 'please pay')
    await wallet.paid(sold.paymentHash)
    await feedback(request, ['processing', 'thinking'])
    await send(KIND.result, request, [['request', JSON.stringify(request)], ['amount', String(price)]], 'The banana.')
    await feedback(request, ['success'])
  },
  async afterwardsOutside(request) {
    const sold = new Sold(request, pubkey)
    sold.quoteText = 'anything'
    const bolt11 = await sold.invoice(wallet, price)
    await send(KIND.result, request, [['amount', String(price), bolt11]], 'The banana.')
  },
  async unlisted(request, sold) {
    await send(KIND.result, request, [], sold.result())
  },
  // As NDK's NdkDvmJobFeedbackStatus.PayReq spells it.
  async underscore(request, sold) {
    const quote = sold.quote(price, node)
    await asks(request, sold, 'payment_required', quote, [domain('quote')])
    await wallet.paid(sold.paymentHash)
    const output = sold.result()
    await send(KIND.result, request, [['amount', String(price)], ...sold.bindings(output)], output)
    await feedback(request, ['success'])
  },
}

process.on('SIGINT', () => process.exit(0))
await listen({ kinds: [KIND.request], '#p': [pubkey] }, async (request) => {
  const sold = new Sold(request, pubkey)
  await habits[options.habit](request, sold)
  say('answered')
})
const knowsNIP90Alone = ['unlisted', 'stranger', 'afterwardsOutside'].includes(options.habit)
const about = knowsNIP90Alone ? JSON.stringify({ name: 'plain', about: 'ranks', nip90Params: {} }) : announcement('plain', price, node)
const named = knowsNIP90Alone ? [] : [domain('announcement')]
await publish(sign(KIND.announcement, [['d', 'outside'], ['k', '5050'], ['t', SCHEMA], ...named], about))
say('selling', { pubkey })
