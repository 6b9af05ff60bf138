package wire

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/frame"
)

// socketPair is two ends of a Unix socket.
func socketPair(t *testing.T) (ours, theirs net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if ours, err = net.Dial("unix", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if theirs, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	return ours, theirs
}

func numbered(seq, size int) *Message {
	text := strings.Repeat("x", size)
	return &Message{Payload: &ToolStream{CallID: "c", Seq: int64(seq), Channel: Stdout, Data: StreamData{Text: &text}}}
}

// inOrder reads n numbered messages.
func inOrder(t *testing.T, r *frame.Reader, from, n int) {
	t.Helper()
	for want := from; want < from+n; want++ {
		p, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		m, err := Decode(p, Agent)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Payload.(*ToolStream).Seq; got != int64(want) {
			t.Fatalf("message %d came, want %d", got, want)
		}
	}
}

// TestSenderWritesWhileNothingWaits has no Serve at first: what arrives is
// what the senders wrote.
func TestSenderWritesWhileNothingWaits(t *testing.T) {
	ours, theirs := socketPair(t)
	o := NewOutbox(ours, 0, 64)
	r := frame.NewReader(theirs, 0)
	for i := 1; i <= 4; i += 2 {
		if err := o.TrySend(numbered(i, 10)); err != nil {
			t.Fatal(err)
		}
		if err := o.Send(t.Context(), numbered(i+1, 10)); err != nil {
			t.Fatal(err)
		}
		inOrder(t, r, i, 2)
	}
	// Nobody reads: the socket is full in the middle of a frame, and more waits.
	const n = 40
	for i := range n {
		if err := o.TrySend(numbered(5+i, 60<<10)); err != nil {
			t.Fatal(err)
		}
	}
	if len(o.begun) != 1 || len(o.urgent) == 0 {
		t.Fatalf("%d frames begun, %d queued: the socket takes too much", len(o.begun), len(o.urgent))
	}
	served := make(chan error, 1)
	go func() { served <- o.Serve() }()
	inOrder(t, r, 5, n)
	o.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if o.pending != 0 || o.bytes != 0 {
		t.Errorf("%d frames, %d bytes are still counted", o.pending, o.bytes)
	}
}

// TestSendersWriteAgainAfterServe: the deadline of a write by Serve does not
// outlive it.
func TestSendersWriteAgainAfterServe(t *testing.T) {
	ours, theirs := socketPair(t)
	conn := &deadlineConn{UnixConn: ours.(*net.UnixConn)}
	o := NewOutbox(conn, 0, 8)
	r := frame.NewReader(theirs, 0)
	o.pending = 1 // as if one were being written: the next is left to Serve
	if err := o.TrySend(numbered(1, 10)); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- o.Serve() }()
	inOrder(t, r, 1, 1)
	o.Close()
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	if !conn.set || !conn.last.IsZero() {
		t.Errorf("the write deadline is %v, set %v", conn.last, conn.set)
	}
}

// deadlineConn remembers its write deadline; one goroutine sets it.
type deadlineConn struct {
	*net.UnixConn
	set  bool
	last time.Time
}

func (c *deadlineConn) SetWriteDeadline(at time.Time) error {
	c.set, c.last = true, at
	return c.UnixConn.SetWriteDeadline(at)
}

// TestDirectWritesFromManySenders mixes writes of senders and of Serve: every
// frame arrives whole, each sender's in its order.
func TestDirectWritesFromManySenders(t *testing.T) {
	ours, theirs := socketPair(t)
	o := NewOutbox(ours, 0, 4)
	served := make(chan error, 1)
	go func() { served <- o.Serve() }()
	const senders, each = 4, 100
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			for i := range each {
				if err := o.Send(context.Background(), numbered(s*each+i+1, 4<<10)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	r := frame.NewReader(theirs, 0)
	var next [senders]int64
	for range senders * each {
		p, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		m, err := Decode(p, Agent)
		if err != nil {
			t.Fatal(err)
		}
		seq := m.Payload.(*ToolStream).Seq - 1
		if s := seq / each; seq%each != next[s] {
			t.Fatalf("message %d of sender %d came, want %d", seq%each, s, next[s])
		} else {
			next[s]++
		}
	}
	wg.Wait()
	o.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if o.pending != 0 {
		t.Errorf("%d frames are still counted", o.pending)
	}
}
