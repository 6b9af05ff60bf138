// Sends what a Lightwork provider refuses, and tells what it is answered.
import { listen, pool, publish, relays, sign } from './client.mjs'
import { KIND, requestTags, say, SCHEMA } from '../market.mjs'

const { pubkey: provider } = await pool.get(relays, { kinds: [KIND.announcement], '#t': [SCHEMA] })
const typed = requestTags('free', 0, provider)
const requests = {
  untyped: sign(KIND.request, [['i', 'Say hello', 'text'], ['p', provider]]),
  schema: sign(KIND.request, typed.map((t) => (t[1] === 'schema' ? ['param', 'schema', 'oa.embedding.v1'] : t))),
  input: sign(KIND.request, typed.map((t) => (t[0] === 'i' ? ['i', '{"user_task":""}', 'text'] : t))),
  bid: sign(KIND.request, requestTags('prepay', 1999, provider)),
}
const names = new Map(Object.entries(requests).map(([name, event]) => [event.id, name]))
const answers = {}

await listen({ kinds: [KIND.feedback], '#e': [...names.keys()], authors: [provider] }, (event) => {
  const [, status, info] = event.tags.find((t) => t[0] === 'status')
  answers[names.get(event.tags.find((t) => t[0] === 'e')[1])] = `${status} ${info}`
  if (Object.keys(answers).length < names.size) return
  say('answers', answers)
  process.exit(0)
})
await Promise.all(Object.values(requests).map(publish))
