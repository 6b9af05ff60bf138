package server

import (
	"context"
	"net"
	"net/http"
	"testing"

	"github.com/coder/websocket"
)

// from dials the relay from a loopback address of its own; nil if there is no place.
func (r *running) from(t *testing.T, ctx context.Context, address string) *websocket.Conn {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	client := &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext}}
	ws, resp, err := websocket.Dial(ctx, "ws://"+r.addr, &websocket.DialOptions{HTTPClient: client})
	if err != nil {
		if resp == nil || resp.StatusCode != http.StatusServiceUnavailable {
			t.Fatalf("from %s: %v %v", address, resp, err)
		}
		return nil
	}
	t.Cleanup(func() { _ = ws.CloseNow() })
	return ws
}

// alive reports whether the relay still answers on the connection.
func alive(ctx context.Context, ws *websocket.Conn) bool {
	if ws.Write(ctx, websocket.MessageText, []byte(`["REQ","x",{"limit":0}]`)) != nil {
		return false
	}
	_, _, err := ws.Read(ctx)
	return err == nil
}

// TestOneHostKeepsNobodyOut: a host that holds all connections loses the newest to
// those who have fewer; who has as many as the others loses none.
func TestOneHostKeepsNobodyOut(t *testing.T) {
	r := start(t, Config{Limits: Limits{MaxConnections: 4}})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var flood []*websocket.Conn
	for range 4 {
		flood = append(flood, r.from(t, ctx, "127.0.0.2"))
	}
	if r.from(t, ctx, "127.0.0.2") != nil {
		t.Error("a fifth of one host")
	}
	honest := r.from(t, ctx, "127.0.0.3")
	if honest == nil || !alive(ctx, honest) {
		t.Fatal("the flood keeps another host out")
	}
	for alive(ctx, flood[3]) { // it is told beside the newcomer's welcome
		if ctx.Err() != nil {
			t.Fatal("the newest of the flood was not evicted")
		}
	}
	if !alive(ctx, flood[0]) {
		t.Error("the oldest of the flood was evicted")
	}
	if r.from(t, ctx, "127.0.0.2") != nil {
		t.Error("the flood takes the place again")
	}
	second := r.from(t, ctx, "127.0.0.3")
	if second == nil || r.from(t, ctx, "127.0.0.3") != nil {
		t.Error("a host with as many as the other gets more")
	}
	if !alive(ctx, honest) || !alive(ctx, flood[0]) || !alive(ctx, flood[1]) {
		t.Error("who had no more than the others was evicted")
	}
}
