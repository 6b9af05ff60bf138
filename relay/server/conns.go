package server

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// conns bounds the connections that are no websockets: a client may keep one for
// as long as it asks something every now and then, and each takes a descriptor of
// the process, which its databases need too. A websocket has a place of its own.
type conns struct {
	places *places
	taken  sync.Map // net.Conn: *place
}

func newConns(limit int, each func(address string) int) *conns {
	return &conns{places: newPlaces(limit, each)}
}

// state is the [http.Server]'s ConnState.
func (cs *conns) state(c net.Conn, now http.ConnState) {
	switch now {
	case http.StateNew:
		var oust context.CancelCauseFunc = func(error) { _ = c.Close() }
		if p := cs.places.enter(addressOf(c.RemoteAddr().String()), oust); p != nil {
			cs.taken.Store(c, p)
		} else {
			_ = c.Close()
		}
	case http.StateHijacked, http.StateClosed:
		if p, ok := cs.taken.LoadAndDelete(c); ok {
			cs.places.leave(p.(*place))
		}
	}
}
