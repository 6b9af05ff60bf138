// Reads the market on a Lightwork relay with applesauce.
import WebSocket from 'ws'
import { RelayPool } from 'applesauce-relay'
import { lastValueFrom, toArray } from 'rxjs'
import { KIND, options, say } from '../market.mjs'

globalThis.WebSocket ??= WebSocket

const pool = new RelayPool()
const relays = [options.relay]
const stored = (filter) => lastValueFrom(pool.request(relays, filter).pipe(toArray()))

const [offer] = await stored({ kinds: [KIND.announcement], '#k': ['5050'] })
say('announced', { provider: offer.pubkey, name: JSON.parse(offer.content).name })
const info = await new Promise((resolve) => pool.relay(options.relay).information$.subscribe((i) => i && resolve(i)))
say('about', { nips: info.supported_nips })

// It goes on reading while a job is bought, until the job is over.
const seen = []
pool.req(relays, { kinds: [KIND.request, KIND.feedback, KIND.result], limit: 100 }).subscribe({
  next: (message) => {
    if (message.type === 'EOSE') return say('reading')
    if (message.type !== 'EVENT') return
    const { event } = message
    const status = event.tags.find((t) => t[0] === 'status')?.[1]
    seen.push(status ?? event.kind)
    if (status !== 'success') return
    say('seen', { seen })
    process.exit(0)
  },
  error: (error) => { say('error', { error: String(error) }); process.exit(1) },
})
