package supervisor

import (
	"encoding/json"
	"strings"
	"sync/atomic"

	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

const (
	streamChunks = 256     // waiting for one call's OnStream
	streamBytes  = 4 << 20 // of data in them
)

// Chunk is one piece of streamed output.
type Chunk struct {
	CallID  string
	Seq     int64 // from 1; a jump shows chunks that were dropped
	Channel wire.Channel
	Text    string          // all channels but partial_result
	JSON    json.RawMessage // partial_result: an object
	Done    bool            // no more chunks, says the agent
}

// StreamStats counts the chunks of one call.
type StreamStats struct {
	Delivered  int
	Dropped    int // OnStream was too slow
	Violations int // wrong sequence number, or after done; not delivered
}

// stream carries chunks from the reader of a session to one call's OnStream.
// The reader never waits: what does not fit is dropped and counted, so that a
// slow consumer holds up nobody, and its memory is bounded.
type stream struct {
	onStream func(Chunk)
	queued   atomic.Int64 // bytes

	// Owned by the session's lock. Queue and delivered are made for the first
	// chunk: most calls have none.
	queue     chan Chunk
	delivered chan struct{} // closed once onStream has had what was queued
	last      int64
	done      bool
	stats     StreamStats
	closed    bool
}

// offer is called with the session's lock held.
func (st *stream) offer(p *wire.ToolStream, secret string) {
	if st.closed || st.done || p.Seq <= st.last || st.last == 0 && p.Seq != 1 {
		st.stats.Violations++
		return
	}
	st.last = p.Seq
	st.done = p.Done
	c := Chunk{CallID: p.CallID, Seq: p.Seq, Channel: p.Channel, Done: p.Done}
	if p.Channel == wire.PartialResult {
		c.JSON = json.RawMessage(strings.ReplaceAll(string(p.Data.JSON), secret, redacted))
	} else {
		c.Text = strings.ReplaceAll(*p.Data.Text, secret, redacted)
	}

	size := int64(len(c.Text) + len(c.JSON))
	if st.queued.Load()+size > streamBytes {
		st.stats.Dropped++
		return
	}
	if st.queue == nil {
		st.queue, st.delivered = make(chan Chunk, streamChunks), make(chan struct{})
		go st.deliver(st.queue)
	}

	select {
	case st.queue <- c:
		st.queued.Add(size)
		st.stats.Delivered++
	default:
		st.stats.Dropped++
	}
}

// deliver calls onStream for every chunk, in order, until the stream is closed.
func (st *stream) deliver(queue <-chan Chunk) {
	defer close(st.delivered)
	for c := range queue {
		st.queued.Add(-int64(len(c.Text) + len(c.JSON)))
		st.onStream(c)
	}
}

// wait returns once onStream has had every chunk of a closed stream.
func (st *stream) wait() {
	if st.delivered != nil {
		<-st.delivered
	}
}

// close is called with the session's lock held.
func (st *stream) close() {
	if !st.closed {
		st.closed = true
		if st.queue != nil {
			close(st.queue)
		}
	}
}
