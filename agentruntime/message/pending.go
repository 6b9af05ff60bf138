package message

import (
	"sync"
	"time"
)

// maxPending bounds the questions of one agent that wait for their answer: as
// many as an agent process has calls in flight.
const maxPending = 256

// pending remembers, for what an agent has asked, what it was working on.
type pending struct {
	mu   sync.Mutex
	asks map[string]ask // by the id of the question; guarded by mu
}

type ask struct {
	of     string // agent id
	origin Message
	until  time.Time // when no answer is waited for any more
}

func newPending() *pending { return &pending{asks: map[string]ask{}} }

// add remembers a question, and forgets those whose time is over.
func (p *pending) add(question, origin Message, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, a := range p.asks {
		if now.After(a.until) {
			delete(p.asks, id)
		}
	}
	if len(p.asks) >= maxPending {
		return &Error{Kind: KindOverload, Reason: "too many questions wait for an answer"}
	}
	p.asks[question.ID] = ask{of: question.To.AgentID, origin: origin, until: question.Deadline()}
	return nil
}

// take gives back what a question was asked for, once, to the agent that was
// asked.
func (p *pending) take(id, from string) (origin Message, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a, ok := p.asks[id]
	if !ok || a.of != from {
		return Message{}, false
	}
	delete(p.asks, id)
	return a.origin, true
}
