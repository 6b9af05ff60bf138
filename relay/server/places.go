package server

import (
	"context"
	"errors"
	"sync"
)

// errCrowded: another address had fewer connections, and there was no place left.
var errCrowded = errors.New("its address has the most connections, and another needed a place")

// places are those of the websockets. An address has a bounded number of them.
// A connection costs nothing, so once all places are taken the next client gets
// the newest one of the address that has the most, as long as that leaves this
// address more than its own has: one host cannot keep the others out. Behind a
// proxy that is not named (see Config.Proxies) all have one address, and no one
// is ousted.
type places struct {
	limit int
	each  func(address string) int // how many an address may have

	mu sync.Mutex
	n  int
	by map[string][]*place // by address, the oldest first
}

type place struct {
	address string
	oust    context.CancelCauseFunc
}

func newPlaces(limit int, each func(address string) int) *places {
	return &places{limit: limit, each: each, by: map[string][]*place{}}
}

// enter takes a place, or returns nil. oust ends the connection that has it; it
// must not block.
func (ps *places) enter(address string, oust context.CancelCauseFunc) *place {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if len(ps.by[address]) >= ps.each(address) {
		return nil
	}
	if ps.n == ps.limit {
		var most []*place
		for _, list := range ps.by {
			if len(list) > len(most) {
				most = list
			}
		}
		if len(most) <= len(ps.by[address])+1 {
			return nil
		}
		newest := most[len(most)-1]
		ps.remove(newest)
		newest.oust(errCrowded)
	}
	p := &place{address, oust}
	ps.by[address] = append(ps.by[address], p)
	ps.n++
	return p
}

// leave gives the place back, unless it was taken.
func (ps *places) leave(p *place) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.remove(p)
}

// remove is leave for who holds mu.
func (ps *places) remove(p *place) {
	for i, other := range ps.by[p.address] {
		if other != p {
			continue
		}
		list := append(ps.by[p.address][:i:i], ps.by[p.address][i+1:]...)
		if ps.by[p.address] = list; len(list) == 0 {
			delete(ps.by, p.address)
		}
		ps.n--
		return
	}
}

func (ps *places) taken() int {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.n
}
