package supervisor

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/lightwork-market/lightwork/agentruntime/frame"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

const (
	unhealthyAfter = 3 // missed heartbeats until routing stops
	deadAfter      = 6 // missed heartbeats until the session ends
	maxViolations  = 16
	recentCalls    = 1024 // ended calls remembered, to name a second result
)

// session is one authenticated connection. Whoever reads it (see turns) never
// waits for a consumer or for the agent to read.
type session struct {
	id, runID string
	cfg       *Config
	spec      *Spec
	secret    string // the session token, to find it where it must not be
	conn      net.Conn
	in        *frame.Reader
	out       *wire.Outbox

	registered chan struct{} // closed at the first registration
	done       chan struct{} // closed when serve has returned
	strays     lineLimit     // results that belong to no call
	schemaPace *rate.Limiter // of registrations

	mu         sync.Mutex
	tools      map[string]*boundTool // replaced as a whole, never changed
	calls      map[string]*inflight  // by call id
	ended      map[string]struct{}   // the last calls that ended
	endedOrder []string
	lastBeat   time.Time
	health     wire.Health
	stray      int // chunks and results that belong to no call
	violations int // messages refused
	abandoned  int // calls given up that have not ended
	turns      turns
	cause      error // why the session ends; first one wins
	closed     bool
}

func newSession(cfg *Config, spec *Spec, runID, secret string, conn net.Conn, in *frame.Reader) *session {
	return &session{
		id: wire.NewID(), runID: runID, cfg: cfg, spec: spec, secret: secret, conn: conn, in: in,
		// Each call has at most a call and a cancel waiting; the rest is for replies.
		out:        wire.NewOutbox(conn, cfg.MaxFrameBytes, 2*cfg.MaxInflight+64),
		registered: make(chan struct{}), done: make(chan struct{}), schemaPace: newSchemaPace(),
		calls: map[string]*inflight{}, ended: map[string]struct{}{},
		lastBeat: time.Now(), health: wire.OK, turns: turns{back: make(chan handBack, 1)},
	}
}

// serve runs the session to its end and fails the calls that are left.
func (s *session) serve() {
	defer close(s.done)

	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.out.Serve(); err != nil {
			s.close(err)
		}
		// A closed outbox has written its last word, a goodbye perhaps.
		s.conn.Close()
	})
	quit := make(chan struct{})
	wg.Go(func() { s.watchHeart(quit) })
	s.close(s.readLoop())
	s.conn.Close()
	close(quit)
	wg.Wait()
	s.failAll()
}

// close ends the session after the messages queued so far.
func (s *session) close(cause error) {
	s.mu.Lock()
	if s.cause == nil {
		s.cause = cause
	}
	s.closed = true
	s.mu.Unlock()
	s.out.Close()
}

// endCause is valid once done is closed.
func (s *session) endCause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

// readOut returns when all that a process sent before it ended has been read.
func (s *session) readOut() {
	// What escaped from the process may hold the other end: it is not waited for.
	if c, ok := s.conn.(interface{ CloseRead() error }); ok {
		_ = c.CloseRead()
	}
	<-s.done
}

// unlessRegistered returns err, or nil if the agent has registered.
func (s *session) unlessRegistered(err error) error {
	select {
	case <-s.registered:
		return nil
	default:
		return err
	}
}

// goodbye tells the agent and ends the session.
func (s *session) goodbye(reason string) {
	_ = s.out.TrySend(&wire.Message{Payload: &wire.Goodbye{Reason: reason}})
	s.close(errStopping)
}

// readError audits a frame that cannot be read; the connection is closed
// without reading its body (OS-2.2.8, OS-2.2.9).
func (s *session) readError(err error) error {
	var size *frame.SizeError
	switch {
	case errors.As(err, &size):
		s.audit(AuditEvent{Type: auditFrameTooLarge, Size: size.Size, Limit: int64(size.Limit)})
		return errViolation
	case errors.Is(err, frame.ErrEmpty), errors.Is(err, frame.ErrNotObject), errors.Is(err, frame.ErrNotUTF8):
		s.audit(AuditEvent{Type: AuditViolation, Code: wire.CodeInvalidMessage, Reason: err.Error()})
		return errViolation
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errDisconnected
	}

	return err
}

func (s *session) audit(e AuditEvent) {
	e.Time, e.AgentID, e.RunID = time.Now().UTC(), s.spec.ID, s.runID
	s.cfg.Audit(e)
}

// handleUndecoded handles a message that did not decode; false ends the session.
func (s *session) handleUndecoded(e *wire.DecodeError) bool {
	if e.Code == wire.CodeUnknownType {
		// "Unknown message type MUST result in a structured error response if
		// it expects a reply, or be ignored if unsolicited."
		if e.ExpectsReply() {
			return s.answer(e.ID, e.RequestID, e.Reply("core.router"))
		}
		return !s.cfg.CloseOnUnknown
	}

	s.violation(e.Code, e.Field)
	if e.CallID != "" && e.Type == wire.TypeToolResult {
		s.finish(e.CallID, outcome{err: failf(wire.CodeInvalidMessage, "the agent's result is malformed: %s", e.Field)})
	}
	if e.ID == "" {
		return !s.tooManyViolations()
	}
	return s.answer(e.ID, e.RequestID, e.Reply("core.router")) && !s.tooManyViolations()
}

// answer queues a core.error; an agent that talks without reading is cut off.
func (s *session) answer(id, requestID string, e *wire.Error) bool {
	return s.reply(&wire.Message{InReplyTo: id, RequestID: requestID, Error: e, Payload: &wire.CoreError{}})
}

func (s *session) reply(m *wire.Message) bool {
	return !errors.Is(s.out.TrySend(m), wire.ErrOutboxFull)
}

func (s *session) violation(code, reason string) {
	s.mu.Lock()
	s.violations++
	s.mu.Unlock()
	s.audit(AuditEvent{Type: AuditViolation, Code: code, Reason: reason})
}

func (s *session) tooManyViolations() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.violations > maxViolations
}

// dispatch handles one message in the order of arrival (OS-2.3.1). It reports
// whether that was a result.
func (s *session) dispatch(msg *wire.Message) bool {
	switch p := msg.Payload.(type) {
	case *wire.Register:
		s.respond(msg, s.register(p))
		select {
		case <-s.registered:
		default:
			close(s.registered)
		}
	case *wire.Unregister:
		s.respond(msg, s.unregister(p))
	case *wire.ToolStream:
		s.chunk(p)
	case *wire.ToolResult:
		s.result(msg, p)
		return true
	case *wire.Heartbeat:
		s.heartbeat(p)
	case *wire.AgentError:
		s.agentError(msg)
	case *wire.Hello:
		s.violation(wire.CodeInvalidMessage, "second hello")
		s.answer(msg.ID, msg.RequestID, &wire.Error{Code: wire.CodeInvalidMessage, Message: "the session is open"})
	}

	// Pongs and cancel acknowledgements need no action.
	return false
}

func (s *session) respond(to *wire.Message, p wire.Payload) {
	m := &wire.Message{InReplyTo: to.ID, Payload: p}
	m.Echo(to)
	if !s.reply(m) {
		s.close(errViolation)
		s.conn.Close()
	}
}

func (s *session) heartbeat(p *wire.Heartbeat) {
	if p.SessionID != s.id {
		s.violation(wire.CodeInvalidMessage, "heartbeat of another session")
		return
	}
	s.mu.Lock()
	s.lastBeat = time.Now()
	s.health = p.Status
	s.mu.Unlock()
}

// overdueBeats is the number of overdue heartbeats. A heartbeat is overdue half an
// interval after it was expected.
func (s *session) overdueBeats() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	interval := s.cfg.HeartbeatInterval
	return int(max(0, time.Since(s.lastBeat)-interval/2) / interval)
}

// healthy reports whether calls may be routed to the session.
func (s *session) healthy() bool {
	if s.overdueBeats() >= unhealthyAfter {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closed && s.health != wire.Unhealthy
}

// watchHeart audits missed heartbeats and ends a session without any.
func (s *session) watchHeart(quit <-chan struct{}) {
	tick := time.NewTicker(s.cfg.HeartbeatInterval)
	defer tick.Stop()

	missed := 0
	for {
		select {
		case <-quit:
			return
		case <-tick.C:
		}

		n := s.overdueBeats()
		if n > missed {
			s.audit(AuditEvent{Type: auditHeartbeatMissed})
			if n >= unhealthyAfter && missed < unhealthyAfter {
				s.audit(AuditEvent{Type: auditUnhealthy})
				s.cfg.Log.Warn("agent unhealthy: heartbeats stopped", "agent", s.spec.ID, "run", s.runID)
			}
		}

		missed = n
		if n >= deadAfter {
			s.close(errHeartbeat)
			s.conn.Close()
			return
		}
	}
}
