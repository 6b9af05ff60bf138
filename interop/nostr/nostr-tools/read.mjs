// Uses a Lightwork relay through nostr-tools: what a client does all day, and
// what the relay answers to what it refuses. The Go test judges.
import { pool, publish, pubkey, relays, sign } from './client.mjs'
import { options, say } from '../market.mjs'

const [url] = relays
const now = Math.floor(Date.now() / 1000)
const note = (content, tags = [], ago = 0, kind = 1) => sign(kind, tags, content, now - ago)
const refusal = async (event) => publish(event).then(() => 'accepted', (error) => String(error.message ?? error))
const contents = (events) => events.map((e) => e.content)

const about = await (await fetch(url.replace('ws:', 'http:'), { headers: { accept: 'application/nostr+json' } })).json()
say('about', { nips: about.supported_nips, limits: about.limitation })

// EVENT, OK
const notes = [note('a', [['t', 'x']], 3), note('b', [['t', 'y']], 2), note('c', [['t', 'x']], 1)]
for (const n of notes) await publish(n)
say('ok', {
  again: await refusal(notes[0]),
  forged: await refusal({ ...note('d'), sig: notes[0].sig }),
  changed: await refusal({ ...note('e'), content: 'f' }),
  ahead: await refusal(note('g', [], -3600)),
  expired: await refusal(note('h', [['expiration', String(now - 10)]])),
  tags: await refusal(note('i', Array.from({ length: 600 }, (_, i) => ['t', String(i)]))),
  large: await refusal(note('j'.repeat(70_000))),
})

// REQ, EOSE: filters, order, limit
const mine = { kinds: [1], authors: [pubkey] }
say('req', {
  all: contents(await pool.querySync(relays, mine)),
  limited: contents(await pool.querySync(relays, { ...mine, limit: 2 })),
  tagged: contents(await pool.querySync(relays, { ...mine, '#t': ['x'] })),
  window: contents(await pool.querySync(relays, { ...mine, since: now - 2, until: now - 2 })),
  byId: contents(await pool.querySync(relays, { ids: [notes[1].id] })),
  none: contents(await pool.querySync(relays, { kinds: [1], authors: ['00'.repeat(32)] })),
})

// Live events come after EOSE, ephemeral ones too, and are not stored.
const live = await new Promise((resolve) => {
  const seen = []
  const sub = pool.subscribe(relays, { kinds: [1, 20001], authors: [pubkey] }, {
    onevent: (event) => {
      seen.push(event.content)
      if (event.content !== 'ephemeral') return
      sub.close()
      resolve(seen)
    },
    oneose: async () => {
      seen.push('EOSE')
      await publish(note('live'))
      await publish(note('ephemeral', [], 0, 20001))
    },
  })
})
say('live', { seen: live, stored: contents(await pool.querySync(relays, { kinds: [20001], authors: [pubkey] })) })

// Replaceable and addressable events, deletion.
await publish(note('old', [], 5, 10002))
await publish(note('new', [], 4, 10002))
await publish(note('old', [['d', 'x']], 5, 30078))
await publish(note('new', [['d', 'x']], 4, 30078))
await publish(note('gone', [['e', notes[0].id], ['k', '1']], 0, 5))
say('kept', {
  replaceable: contents(await pool.querySync(relays, { kinds: [10002], authors: [pubkey] })),
  addressable: contents(await pool.querySync(relays, { kinds: [30078], '#d': ['x'] })),
  deleted: contents(await pool.querySync(relays, { ids: [notes[0].id] })),
  back: await refusal(notes[0]),
})

// CLOSED: a subscription that is refused.
const relay = await pool.ensureRelay(url)
const closed = (filters, id) => new Promise((resolve) => relay.subscribe(filters, { id, onclose: resolve, oneose: () => resolve('served') }))
say('closed', {
  filters: await closed(Array.from({ length: 300 }, () => ({ kinds: [1] }))),
  values: await closed([{ '#t': Array.from({ length: 2500 }, (_, i) => String(i)) }]),
  id: await closed([{ kinds: [1] }], 'x'.repeat(65)),
})
// What is no message of the protocol names nothing to answer to: a NOTICE.
const notice = new Promise((resolve) => { relay.onnotice = resolve })
await relay.send('["WHAT"]')
say('notice', { label: await notice })
if (about.supported_nips.includes(45)) say('count', { count: await relay.count([{ kinds: [1], authors: [pubkey] }], {}) })
say('done')
process.exit(0)
