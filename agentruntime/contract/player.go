package contract

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/frame"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

const (
	tokenBytes = 32
	maxEvents  = 12 // messages that the evidence of a failure shows
)

// errClosed means that the agent has closed the connection.
var errClosed = errors.New("the agent has closed the connection")

// player plays one transcript: it is the node for one agent at a time. All of
// it belongs to the goroutine that runs the transcript.
type player struct {
	run   *run
	check string
	limit time.Duration // of a step
	vars  vars
	token string   // of the current process
	used  []string // all tokens

	dir  string // holds the socket
	ln   *net.UnixListener
	proc *process
	conn *net.UnixConn // nil until the agent has connected
	in   *frame.Reader
	gone bool // the agent has closed the connection

	managed bool         // registrations are answered as they come
	tools   []wire.Tool  // registered
	inbox   []*heard     // messages that no step has asked for yet
	nevers  []any        // patterns
	watch   *sessionView // of the current session
	events  []string     // the last messages of both sides, for the evidence
	output  string       // of an agent that has been ended
}

// heard is one message of the agent.
type heard struct {
	raw []byte
	doc any
}

func newPlayer(r *run, check string) *player {
	return &player{run: r, check: check, limit: r.opts.StepTimeout}
}

// all plays the steps against a fresh agent.
func (p *player) all(ctx context.Context, steps []step) error {
	if err := p.start(); err != nil {
		return err
	}

	for _, s := range steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := p.interruptible(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

// interruptible does a step; the end of ctx closes what it may wait for.
func (p *player) interruptible(ctx context.Context, s step) error {
	proc, ln := p.proc, p.ln
	stop := context.AfterFunc(ctx, func() {
		ln.Close()
		proc.signal(syscall.SIGKILL)
	})
	defer stop()
	return verbs[s.verb](p, s.arg)
}

// start launches an agent that will find a socket of its own.
func (p *player) start() error {
	secret := make([]byte, tokenBytes)
	_, _ = rand.Read(secret) // never fails
	p.token = base64.RawURLEncoding.EncodeToString(secret)
	p.used = append(p.used, p.token)
	p.vars = initialVars(&p.run.agent, p.token)
	var err error
	if p.dir, err = os.MkdirTemp("", "lw"); err != nil { // short: a socket's path is
		return fmt.Errorf("make socket directory: %w", err)
	}
	socket := filepath.Join(p.dir, "s")
	if p.ln, err = net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"}); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	p.watch = p.run.watch.session(p)
	p.conn, p.gone, p.managed, p.inbox, p.nevers = nil, false, false, nil, nil
	if p.proc, err = launch(&p.run.agent, socket, p.token); err != nil {
		return err
	}
	return nil
}

// end kills the agent and lets go of all that belongs to it. It may be called
// twice.
func (p *player) end() {
	if p.proc != nil {
		status := p.proc.exitStatus()
		grace := time.Duration(0)
		if p.gone {
			grace = exitGrace
		}
		p.proc.kill(grace)
		text, leaked := p.proc.output.read()
		p.watch.recordExit(p.proc, leaked)
		if status == "" {
			status = "running"
		}
		p.output = "agent: " + status + "\n" + text
		p.proc = nil
	}

	if p.conn != nil {
		p.conn.Close()
		p.conn = nil
	}

	if p.ln != nil {
		p.ln.Close()
		p.ln = nil
	}

	if p.dir != "" {
		os.RemoveAll(p.dir)
		p.dir = ""
	}
}

// connected accepts the agent's connection if it has not been yet.
func (p *player) connected() error {
	if p.conn != nil {
		return nil
	}

	// A process that ends will never connect.
	waited := make(chan struct{})
	defer close(waited)

	proc, ln := p.proc, p.ln
	go func() {
		select {
		case <-proc.exited:
			_ = ln.SetDeadline(time.Now())
		case <-waited:
		}
	}()
	if err := p.ln.SetDeadline(time.Now().Add(p.limit)); err != nil {
		return err
	}
	conn, err := p.ln.AcceptUnix()
	if err != nil {
		return fmt.Errorf("the agent does not connect: %w", err)
	}
	p.conn = conn
	p.in = frame.NewReader(conn, 0)
	p.watch.connected(p.proc, conn)
	return nil
}

// next reads the agent's next message. Its errors are errClosed,
// os.ErrDeadlineExceeded and those of a frame.
func (p *player) next(deadline time.Time) (*heard, error) {
	if err := p.connected(); err != nil {
		return nil, err
	}
	if p.gone {
		return nil, errClosed
	}
	if err := p.conn.SetReadDeadline(deadline); err != nil {
		return nil, err
	}

	payload, err := p.in.Next()
	switch {
	case err == nil:
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, os.ErrDeadlineExceeded
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		p.gone = true
		return nil, errClosed
	default:
		p.watch.violate("frames", "%v", err)
		p.gone = true
		return nil, err
	}

	h := &heard{raw: append([]byte(nil), payload...)}
	p.note("agent", h.raw)
	if h.doc, err = decode(h.raw); err != nil {
		p.watch.violate("envelope", "not JSON: %s", clip(string(h.raw)))
		return h, nil
	}
	p.watch.heard(h)

	for _, pattern := range p.nevers {
		if match(pattern, h.doc, "", vars{}) == "" {
			return nil, fmt.Errorf("the agent must not say %s", clip(string(h.raw)))
		}
	}

	return h, p.manage(h)
}

// manage answers what an agent may say about its tools at any time.
func (p *player) manage(h *heard) error {
	if !p.managed {
		return nil
	}

	switch text(h.doc, "type") {
	case string(wire.TypeRegister):
		return p.register(h)
	case string(wire.TypeUnregister):
		p.vars["$UNREGISTER"] = escape(text(h.doc, "id"))
		p.vars["$GONE"] = compact(member(h.doc, "payload", "tool_ids"))
		return p.say(`{"type":"core.tools.unregistered","in_reply_to":"$UNREGISTER","payload":{"tool_ids":$GONE}}`)
	}
	return nil
}

// write sends bytes. That the agent has closed is for a later step to judge.
func (p *player) write(data []byte) error {
	if err := p.connected(); err != nil {
		return err
	}
	if err := p.conn.SetWriteDeadline(time.Now().Add(p.limit)); err != nil {
		return err
	}

	_, err := p.conn.Write(data)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the agent does not read: %w", err)
	}

	return nil
}

// note keeps the last messages for the evidence.
func (p *player) note(who string, payload []byte) {
	p.events = append(p.events, who+": "+clip(string(payload)))
	if len(p.events) > maxEvents {
		p.events = p.events[1:]
	}
}

// evidence is what was said last and how the agent fares.
func (p *player) evidence() string {
	return strings.Join(append(p.events, p.output), "\n")
}

// shortest is how much of a token, cut off by clip, is still taken for it.
const shortest = 4

// redact removes the session tokens, also one whose end was clipped.
func (p *player) redact(text string) string {
	for _, token := range p.used {
		text = strings.ReplaceAll(text, token, "<token>")
		for n := len(token) - 1; n >= shortest; n-- {
			text = strings.ReplaceAll(text, token[:n]+clipped, "<token>"+clipped)
		}
	}
	return text
}
