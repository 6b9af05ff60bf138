package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
)

// errCrowded is why a connection of the address with the most connections was closed.
var errCrowded = errors.New("its address has the most connections, and a client of another address needed the slot")

// slots bounds the connections in all and of each address. Connections are free to
// open, so one host could take all slots and keep the others out. When they are all
// taken, the next client therefore evicts the newest connection of the address with
// the most, if that address still has more than the client's own afterwards. Behind
// a proxy that Config.Proxies does not name, all clients share one address and
// nobody is evicted.
type slots struct {
	limit int
	each  func(address string) int // the bound of an address

	mu sync.Mutex
	n  int
	by map[string][]*slot // by address, the oldest first
}

type slot struct {
	address string
	evict   context.CancelCauseFunc
}

func newSlots(limit int, each func(address string) int) *slots {
	return &slots{limit: limit, each: each, by: map[string][]*slot{}}
}

// enter takes a slot, or returns nil if there is none. evict closes the connection;
// it must not block.
func (ps *slots) enter(address string, evict context.CancelCauseFunc) *slot {
	ps.mu.Lock()
	defer ps.mu.Unlock()

	if len(ps.by[address]) >= ps.each(address) {
		return nil
	}
	if ps.n == ps.limit {
		var most []*slot
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
		newest.evict(errCrowded)
	}

	p := &slot{address, evict}
	ps.by[address] = append(ps.by[address], p)
	ps.n++
	return p
}

// leave frees the slot, unless its connection was evicted already.
func (ps *slots) leave(p *slot) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.remove(p)
}

// remove implements leave; mu must be held.
func (ps *slots) remove(p *slot) {
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

func (ps *slots) inUse() int {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.n
}

// conns bounds the connections that are not websockets. Each needs a file
// descriptor, which the databases need too, and a client can keep one open for ever
// by sending a request now and then. Websockets are counted separately, in
// Server.slots.
type conns struct {
	slots  *slots
	byConn sync.Map // net.Conn: *slot
}

func newConns(limit int, each func(address string) int) *conns {
	return &conns{slots: newSlots(limit, each)}
}

// state is the ConnState hook of the [http.Server].
func (cs *conns) state(c net.Conn, now http.ConnState) {
	switch now {
	case http.StateNew:
		var evict context.CancelCauseFunc = func(error) { _ = c.Close() }
		if p := cs.slots.enter(addressOf(c.RemoteAddr().String()), evict); p != nil {
			cs.byConn.Store(c, p)
		} else {
			_ = c.Close()
		}
	case http.StateHijacked, http.StateClosed:
		if p, ok := cs.byConn.LoadAndDelete(c); ok {
			cs.slots.leave(p.(*slot))
		}
	}
}
