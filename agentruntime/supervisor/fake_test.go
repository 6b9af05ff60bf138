package supervisor

import (
	"bytes"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/frame"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

const (
	fakeID  = "com.example.fake"
	anyTool = `{"type":"object"}`
)

// fake is an agent in this process, at the other end of a pipe, that says
// exactly what a test wants.
type fake struct {
	t       *testing.T
	conn    net.Conn
	in      *frame.Reader
	core    *session // nil until welcomed
	token   *token
	audit   *auditLog
	greeted chan error // what greet returned
	served  chan struct{}
}

type auditLog struct {
	mu     sync.Mutex
	events []AuditEvent
}

func (l *auditLog) add(e AuditEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

func (l *auditLog) of(typ string) []AuditEvent {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []AuditEvent
	for _, e := range l.events {
		if e.Type == typ {
			out = append(out, e)
		}
	}
	return out
}

// newFake connects a fake to a core with cfg, which begins to greet it.
func newFake(t *testing.T, cfg Config, spec Spec) *fake {
	t.Helper()
	cfg.SocketDir = "unused"
	f := &fake{t: t, audit: &auditLog{}, greeted: make(chan error, 1), served: make(chan struct{})}
	cfg.Audit = f.audit.add
	if err := cfg.fill(); err != nil {
		t.Fatal(err)
	}
	spec.ID, spec.Command = fakeID, []string{"unused"}
	if err := spec.fill(cfg.MaxFrameBytes, cfg.MaxInflight); err != nil {
		t.Fatal(err)
	}
	f.token = newToken(cfg.TokenTTL)
	ours, theirs := net.Pipe()
	f.conn, f.in = theirs, frame.NewReader(theirs, 0)
	go func() {
		defer close(f.served)
		s, err := greet(&cfg, &spec, f.token, "run", ours)
		f.core = s
		f.greeted <- err
		if err == nil {
			s.serve()
		}
		ours.Close()
	}()
	t.Cleanup(func() {
		f.conn.Close()
		<-f.served
	})
	return f
}

// join does the handshake and registers tools, each with any object as input.
func (f *fake) join(tools ...string) {
	f.t.Helper()
	f.send(f.hello())
	f.recv()
	if err := <-f.greeted; err != nil {
		f.t.Fatal(err)
	}
	reg := &wire.Register{Tools: []wire.Tool{}}
	for _, name := range tools {
		reg.Tools = append(reg.Tools, wire.Tool{ToolID: wire.JoinToolID(fakeID, name), Name: name, InputSchema: []byte(anyTool)})
	}
	f.send(&wire.Message{Payload: reg})
	if got := f.recv().Payload.(*wire.Registered); len(got.Registered) != len(tools) {
		f.t.Fatalf("registered %v, rejected %v", got.Registered, got.Rejected)
	}
}

func (f *fake) hello() *wire.Message {
	return &wire.Message{Payload: &wire.Hello{
		SessionToken: f.token.secret, AgentID: fakeID, AgentVersion: "1.0.0",
		Protocol: wire.ProtocolInfo{SupportedVersions: []int{1}, Capabilities: []string{"tools"}},
	}}
}

func (f *fake) send(m *wire.Message) {
	f.t.Helper()
	var buf bytes.Buffer
	if err := wire.EncodeFrame(&buf, m, 0); err != nil {
		f.t.Fatal(err)
	}
	f.raw(buf.Bytes())
}

func (f *fake) raw(b []byte) {
	f.t.Helper()
	if _, err := f.conn.Write(b); err != nil {
		f.t.Fatalf("write to core: %v", err)
	}
}

func (f *fake) frame(payload string) {
	f.t.Helper()
	b, err := frame.Append(nil, []byte(payload), 0)
	if err != nil {
		f.t.Fatal(err)
	}
	f.raw(b)
}

// next is what core sends, or the error of the closed connection.
func (f *fake) next() (*wire.Message, error) {
	p, err := f.in.Next()
	if err != nil {
		return nil, err
	}
	return wire.Decode(p, wire.Core)
}

func (f *fake) recv() *wire.Message {
	f.t.Helper()
	m, err := f.next()
	if err != nil {
		f.t.Fatalf("read from core: %v", err)
	}
	return m
}

func (f *fake) beat(health wire.Health) {
	f.t.Helper()
	f.send(&wire.Message{Payload: &wire.Heartbeat{SessionID: f.core.id, Status: health}})
}

// reply ends a call.
func (f *fake) reply(to *wire.Message, r *wire.ToolResult) {
	f.t.Helper()
	r.CallID = to.Payload.(*wire.ToolCall).CallID
	m := &wire.Message{InReplyTo: to.ID, Payload: r}
	m.Echo(to)
	f.send(m)
}

// called is the outcome of a call made in the background.
type called struct {
	Result
	err *Error
}

func (f *fake) call(c Call) <-chan called {
	out := make(chan called, 1)
	if c.Input == nil {
		c.Input = []byte(`{}`)
	}
	go func() {
		r, err := f.core.call(f.t.Context(), c)
		out <- called{r, err}
	}()
	return out
}

// wait fails the test if core does not end the session.
func (f *fake) wait() {
	f.t.Helper()
	select {
	case <-f.served:
	case <-time.After(patience):
		f.t.Fatal("the session does not end")
	}
}

func code(err *Error) string {
	if err == nil {
		return ""
	}
	return err.Code
}
