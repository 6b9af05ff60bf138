package supervisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/frame"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// newLent is a fake whose session lends the turn to read, to the first caller:
// the test stands in for readLoop, which does not run.
func newLent(t *testing.T) *fake {
	t.Helper()
	f := &fake{t: t, audit: &auditLog{}, served: make(chan struct{})}
	cfg := &Config{SocketDir: "unused", Audit: f.audit.add, CancelGrace: time.Hour}
	spec := &Spec{ID: fakeID, Command: []string{"unused"}}
	if err := errors.Join(cfg.fill(), spec.fill(cfg.MaxFrameBytes, cfg.MaxInflight)); err != nil {
		t.Fatal(err)
	}
	ours, theirs := net.Pipe()
	f.conn, f.in = theirs, frame.NewReader(theirs, 0)
	f.core = newSession(cfg, spec, "run", "the-secret", ours, frame.NewReader(ours, 0))
	f.core.register(&wire.Register{Tools: []wire.Tool{{
		ToolID: wire.JoinToolID(fakeID, "x"), Name: "x", InputSchema: []byte(anyTool),
	}}})
	f.core.turns.free = true
	go func() {
		defer close(f.served)
		_ = f.core.out.Serve()
	}()
	t.Cleanup(func() {
		f.conn.Close()
		ours.Close()
		f.core.out.Close()
		<-f.served
	})
	return f
}

// led makes a call whose caller has the turn, and returns the request.
func (f *fake) led(ctx context.Context, timeout time.Duration) (<-chan called, *wire.Message) {
	out := make(chan called, 1)
	go func() {
		r, err := f.core.call(ctx, Call{Tool: "x", Input: []byte(`{}`), Timeout: timeout})
		out <- called{r, err}
	}()
	req := f.recv()
	for f.isFree() {
		runtime.Gosched() // until the caller has it, or the test's own time is over
	}
	return out, req
}

// back is what the caller hands to readLoop.
func (f *fake) back() handBack {
	f.t.Helper()
	select {
	case h := <-f.core.turns.back:
		return h
	case <-time.After(patience):
		f.t.Fatal("the turn does not come back")
		return handBack{}
	}
}

func (f *fake) encoded(to *wire.Message) []byte {
	f.t.Helper()
	m := &wire.Message{InReplyTo: to.ID, Payload: &wire.ToolResult{
		CallID: to.Payload.(*wire.ToolCall).CallID, Status: wire.Succeeded,
	}}
	m.Echo(to)
	var buf bytes.Buffer
	if err := wire.EncodeFrame(&buf, m, 0); err != nil {
		f.t.Fatal(err)
	}
	return buf.Bytes()
}

func (f *fake) isFree() bool {
	f.core.mu.Lock()
	defer f.core.mu.Unlock()
	return f.core.turns.free && f.core.turns.reader == nil
}

func TestCallerReadsItsResult(t *testing.T) {
	f := newLent(t)
	for range 3 {
		out, req := f.led(t.Context(), time.Hour)
		f.beat(wire.Degraded) // what else comes is handled, too
		f.raw(f.encoded(req))
		if c := <-out; c.err != nil {
			t.Fatal(c.err)
		}
		if !f.isFree() || f.core.health != wire.Degraded {
			t.Errorf("free %v, health %s", f.isFree(), f.core.health)
		}
	}
	if f.core.turns.taken != 3 {
		t.Errorf("the turn was taken %d times", f.core.turns.taken)
	}
}

// A caller that gives up stops reading even in the middle of a frame, and
// whoever reads next goes on there.
func TestCallerStopsReading(t *testing.T) {
	for _, cut := range []int{0, 2, 50} {
		for _, why := range []string{wire.CodeTimeout, wire.CodeCanceled} {
			t.Run(fmt.Sprintf("%s after %d bytes", why, cut), func(t *testing.T) {
				f := newLent(t)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				timeout := time.Hour
				if why == wire.CodeTimeout {
					timeout = 50 * time.Millisecond
				}
				out, req := f.led(ctx, timeout)
				result := f.encoded(req)
				goOn, written := make(chan struct{}), make(chan error, 1)
				go func() {
					_, first := f.conn.Write(result[:cut])
					<-goOn
					_, rest := f.conn.Write(result[cut:])
					written <- errors.Join(first, rest)
				}()
				if why == wire.CodeCanceled {
					cancel()
				}
				if h := f.back(); h != (handBack{}) {
					t.Fatalf("handed back %+v", h)
				}
				if m := f.recv(); m.Type() != wire.TypeToolCancel {
					t.Fatalf("got %s, want a cancel", m.Type())
				}
				ended := make(chan error, 1)
				go func() { ended <- f.core.readLoop() }()
				close(goOn)
				if c := <-out; c.err != nil { // a success that won the race
					t.Error(c.err)
				}
				if err := <-written; err != nil {
					t.Error(err)
				}
				f.conn.Close()
				if err := <-ended; !errors.Is(err, errDisconnected) {
					t.Error(err)
				}
			})
		}
	}
}

func TestCallerHandsTheTurnBack(t *testing.T) {
	t.Run("at the end of the connection", func(t *testing.T) {
		f := newLent(t)
		out, _ := f.led(t.Context(), time.Hour)
		f.conn.Close()
		if h := f.back(); !errors.Is(h.err, errDisconnected) {
			t.Errorf("handed back %+v", h)
		}
		f.core.failAll() // as serve does then
		if c := <-out; code(c.err) != wire.CodeUnavailable {
			t.Error(c.err)
		}
	})
	t.Run("with a registration", func(t *testing.T) {
		f := newLent(t)
		out, req := f.led(t.Context(), time.Hour)
		f.send(&wire.Message{Payload: &wire.Register{Tools: []wire.Tool{}}})
		if h := f.back(); h.msg == nil || h.msg.Type() != wire.TypeRegister {
			t.Errorf("handed back %+v", h)
		}
		f.endWith(out, req)
	})
	t.Run("when another call is in flight", func(t *testing.T) {
		f := newLent(t)
		first, one := f.led(t.Context(), time.Hour)
		second, two := f.led(t.Context(), time.Hour)
		f.raw(f.encoded(one))
		if c := <-first; c.err != nil {
			t.Fatal(c.err)
		}
		if h := f.back(); h != (handBack{}) {
			t.Errorf("handed back %+v", h)
		}
		f.endWith(second, two)
	})
	t.Run("when it has had it for long", func(t *testing.T) {
		f := newLent(t)
		out, req := f.led(t.Context(), time.Hour)
		taken := make(chan handBack)
		go func() { taken <- f.core.takeBack() }()
		for wanted := false; !wanted; {
			f.core.mu.Lock()
			wanted = f.core.turns.wanted
			f.core.mu.Unlock()
		}
		f.raw(f.encoded(req))
		if h := <-taken; h != (handBack{}) || f.isFree() {
			t.Errorf("handed back %+v", h)
		}
		if c := <-out; c.err != nil {
			t.Error(c.err)
		}
	})
	t.Run("when nobody uses it", func(t *testing.T) {
		f := newLent(t)
		if h := f.core.takeBack(); h != (handBack{}) || f.isFree() {
			t.Errorf("took back %+v", h)
		}
	})
}

// endWith reads as readLoop does until the call has its result.
func (f *fake) endWith(out <-chan called, req *wire.Message) {
	f.t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- f.core.readLoop() }()
	f.raw(f.encoded(req))
	if c := <-out; c.err != nil {
		f.t.Error(c.err)
	}
	f.conn.Close()
	if err := <-ended; !errors.Is(err, errDisconnected) {
		f.t.Error(err)
	}
}

// Callers come and give up as they like, until the agent goes away: each call
// ends, and the session does.
func TestCallersTakeTurns(t *testing.T) {
	for callers := 1; callers <= 3; callers++ {
		f := newFake(t, Config{CancelGrace: time.Millisecond}, Spec{})
		f.join("x")
		answers := make(chan struct{})
		go func() {
			defer close(answers)
			for {
				m, err := f.next()
				if err != nil {
					return
				}
				if m.Type() == wire.TypeToolCall {
					if _, err := f.conn.Write(f.encoded(m)); err != nil {
						return
					}
				}
			}
		}()
		var wg sync.WaitGroup
		var closing atomic.Bool
		for range callers {
			wg.Go(func() {
				for i := range 150 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%7)*50*time.Microsecond)
					if i%7 == 0 {
						ctx = t.Context()
					}
					_, err := f.core.call(ctx, Call{Tool: "x", Input: []byte(`{}`)})
					cancel()
					switch {
					case err == nil, i%7 != 0 && code(err) == wire.CodeTimeout:
					case code(err) == wire.CodeUnavailable && closing.Load():
					default:
						t.Error(err)
					}
					if i == 120 {
						closing.Store(true)
						f.conn.Close()
					}
				}
			})
		}
		wg.Wait()
		f.wait()
		<-answers
	}
}
