package server

import (
	"context"
	"slices"
	"sync"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

// frameOverhead is charged for each waiting frame besides its bytes.
const frameOverhead = 96

// frame is a message to a client: either text, or the event for a subscription. All
// receivers share the event's bytes, but each is charged for all of them, since one
// slow client may keep them in memory.
type frame struct {
	text        []byte
	subID       string
	event       []byte
	partWritten bool // the connection has the rest of it
}

func (f frame) size() int { return len(f.text) + len(f.subID) + len(f.event) + frameOverhead }

// appendTo appends the message.
func (f frame) appendTo(dst []byte) []byte {
	if f.event == nil {
		return append(dst, f.text...)
	}
	return nip01.AppendDelivery(dst, f.subID, f.event)
}

// framed returns the message with the websocket's framing, in the scratch buffer.
func (f frame) framed(scratch *[]byte) []byte {
	var room [maxHeader]byte // precedes the message, whose length it has
	buf := f.appendTo(append((*scratch)[:0], room[:]...))
	*scratch = buf
	header := appendHeader(room[:0], len(buf)-maxHeader)
	whole := buf[maxHeader-len(header):]
	copy(whole, header)
	return whole
}

// queue holds the messages for one client, bounded in bytes for the client and for
// its address.
type queue struct {
	limit int
	host  *host
	ready chan struct{} // capacity 1: there is a message to write
	space chan struct{} // capacity 1: space was freed

	mu     sync.Mutex
	frames []frame
	bytes  int
	busy   bool // a frame is being written
	closed bool // the client has left
}

func newQueue(limit int, at *host) *queue {
	return &queue{limit: limit, host: at, ready: make(chan struct{}, 1), space: make(chan struct{}, 1)}
}

// hold reserves n bytes and reports whether they fit. They must be freed with
// release.
func (q *queue) hold(n int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.charge(n)
}

// release frees n bytes reserved with hold.
func (q *queue) release(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.free(n)
}

// charge implements hold; mu must be held.
func (q *queue) charge(n int) bool {
	if q.closed || q.bytes+n > q.limit {
		return false
	}
	if all := q.host.queued.Add(int64(n)); !q.host.unbounded && all > int64(q.limit)*hostQueues {
		q.host.queued.Add(-int64(n))
		return false
	}
	q.bytes += n
	return true
}

func (q *queue) free(n int) {
	if q.closed {
		return
	}
	q.bytes -= n
	q.host.queued.Add(-int64(n))
}

// close frees all reserved bytes when the client leaves.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.free(q.bytes)
	q.frames, q.closed = nil, true
}

// push adds a frame and never blocks. It returns false if the queue is full: then
// the client reads too slowly and must be dropped.
func (q *queue) push(f frame) bool {
	q.mu.Lock()
	full := !q.charge(f.size())
	if !full {
		q.frames = append(q.frames, f)
	}
	q.mu.Unlock()
	if !full {
		notify(q.ready)
	}
	return !full
}

// wait waits until half the queue is free, so that a long answer leaves room for
// live events. Only the client's reader calls it.
func (q *queue) wait(ctx context.Context) error {
	for {
		q.mu.Lock()
		ok := q.bytes <= q.limit/2
		q.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-q.space:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// claim charges for a frame that the caller writes itself, and reports whether it
// may: no frame is queued or being written. It must be followed by done or putBack.
func (q *queue) claim(f frame) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.busy || len(q.frames) > 0 || !q.charge(f.size()) {
		return false
	}
	q.busy = true
	return true
}

// putBack leaves a claimed frame to the client's writer.
func (q *queue) putBack(f frame) {
	q.mu.Lock()
	q.busy = false
	q.frames = slices.Insert(q.frames, 0, f)
	q.mu.Unlock()
	notify(q.ready)
}

// next waits for a frame. The frame stays charged until done is called, so that a
// frame that a stuck client does not accept still counts.
func (q *queue) next(ctx context.Context) (frame, error) {
	for {
		q.mu.Lock()
		if len(q.frames) > 0 && !q.busy {
			q.busy = true
			f := q.frames[0]
			q.frames[0] = frame{}
			q.frames = q.frames[1:]
			q.mu.Unlock()
			return f, nil
		}

		q.mu.Unlock()
		select {
		case <-q.ready:
		case <-ctx.Done():
			return frame{}, ctx.Err()
		}
	}
}

func (q *queue) done(f frame) {
	q.mu.Lock()
	q.busy = false
	q.free(f.size())
	more := len(q.frames) > 0
	q.mu.Unlock()
	if more {
		notify(q.ready)
	}
	notify(q.space)
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
