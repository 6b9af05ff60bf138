package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

// maxStrikes is how many forged or unrequested events end a connection. Only events
// that an honest relay never sends are counted, so that no third party can make us
// leave one.
const maxStrikes = 50

// maxOutbox bounds the bytes that wait to be written to one relay: twice maxPublishing
// events of the usual limit. The bound is needed because a slow relay's messages stay
// queued after their callers have timed out.
const maxOutbox = 2 * maxPublishing * 64 << 10

// errNotReading ends a connection whose outbox is full.
var errNotReading = fmt.Errorf("relay does not read: more than %d bytes wait for it", maxOutbox)

// feed handles the answers to a REQ. Its functions run on the goroutine that reads
// the connection and must not block.
type feed struct {
	filters nostr.Filters
	known   func(ev *nostr.Event) bool // no need to verify it again
	event   func(ev *nostr.Event)      // verified
	eose    func()
	closed  func(text string)
}

// session is one connection.
type session struct {
	link *link
	ws   *websocket.Conn
	done <-chan struct{}
	end  context.CancelCauseFunc

	lastRead     atomic.Int64 // unix seconds of the last sign of life
	messagesRead atomic.Int64 // messages read
	strikes      int          // of the reading goroutine

	wake   chan struct{} // capacity 1: outbox has something
	mu     sync.Mutex
	outbox [][]byte
	queued int // bytes in outbox
	feeds  map[string]*feed
	acks   map[string][]chan ack
	lastID int

	challenge, proved string // of NIP-42: the relay's last, and the one answered

	proofs  atomic.Int64                // signatures that the relay asked for
	proving sync.Mutex                  // held through an authentication
	spawn   func(func(context.Context)) // of serve, for the reading goroutine
}

func newSession(l *link, ws *websocket.Conn, done <-chan struct{}, end context.CancelCauseFunc) *session {
	s := &session{
		link:  l,
		ws:    ws,
		done:  done,
		end:   end,
		wake:  make(chan struct{}, 1),
		feeds: map[string]*feed{},
		acks:  map[string][]chan ack{},
	}
	s.touch()
	return s
}

func (s *session) touch() { s.lastRead.Store(time.Now().Unix()) }

// serve runs the connection to its end and returns why it ended.
func (s *session) serve(ctx context.Context) error {
	var others sync.WaitGroup
	others.Go(func() { s.end(s.write(ctx)) })
	others.Go(func() { s.end(s.keepAlive(ctx)) })
	s.spawn = func(task func(context.Context)) { others.Go(func() { task(ctx) }) }
	s.link.attach(s)
	s.end(s.read(ctx))
	_ = s.ws.CloseNow()
	others.Wait()
	s.link.detach(s)
	return context.Cause(ctx)
}

func (s *session) read(ctx context.Context) error {
	var buf bytes.Buffer
	for {
		_, r, err := s.ws.Reader(ctx)
		if err != nil {
			return err
		}
		buf.Reset()
		limit := int64(s.link.pool.cfg.MaxMessageBytes)
		n, err := buf.ReadFrom(io.LimitReader(r, limit+1))
		if err != nil {
			return err
		}
		s.touch()
		s.messagesRead.Add(1)
		if n > limit {
			// Skipped, not refused: a stranger's oversize event must not cost
			// us the relay.
			if _, err := io.Copy(io.Discard, r); err != nil {
				return err
			}
			s.link.rejected.Add(1)
			continue
		}

		if err := s.handle(buf.Bytes()); err != nil {
			return err
		}
	}
}

func (s *session) write(ctx context.Context) error {
	for {
		for _, doc := range s.take() {
			wctx, cancel := context.WithTimeout(ctx, s.link.pool.cfg.WriteTimeout)
			err := s.ws.Write(wctx, websocket.MessageText, doc)
			cancel()
			if err != nil {
				return err
			}
		}

		select {
		case <-s.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *session) take() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	docs := s.outbox
	s.outbox, s.queued = nil, 0
	return docs
}

// send queues a message, or ends the connection if there is no room; s.mu is held.
func (s *session) send(doc []byte) {
	if s.queued+len(doc) > maxOutbox {
		s.end(errNotReading)
		return
	}
	s.outbox, s.queued = append(s.outbox, doc), s.queued+len(doc)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// keepAlive pings, and returns when a pong is overdue. A relay that reads slowly sees
// the ping only after the messages before it, so any message from it counts as a sign
// of life.
func (s *session) keepAlive(ctx context.Context) error {
	cfg := s.link.pool.cfg
	tick := time.NewTicker(cfg.PingInterval)
	defer tick.Stop()

	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}

		before := s.messagesRead.Load()
		pctx, cancel := context.WithTimeout(ctx, cfg.WriteTimeout)
		err := s.ws.Ping(pctx)
		cancel()

		switch {
		case err == nil:
			s.touch()
		case s.messagesRead.Load() == before || !errors.Is(err, context.DeadlineExceeded):
			return fmt.Errorf("ping: %w", err)
		}
	}
}

// request sends a REQ and returns its id. Ids are never reused, so that a late
// message for an earlier REQ is not taken for an answer to this one.
func (s *session) request(f *feed) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastID++
	id := "lw" + strconv.Itoa(s.lastID)
	s.feeds[id] = f
	s.send(nip01.AppendReq(nil, id, f.filters))
	return id
}

// forget closes a REQ. It does nothing if the REQ has ended already.
func (s *session) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.feeds[id]; ok {
		delete(s.feeds, id)
		s.send(nip01.AppendLabelled(nil, nip01.LabelClose, id))
	}
}

func (s *session) feed(id string) *feed {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.feeds[id]
}

// handle dispatches one message. An error ends the connection.
func (s *session) handle(doc []byte) error {
	m, err := nip01.ParseRelay(doc, nip01.Limits{})
	if errors.Is(err, nip01.ErrUnsupported) {
		return nil // an extension that we do not use
	}
	if err != nil {
		s.link.rejected.Add(1)
		return nil
	}

	switch m.Label {
	case nip01.LabelEvent:
		return s.onEvent(m.SubID, &m.Event, len(doc))
	case nip01.LabelOK:
		s.onOK(m.EventID, ack{m.Accepted, m.Text})
	case nip01.LabelEOSE:
		s.link.silent.Store(false) // even a late answer shows that it is back
		if f := s.feed(m.SubID); f != nil {
			f.eose()
		}
	case nip01.LabelClosed:
		s.onClosed(m.SubID, m.Text)
	case nip01.LabelNotice:
		s.link.setNotice(m.Text)
	case nip01.LabelAuth: // answered once the relay refuses a request: see authenticate
		s.onChallenge(m.Text)
	}

	return nil
}

// onEvent checks an event: size, filter, known, then id and signature. The message
// was size bytes long. The event itself is measured in its shortest form, and only
// if the message is over the limit.
func (s *session) onEvent(id string, ev *nostr.Event, size int) error {
	f := s.feed(id)
	if f == nil {
		return nil // sent before the relay saw our CLOSE
	}
	if limit := s.link.pool.cfg.MaxEventBytes; size > limit && len(nip01.Marshal(ev)) > limit {
		s.link.rejected.Add(1)
		return nil
	}
	if !f.filters.Match(ev) {
		return s.strike("event outside the filter")
	}
	if f.known(ev) {
		return nil
	}
	if err := nip01.Verify(ev); err != nil {
		return s.strike(err.Error())
	}

	s.link.received.Add(1)
	f.event(ev)
	return nil
}

func (s *session) strike(what string) error {
	s.link.rejected.Add(1)
	s.strikes++
	if s.strikes < maxStrikes {
		return nil
	}
	s.link.log.Warn("relay misbehaves", "last", what)
	return fmt.Errorf("%w: %s", ErrMisbehaved, what)
}

func (s *session) onClosed(id, text string) {
	s.mu.Lock()
	f := s.feeds[id]
	delete(s.feeds, id)
	s.mu.Unlock()
	if f != nil {
		s.link.setNotice(text)
		f.closed(text)
	}
}
