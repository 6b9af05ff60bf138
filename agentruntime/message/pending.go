package message

import (
	"sync"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
)

// maxPending bounds the questions of one agent that wait for their answer: as
// many as an agent process has calls in flight.
const maxPending = 256

// pending remembers, for what an agent has asked, what it was working on.
type pending struct {
	mu   sync.Mutex
	asks map[string]ask // by the id of the question, by the thread for a tool; guarded by mu
	next int            // numbers them; guarded by mu
}

type ask struct {
	of     string // agent id, or a tool's name
	thread pipeline.ThreadID
	origin Message
	until  time.Time // when no answer is waited for any more
	number int
}

func newPending() *pending { return &pending{asks: map[string]ask{}} }

// add remembers a question, and forgets those whose time is over.
func (p *pending) add(id string, a ask, now time.Time) error {
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
	p.next++
	a.number = p.next
	p.asks[id] = a
	return nil
}

// take gives back what a question was asked for, once, to the agent that was
// asked.
func (p *pending) take(id, from string) (a ask, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a, ok = p.asks[id]
	if !ok || a.of != from {
		return ask{}, false
	}
	delete(p.asks, id)
	return a, true
}

// takeOn gives back the last question that was asked on a thread: what the
// pipeline says there, it says of that.
func (p *pending) takeOn(thread pipeline.ThreadID) (last ask, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	which := ""
	for id, a := range p.asks {
		if a.thread == thread && a.number > last.number {
			which, last = id, a
		}
	}
	delete(p.asks, which)
	return last, last.number > 0
}
