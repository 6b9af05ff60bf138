// Buys a job from a Lightwork provider with plain events.
import { decode } from 'light-bolt11-decoder'
import { listen, playMoney, pool, publish, pubkey, relays, sign } from './client.mjs'
import { both, KIND, options, requestTags, say, SCHEMA, sha256, Wallet } from '../market.mjs'

const wallet = new Wallet(options.ledger)
await wallet.open(options.name)
const offered = await pool.get(relays, { kinds: [KIND.announcement], '#k': ['5050'], '#t': [SCHEMA] })
say('announced', { provider: offered.pubkey })

const request = sign(KIND.request, requestTags(options.mode, 5000, offered.pubkey))
const came = both(() => process.exit(0))
const tag = (event, name) => event.tags.find((t) => t[0] === name) ?? []

async function pay(event) {
  const [, msats, bolt11] = tag(event, 'amount')
  const section = (name) => decode(bolt11, playMoney).sections.find((s) => s.name === name)?.value
  // What an outside buyer can check by itself: amount and commitment to the quote.
  say('invoice', { amount: section('amount') === msats, commits: section('description_hash') === sha256(event.content) })
  const payment = await wallet.pay(bolt11, Number(msats), section('payment_hash'))
  say('paid', { state: payment.state, msats: Number(msats) })
}

async function feedback(event) {
  const [, status, info] = tag(event, 'status')
  say('feedback', { status, info })
  if (status === 'payment-required') await pay(event)
  if (status === 'success') came('success')
  if (status === 'error') process.exit(1)
}

function result(event) {
  say('result', {
    request: tag(event, 'e')[1] === request.id, echoed: JSON.parse(tag(event, 'request')[1]).id === request.id,
    kind: event.kind, amount: tag(event, 'amount')[1], first: JSON.parse(event.content).topk[0].id, mine: tag(event, 'p')[1] === pubkey,
  })
  came('result')
}

const filter = { kinds: [KIND.feedback, KIND.result], '#e': [request.id], authors: [offered.pubkey] }
await listen(filter, (event) => (event.kind === KIND.result ? result(event) : feedback(event)))
await publish(request)
