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

// Accepted counts the relays that took the event.
func Accepted(results []PublishResult) int {
	n := 0
	for _, r := range results {
		if r.OK {
			n++
		}
	}
	return n
}

// Publish sends a signed event to every relay and returns the answers in the
// order of Config.URLs, at the latest after Config.PublishTimeout. If a
// connection is lost meanwhile the event is sent again on the next one, and to a
// relay that says "rate-limited:" after a pause, so that this answer means that
// it said so until the end.
func (p *Pool) Publish(ctx context.Context, ev nostr.Event) []PublishResult {
	return p.publish(ctx, &ev, len(p.links))
}

// PublishQuorum is Publish that returns as soon as n relays accepted: a relay
// that does not answer then costs no time. The others' results carry
// ErrNotAwaited, or their refusal if it came first.
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
	// Every answer is received, also after the quorum: no goroutine stays.
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

// publishable makes the message, and refuses an event that no relay should
// take: that is a mistake of ours.
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
			if !l.left(ctx, s) {
				r.Err = err
				return r
			}
			continue // publishing is repeatable: the id is the same
		}
		if err == nil && !a.accepted && wantsAuth(a.text) && s.canProve() && s.authenticate(ctx) == nil {
			continue
		}
		if err == nil && !a.accepted && tooFast(a.text) && ctx.Err() == nil {
			continue // the gate says when
		}
		r.OK, r.Message, r.Err = a.accepted, a.text, err
		if r.OK {
			l.published.Add(1)
		}
		return r
	}
}

// left waits until the link has noticed the end of s.
func (l *link) left(ctx context.Context, s *session) bool {
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
