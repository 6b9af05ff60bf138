package message

import (
	"sync"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
)

// maxPending bounds the unanswered questions of one agent; an agent process can
// have as many calls in flight.
const maxPending = 256

// pending maps each unanswered question of an agent to the message that it was
// working on.
type pending struct {
	mu   sync.Mutex
	asks map[string]ask // by the id of the question or, for a tool, the thread; guarded by mu
	next int            // the next question's number; guarded by mu
}

type ask struct {
	of     string // agent id, or a tool's name
	thread pipeline.ThreadID
	origin Message
	until  time.Time // after this time no answer is expected
	number int
}

func newPending() *pending { return &pending{asks: map[string]ask{}} }

// add remembers a question and drops expired ones.
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

// take removes and returns the question with this id, if it was asked of the agent
// from.
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

// takeOn removes and returns the last question on a thread: a notice of the
// pipeline on a thread concerns that question.
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
