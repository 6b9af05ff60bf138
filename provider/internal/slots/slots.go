// Package slots shares a number of places between all buyers. Keys are free to make, so
// a quarter of every shared pool (at least one slot) is reserved for those who have paid
// before.
package slots

import "context"

// ForUnpaid is how many of n slots buyers get who have paid for nothing yet, all of
// them together. Of two slots one is reserved; of one none can be.
func ForUnpaid(n int) int {
	if n < 2 {
		return n
	}
	return n - max(1, n/4)
}

// Pool is slots that are taken and given back. It is safe for concurrent use.
type Pool struct {
	all    chan struct{} // one for each slot that is taken
	unpaid chan struct{} // those of them that unpaid buyers have
}

// New makes a pool of n slots.
func New(n int) *Pool {
	return &Pool{all: make(chan struct{}, n), unpaid: make(chan struct{}, ForUnpaid(n))}
}

// Wait waits for a slot until ctx or cancel ends the wait. An unpaid buyer takes one of
// theirs first, so that however many of them wait, and however long, who has paid gets
// the next of the others.
func (p *Pool) Wait(ctx context.Context, cancel <-chan struct{}, paid bool) (leave func(), ok bool) {
	needs := p.needs(paid)
	for i, places := range needs {
		select {
		case places <- struct{}{}:
			continue
		case <-cancel:
		case <-ctx.Done():
		}
		release(needs[:i])
		return nil, false
	}

	return func() { release(needs) }, true
}

// Try takes a slot if one is free. hasPaid is asked only where that matters.
func (p *Pool) Try(hasPaid func() bool) (leave func(), ok bool) {
	needs := p.needs(len(p.unpaid) == cap(p.unpaid) && hasPaid())
	for i, places := range needs {
		select {
		case places <- struct{}{}:
		default:
			release(needs[:i])
			return nil, false
		}
	}
	return func() { release(needs) }, true
}

func (p *Pool) needs(paid bool) []chan struct{} {
	if paid {
		return []chan struct{}{p.all}
	}
	return []chan struct{}{p.unpaid, p.all}
}

// release gives a place of each back.
func release(taken []chan struct{}) {
	for _, places := range taken {
		<-places
	}
}
