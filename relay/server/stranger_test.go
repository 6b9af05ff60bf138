package server

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/time/rate"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

// A stranger has one address, and as many keys and connections as he likes.

// peerFrom is a client with a loopback address of its own.
func (r *running) peerFrom(t *testing.T, address string) *peer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ws := r.from(t, ctx, address)
	if ws == nil {
		t.Fatalf("no place for %s", address)
	}
	ws.SetReadLimit(1 << 20)
	return &peer{t, ws}
}

// crossed is an event with n tags, one of which every filter of crossedFilter
// names, and none of the others.
func crossed(t testing.TB, n int, content string) nostr.Event {
	return sign(t, bobSecret, tagged(n, content))
}

// tagged is crossed without a signature.
func tagged(n int, content string) nostr.Event {
	tags := nostr.Tags{{"t", "x"}}
	for i := range n {
		tags = append(tags, nostr.Tag{"r", fmt.Sprint("w", i)})
	}
	return nostr.Event{Kind: 1, Content: content, Tags: tags}
}

func crossedFilter(values int) string {
	return `{"limit":0,"#t":["x"],"#r":` + tagValues("v", values) + `}`
}

// TestWorkOfAnEvent: what it takes to find an event's subscribers is at most one
// look-up for each of its tags and a few for each value that is subscribed to. It
// is not their product.
func TestWorkOfAnEvent(t *testing.T) {
	const values, tags = 1990, 510
	for name, filters := range map[string][]string{
		"few wide filters":    slices.Repeat([]string{crossedFilter(values)}, 9),
		"many narrow filters": narrow(3000),
		"one key for all":     slices.Repeat([]string{`{"kinds":[1],"#t":["x"],"#r":["none"]}`}, 2000),
	} {
		t.Run(name, func(t *testing.T) {
			x := newIndex(20_000, 1<<20)
			c := &client{host: &host{unbounded: true}}
			for _, f := range filters {
				m, err := nip01.ParseClient([]byte(`["REQ","q",`+f+`]`), Limits{}.withDefaults().parser())
				if err != nil {
					t.Fatal(err)
				}
				if !x.add(&subscription{client: c, filters: m.Filters}) {
					t.Fatal("too many values")
				}
			}
			ev := crossed(t, tags, "")
			found, work := x.matching(&ev, 1)
			keys := len(newTarget(&ev).keys)
			if most := 2*keys + 3*c.values; work > most || len(found) > 0 {
				t.Errorf("%d look-ups, want at most %d; found %d", work, most, len(found))
			}
		})
	}
}

// narrow are filters with two conditions of one value, of which an event of
// crossed meets the first.
func narrow(n int) (filters []string) {
	for i := range n {
		filters = append(filters, fmt.Sprintf(`{"#t":["x"],"#r":["v%d"]}`, i))
	}
	return filters
}

// TestFairQueue: who comes after a crowd waits for one item of each address and,
// within its address, for one of each connection.
func TestFairQueue(t *testing.T) {
	f := newFair[string]()
	var crowd, other lane[string]
	connections := make([]lane[string], 4)
	for i := range 3 {
		f.join(&connections[i], &crowd)
	}
	f.join(&connections[3], &other)
	for n := range 3 {
		for i := range 3 {
			f.push(&connections[i], fmt.Sprint("abc"[i:i+1], n))
		}
	}
	next := func() string {
		l, item, ok := f.pop()
		if !ok {
			return ""
		}
		f.charge(l, 10)
		return item
	}
	got := []string{next(), next()}
	f.push(&connections[3], "late 0")
	f.push(&connections[3], "late 1")
	for range 4 {
		got = append(got, next())
	}
	text := strings.Join(got, " ")
	if at := slices.Index(got, "late 0"); at < 2 || at > 3 || slices.Index(got, "late 1") > 5 {
		t.Errorf("the newcomer's place: %s", text)
	}
	for item := next(); item != ""; item = next() {
		got = append(got, item)
	}
	if len(got) != 11 {
		t.Errorf("%d items: %q", len(got), got)
	}
	for _, who := range []string{"a", "b", "c", "late "} {
		var own []string
		for _, item := range got {
			if strings.HasPrefix(item, who) {
				own = append(own, item)
			}
		}
		if !slices.IsSorted(own) {
			t.Errorf("out of order: %q", own)
		}
	}
	f.close()
	if _, _, ok := f.wait(); ok || len(f.root.under) > 0 {
		t.Error("something is left")
	}
}

// TestFairByCost: who brings dear items is served fewer.
func TestFairByCost(t *testing.T) {
	f := newFair[int64]()
	hosts, connections := make([]lane[int64], 2), make([]lane[int64], 2)
	for i, cost := range []int64{36, 1} {
		f.join(&connections[i], &hosts[i])
		for range 100 {
			f.push(&connections[i], cost)
		}
	}
	dear := 0
	for range 75 {
		l, cost, _ := f.pop()
		if f.charge(l, cost); cost > 1 {
			dear++
		}
	}
	if dear < 1 || dear > 3 {
		t.Errorf("%d dear items among the first 75", dear)
	}
}

func TestConnectionsOfAnAddress(t *testing.T) {
	r := start(t, Config{Limits: Limits{MaxPerAddress: 2}})
	for range 2 {
		r.peerFrom(t, "127.0.0.2")
	}
	if r.from(t, t.Context(), "127.0.0.2") != nil {
		t.Error("a third connection of one address")
	}
	r.peerFrom(t, "127.0.0.3")
	for range 2 {
		if r.plain(t, "127.0.0.4") == nil {
			t.Error("no place for a connection that is no websocket")
		}
	}
	if r.plain(t, "127.0.0.4") != nil {
		t.Error("a third such connection of one address")
	}
}

func TestAddressBounds(t *testing.T) {
	for address, want := range map[string]bool{"192.0.2.1": true, "127.0.0.1": false, "::/64": false, "2001:db8::/64": true} {
		if bounded := newHosts(Limits{}.withDefaults()).join(address).inFlight != nil; bounded != want {
			t.Errorf("%s is bounded: %v", address, bounded)
		}
	}
	if newHosts(Limits{MaxPerAddress: 9}.withDefaults()).join("127.0.0.1").inFlight == nil {
		t.Error("a bound that is set is not for this machine")
	}
	hs := newHosts(Limits{}.withDefaults())
	h := hs.join("192.0.2.1")
	if hs.join("192.0.2.1") != h {
		t.Error("two connections of an address have nothing in common")
	}
	hs.leave(h)
	hs.leave(h)
	if len(hs.by) > 0 {
		t.Error("an address without a connection is kept")
	}
}

// TestFilterValuesOfAnAddress: no address takes the room for subscriptions of all.
func TestFilterValuesOfAnAddress(t *testing.T) {
	r := start(t, Config{Limits: Limits{MaxPerAddress: 9, MaxLiveValuesTotal: 8000}})
	req := `["REQ","a",{"limit":0,"#t":` + tagValues("a", 1200) + `}]`
	p := r.peerFrom(t, "127.0.0.2")
	p.send(req)
	p.expect("EOSE a")
	p = r.peerFrom(t, "127.0.0.2")
	p.send(req)
	p.expect("CLOSED a error: too many filter values")
	p = r.peerFrom(t, "127.0.0.3")
	p.send(req)
	p.expect("EOSE a")
}

// TestQueuesOfAnAddress: what waits for the connections of one address is bounded
// in sum, and is given back when they leave.
func TestQueuesOfAnAddress(t *testing.T) {
	h := newHosts(Limits{}.withDefaults()).join("192.0.2.1")
	var queues []*queue
	for range 3 {
		queues = append(queues, newQueue(1000, h))
	}
	for i, want := range []bool{true, true, false} {
		if got := queues[i].hold(900); got != want {
			t.Errorf("queue %d: %v", i, got)
		}
	}
	queues[0].close()
	queues[0].release(900) // what was under way when it closed
	if !queues[2].hold(900) || queues[0].hold(1) {
		t.Error("a client that has left keeps its room, or takes some")
	}
	queues[1].release(900)
	if n := h.queued.Load(); n != 900 {
		t.Errorf("%d bytes are counted", n)
	}
}

// TestRateOfAnAddress: more connections do not bring more than four times the rate.
func TestRateOfAnAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs := newHosts(Limits{MessagesPerSecond: 100, MessageBurst: 200}.withDefaults())
		at := func(address string) *client {
			return &client{host: hs.join(address), limiter: rate.NewLimiter(100, 200)}
		}
		all := func(clients []*client) (sent int) {
			for _, c := range clients {
				for c.charge(1) {
					sent++
				}
			}
			return sent
		}
		var clients []*client
		for range 16 {
			clients = append(clients, at("192.0.2.1"))
		}
		if sent := all(clients); sent != 4*(200+100) { // what has come together, and a second's debt
			t.Errorf("%d messages at once", sent)
		}
		time.Sleep(time.Second)
		if sent := all(clients); sent != 4*100 {
			t.Errorf("%d messages in a second", sent)
		}
		if sent := all([]*client{at("192.0.2.2")}); sent != 300 {
			t.Errorf("%d of another address", sent)
		}
	})
}

func TestClientBehindProxies(t *testing.T) {
	c := Config{Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("10.0.0.0/8")}}
	for _, k := range []struct {
		remote string
		header []string
		want   string
	}{
		{"127.0.0.1:9", []string{"192.0.2.1"}, "192.0.2.1"},
		{"127.0.0.1:9", []string{"198.51.100.9, 192.0.2.1"}, "192.0.2.1"}, // the first is the client's word
		{"127.0.0.1:9", []string{"198.51.100.9", "192.0.2.1, 10.1.2.3"}, "192.0.2.1"},
		{"127.0.0.1:9", []string{"2001:db8::1"}, "2001:db8::/64"},
		{"127.0.0.1:9", []string{"192.0.2.1:4000"}, "192.0.2.1"},
		{"127.0.0.1:9", nil, "127.0.0.1"},
		{"127.0.0.1:9", []string{"192.0.2.1, unknown"}, "127.0.0.1"},
		{"10.1.1.1:9", []string{"10.2.2.2"}, "10.2.2.2"},
		{"[::ffff:127.0.0.1]:9", []string{"192.0.2.1"}, "192.0.2.1"},
		{"127.0.0.2:9", []string{"192.0.2.1"}, "127.0.0.2"}, // no proxy of ours
		{"192.0.2.7:9", []string{"192.0.2.1"}, "192.0.2.7"},
	} {
		req := httptest.NewRequest(http.MethodGet, "/", nil)
		req.RemoteAddr = k.remote
		req.Header["X-Forwarded-For"] = k.header
		if got := c.clientOf(req); got != k.want {
			t.Errorf("%s with %q: %s, want %s", k.remote, k.header, got, k.want)
		}
	}
}

// TestProxysClientsAreApart: the connections that come through a proxy are bounded by
// whom it names, and the proxy's own are not.
func TestProxysClientsAreApart(t *testing.T) {
	r := start(t, Config{Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, Limits: Limits{MaxPerAddress: 1}})
	dial := func(client string) int {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		ws, resp, err := websocket.Dial(ctx, "ws://"+r.addr, &websocket.DialOptions{HTTPHeader: http.Header{"X-Forwarded-For": {client}}})
		if err == nil {
			t.Cleanup(func() { _ = ws.CloseNow() })
		}
		if resp == nil {
			t.Fatal(err)
		}
		return resp.StatusCode
	}
	for i, want := range []int{http.StatusSwitchingProtocols, http.StatusServiceUnavailable, http.StatusSwitchingProtocols} {
		if got := dial([]string{"192.0.2.1", "192.0.2.1", "192.0.2.2"}[i]); got != want {
			t.Errorf("connection %d: %d, want %d", i, got, want)
		}
	}
}
