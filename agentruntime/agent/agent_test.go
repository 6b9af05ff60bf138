package agent

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lightwork-market/lightwork/agentruntime/frame"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const agentID = "com.example.test"

// core is the other end: it says exactly what a test wants.
type core struct {
	t    *testing.T
	conn net.Conn
	in   *frame.Reader
	end  chan error // what Run or Serve returned
}

// listen prepares a socket and the environment for an agent.
func listen(t *testing.T) net.Listener {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	t.Setenv(EnvSocketPath, path)
	t.Setenv(EnvToken, "secret-token")
	t.Setenv(EnvAgentID, agentID)
	return ln
}

// dial runs an agent and takes its connection; the handshake is still to come.
func dial(t *testing.T, ctx context.Context, cfg Config) *core {
	t.Helper()
	ln := listen(t)
	cfg.Version = "1.0.0"
	c := &core{t: t, end: make(chan error, 1)}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.end <- Run(ctx, cfg)
	}()
	t.Cleanup(func() { cancel(); <-done })
	conn, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c.conn, c.in = conn, frame.NewReader(conn, 0)
	return c
}

// serve runs an agent through the handshake.
func serve(t *testing.T, ctx context.Context, cfg Config) *core {
	t.Helper()
	c := dial(t, ctx, cfg)
	c.recv()
	c.welcome(time.Hour, frame.DefaultMaxBytes)
	c.recv()
	c.send(&wire.Message{Payload: &wire.Registered{Registered: []wire.ToolID{}}})
	if _, ok := c.recv().Payload.(*wire.Heartbeat); !ok {
		t.Fatal("no heartbeat after the welcome")
	}
	return c
}

func (c *core) welcome(beat time.Duration, limit int) {
	c.send(&wire.Message{Payload: &wire.Welcome{AcceptedVersion: 1, SessionID: "s1", HeartbeatIntervalMS: beat.Milliseconds(), MaxFrameBytes: limit}})
}

func (c *core) send(m *wire.Message) {
	c.t.Helper()
	var buf bytes.Buffer
	if err := wire.EncodeFrame(&buf, m, 0); err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.conn.Write(buf.Bytes()); err != nil {
		c.t.Fatal(err)
	}
}

func (c *core) recv() *wire.Message {
	c.t.Helper()
	p, err := c.in.Next()
	if err != nil {
		c.t.Fatalf("read from the agent: %v", err)
	}
	m, err := wire.Decode(p, wire.Agent)
	if err != nil {
		c.t.Fatalf("the agent says %s: %v", p, err)
	}
	return m
}

func (c *core) call(id, tool, input string) {
	c.send(&wire.Message{
		ID: "m-" + id, RequestID: "r-" + id, CorrelationID: "c-" + id, CausationID: "d-" + id,
		Payload: &wire.ToolCall{CallID: id, ToolID: wire.JoinToolID(agentID, tool), Input: json.RawMessage(input)},
	})
}

// result is the next message, which must be the result of a call.
func (c *core) result() *wire.ToolResult {
	c.t.Helper()
	m := c.recv()
	r, ok := m.Payload.(*wire.ToolResult)
	if !ok {
		c.t.Fatalf("got %s, want a result", m.Type())
	}
	if m.InReplyTo != "m-"+r.CallID || m.RequestID != "r-"+r.CallID || m.CorrelationID != "c-"+r.CallID || m.CausationID != "d-"+r.CallID {
		c.t.Errorf("the result does not repeat the call's fields: %+v", m)
	}
	return r
}

func resultCode(r *wire.ToolResult) string {
	if r.Error == nil {
		return ""
	}
	return r.Error.Code
}

func tool(name string, h Handler) Tool { return Tool{Name: name, Handler: h} }

func TestHandshake(t *testing.T) {
	requirements.Covers(t, "OS-5.3.1", "OS-6.1.1", "OS-4.1.1.1", "OS-4.2.1.1", "OS-4.5.1.1", "OS-0.9")
	c := dial(t, t.Context(), Config{ManifestHash: "abc", Tools: []Tool{tool("x", func(context.Context, *Call) (any, error) { return nil, nil })}})
	h, ok := c.recv().Payload.(*wire.Hello)
	if !ok || h.SessionToken != "secret-token" || h.AgentID != agentID || h.ManifestHash != "abc" || !slices.Equal(h.Protocol.SupportedVersions, []int{1}) {
		t.Fatalf("hello %+v", h)
	}
	if _, there := os.LookupEnv(EnvToken); there {
		t.Error("the token is still in the environment")
	}
	c.welcome(10*time.Millisecond, 1<<20)
	r, ok := c.recv().Payload.(*wire.Register)
	if !ok || len(r.Tools) != 1 || r.Tools[0].ToolID != agentID+"/x" || r.Tools[0].Name != "x" {
		t.Fatalf("register %+v", r)
	}
	c.send(&wire.Message{Payload: &wire.Registered{Registered: []wire.ToolID{}, Rejected: []wire.RejectedTool{{ToolID: "x", Error: &wire.Error{Code: "a.b"}}}}})
	for range 3 {
		if b, ok := c.recv().Payload.(*wire.Heartbeat); !ok || b.SessionID != "s1" || b.Status != wire.OK {
			t.Fatalf("heartbeat %+v", b)
		}
	}
}

func TestConnectFails(t *testing.T) {
	answer := func(m *wire.Message) func(c net.Conn) {
		return func(c net.Conn) {
			var buf bytes.Buffer
			if err := wire.EncodeFrame(&buf, m, 0); err == nil {
				_, _ = frame.NewReader(c, 0).Next()
				_, _ = c.Write(buf.Bytes())
			}
		}
	}
	noTools := Config{Version: "1.0.0"}
	tests := []struct {
		name string
		cfg  Config
		core func(net.Conn)
		want error
	}{
		{"refused", noTools, answer(&wire.Message{Error: &wire.Error{Code: wire.CodeUnauthorized}, Payload: &wire.Welcome{}}), ErrUnauthorized},
		{"other version", noTools, answer(&wire.Message{Payload: &wire.Welcome{AcceptedVersion: 2, SessionID: "s", HeartbeatIntervalMS: 1, MaxFrameBytes: 1}}), ErrUnauthorized},
		{"no welcome", noTools, answer(&wire.Message{Payload: &wire.Ping{}}), nil},
		{"closed", noTools, func(net.Conn) {}, nil},
		{"no version", Config{}, nil, nil},
		{"tool without handler", Config{Version: "1.0.0", Tools: []Tool{{Name: "x"}}}, nil, nil},
		{"two tools of a name", Config{Version: "1.0.0", Tools: []Tool{tool("x", panics), tool("x", panics)}}, nil, nil},
		{"bad schema", Config{Version: "1.0.0", Tools: []Tool{{Name: "x", Handler: panics, InputSchema: json.RawMessage(`{"type":7}`)}}}, nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ln := listen(t)
			done := make(chan struct{})
			go func() {
				defer close(done)
				conn, err := ln.Accept()
				if err == nil {
					tt.core(conn)
					conn.Close()
				}
			}()
			_, err := Connect(t.Context(), tt.cfg)
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("got %v", err)
			}
			if err != nil && strings.Contains(err.Error(), "secret-token") {
				t.Error("the error shows the token")
			}
			ln.Close()
			<-done
		})
	}
	for _, name := range []string{EnvSocketPath, EnvToken, EnvAgentID} {
		listen(t)
		t.Setenv(name, "")
		if _, err := Connect(t.Context(), noTools); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

func panics(context.Context, *Call) (any, error) { panic("canary") }

func TestConnectIsCanceled(t *testing.T) {
	listen(t) // nobody accepts
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Connect(ctx, Config{Version: "1.0.0"}); err == nil {
		t.Error("connected to nobody")
	}
}

func TestOutcomes(t *testing.T) {
	requirements.Covers(t, "OS-4.3.1.10", "OS-4.3.3.3", "OS-7.3.1", "OS-7.4.1", "OS-3.3.3", "OS-3.3.4", "OS-3.3.7")
	c := serve(t, t.Context(), Config{MaxOutputBytes: 100, Tools: []Tool{
		{Name: "typed", InputSchema: json.RawMessage(`{"required":["a"]}`), Handler: func(_ context.Context, c *Call) (any, error) {
			var in struct{ A int }
			return map[string]bool{"ok": true}, c.Decode(&in)
		}},
		tool("nothing", func(context.Context, *Call) (any, error) { return nil, nil }),
		tool("fails", func(context.Context, *Call) (any, error) { return nil, Fail("shop.closed", "come\nback") }),
		tool("wrapped", func(context.Context, *Call) (any, error) {
			return nil, fmt.Errorf("canary: %w", Fail("shop.closed", ""))
		}),
		tool("breaks", func(context.Context, *Call) (any, error) { return nil, errors.New("canary") }),
		tool("panics", panics),
		tool("shouts", func(context.Context, *Call) (any, error) { return nil, Fail("NOT A CODE", "x") }),
		tool("details", func(context.Context, *Call) (any, error) {
			return nil, &Error{Code: "shop.closed", Details: json.RawMessage(`{`)}
		}),
		tool("array", func(context.Context, *Call) (any, error) { return []int{1}, nil }),
		tool("channel", func(context.Context, *Call) (any, error) { return make(chan int), nil }),
		tool("twice", func(context.Context, *Call) (any, error) { return json.RawMessage(`{"a":1,"a":2}`), nil }),
		tool("large", func(context.Context, *Call) (any, error) {
			return map[string]string{"x": strings.Repeat("x", 100)}, nil
		}),
		{Name: "slow", Timeout: time.Millisecond, Handler: func(ctx context.Context, _ *Call) (any, error) { <-ctx.Done(); return nil, ctx.Err() }},
	}})
	tests := []struct {
		tool, input, code string
		status            wire.ResultStatus
	}{
		{"typed", `{"a":1}`, "", wire.Succeeded},
		{"typed", `{}`, wire.CodeInvalidInput, wire.Failed},
		{"typed", `{"a":"x"}`, wire.CodeInvalidInput, wire.Failed},
		{"nothing", `{}`, "", wire.Succeeded},
		{"fails", `{}`, "shop.closed", wire.Failed},
		{"wrapped", `{}`, "shop.closed", wire.Failed},
		{"breaks", `{}`, wire.CodeFailed, wire.Failed},
		{"panics", `{}`, wire.CodeInternal, wire.Failed},
		{"shouts", `{}`, wire.CodeFailed, wire.Failed},
		{"details", `{}`, wire.CodeFailed, wire.Failed},
		{"array", `{}`, wire.CodeInvalidOutput, wire.Failed},
		{"channel", `{}`, wire.CodeFailed, wire.Failed},
		{"twice", `{}`, wire.CodeInvalidOutput, wire.Failed},
		{"large", `{}`, wire.CodeOutputTooLarge, wire.Failed},
		{"slow", `{}`, wire.CodeTimeout, wire.Failed},
		{"none", `{}`, wire.CodeUnavailable, wire.Failed},
	}
	for i, tt := range tests {
		c.call(fmt.Sprint(i), tt.tool, tt.input)
		r := c.result()
		if r.Status != tt.status || resultCode(r) != tt.code || r.CallID != fmt.Sprint(i) {
			t.Errorf("%s(%s): %s %v", tt.tool, tt.input, r.Status, r.Error)
		}
		if r.Error != nil && (strings.Contains(r.Error.Message, "canary") || strings.Contains(r.Error.Message, "goroutine") || r.Error.Debug != nil) {
			t.Errorf("%s tells too much: %+v", tt.tool, r.Error)
		}
		if r.FinishedAt.Before(r.StartedAt.Time) {
			t.Errorf("%s: %s to %s", tt.tool, r.StartedAt, r.FinishedAt)
		}
	}
}

func TestConcurrentCalls(t *testing.T) {
	requirements.Covers(t, "OS-2.2.5", "OS-2.3.2")
	release := make(chan struct{})
	c := serve(t, t.Context(), Config{MaxInflight: 3, Tools: []Tool{
		tool("wait", func(ctx context.Context, call *Call) (any, error) { <-release; return nil, nil }),
		tool("quick", func(context.Context, *Call) (any, error) { return nil, nil }),
	}})
	c.call("1", "wait", `{}`)
	c.call("2", "wait", `{}`)
	c.call("3", "quick", `{}`)
	if r := c.result(); r.CallID != "3" {
		t.Errorf("result of %s, want that of 3", r.CallID)
	}
	c.call("4", "wait", `{}`)
	c.call("5", "quick", `{}`)
	if r := c.result(); r.CallID != "5" || resultCode(r) != wire.CodeOverloaded || !r.Error.Retryable {
		t.Errorf("one too many: %s %+v", r.CallID, r.Error)
	}
	c.call("1", "quick", `{}`) // its id is taken
	if m := c.recv(); m.Type() != wire.TypeAgentError || m.InReplyTo != "m-1" || m.Error.Code != wire.CodeDuplicateCall {
		t.Errorf("second call of an id: %+v", m)
	}
	close(release)
	var ids []string
	for range 3 {
		ids = append(ids, c.result().CallID)
	}
	if slices.Sort(ids); !slices.Equal(ids, []string{"1", "2", "4"}) {
		t.Errorf("results of %v", ids)
	}
}

func TestCancel(t *testing.T) {
	requirements.Covers(t, "OS-4.4.1.4", "OS-4.4.2.1", "OS-4.4.2.2", "OS-4.3.3.9")
	started := make(chan struct{}, 1)
	c := serve(t, t.Context(), Config{Tools: []Tool{
		tool("obeys", func(ctx context.Context, _ *Call) (any, error) {
			started <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		}),
	}})
	c.call("1", "obeys", `{}`)
	<-started
	c.send(&wire.Message{ID: "k", Payload: &wire.ToolCancel{CallID: "1"}})
	var ack *wire.CancelAck
	var result *wire.ToolResult
	for range 2 {
		switch p := c.recv().Payload.(type) {
		case *wire.CancelAck:
			ack = p
		case *wire.ToolResult:
			result = p
		}
	}
	if ack == nil || !ack.Accepted || result == nil || result.Status != wire.Canceled || resultCode(result) != wire.CodeCanceled {
		t.Errorf("ack %+v, result %+v", ack, result)
	}
	c.send(&wire.Message{ID: "k2", Payload: &wire.ToolCancel{CallID: "1"}})
	if m := c.recv(); m.InReplyTo != "k2" || m.Payload.(*wire.CancelAck).Accepted {
		t.Errorf("cancel of an ended call: %+v", m)
	}
}

func TestSuccessMayWinOverCancel(t *testing.T) {
	started := make(chan struct{})
	c := serve(t, t.Context(), Config{Tools: []Tool{tool("finishes", func(ctx context.Context, _ *Call) (any, error) {
		close(started)
		<-ctx.Done()
		return map[string]int{"n": 1}, nil
	})}})
	c.call("1", "finishes", `{}`)
	<-started
	c.send(&wire.Message{Payload: &wire.ToolCancel{CallID: "1"}})
	c.send(&wire.Message{ID: "p", Payload: &wire.Ping{}})
	results := 0
	for range 3 { // ack, pong, one result
		if r, ok := c.recv().Payload.(*wire.ToolResult); ok {
			if results++; r.Status != wire.Succeeded {
				t.Errorf("status %s", r.Status)
			}
		}
	}
	if results != 1 {
		t.Errorf("%d results", results)
	}
}

func TestStreaming(t *testing.T) {
	requirements.Covers(t, "OS-3.1.7", "OS-4.3.2.3", "OS-4.3.2.4", "OS-4.3.2.5", "OS-4.3.2.6", "OS-4.3.2.7", "OS-7.3.1")
	errs := make(chan error, 10)
	var kept *Call
	c := serve(t, t.Context(), Config{MaxStreamBytes: 200_000, Tools: []Tool{
		tool("x", func(_ context.Context, call *Call) (any, error) {
			kept = call
			errs <- call.Stream(wire.Stdout, "a")
			errs <- call.Stream(wire.Stderr, "b")
			errs <- call.Stream(wire.Log, "c\xff")
			errs <- call.Partial(map[string]int{"p": 1})
			errs <- call.Stream(wire.Status, strings.Repeat("€", 30_000))
			errs <- call.Stream(wire.Stdout, strings.Repeat("x", 150_000))
			errs <- call.Done()
			errs <- call.Stream(wire.Stdout, "after done")
			return nil, nil
		}),
	}})
	c.call("1", "x", `{}`)
	want := []struct {
		channel wire.Channel
		size    int
		done    bool
	}{{"stdout", 1, false}, {"stderr", 1, false}, {"log", 4, false}, {"partial_result", 7, false}, {"status", 65535, false}, {"status", 24465, false}, {"stdout", 65536, false}, {"status", 0, true}}
	for i, w := range want {
		m := c.recv()
		p, ok := m.Payload.(*wire.ToolStream)
		if !ok {
			t.Fatalf("message %d is %s %+v", i, m.Type(), m.Payload)
		}
		size := len(p.Data.JSON)
		if p.Data.Text != nil {
			size = len(*p.Data.Text)
		}
		if p.Seq != int64(i+1) || p.Channel != w.channel || size != w.size || p.Done != w.done {
			t.Errorf("chunk %d: %d %s %d bytes, done %t; want %+v", i, p.Seq, p.Channel, size, p.Done, w)
		}
		if m.RequestID != "r-1" || m.CorrelationID != "c-1" || m.CausationID != "d-1" {
			t.Errorf("chunk %d does not repeat the call's fields: %+v", i, m)
		}
	}
	c.result()
	for i, want := range []error{nil, nil, nil, nil, nil, ErrStreamLimit, nil, ErrStreamEnded} {
		if err := <-errs; !errors.Is(err, want) {
			t.Errorf("step %d: %v, want %v", i, err, want)
		}
	}
	if err := kept.Stream(wire.Log, "after the result"); !errors.Is(err, ErrStreamEnded) {
		t.Errorf("after the result: %v", err)
	}
}

func TestGoodbyeAndEnd(t *testing.T) {
	requirements.Covers(t, "OS-4.5.2.1")
	stopped := make(chan error, 1)
	waits := []Tool{tool("waits", func(ctx context.Context, _ *Call) (any, error) {
		<-ctx.Done()
		stopped <- ctx.Err()
		return nil, ctx.Err()
	})}
	t.Run("goodbye", func(t *testing.T) {
		c := serve(t, t.Context(), Config{Tools: waits})
		c.call("1", "waits", `{}`)
		c.send(&wire.Message{Payload: &wire.Goodbye{Reason: "shutdown", RetryAfterMS: 5}})
		if err := <-c.end; err != nil || <-stopped == nil {
			t.Errorf("run ends with %v", err)
		}
	})
	t.Run("closed", func(t *testing.T) {
		c := serve(t, t.Context(), Config{Tools: waits})
		c.call("1", "waits", `{}`)
		c.conn.Close()
		if err := <-c.end; !errors.Is(err, ErrDisconnected) || <-stopped == nil {
			t.Errorf("run ends with %v", err)
		}
	})
	t.Run("context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := serve(t, ctx, Config{Tools: waits})
		c.call("1", "waits", `{}`)
		c.send(&wire.Message{ID: "p", Payload: &wire.Ping{}}) // the call has been read
		if m := c.recv(); m.Type() != wire.TypePong || m.InReplyTo != "p" {
			t.Errorf("got %s", m.Type())
		}
		cancel()
		if r := c.result(); r.Status != wire.Canceled {
			t.Errorf("the call ends as %s", r.Status)
		}
		if err := <-c.end; err != nil {
			t.Errorf("run ends with %v", err)
		}
	})
}

func TestRefusesBadFrames(t *testing.T) {
	requirements.Covers(t, "OS-2.2.3", "OS-2.2.8")
	head := func(n uint32, body string) []byte { return append(binary.BigEndian.AppendUint32(nil, n), body...) }
	for name, b := range map[string][]byte{
		"over the limit": head(1001, ""), "all ones": head(0xffffffff, ""), "empty": head(0, ""), "array": head(2, "[]"), "not UTF-8": head(3, "{\xff}"),
	} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, t.Context(), Config{MaxFrameBytes: 1000})
			if _, err := c.conn.Write(b); err != nil {
				t.Fatal(err)
			}
			if err := <-c.end; err == nil || errors.Is(err, ErrDisconnected) {
				t.Errorf("run ends with %v", err)
			}
		})
	}
}

func TestAnswersWhatItCannotHandle(t *testing.T) {
	requirements.Covers(t, "OS-6.2.2", "OS-6.2.3", "OS-4.0.1")
	c := serve(t, t.Context(), Config{Tools: []Tool{tool("x", func(context.Context, *Call) (any, error) { return nil, nil })}})
	const form = `{"v":1,"type":"%s","id":"m","ts":"2026-01-16T12:00:00Z","payload":{}%s}`
	for _, doc := range []string{
		fmt.Sprintf(form, "core.dance", ""), fmt.Sprintf(form, "core.dance", `,"request_id":"r1"`),
		fmt.Sprintf(form, "agent.pong", `,"request_id":"r2"`), fmt.Sprintf(form, "core.tool.call", `,"request_id":"r3"`), `{nonsense}`,
	} {
		b, err := frame.Append(nil, []byte(doc), 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.conn.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{wire.CodeUnknownType, wire.CodeWrongDirection, wire.CodeInvalidMessage} {
		m := c.recv()
		if m.Type() != wire.TypeAgentError || m.RequestID != fmt.Sprint("r", i+1) || m.InReplyTo != "m" || m.Error.Code != want {
			t.Errorf("answer %d: %+v %v", i, m, m.Error)
		}
	}
	c.call("1", "x", `{}`)
	if r := c.result(); r.Status != wire.Succeeded {
		t.Errorf("afterwards: %+v", r)
	}
}
