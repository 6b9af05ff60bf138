package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

// Reasons for dropping a client.
var (
	errSlowReader = errors.New("client reads too slowly")
	errFlood      = errors.New("client sends garbage faster than the rate limit")
	errNotText    = errors.New("client sent a binary message")
	errOverload   = errors.New("events for the client's subscriptions come faster than its share of the relay tries them")
)

// client is one websocket. Its reader goroutine owns subs and limiter.
type client struct {
	srv          *Server
	ws           *websocket.Conn
	wire         *wire // the connection under ws
	log          *slog.Logger
	out          *queue
	limiter      *rate.Limiter
	messagesRead atomic.Int64        // messages read
	inFlight     *semaphore.Weighted // the cost of the events without an OK
	subs         map[string]*subscription
	values       int // of the filters of open subscriptions; guarded by index.mu
	live         liveFilters
	host         *host
	queryClient  *queryClient
	identity     identity
	drop         context.CancelCauseFunc

	toVerify  lane[*job]
	toStore   lane[*job]
	toSpread  lane[delivery]
	announced uint64 // the last event that may concern the client; owned by the spreading goroutine
}

// newClient returns the client of an address. It must be ended with leave.
func newClient(s *Server, ws *websocket.Conn, under *wire, address string, local net.Addr) *client {
	l := s.cfg.Limits
	ws.SetReadLimit(int64(l.MaxMessageBytes) * maxSkip)
	at := s.hosts.join(address)
	c := &client{
		srv:         s,
		ws:          ws,
		wire:        under,
		log:         s.cfg.Log.With("client", address),
		out:         newQueue(l.MaxQueueBytes, at),
		host:        at,
		limiter:     rate.NewLimiter(rate.Limit(l.MessagesPerSecond), l.MessageBurst),
		inFlight:    semaphore.NewWeighted(int64(l.MaxInFlight)),
		subs:        map[string]*subscription{},
		queryClient: s.queries.join(address),
		identity:    identity{hosts: hostNames(s.cfg.PublicURL, local)},
	}
	s.unverified.join(&c.toVerify, &at.toVerify)
	s.verified.join(&c.toStore, &at.toStore)
	s.deliveries.join(&c.toSpread, &at.toSpread)
	return c
}

func (c *client) leave() {
	c.out.close()
	c.srv.queries.leave(c.queryClient)
	c.srv.hosts.leave(c.host)
}

// serve runs the client until it leaves, is dropped, or ctx ends.
func (c *client) serve(ctx context.Context) {
	defer c.leave()

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

	for err, reason := range map[error]string{errSlowReader: "slow-reader", errFlood: "flood", errNotText: "binary", errCrowded: "crowded", errOverload: "overload"} {
		if errors.Is(context.Cause(ctx), err) {
			c.srv.metrics.dropped.WithLabelValues(reason).Inc()
			c.log.Warn("client dropped", "error", err)
		}
	}
}

const (
	// Messages of up to maxSkip times the maximum are skipped to keep the
	// connection; a longer one ends it.
	maxSkip = 8
	// keptBuffer is the size of the buffer that a connection keeps between
	// messages.
	keptBuffer = 16 << 10
)

func (c *client) read(ctx context.Context) error {
	limit := c.srv.cfg.Limits.MaxMessageBytes
	var buf bytes.Buffer
	for {
		if err := c.throttle(ctx); err != nil {
			return err
		}
		kind, r, err := c.ws.Reader(ctx)
		if err != nil {
			return err
		}
		c.messagesRead.Add(1)
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

// refuseLong answers a message of size bytes from its beginning, which usually
// shows its type.
func (c *client) refuseLong(beginning []byte, size int) error {
	if !c.charge(1 + size/bytesPerUnit) {
		return errFlood
	}
	l := c.srv.cfg.Limits
	m, _ := nip01.ParseClient(beginning, l.parser()) // it is incomplete, so the error is irrelevant
	c.refuse(&m, fmt.Sprintf("invalid: message is larger than %d bytes", l.MaxMessageBytes))
	return nil
}

// write sends the queued messages. It uses no context, which would cost more than
// the write; dropping the client closes the connection.
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
		if f.partWritten {
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
		runtime.Gosched() // a client with one message waits for one message of each busy client
	}
}

// keepAlive sends pings, and returns when a pong is overdue. The pong of a
// throttled client is behind its unread messages; as long as these are read, the
// client counts as alive.
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

		before := c.messagesRead.Load()
		pctx, cancel := context.WithTimeout(ctx, l.WriteTimeout)
		err := c.ws.Ping(pctx)
		cancel()
		if err != nil && (c.messagesRead.Load() == before || !errors.Is(err, context.DeadlineExceeded)) {
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
		if m.SubID != "" && errors.Is(err, nip01.ErrUnsupported) && m.Label != nip01.LabelNegOpen && m.Label != nip01.LabelNegMessage {
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
		return pause(ctx, refusalPause)
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

// publish makes the cheap checks and passes the event on.
func (c *client) publish(ctx context.Context, ev *nostr.Event) error {
	j := &job{client: c, event: ev, raw: nip01.Marshal(ev)}
	j.cost = min(eventCost(ev, len(j.raw)), c.srv.cfg.Limits.MaxInFlight)
	reason := c.srv.admit(ev, len(j.raw), time.Now())
	if reason == "" && protected(ev) {
		reason = c.admitProtected(ev)
	}
	if reason != "" {
		c.sendOK(ev.ID, false, reason)
		return nil
	}

	// Not reading on slows down a client that is faster than the disk.
	if err := c.enterFlight(ctx, int64(j.cost)); err != nil {
		return err
	}

	c.srv.unverified.push(&c.toVerify, j)
	return nil
}

// enterFlight waits until the client, its address and all clients together may have
// events of this cost in flight. It must be ended with leaveFlight.
func (c *client) enterFlight(ctx context.Context, cost int64) error {
	bounds := []*semaphore.Weighted{c.inFlight, c.host.inFlight, c.srv.inFlight}
	for i, b := range bounds {
		if b == nil {
			continue
		}
		if err := b.Acquire(ctx, cost); err != nil {
			for _, acquired := range bounds[:i] {
				if acquired != nil {
					acquired.Release(cost)
				}
			}
			return err
		}
	}

	return nil
}

func (c *client) leaveFlight(cost int64) {
	for _, b := range []*semaphore.Weighted{c.inFlight, c.host.inFlight, c.srv.inFlight} {
		if b != nil {
			b.Release(cost)
		}
	}
}

// send queues a message and drops the client if its queue is full.
func (c *client) send(f frame) {
	if !c.out.push(f) {
		c.drop(errSlowReader)
	}
}

// sendNow is like send, but writes the message at once if none is queued and the
// kernel accepts it, which is cheaper than waking the client's writer. scratch is a
// buffer for the message.
func (c *client) sendNow(f frame, scratch *[]byte) {
	if !c.out.claim(f) {
		c.send(f)
		return
	}

	switch c.wire.try(f.framed(scratch)) {
	case written:
		c.out.done(f)
	case partlyWritten:
		f.partWritten = true
		c.out.putBack(f)
	default:
		c.out.putBack(f)
	}
}

func (c *client) sendOK(id string, accepted bool, text string) {
	if !accepted {
		c.srv.metrics.refuse(nip01.LabelOK, text)
	}
	c.send(frame{text: nip01.AppendOK(nil, id, accepted, text)})
}

func (c *client) sendClosed(subID, text string) {
	c.srv.metrics.refuse(nip01.LabelClosed, text)
	c.send(frame{text: nip01.AppendLabelled(nil, nip01.LabelClosed, subID, text)})
}

// sendNegError refuses a NIP-77 synchronisation in its own form.
func (c *client) sendNegError(subID, text string) {
	c.srv.metrics.refuse(nip01.LabelNegError, text)
	c.send(frame{text: nip01.AppendLabelled(nil, nip01.LabelNegError, subID, text)})
}

func (c *client) sendNotice(text string) {
	c.srv.metrics.refuse(nip01.LabelNotice, text)
	c.send(frame{text: nip01.AppendLabelled(nil, nip01.LabelNotice, text)})
}

// refuse answers in the form that matches the message, or with a NOTICE if that is
// unknown.
func (c *client) refuse(m *nip01.ClientMessage, reason string) {
	switch {
	case m.SubID != "" && (m.Label == nip01.LabelNegOpen || m.Label == nip01.LabelNegMessage):
		c.sendNegError(m.SubID, "blocked: this relay has no negentropy (NIP-77), ask with REQ")
	case m.Event.ID != "":
		c.sendOK(m.Event.ID, false, reason)
	case m.SubID != "" && m.Label != nip01.LabelClose:
		c.sendClosed(m.SubID, reason)
	default:
		c.sendNotice(reason)
	}
}
