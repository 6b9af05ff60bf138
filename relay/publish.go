package relay

import (
	"context"
	"errors"
	"fmt"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

// PublishResult is one relay's answer to an event.
type PublishResult struct {
	URL string
	// OK is true if the relay accepted the event or had it already. Message is
	// its text, free of control characters.
	OK      bool
	Message string
	// Err is set if there was no answer. The relay may have the event all the
	// same: to publish it again is harmless.
	Err error
}

// Accepted counts the relays that accepted the event.
func Accepted(results []PublishResult) int {
	n := 0
	for _, r := range results {
		if r.OK {
			n++
		}
	}
	return n
}

// Publish sends a signed event to every relay and returns the answers in the order
// of [Config].URLs, after Config.PublishTimeout at the latest. The event is sent
// again when a connection was lost, and after a pause when a relay said
// "rate-limited:"; a result with that text means the relay repeated it to the end.
func (p *Pool) Publish(ctx context.Context, ev nostr.Event) []PublishResult {
	return p.publish(ctx, &ev, len(p.links))
}

// PublishQuorum is [Pool.Publish], but returns as soon as n relays have accepted, so
// that a silent relay costs no time. The results of the others carry [ErrNotAwaited],
// or their refusal if it came first.
func (p *Pool) PublishQuorum(ctx context.Context, ev nostr.Event, n int) []PublishResult {
	return p.publish(ctx, &ev, n)
}

func (p *Pool) publish(ctx context.Context, ev *nostr.Event, quorum int) []PublishResult {
	results := make([]PublishResult, len(p.links))
	doc, err := p.publishable(ev)
	for i, l := range p.links {
		results[i] = PublishResult{URL: l.url, Err: err}
	}
	if err != nil {
		return results
	}
	ctx, cancel := context.WithTimeout(ctx, p.cfg.PublishTimeout)
	defer cancel()

	type answer struct {
		index  int
		result PublishResult
	}
	answers := make(chan answer)
	for i, l := range p.links {
		go func() { answers <- answer{i, l.publish(ctx, ev.ID, doc)} }()
	}

	// Answers are read to the last, even after the quorum, so that no goroutine leaks.
	accepted := 0
	for range p.links {
		a := <-answers
		if accepted >= quorum && errors.Is(a.result.Err, ErrTimeout) {
			a.result.Err = ErrNotAwaited
		}
		results[a.index] = a.result
		if a.result.OK {
			accepted++
		}
		if accepted >= quorum {
			cancel()
		}
	}

	return results
}

// publishable builds the message. It refuses a bad id or an event that is too large
// here, because these are our mistakes and not the relays'.
func (p *Pool) publishable(ev *nostr.Event) ([]byte, error) {
	if err := nip01.VerifyID(ev); err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	doc := nip01.EventMessage(ev)
	if len(doc)-len(`["EVENT",]`) > p.cfg.MaxEventBytes {
		return nil, fmt.Errorf("publish: %w", ErrTooLarge)
	}
	return doc, nil
}

func (l *link) publish(ctx context.Context, id string, doc []byte) PublishResult {
	r := PublishResult{URL: l.url}
	for {
		s, err := l.await(ctx)
		if err != nil {
			r.Err = err
			return r
		}
		a, err := s.publish(ctx, id, doc)
		if errors.Is(err, ErrDisconnected) {
			if !l.awaitEnd(ctx, s) {
				r.Err = err
				return r
			}
			continue // publishing is repeatable: the id is the same
		}

		if err == nil && !a.accepted && wantsAuth(a.text) && s.canProve() && s.authenticate(ctx) == nil {
			continue
		}
		if err == nil && !a.accepted && isRateLimited(a.text) && ctx.Err() == nil {
			continue // the gate decides when
		}

		r.OK, r.Message, r.Err = a.accepted, a.text, err
		if r.OK {
			l.published.Add(1)
		}
		return r
	}
}

// awaitEnd waits until the link has noticed the end of s.
func (l *link) awaitEnd(ctx context.Context, s *session) bool {
	for {
		l.mu.Lock()
		gone, changed := l.session != s, l.changed
		l.mu.Unlock()
		if gone {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// ack is a relay's answer to an event.
type ack struct {
	accepted bool
	text     string
}

func (s *session) onOK(id string, a ack) {
	s.mu.Lock()
	waiting := s.acks[id]
	delete(s.acks, id)
	s.mu.Unlock()
	if len(waiting) == 0 {
		s.link.gate.noteLate(a)
	}
	for _, c := range waiting {
		c <- a // capacity 1, and taken out of the map
	}
}

// publish waits for the gate, sends the event and waits for its OK. If the gate did
// not open in time, the answer is the refusal that closed it. ErrTimeout means that
// the answer is not needed any more; the relay did not refuse.
func (s *session) publish(ctx context.Context, id string, doc []byte) (ack, error) {
	g := s.link.gate
	p, err := g.enter(ctx, s.done)
	if text := g.refusal(); errors.Is(err, ErrTimeout) && text != "" && !errors.Is(ctx.Err(), context.Canceled) {
		return ack{text: text}, nil
	}
	if err != nil {
		return ack{}, err
	}
	a, err := s.exchange(ctx, id, doc)
	g.leave(p, a)
	return a, err
}

// exchange sends a message with an event and waits for its OK.
func (s *session) exchange(ctx context.Context, id string, doc []byte) (ack, error) {
	answer := make(chan ack, 1)
	s.mu.Lock()
	s.acks[id] = append(s.acks[id], answer)
	s.send(doc)
	s.mu.Unlock()

	select {
	case a := <-answer:
		return a, nil
	case <-s.done:
		return ack{}, ErrDisconnected
	case <-ctx.Done():
		s.giveUp(id, answer)
		return ack{}, ErrTimeout
	}
}

func (s *session) giveUp(id string, answer chan ack) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := s.acks[id][:0]
	for _, c := range s.acks[id] {
		if c != answer {
			rest = append(rest, c)
		}
	}
	if s.acks[id] = rest; len(rest) == 0 {
		delete(s.acks, id)
	}
}
