// Buys a job from a Lightwork provider with NDK's DVM classes.
import { NDKDVMJobFeedback, NDKDVMJobResult, NDKDVMRequest } from '@nostr-dev-kit/ndk'
import { connect, listen } from './client.mjs'
import { both, job, KIND, options, say, SCHEMA, Wallet } from '../market.mjs'

const { ndk, user } = await connect()
const wallet = new Wallet(options.ledger)
await wallet.open(options.name)

const offered = await ndk.fetchEvent({ kinds: [KIND.announcement], '#k': ['5050'], '#t': [SCHEMA] })
say('announced', { provider: offered.pubkey })

const request = new NDKDVMRequest(ndk, { kind: KIND.request })
request.addParam('schema', SCHEMA)
request.addParam('payment_mode', options.mode)
request.addInput(JSON.stringify(job), 'text')
request.output = 'application/json'
request.bid = 5000
request.dvm = offered.author
if (options.encrypt) await request.encryption(offered.author, ndk.signer, options.encrypt)
await request.sign()

const came = both(() => process.exit(0))

async function feedback(event) {
  const told = await NDKDVMJobFeedback.from(event)
  say('feedback', { status: told.status, info: told.getMatchingTags('status')[0][2] })
  if (told.status === 'payment-required') {
    const [, msats, bolt11] = told.getMatchingTags('amount')[0]
    const payment = await wallet.pay(bolt11, Number(msats), JSON.parse(told.tagValue('content') ?? told.content).payment_hash)
    say('paid', { state: payment.state, msats: Number(msats) })
  }
  if (told.status === 'success') came('success')
  if (told.status === 'error') process.exit(1)
}

async function result(event) {
  const got = NDKDVMJobResult.from(event)
  if (options.encrypt) await got.decrypt()
  const output = JSON.parse(got.result)
  say('result', {
    request: got.jobRequestId === request.id, echoed: got.jobRequest?.id === request.id, kind: got.kind,
    amount: got.tagValue('amount') ?? '', first: output.topk[0].id, mine: got.tagValue('p') === user.pubkey,
  })
  came('result')
}

const filter = { kinds: [KIND.feedback, KIND.result], '#e': [request.id], authors: [offered.pubkey] }
await listen(ndk, filter, (event) => (event.kind === KIND.result ? result(event) : feedback(event)))
await request.publish()
