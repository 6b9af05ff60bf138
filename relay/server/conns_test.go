package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// plain asks something over a connection from a loopback address and keeps it; it
// is nil if there is no place.
func (r *running) plain(t *testing.T, address string) net.Conn {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	c, err := dialer.DialContext(t.Context(), "tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if !asks(c) {
		return nil
	}
	return c
}

// asks reports whether the relay still answers on the connection.
func asks(c net.Conn) bool {
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: relay\r\n\r\n"); err != nil {
		return false
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err == nil && resp.Body.Close() == nil
}

// TestKeptConnections: connections that are kept and are no websockets are bounded
// too, and the host that has most of them loses some to the others.
func TestKeptConnections(t *testing.T) {
	r := start(t, Config{Limits: Limits{MaxConnections: 4}})
	var flood []net.Conn
	for range 4 {
		flood = append(flood, r.plain(t, "127.0.0.2"))
	}
	if r.plain(t, "127.0.0.2") != nil {
		t.Error("a fifth of one host")
	}
	honest := r.plain(t, "127.0.0.3")
	if honest == nil {
		t.Fatal("the flood keeps another host out")
	}
	if asks(flood[3]) || !asks(flood[0]) {
		t.Error("not the newest of the flood was evicted")
	}
	// They are no websockets' places, nor those theirs.
	ws := r.from(t, t.Context(), "127.0.0.3")
	if ws == nil || !alive(t.Context(), ws) {
		t.Error("kept connections keep a websocket out")
	}
	if !asks(honest) {
		t.Error("a websocket took a kept connection's place")
	}
	// Until it was one, though, it had a place of the flood's, as anyone has who comes.
	if n := r.srv.conns.slots.inUse(); n != 3 {
		t.Errorf("%d places are taken", n)
	}
	_ = honest.Close()
	for deadline := time.Now().Add(patience); r.srv.conns.slots.inUse() != 2; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d places are taken", r.srv.conns.slots.inUse())
		}
	}
}
