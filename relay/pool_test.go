package relay

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

var kind1 = nostr.Filter{Kinds: []int{1}}

func TestNewPoolRefuses(t *testing.T) {
	for _, urls := range [][]string{
		nil, {""}, {"http://a"}, {"ws://"}, {"ws://user:secret@host"}, {"ws://a\x7f"}, {"ws://ok", "relay"},
	} {
		if _, err := NewPool(Config{URLs: urls}); !errors.Is(err, ErrConfig) {
			t.Errorf("%q: %v", urls, err)
		}
	}
	p, err := NewPool(Config{URLs: []string{"wss://Relay.example/", "WSS://relay.example"}})
	if err != nil || len(p.Status()) != 1 || p.Status()[0].URL != "wss://relay.example" {
		t.Errorf("one relay in two spellings: %+v %v", p.Status(), err)
	}
}

func TestPublishSubscribeQuery(t *testing.T) {
	a, b := startRelay(t), startRelay(t)
	p := startPool(t, Config{URLs: []string{a.url(), b.url()}})
	old := note(t, "old", 100)
	for i, res := range p.Publish(t.Context(), old) {
		if !res.OK || res.Err != nil || res.URL != []string{a.url(), b.url()}[i] {
			t.Errorf("%+v", res)
		}
	}
	s := subscribe(t, p, SubscribeOptions{}, kind1)
	ready(t, s)
	if got := receive(t, s); got != "old" {
		t.Errorf("got %q", got)
	}
	publish(t, p, note(t, "new", 0))
	if got := receive(t, s); got != "new" { // and not "old" from the other relay
		t.Errorf("got %q", got)
	}
	events, err := p.Query(t.Context(), kind1)
	if err != nil || len(events) != 2 || events[0].Content != "new" || events[1].Content != "old" {
		t.Errorf("query: %v %v", events, err)
	}
	events, err = p.Query(t.Context(), nostr.Filter{Kinds: []int{1}, Limit: 1})
	if err != nil || len(events) != 1 || events[0].Content != "new" {
		t.Errorf("query with limit: %v %v", events, err)
	}
	for _, res := range p.Publish(t.Context(), old) {
		if !res.OK || res.Message != "duplicate: already have this event" {
			t.Errorf("published again: %+v", res)
		}
	}
}

func TestDeadRelayHarmsNobody(t *testing.T) {
	live, dead := startRelay(t), deadURL(t)
	p := startPool(t, Config{URLs: []string{dead, live.url()}, MinBackoff: time.Hour, MaxBackoff: time.Hour})
	s := subscribe(t, p, SubscribeOptions{}, kind1)
	ready(t, s)
	res := p.Publish(t.Context(), note(t, "x", 0))
	if !errors.Is(res[0].Err, ErrNotConnected) || !res[1].OK {
		t.Errorf("%+v", res)
	}
	if got := receive(t, s); got != "x" {
		t.Errorf("got %q", got)
	}
	if events, err := p.Query(t.Context(), kind1); err != nil || len(events) != 1 {
		t.Errorf("query: %v %v", events, err)
	}
	st := p.Status()
	if st[0].State != StateWaiting || st[0].Error == "" || st[1].State != StateConnected || st[1].Published != 1 {
		t.Errorf("status: %+v", st)
	}
}

func TestAllRelaysDead(t *testing.T) {
	p := startPool(t, Config{URLs: []string{deadURL(t)}, MinBackoff: time.Hour, MaxBackoff: time.Hour})
	if _, err := p.Query(t.Context(), kind1); !errors.Is(err, ErrNotConnected) {
		t.Errorf("query: %v", err)
	}
}

func TestStuckRelay(t *testing.T) {
	live := startRelay(t)
	stuck := fakeRelay(t, func(nip01.ClientMessage, func(string)) {})
	p := startPool(t, Config{URLs: []string{stuck, live.url()}, PublishTimeout: 2 * time.Second, QueryTimeout: 2 * time.Second})
	res := p.Publish(t.Context(), note(t, "x", 0))
	if !errors.Is(res[0].Err, ErrTimeout) || !res[1].OK {
		t.Errorf("%+v", res)
	}
	if events, err := p.Query(t.Context(), kind1); err != nil || len(events) != 1 {
		t.Errorf("query without the stuck relay's EOSE: %v %v", events, err)
	}
	s := subscribe(t, p, SubscribeOptions{}, kind1)
	if got := receive(t, s); got != "x" {
		t.Errorf("got %q", got)
	}
}

func TestQuorumDoesNotWait(t *testing.T) {
	live := startRelay(t)
	stuck := fakeRelay(t, func(nip01.ClientMessage, func(string)) {})
	p := startPool(t, Config{URLs: []string{stuck, live.url()}, PublishTimeout: time.Hour})
	res := p.PublishQuorum(t.Context(), note(t, "x", 0), 1)
	if !errors.Is(res[0].Err, ErrNotAwaited) || !res[1].OK {
		t.Errorf("%+v", res)
	}
}

func TestPublishRefusal(t *testing.T) {
	url := fakeRelay(t, func(m nip01.ClientMessage, send func(string)) {
		send(fmt.Sprintf(`["OK",%q,false,"blocked: \u001b[31mno"]`, m.Event.ID))
	})
	p := startPool(t, Config{URLs: []string{url}, MaxEventBytes: 1000})
	res := p.Publish(t.Context(), note(t, "x", 0))
	if res[0].OK || res[0].Err != nil || res[0].Message != "blocked:  [31mno" {
		t.Errorf("%+v", res)
	}
	if res := p.Publish(t.Context(), note(t, string(make([]byte, 1000)), 0)); !errors.Is(res[0].Err, ErrTooLarge) {
		t.Errorf("too large: %+v", res)
	}
	if res := p.Publish(t.Context(), nostr.Event{Kind: 1, Content: "unsigned"}); !errors.Is(res[0].Err, nip01.ErrID) {
		t.Errorf("unsigned: %+v", res)
	}
}

// TestRestart takes the relay away and back while events are published through
// it and past it: the subscription gets each exactly once.
func TestRestart(t *testing.T) {
	r := startRelay(t)
	p := startPool(t, Config{URLs: []string{r.url()}})
	s := subscribe(t, p, SubscribeOptions{}, nostr.Filter{Kinds: []int{1}, LimitZero: true})
	ready(t, s)
	want := map[string]bool{}
	for round := range 4 {
		live := fmt.Sprint("live ", round)
		publish(t, p, note(t, live, 0))
		want[live] = true
		r.stop()
		r.start()
		// Someone else is back before us.
		other := startPool(t, Config{URLs: []string{r.url()}})
		missed := fmt.Sprint("missed ", round)
		publish(t, other, note(t, missed, 0))
		want[missed] = true
	}
	publish(t, p, note(t, "last", 0)) // waits for the reconnection
	want["last"] = true
	got := map[string]int{}
	for len(got) < len(want) {
		got[receive(t, s)]++
	}
	publish(t, p, note(t, "end", 0))
	for end := ""; end != "end"; {
		if end = receive(t, s); end != "end" {
			got[end]++
		}
	}
	for c, n := range got {
		if !want[c] || n != 1 {
			t.Errorf("%q came %d times", c, n)
		}
	}
}

func TestSubscriptionEnds(t *testing.T) {
	r := startRelay(t)
	p, err := NewPool(Config{URLs: []string{r.url()}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- p.Serve(ctx) }()

	own, endOwn := context.WithCancel(context.Background())
	a, err := p.Subscribe(own, []nostr.Filter{kind1}, SubscribeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := p.Subscribe(context.Background(), []nostr.Filter{kind1}, SubscribeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ready(t, a)
	ready(t, b)
	endOwn()
	for range a.Events() { // ends with its context
	}
	a.Close()
	b.Close()
	b.Close() // again is harmless
	if _, open := <-b.Events(); open {
		t.Error("event after Close")
	}
	c, err := p.Subscribe(context.Background(), []nostr.Filter{kind1}, SubscribeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	for range c.Events() { // ends with the pool
	}
	if _, err := p.Subscribe(context.Background(), []nostr.Filter{kind1}, SubscribeOptions{}); !errors.Is(err, ErrClosed) {
		t.Errorf("subscribe after the end: %v", err)
	}
	if res := p.Publish(context.Background(), note(t, "x", 0)); !errors.Is(res[0].Err, ErrClosed) {
		t.Errorf("publish after the end: %+v", res)
	}
}

// TestSilentRelay has a relay that takes the connection and then neither reads
// nor answers a ping.
func TestSilentRelay(t *testing.T) {
	over := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		<-over
		_ = ws.CloseNow()
	}))
	t.Cleanup(srv.Close)
	t.Cleanup(func() { close(over) })
	p := startPool(t, Config{
		URLs:         []string{"ws" + strings.TrimPrefix(srv.URL, "http")},
		PingInterval: 10 * time.Millisecond,
		WriteTimeout: 20 * time.Millisecond,
	})
	waitFor(t, "another connection", func() bool { return p.Status()[0].Connects > 2 })
}

func TestBackoff(t *testing.T) {
	cfg := Config{MinBackoff: time.Second, MaxBackoff: time.Minute}
	for attempt, longest := range map[int]time.Duration{0: time.Second, 1: 2 * time.Second, 5: 32 * time.Second, 6: time.Minute, 1000: time.Minute} {
		for range 20 {
			if d := cfg.backoff(attempt); d < longest/2 || d > longest {
				t.Errorf("attempt %d: %v", attempt, d)
			}
		}
	}
}
