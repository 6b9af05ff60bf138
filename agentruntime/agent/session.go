package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/frame"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// Session is one authenticated connection to the node.
type Session struct {
	cfg     Config
	conn    net.Conn
	in      *frame.Reader
	out     *wire.Outbox
	outDone chan struct{}
	tools   map[wire.ToolID]*boundTool
	id      string
	beat    time.Duration
	started time.Time
	replays replayCache
	turn    chan struct{} // to read, for a worker that waits; closed at the end
	ended   chan error    // why the reading ended, once

	mu       sync.Mutex
	idle     int              // workers that wait for the turn
	over     bool             // the reading has ended
	kept     *Call            // runs on the worker that has the turn
	seen     *Call            // was kept when checkTurn looked last
	checking bool             // checkTurn is to come
	calls    map[string]*Call // running, by call id
	sending  atomic.Int64     // results that wait to be written
	stopping bool             // no further handler starts: wg is being waited for
	wg       sync.WaitGroup   // handlers
}

// Connect dials the node, says hello and registers the tools.
func Connect(ctx context.Context, cfg Config) (*Session, error) {
	cfg.fillFromEnv()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	tools, reg, err := cfg.bind()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()

	conn, err := new(net.Dialer).DialContext(ctx, "unix", cfg.SocketPath)
	if err != nil {
		return nil, fmt.Errorf("connect to the node: %w", err)
	}
	s := newSession(cfg, conn, tools)

	// A canceled ctx interrupts the reads and writes of the handshake.
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	err = s.handshake(ctx, reg)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	s.cfg.Token = "" // used up
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func newSession(cfg Config, conn net.Conn, tools map[wire.ToolID]*boundTool) *Session {
	s := &Session{
		cfg: cfg, conn: conn, tools: tools,
		in:      frame.NewReader(conn, cfg.MaxFrameBytes),
		out:     wire.NewOutbox(conn, cfg.MaxFrameBytes, 2*cfg.MaxInflight),
		outDone: make(chan struct{}),
		started: time.Now(),
		calls:   map[string]*Call{},
		turn:    make(chan struct{}, 1), ended: make(chan error, 1),
	}
	go func() {
		defer close(s.outDone)
		if err := s.out.Serve(); err != nil {
			// The reader sees the closed connection and ends the session.
			conn.Close()
		}
	}()
	return s
}

// close ends the connection after what is queued has been written.
func (s *Session) close() {
	s.out.Close()
	<-s.outDone
	s.conn.Close()
}

// ID is the session id that the node gave.
func (s *Session) ID() string { return s.id }

// read returns the next message; refusals to decode are returned, too.
func (s *Session) read() (*wire.Message, error) {
	payload, err := s.in.Next()
	if err != nil {
		return nil, err
	}
	return wire.Decode(payload, wire.Core)
}

// Serve runs calls until ctx ends (nil), the node says goodbye (*Goodbye), or
// the connection is lost (ErrDisconnected) or unusable. Every running call is
// canceled before it returns; it waits a second for their handlers.
func (s *Session) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	beats := make(chan struct{})
	go func() {
		defer close(beats)
		s.heartbeats(ctx)
	}()
	ended := make(chan struct{}) // the reader saw the end
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-ctx.Done():
			// Handlers get their cancellation from ctx; the connection stays
			// open so that their results still go out.
			s.waitHandlers()
			s.close()
		case <-ended:
		}
	}()
	go s.worker(ctx)
	err := <-s.ended
	finished := ctx.Err() != nil
	close(ended)
	cancel()
	<-stopped
	<-beats
	s.waitHandlers()
	s.close()
	if finished {
		return nil
	}

	return err
}

// waitHandlers waits for the running handlers, at most stopGrace: one that
// ignores its context must not keep the process.
func (s *Session) waitHandlers() {
	s.mu.Lock()
	s.stopping = true
	s.mu.Unlock()
	idle := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(idle)
	}()

	select {
	case <-idle:
	case <-time.After(stopGrace):
		s.cfg.Log.Warn("handlers still running at the end of the session")
	}
}

// nextCall reads until there is a call to run; an error is the end.
func (s *Session) nextCall(ctx context.Context) (*Call, error) {
	for {
		msg, err := s.read()
		if err == nil {
			if g, ok := msg.Payload.(*wire.Goodbye); ok {
				return nil, &Goodbye{Reason: wire.SafeText(g.Reason), RetryAfter: time.Duration(g.RetryAfterMS) * time.Millisecond}
			}
			if c := s.dispatch(ctx, msg); c != nil {
				return c, nil
			}
			continue
		}

		var refused *wire.DecodeError
		switch {
		case errors.As(err, &refused):
			s.answerRefused(refused)
		case errors.Is(err, frame.ErrTooLarge), errors.Is(err, frame.ErrEmpty),
			errors.Is(err, frame.ErrNotObject), errors.Is(err, frame.ErrNotUTF8):
			return nil, fmt.Errorf("read from the node: %w", err)
		default:
			return nil, ErrDisconnected
		}
	}
}

func (s *Session) answerRefused(refused *wire.DecodeError) {
	s.cfg.Log.Warn("message refused", "code", refused.Code, "field", refused.Field)
	if !refused.ExpectsReply() {
		return
	}
	s.reply(&wire.Message{
		InReplyTo: refused.ID, RequestID: refused.RequestID,
		Error: refused.Reply("agent.runtime"), Payload: &wire.AgentError{},
	})
}

// dispatch never blocks: the reader must go on reading whatever the node does.
// It returns a call that is to be run.
func (s *Session) dispatch(ctx context.Context, msg *wire.Message) *Call {
	switch p := msg.Payload.(type) {
	case *wire.ToolCall:
		return s.admit(ctx, msg, p)
	case *wire.ToolCancel:
		s.cancelCall(msg, p)
	case *wire.Ping:
		pong := &wire.Message{InReplyTo: msg.ID, Payload: &wire.Pong{}}
		pong.Echo(msg)
		s.reply(pong)
	case *wire.CoreError:
		if msg.Error != nil {
			s.cfg.Log.Warn("the node refused a message", "code", msg.Error.Code)
		}
	}

	return nil
}

// reply queues an answer of the reader. A node that lets the queue fill up
// while it goes on asking is cut off.
func (s *Session) reply(m *wire.Message) {
	if err := s.out.TrySend(m); errors.Is(err, wire.ErrOutboxFull) {
		s.cfg.Log.Error("the node does not read; closing")
		s.conn.Close()
	}
}

func (s *Session) heartbeats(ctx context.Context) {
	tick := time.NewTicker(s.beat)
	defer tick.Stop()

	for {
		s.mu.Lock()
		n := len(s.calls)
		s.mu.Unlock()

		// A full queue means that a beat would come too late anyway.
		_ = s.out.TrySend(&wire.Message{Payload: &wire.Heartbeat{
			SessionID: s.id, UptimeMS: time.Since(s.started).Milliseconds(),
			InflightCalls: n, Status: wire.OK,
		}})

		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
