package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/frame"
)

var (
	// ErrOutboxFull means that the peer reads too slowly for what it is sent.
	ErrOutboxFull = errors.New("wire: outbox full")
	// ErrOutboxClosed means that the connection is closed or closing.
	ErrOutboxClosed = errors.New("wire: outbox closed")
)

const (
	outboxBytes  = 64 << 20         // frames waiting, in all
	batchBytes   = 64 << 10         // frames joined into one write
	writeTimeout = 10 * time.Second // a peer that reads nothing for so long is gone
	keepFrame    = 64 << 10         // largest buffer kept for reuse
)

// deadliner is the part of a connection that bounds a write.
type deadliner interface {
	SetWriteDeadline(time.Time) error
}

// Outbox writes messages to one connection. While nothing waits, a sender
// writes its frame itself, as far as the socket takes it at once: that saves
// waking another goroutine. Otherwise it puts the frame in a bounded queue, and
// the goroutine that runs Serve writes it, so that nobody blocks on a peer that
// does not read unless he wants to: there is one queue for those who wait
// (Send) and one for those who must not (TrySend). Each keeps its order; the
// second goes first, so that a long stream delays no heartbeat.
type Outbox struct {
	conn   io.Writer
	raw    syscall.RawConn // nil: only Serve writes
	limit  int
	begun  chan *bytes.Buffer // the rest of a frame that a sender began
	urgent chan *bytes.Buffer // from TrySend
	queue  chan *bytes.Buffer // from Send
	free   sync.Pool

	mu      sync.Mutex // held for a sender's own write
	pending int        // frames that wait, or that Serve is writing
	bytes   int        // waiting in urgent
	closed  bool
	stop    chan struct{} // closed by Close, and when Serve returns
}

// NewOutbox makes an outbox with room for depth frames in each queue, of at
// most limit payload bytes (0 for the default). A connection that has write
// deadlines gets one per write.
func NewOutbox(conn io.Writer, limit, depth int) *Outbox {
	o := &Outbox{
		conn: conn, limit: limit,
		begun:  make(chan *bytes.Buffer, 1),
		urgent: make(chan *bytes.Buffer, depth),
		queue:  make(chan *bytes.Buffer, depth),
		free:   sync.Pool{New: func() any { return new(bytes.Buffer) }},
		stop:   make(chan struct{}),
	}
	if sc, ok := conn.(syscall.Conn); ok {
		o.raw, _ = sc.SyscallConn() // a closed connection fails when Serve writes
	}
	return o
}

// SetLimit changes the frame limit; it is called before messages are sent
// concurrently.
func (o *Outbox) SetLimit(limit int) { o.limit = limit }

// TrySend queues m, or returns ErrOutboxFull, ErrOutboxClosed or what
// EncodeFrame returns.
func (o *Outbox) TrySend(m *Message) error {
	buf, err := o.encode(m)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()

	if o.closed {
		return ErrOutboxClosed
	}
	if o.direct(buf) {
		return nil
	}

	size := buf.Len() // once queued, buf is the writer's
	if o.bytes+size > outboxBytes {
		return ErrOutboxFull
	}

	select {
	case o.urgent <- buf:
		o.bytes += size
		o.pending++
		return nil
	default:
		return ErrOutboxFull
	}
}

// Send queues m and waits for room until ctx ends or the outbox closes.
func (o *Outbox) Send(ctx context.Context, m *Message) error {
	buf, err := o.encode(m)
	if err != nil {
		return err
	}
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return ErrOutboxClosed
	}
	if o.direct(buf) {
		o.mu.Unlock()
		return nil
	}

	o.pending++
	o.mu.Unlock()

	select {
	case o.queue <- buf:
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-o.stop:
		err = ErrOutboxClosed
	}

	o.done(1)
	return err
}

// direct writes a frame that has nothing in front of it, without waiting for
// the peer. It reports whether the frame is dealt with: what the socket does
// not take of a frame begun is left to Serve. The lock is held.
func (o *Outbox) direct(buf *bytes.Buffer) bool {
	if o.raw == nil || o.pending > 0 {
		return false
	}
	n := 0
	err := o.raw.Write(func(fd uintptr) bool {
		n, _ = syscall.Write(int(fd), buf.Bytes()) // an error comes again when Serve writes
		return true                                // do not wait until the peer reads
	})
	if err != nil || n <= 0 {
		return false
	}
	if buf.Next(n); buf.Len() == 0 {
		o.reuse(buf)
		return true
	}

	o.pending++
	o.begun <- buf // has room for one, and there is none while another is pending
	return true
}

// done ends the count of n frames that are written or not queued after all.
func (o *Outbox) done(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pending -= n
}

func (o *Outbox) encode(m *Message) (*bytes.Buffer, error) {
	buf := o.free.Get().(*bytes.Buffer)
	buf.Reset()
	if err := EncodeFrame(buf, m, o.limit); err != nil {
		o.free.Put(buf)
		return nil, err
	}
	return buf, nil
}

// Close refuses further messages; Serve writes what is queued and returns.
// Closing twice is fine.
func (o *Outbox) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		o.closed = true
		close(o.stop)
	}
}

// Serve writes the queue until Close or the first write error.
func (o *Outbox) Serve() error {
	defer o.Close()

	batch := make([]byte, 0, batchBytes)
	for {
		buf := o.next()
		if buf == nil {
			select {
			case buf = <-o.begun:
			case buf = <-o.urgent:
				o.uncount(buf)
			case buf = <-o.queue:
			case <-o.stop:
				return o.drain(batch)
			}
		}

		if err := o.writeFrom(buf, batch); err != nil {
			return err
		}
	}
}

// next is the frame to write now, nil if none waits.
func (o *Outbox) next() *bytes.Buffer {
	select {
	case buf := <-o.begun:
		return buf
	default:
	}

	select {
	case buf := <-o.urgent:
		o.uncount(buf)
		return buf
	default:
	}

	select {
	case buf := <-o.queue:
		return buf
	default:
		return nil
	}
}

func (o *Outbox) drain(batch []byte) error {
	for buf := o.next(); buf != nil; buf = o.next() {
		if err := o.writeFrom(buf, batch); err != nil {
			return err
		}
	}
	return nil
}

// writeFrom writes buf, and with it what waits and still fits into batch: many
// small frames cost one system call.
func (o *Outbox) writeFrom(buf *bytes.Buffer, batch []byte) error {
	frames := 1
	defer func() { o.done(frames) }()

	for {
		if len(batch)+buf.Len() > cap(batch) {
			if err := o.write(batch); err != nil {
				return err
			}
			break
		}
		next := o.next()
		if next == nil && len(batch) == 0 {
			break
		}
		batch = append(batch, buf.Bytes()...)
		o.reuse(buf)
		if next == nil {
			return o.write(batch)
		}
		buf = next
		frames++
	}

	defer o.reuse(buf)
	return o.write(buf.Bytes())
}

func (o *Outbox) write(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	if d, ok := o.conn.(deadliner); ok {
		if err := d.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
			return err
		}
		// One that has passed would refuse the senders' own writes. If it
		// cannot be lifted, the connection is closed and the next write says so.
		defer func() { _ = d.SetWriteDeadline(time.Time{}) }()
	}

	_, err := o.conn.Write(p)
	return err
}

func (o *Outbox) reuse(buf *bytes.Buffer) {
	if buf.Cap() <= keepFrame+frame.HeaderBytes {
		o.free.Put(buf)
	}
}

// uncount takes an urgent frame off the count of queued bytes.
func (o *Outbox) uncount(buf *bytes.Buffer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.bytes -= buf.Len()
}
