package supervisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// What a hostile agent does while calls follow each other closely, so that now a
// caller reads the session and now readLoop does. Whatever that is, each call ends
// with its own result or is told why not, and the session ends when the agent does.

// spite is what the agent does with the request of call n; after an error it is
// gone.
type spite func(f *fake, n int, req *wire.Message) error

// hurt has callers make calls, of which every fifth is given up soon, or all of them
// if the agent does not answer each.
func hurt(t *testing.T, does spite, silent bool, callers int, want func(code string) bool) {
	t.Helper()
	f := newFake(t, Config{HeartbeatInterval: time.Hour, CancelGrace: time.Millisecond}, Spec{})
	f.join("x")
	over := make(chan struct{})
	go func() { // the agent
		defer close(over)
		for n := 0; ; {
			m, err := f.next()
			if err != nil {
				return
			}
			if m.Type() != wire.TypeToolCall {
				continue
			}
			if does(f, n, m) != nil {
				f.conn.Close()
				return
			}
			n++
		}
	}()
	ended := make(chan string)
	for range callers {
		go func() {
			for i := range 40 {
				limit := 2 * patience
				if silent || i%5 == 4 {
					limit = 3 * time.Millisecond
				}
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				_, err := f.core.call(ctx, Call{Tool: "x", Input: []byte(`{}`)})
				cancel()
				ended <- code(err)
			}
		}()
	}
	for range 40 * callers {
		select {
		case c := <-ended:
			if !want(c) {
				t.Errorf("a call ended with %q", c)
			}
		case <-time.After(patience):
			t.Fatal("a call does not end")
		}
	}
	f.conn.Close()
	f.wait()
	<-over
}

func TestHostileAgentAndItsReaders(t *testing.T) {
	answer := func(f *fake, req *wire.Message) error { _, err := f.conn.Write(f.encoded(req)); return err }
	fine := func(c string) bool { return c == "" || c == wire.CodeTimeout }
	whatever := func(c string) bool {
		return c == "" || c == wire.CodeTimeout || c == wire.CodeUnavailable || c == wire.CodeOverloaded || c == wire.CodeInvalidMessage
	}
	tests := []struct {
		name   string
		does   spite
		silent bool
		want   func(string) bool
	}{
		{"a byte at a time", func(f *fake, n int, req *wire.Message) error {
			for _, b := range f.encoded(req) {
				if _, err := f.conn.Write([]byte{b}); err != nil {
					return err
				}
			}
			return nil
		}, false, fine},
		{"results twice, and of calls that nobody made", func(f *fake, n int, req *wire.Message) error {
			other := *req
			other.Payload = &wire.ToolCall{CallID: fmt.Sprintf("nobody-%d", n)}
			if err := answer(f, &other); err != nil {
				return err
			}
			return errors.Join(answer(f, req), answer(f, req))
		}, false, fine},
		{"beats and registrations between", func(f *fake, n int, req *wire.Message) error {
			beat := &wire.Heartbeat{SessionID: f.core.id, Status: wire.OK}
			again := &wire.Register{Tools: []wire.Tool{{ToolID: wire.JoinToolID(fakeID, "x"), Name: "x", InputSchema: []byte(anyTool)}}}
			for _, p := range []wire.Payload{beat, again} {
				var buf bytes.Buffer
				err := wire.EncodeFrame(&buf, &wire.Message{Payload: p}, 0)
				if _, failed := f.conn.Write(buf.Bytes()); failed != nil || err != nil {
					return errors.Join(err, failed)
				}
			}
			return answer(f, req)
		}, false, fine},
		{"every other call is never answered", func(f *fake, n int, req *wire.Message) error {
			if n%2 == 1 {
				return nil
			}
			return answer(f, req)
		}, true, fine},
		{"the end in the middle of a result", func(f *fake, n int, req *wire.Message) error {
			if n < 20 {
				return answer(f, req)
			}
			b := f.encoded(req)
			_, _ = f.conn.Write(b[:len(b)/2])
			return context.Canceled
		}, false, whatever},
		{"garbage in the place of a result", func(f *fake, n int, req *wire.Message) error {
			if n < 20 {
				return answer(f, req)
			}
			_, err := f.conn.Write([]byte("\x00\x00\x00\x02[]"))
			return err
		}, false, whatever},
	}
	for _, tt := range tests {
		for _, callers := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s, %d callers", tt.name, callers), func(t *testing.T) {
				t.Parallel()
				hurt(t, tt.does, tt.silent, callers, tt.want)
			})
		}
	}
}
