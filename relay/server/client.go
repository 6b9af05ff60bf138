package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/time/rate"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

// Why a client is dropped.
var (
	errSlowReader = errors.New("client reads too slowly")
	errFlood      = errors.New("client sends garbage faster than the rate limit")
	errNotText    = errors.New("client sent a binary message")
)

// client is one websocket. Its reader goroutine owns subs and limiter.
type client struct {
	srv      *Server
	ws       *websocket.Conn
	wire     *wire // under ws
	log      *slog.Logger
	out      *queue
	limiter  *rate.Limiter
	heard    atomic.Int64  // messages read
	inFlight chan struct{} // the cost of the events that wait for their OK
	subs     map[string]*subscription
	values   int // of the open subscriptions' filters; guarded by index.mu
	patron   *patron
	identity identity
	drop     context.CancelCauseFunc
}

func newClient(s *Server, ws *websocket.Conn, under *wire, remote string, local net.Addr) *client {
	l := s.cfg.Limits
	ws.SetReadLimit(int64(l.MaxMessageBytes) * maxSkip)
	return &client{
		srv:      s,
		ws:       ws,
		wire:     under,
		log:      s.cfg.Log.With("client", remote),
		out:      newQueue(l.MaxQueueBytes),
		limiter:  rate.NewLimiter(rate.Limit(l.MessagesPerSecond), l.MessageBurst),
		inFlight: make(chan struct{}, l.MaxInFlight),
		subs:     map[string]*subscription{},
		patron:   s.turns.join(remote),
		identity: identity{hosts: hostNames(s.cfg.PublicURL, local)},
	}
}

// serve runs the client until it leaves, is dropped, or ctx ends.
func (c *client) serve(ctx context.Context) {
	defer c.srv.turns.leave(c.patron)
	ctx, c.drop = context.WithCancelCause(ctx)
	var others sync.WaitGroup
	others.Go(func() { c.drop(c.write(ctx)) })
	others.Go(func() { c.drop(c.keepAlive(ctx)) })
	c.drop(c.read(ctx))
	_ = c.ws.CloseNow()
	others.Wait()
	for _, sub := range c.subs {
		c.srv.index.remove(sub)
	}
	for err, reason := range map[error]string{errSlowReader: "slow-reader", errFlood: "flood", errNotText: "binary", errCrowded: "crowded"} {
		if errors.Is(context.Cause(ctx), err) {
			c.srv.metrics.dropped.WithLabelValues(reason).Inc()
			c.log.Warn("client dropped", "error", err)
		}
	}
}

const (
	// maxSkip times the largest message is read past to keep a connection; a
	// longer one ends it.
	maxSkip = 8
	// keptBuffer is what a connection keeps between messages.
	keptBuffer = 16 << 10
)

func (c *client) read(ctx context.Context) error {
	limit := c.srv.cfg.Limits.MaxMessageBytes
	var buf bytes.Buffer
	for {
		if err := c.turn(ctx); err != nil {
			return err
		}
		kind, r, err := c.ws.Reader(ctx)
		if err != nil {
			return err
		}
		c.heard.Add(1)
		if kind != websocket.MessageText {
			return errNotText
		}
		if buf.Reset(); buf.Cap() > keptBuffer {
			buf = bytes.Buffer{}
		}
		if _, err := buf.ReadFrom(io.LimitReader(r, int64(limit))); err != nil {
			return err
		}
		rest, err := io.Copy(io.Discard, r)
		if err != nil {
			return err
		}
		if rest > 0 {
			err = c.refuseLong(buf.Bytes(), limit+int(rest))
		} else {
			err = c.handle(ctx, buf.Bytes())
		}
		if err != nil {
			return err
		}
	}
}

// refuseLong answers a message of size bytes by its beginning, which mostly
// tells what it was about.
func (c *client) refuseLong(beginning []byte, size int) error {
	if !c.charge(1 + size/bytesPerUnit) {
		return errFlood
	}
	l := c.srv.cfg.Limits
	m, _ := nip01.ParseClient(beginning, l.parser()) // it cannot be whole
	c.refuse(&m, fmt.Sprintf("invalid: message is larger than %d bytes", l.MaxMessageBytes))
	return nil
}

// write sends what waits for the client. A write has no context, which would
// cost more than the write: dropping the client closes the connection under it.
func (c *client) write(ctx context.Context) error {
	limit := c.srv.cfg.Limits.WriteTimeout
	overdue := time.AfterFunc(limit, func() { c.drop(errSlowReader) })
	defer overdue.Stop()
	var buf []byte
	for {
		overdue.Stop()
		f, err := c.out.next(ctx)
		if err != nil {
			return err
		}
		overdue.Reset(limit)
		if f.begun {
			err = c.wire.flush()
		} else {
			buf = f.appendTo(buf[:0])
			err = c.ws.Write(context.Background(), websocket.MessageText, buf)
		}
		if err != nil {
			return err
		}
		c.out.done(f)
		if cap(buf) > keptBuffer {
			buf = nil
		}
	}
}

// keepAlive pings, and returns when a pong is overdue. The pong of a client that
// is slowed down is behind what waits to be read from it: as long as that is
// read, it is alive.
func (c *client) keepAlive(ctx context.Context) error {
	l := c.srv.cfg.Limits
	tick := time.NewTicker(l.PingInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		before := c.heard.Load()
		pctx, cancel := context.WithTimeout(ctx, l.WriteTimeout)
		err := c.ws.Ping(pctx)
		cancel()
		if err != nil && (c.heard.Load() == before || !errors.Is(err, context.DeadlineExceeded)) {
			return err
		}
	}
}

// handle answers one message. An error drops the client.
func (c *client) handle(ctx context.Context, doc []byte) error {
	m, err := nip01.ParseClient(doc, c.srv.cfg.Limits.parser())
	allowed := c.charge(messageCost(&m, len(doc)))
	if err != nil {
		if !allowed {
			return errFlood
		}
		if m.SubID != "" && errors.Is(err, nip01.ErrUnsupported) {
			c.refuse(&m, "unsupported: filter contains unknown elements")
			return nil
		}
		c.refuse(&m, "invalid: "+err.Error())
		return nil
	}
	switch {
	case m.Label == nip01.LabelClose:
		c.unsubscribe(m.SubID)
	case !allowed:
		c.refuse(&m, "rate-limited: slow down")
		return pause(ctx, overRate)
	case m.Label == nip01.LabelEvent:
		return c.publish(ctx, &m.Event)
	case m.Label == nip01.LabelAuth:
		c.authenticate(&m.Event)
	case m.Label == nip01.LabelCount:
		return c.count(ctx, m.SubID, m.Filters)
	default:
		return c.subscribe(ctx, m.SubID, m.Filters)
	}
	return nil
}

// publish makes the checks that need no work and hands the event on.
func (c *client) publish(ctx context.Context, ev *nostr.Event) error {
	j := &job{client: c, event: ev, raw: nip01.Marshal(ev)}
	j.cost = min(eventCost(ev, len(j.raw)), cap(c.inFlight))
	reason := c.srv.admit(ev, len(j.raw), time.Now())
	if reason == "" && protected(ev) {
		reason = c.admitProtected(ev)
	}
	if reason != "" {
		c.ok(ev.ID, false, reason)
		return nil
	}
	// Not reading on is the brake on a client that is faster than the disk.
	for range j.cost {
		select {
		case c.inFlight <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	select {
	case c.srv.jobs <- j:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
