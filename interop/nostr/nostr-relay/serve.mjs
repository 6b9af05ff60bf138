// @nostr-relay/core with its own validator on a websocket. The repository is
// ours, in memory: theirs needs a native module.
import { EventRepository } from '@nostr-relay/common'
import { NostrRelay } from '@nostr-relay/core'
import { Validator } from '@nostr-relay/validator'
import { WebSocketServer } from 'ws'
import { say } from '../market.mjs'

class Memory extends EventRepository {
  events = new Map()
  isSearchSupported() { return false }
  async destroy() {}

  async upsert(event) {
    const isDuplicate = this.events.has(event.id)
    this.events.set(event.id, event)
    return { isDuplicate }
  }

  async find(filter) {
    return [...this.events.values()]
      .filter((event) => matches(filter, event))
      .sort((a, b) => b.created_at - a.created_at)
      .slice(0, filter.limit ?? 500)
  }
}

function matches(filter, event) {
  const has = (list, value) => !list || list.includes(value)
  const tagged = Object.entries(filter).filter(([key]) => key.startsWith('#'))
    .every(([key, values]) => event.tags.some((t) => t[0] === key[1] && values.includes(t[1])))
  return tagged && has(filter.ids, event.id) && has(filter.authors, event.pubkey) && has(filter.kinds, event.kind) &&
    event.created_at >= (filter.since ?? 0) && event.created_at <= (filter.until ?? Infinity)
}

const relay = new NostrRelay(new Memory())
const validator = new Validator()
const server = new WebSocketServer({ host: '127.0.0.1', port: 0 })
server.on('connection', (socket) => {
  relay.handleConnection(socket)
  socket.on('message', async (data) => {
    try {
      await relay.handleMessage(socket, await validator.validateIncomingMessage(data))
    } catch (error) {
      // What does not validate has no OK: the relay never sees it.
      socket.send(JSON.stringify(['NOTICE', error.message]))
    }
  })
  socket.on('close', () => relay.handleDisconnect(socket))
})
server.on('listening', () => say('listening', { url: `ws://127.0.0.1:${server.address().port}` }))
process.on('SIGINT', () => process.exit(0))
