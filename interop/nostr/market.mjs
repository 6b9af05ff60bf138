// What every outside program needs of docs/protocol/protocol.md beside its Nostr
// library: the play-money ledger, canonical JSON, and a small typed job.
import { createHash, randomBytes } from 'node:crypto'

// options are what the Go test hands over.
export const options = JSON.parse(process.argv[2] ?? '{}')

// say tells the Go test something: one JSON object on a line.
export const say = (what, more = {}) => process.stdout.write(JSON.stringify({ what, ...more }) + '\n')

export const hex = (bytes) => Buffer.from(bytes).toString('hex')
export const sha256 = (data) => createHash('sha256').update(data).digest('hex')

// canonical is RFC 8785 for what occurs here: ASCII keys, integers, strings.
export function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  return `{${Object.keys(value).sort().map((k) => `${JSON.stringify(k)}:${canonical(value[k])}`).join(',')}}`
}

// Wallet is one wallet on the ledger's HTTP API.
export class Wallet {
  constructor(url, token = hex(randomBytes(32))) {
    this.url = url
    this.token = token
  }

  async call(method, body = {}) {
    const response = await fetch(`${this.url}/v1/${method}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${this.token}` },
      body: JSON.stringify(body),
    })
    const answer = await response.json()
    if (!response.ok) throw new Error(`${method}: ${answer.code}: ${answer.message}`)
    return answer
  }

  open(name) {
    return this.call('OpenWallet', { name, token: this.token })
  }

  // pay returns the payment when it has ended.
  async pay(bolt11, amountMsats, paymentHash) {
    await this.call('SendPayment', { bolt11, amount_msats: amountMsats, fee_limit_msats: 1000 })
    for (;;) { // the ledger answers when the payment ended, or asks to be asked again
      const { payment } = await this.call('TrackPayment', { payment_hash: paymentHash })
      if (payment) return payment
    }
  }

  // paid returns once an invoice of this wallet was paid; the ledger holds the
  // question open until something changed.
  async paid(paymentHash) {
    for (let after = 0; ; ) {
      const { state } = await this.call('LookupInvoice', { payment_hash: paymentHash })
      if (state === 'settled') return
      ;({ next: after } = await this.call('WatchInvoices', { after }))
    }
  }
}

export const SCHEMA = 'oa.retrieval_rerank.v1'
export const KIND = { request: 5050, result: 6050, feedback: 7000, announcement: 31990, deletion: 5 }

// domain says what a signed event is. A quote, a result bound by its hashes and an
// announcement with modes count with theirs alone.
export const domain = (document) => ['domain', `lightwork/${document}/v1`]

// job is the smallest request document worth ranking.
export const job = {
  user_task: 'which fruit is yellow',
  candidates: [
    { id: 'sky', content: 'the sky is blue' },
    { id: 'fruit', content: 'the banana is a yellow fruit' },
  ],
  k: 1,
  verification: { mode: 'subjective' },
}

// both runs finish once the result and the success have come, in either order.
export function both(finish) {
  const came = new Set()
  return (what) => came.add(what).size === 2 && finish()
}

// requestTags are those of a typed request; mode is a payment mode.
export const requestTags = (mode, bid, provider) => [
  ['param', 'schema', SCHEMA],
  ['param', 'payment_mode', mode],
  ['i', JSON.stringify(job), 'text'],
  ['output', 'application/json'],
  ['bid', String(bid)],
  ['p', provider],
]

// Sold is what an outside provider makes of one request: the documents of
// receipt.md, without any code of Lightwork's.
export class Sold {
  constructor(request, provider) {
    this.request = request
    this.provider = provider
    this.input = request.tags.find((t) => t[0] === 'i')[1]
    this.mode = request.tags.find((t) => t[0] === 'param' && t[1] === 'payment_mode')?.[2] ?? 'free'
    this.jobHash = `sha256:${sha256(this.input)}`
    this.preimage = randomBytes(32)
    this.paymentHash = sha256(this.preimage)
  }

  // quote returns the canonical quote; node is the payee, null in mode free.
  quote(priceMsats, node) {
    this.quoteText = canonical({
      version: 1, request_id: this.request.id, job_hash: this.jobHash, schema_id: SCHEMA,
      buyer: this.request.pubkey, provider: this.provider, price_msats: priceMsats, purpose: 'result',
      expires_at: new Date(Date.now() + 600_000).toISOString().replace(/\.\d+Z$/, 'Z'),
      mode: this.mode, delivery: 'plain', cancellation: 'none', policy_bundle_id: `sha256:${sha256('outside')}`,
      nonce: hex(randomBytes(16)), inputs: [],
      payment_hash: node ? this.paymentHash : null, payee_node: node ?? null,
    })
    return this.quoteText
  }

  get quoteHash() {
    return `sha256:${sha256(this.quoteText)}`
  }

  // invoice makes the invoice that commits to the quote.
  async invoice(wallet, priceMsats) {
    const made = await wallet.call('CreateInvoice', {
      preimage: hex(this.preimage), payment_hash: this.paymentHash, hold: false,
      amount_msats: priceMsats, description_hash: this.quoteHash, expiry_s: 600,
    })
    return made.bolt11
  }

  // result ranks by words in common, and says so.
  result() {
    const { candidates, user_task: task, k } = JSON.parse(this.input)
    const words = new Set(task.split(' '))
    const ranked = candidates
      .map((c) => ({ id: c.id, score: c.content.split(' ').filter((w) => words.has(w)).length }))
      .sort((a, b) => b.score - a.score)
      .slice(0, k)
      .map((c, i) => ({ rank: i + 1, ...c }))
    return canonical({ topk: ranked, provenance: { model_id: 'words-in-common', provider_pubkey: this.provider } })
  }

  // bindings are the tags that tie a result event to the job and its quote.
  bindings(output) {
    const tags = [domain('result'), ['schema', SCHEMA], ['job_hash', this.jobHash], ['output_hash', `sha256:${sha256(output)}`]]
    if (this.quoteText) tags.push(['quote_hash', this.quoteHash])
    return tags
  }
}

// announcement is the content of a 31990 that Lightwork's buyers read, if its
// domain is announcement.
export const announcement = (name, priceMsats, node) => JSON.stringify({
  name,
  capabilities: { supported_jobs: [SCHEMA] },
  pricing: { sandbox_per_minute_msats: 0 },
  lightwork: {
    version: 1, modes: { [SCHEMA]: ['free', 'prepay'] }, base_msats: { [SCHEMA]: priceMsats },
    payee_node: node, network: 'play',
  },
})
