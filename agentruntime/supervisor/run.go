package supervisor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/guard"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// maxHandshakes is how many connections of one run may be unauthenticated.
const maxHandshakes = 4

// run is one launched process of an agent, from its socket to its end.
type run struct {
	id      string
	cfg     *Config
	spec    *Spec
	socket  string
	ln      *net.UnixListener
	token   *token
	proc    *process
	session *session // set once registered

	admitted   chan *session  // the one that authenticated
	denials    lineLimit      // connections that were refused
	handshakes sync.WaitGroup // accept loop, handshakes, and the session

	mu      sync.Mutex
	current *session // authenticated, perhaps not yet registered
	ended   bool     // no session may begin
}

// startRun launches the agent and returns when it has registered its tools. On
// an error nothing of it is left.
func startRun(ctx context.Context, cfg *Config, spec *Spec) (r *run, err error) {
	if spec.Allow != nil {
		if err := spec.Allow(); err != nil {
			return nil, &notAllowed{err}
		}
	}

	path, err := exec.LookPath(spec.Command[0])
	if err != nil {
		return nil, fmt.Errorf("find agent %s: %w", spec.ID, err)
	}
	r = &run{cfg: cfg, spec: spec, admitted: make(chan *session, 1)}
	if r.id, r.ln, err = listen(cfg.SocketDir, spec.UID, spec.GID); err != nil {
		return nil, err
	}
	r.socket = filepath.Join(cfg.SocketDir, r.id, socketName)
	r.token = newToken(cfg.TokenTTL)
	logs := &logCapture{agentID: spec.ID, runID: r.id, secret: r.token.secret, emit: cfg.OnLog}
	order := guard.Order{
		Path: path, Argv: spec.Command, Env: spec.environ(r, cfg.HeartbeatInterval),
		Dir: spec.Dir, UID: spec.UID, GID: spec.GID, OpenFiles: spec.Limits.OpenFiles,
		Confine: spec.Confine,
	}
	if r.proc, err = launch(order, cfg.CgroupRoot, spec.Limits.Group, logs, cfg.HandshakeTimeout); err != nil {
		r.removeSocket()
		return nil, err
	}
	r.audit(AuditEvent{Type: auditRunStarted, Reason: r.proc.confined})
	if strings.HasPrefix(r.proc.confined, "not confined") {
		cfg.Log.Warn("agent runs unconfined", "agent", spec.ID, "why", r.proc.confined)
	}
	if why := r.proc.unlimited; why != "" {
		cfg.Log.Warn("a watchdog bounds the agent's memory and processes, and nothing its processor time: there are no cgroups", "agent", spec.ID, "why", why)
	}
	r.handshakes.Go(r.accept)
	if err = r.awaitRegistered(ctx); err != nil {
		r.audit(AuditEvent{Type: auditHandshakeFailed, Reason: reasonOf(err)})
		r.end("handshake failed", 0, nil)
		words := logs.lastWords()
		if words != "" {
			err = fmt.Errorf("%w; it said: %s", err, wire.SafeText(words))
		}
		if spec.Confine != nil && strings.Contains(strings.ToLower(words), "permission denied") {
			err = fmt.Errorf("%w; it may read only the system's files, its folder and what its configuration names under read", err)
		}
		return nil, fmt.Errorf("start agent %s: %w", spec.ID, err)
	}

	r.audit(AuditEvent{Type: auditConnected})
	return r, nil
}

var (
	errHandshakeTimeout = errors.New("not registered in time")
	errExited           = errors.New("the process ended before it had registered")
)

// notAllowed is an answer of Spec.Allow.
type notAllowed struct{ err error }

func (e *notAllowed) Error() string { return "not allowed to start: " + e.err.Error() }
func (e *notAllowed) Unwrap() error { return e.err }

// reasonOf keeps text that an agent may have influenced out of the audit trail.
func reasonOf(err error) string {
	for _, known := range []error{errHandshakeTimeout, errExited, errViolation, errDisconnected, errHeartbeat, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	if e := (*notAllowed)(nil); errors.As(err, &e) {
		return e.Error()
	}
	return "other"
}

func (r *run) awaitRegistered(ctx context.Context) error {
	timer := time.NewTimer(r.cfg.HandshakeTimeout)
	defer timer.Stop()

	var done, registered chan struct{} // nil until there is a session
	for {
		select {
		case r.session = <-r.admitted:
			done, registered = r.session.done, r.session.registered
		case <-registered:
			return nil
		case <-done:
			return r.session.unlessRegistered(r.session.endCause())
		case <-r.proc.exited:
			return r.endedEarly(fmt.Errorf("%w (%s)", errExited, r.proc.status))
		case <-timer.C:
			return errHandshakeTimeout
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// endedEarly returns err unless the process had registered before it ended: that
// may be known here later than its end is.
func (r *run) endedEarly(err error) error {
	if r.session == nil {
		select {
		case r.session = <-r.admitted:
		default:
			return err
		}
	}
	r.session.readOut()
	return r.session.unlessRegistered(err)
}

// accept serves connections until the listener is closed. It goes on after the
// agent's session has begun: a second connection is refused and audited.
func (r *run) accept() {
	slots := make(chan struct{}, maxHandshakes)
	for {
		conn, err := r.ln.AcceptUnix()
		if err != nil {
			return
		}

		// Strangers are turned away here, so that they take no slot.
		if err := r.checkPeer(conn); err != nil {
			conn.Close()
			continue
		}

		select {
		case slots <- struct{}{}:
			r.handshakes.Go(func() {
				defer func() { <-slots }()
				r.welcome(conn)
			})
		default:
			conn.Close()
		}
	}
}

// checkPeer refuses a connection that is not the launched process's.
func (r *run) checkPeer(conn *net.UnixConn) error {
	pid, uid, err := peer(conn)
	if err == nil && pid == r.proc.pid && uid == r.uid() {
		return nil
	}
	if err == nil {
		err = errors.New("peer is not the launched process")
		// It cannot block for long: the socket's buffer is empty.
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		refuse(conn, &refusal{code: wire.CodeUnauthorized, err: err})
	}

	r.denials.write(AuditEvent{Type: auditDenied, PID: pid, Code: wire.CodeUnauthorized, Reason: err.Error()}, r.audit)
	return err
}

// welcome takes one connection through the handshake and serves its session.
func (r *run) welcome(conn *net.UnixConn) {
	defer conn.Close()

	s, err := greet(r.cfg, r.spec, r.token, r.id, conn)
	if err != nil {
		code := wire.CodeInvalidMessage
		var refused *refusal
		if errors.As(err, &refused) {
			code = refused.code
		}
		r.denials.write(AuditEvent{Type: auditDenied, Code: code, Reason: err.Error()}, r.audit)
		return
	}

	r.mu.Lock()
	ended := r.ended
	r.current = s
	r.mu.Unlock()
	if ended {
		return
	}

	// The token is good once, so this is the only send.
	r.admitted <- s
	s.serve()
}

// uid is whose process the agent must be.
func (r *run) uid() int {
	if r.spec.UID != 0 || r.spec.GID != 0 {
		return r.spec.UID
	}
	return os.Geteuid()
}

// end says goodbye, ends the process and everything below it, and removes the
// socket. It returns when nothing is left. Closing hurry cuts grace short.
func (r *run) end(reason string, grace time.Duration, hurry <-chan struct{}) {
	r.ln.Close()
	r.mu.Lock()
	r.ended = true
	s := r.current
	r.mu.Unlock()
	if s != nil {
		s.goodbye(reason)
	}
	r.proc.terminate(grace, hurry)
	if s != nil {
		// Something that escaped may hold the other end.
		s.conn.Close()
	}

	r.handshakes.Wait()
	r.removeSocket()
	r.audit(AuditEvent{Type: auditRunStopped, Reason: reason})
}

func (r *run) removeSocket() {
	r.ln.Close()
	if err := os.RemoveAll(filepath.Dir(r.socket)); err != nil {
		r.cfg.Log.Warn("remove run directory", "agent", r.spec.ID, "err", err)
	}
}

func (r *run) audit(e AuditEvent) {
	e.Time, e.AgentID, e.RunID = time.Now().UTC(), r.spec.ID, r.id
	if e.PID == 0 && r.proc != nil {
		e.PID = r.proc.pid
	}
	r.cfg.Audit(e)
}
