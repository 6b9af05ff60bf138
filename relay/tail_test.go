package relay

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/relay/nip01"
	"github.com/lightwork-market/lightwork/relay/server"
)

// TestStartFilter lists what a new connection asks for.
func TestStartFilter(t *testing.T) {
	at := now()
	ts := func(age nostr.Timestamp) *nostr.Timestamp { v := at - age; return &v }
	for name, c := range map[string]struct {
		filter  nostr.Filter
		resumed bool
		floor   nostr.Timestamp // age
		cursor  nostr.Timestamp // age, 0 = none
		started nostr.Timestamp // age
		want    nostr.Filter
	}{
		"first, as it is":              {filter: nostr.Filter{Limit: 3}, want: nostr.Filter{Limit: 3}},
		"first, cursor":                {filter: nostr.Filter{Since: ts(500), Limit: 3}, cursor: 100, want: nostr.Filter{Since: ts(100), Limit: 3}},
		"first, only new":              {filter: nostr.Filter{LimitZero: true}, started: 1, want: nostr.Filter{LimitZero: true}},
		"first, only new, relay late":  {filter: nostr.Filter{LimitZero: true}, started: 100, want: nostr.Filter{Since: ts(100)}},
		"again":                        {filter: nostr.Filter{Limit: 3}, resumed: true, floor: 700, want: nostr.Filter{Since: ts(700)}},
		"again, cursor is earlier":     {resumed: true, floor: 700, cursor: 900, want: nostr.Filter{Since: ts(900)}},
		"again, cursor is later":       {resumed: true, floor: 700, cursor: 5, want: nostr.Filter{Since: ts(700)}},
		"again, never before since":    {filter: nostr.Filter{Since: ts(300)}, resumed: true, floor: 700, want: nostr.Filter{Since: ts(300)}},
		"again, only new, short ago":   {filter: nostr.Filter{LimitZero: true}, resumed: true, floor: 700, started: 50, want: nostr.Filter{Since: ts(50)}},
		"again, only new, long ago":    {filter: nostr.Filter{LimitZero: true}, resumed: true, floor: 700, started: 5000, want: nostr.Filter{Since: ts(700)}},
		"again, other conditions stay": {filter: nostr.Filter{Kinds: []int{7}, Until: ts(10)}, resumed: true, floor: 70, want: nostr.Filter{Kinds: []int{7}, Until: ts(10), Since: ts(70)}},
	} {
		t.Run(name, func(t *testing.T) {
			tl := &tail{sub: &Subscription{started: at - c.started}, resumed: c.resumed, floor: at - c.floor}
			cursor := nostr.Timestamp(0)
			if c.cursor > 0 {
				cursor = at - c.cursor
			}
			if got := tl.startFilter(c.filter, cursor); !nostr.FilterEqual(got, c.want) || got.Limit != c.want.Limit {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestRest lists where the floor goes at the end of a connection.
func TestRest(t *testing.T) {
	overlap := nostr.Timestamp(600)
	cfg := Config{Overlap: 600 * time.Second}.withDefaults()
	for name, c := range map[string]struct {
		current, resumed bool
		floor, want      nostr.Timestamp
	}{
		"caught up":                     {true, true, 1000, 5000 - overlap},
		"cut short, floor is earlier":   {false, true, 1000, 1000},
		"cut short, floor is later":     {false, true, 4900, 5000 - overlap},
		"never had all: begins anew":    {false, false, 0, 0},
		"caught up for the first time.": {true, true, 0, 5000 - overlap},
	} {
		t.Run(name, func(t *testing.T) {
			tl := &tail{sub: &Subscription{pool: &Pool{cfg: cfg}}, current: c.current, resumed: c.resumed, floor: c.floor}
			if tl.resetFloor(5000); tl.floor != c.want || tl.current {
				t.Errorf("floor %d, want %d", tl.floor, c.want)
			}
		})
	}
}

// TestLateRelay subscribes to "only new" while a relay is away: what was
// published there meanwhile is new all the same.
func TestLateRelay(t *testing.T) {
	first, late := startRelay(t), startRelay(t)
	late.stop()
	p := startPool(t, Config{URLs: []string{first.url(), late.url()}})
	publish(t, p, note(t, "before", 100))
	s := subscribe(t, p, SubscribeOptions{}, nostr.Filter{Kinds: []int{1}, LimitZero: true})
	ready(t, s)
	s.mu.Lock()
	s.started -= startGrace + 5 // the subscription is not quite new
	s.mu.Unlock()
	late.start()
	other := startPool(t, Config{URLs: []string{late.url()}})
	publish(t, other, note(t, "meanwhile", 1))
	if got := receive(t, s); got != "meanwhile" {
		t.Errorf("got %q", got)
	}
}

// TestChaos publishes through two relays that restart at random and send few
// stored events at once, to a subscription that reads in fits and starts: each
// event comes, and once.
func TestChaos(t *testing.T) {
	relays := []*testRelay{startRelay(t), startRelay(t)}
	var urls []string
	for _, r := range relays {
		r.stop()
		r.cfg.Limits = server.Limits{MaxLimit: 4}
		r.start()
		urls = append(urls, r.url())
	}
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(uint64(seed), 0))
	p := startPool(t, Config{URLs: urls, QueueEvents: 3})
	s := subscribe(t, p, SubscribeOptions{}, nostr.Filter{Kinds: []int{1}, Since: since(1000)})
	const total = 80
	got := map[string]bool{}
	take := func() {
		c := receive(t, s)
		if got[c] {
			t.Fatalf("%q came twice", c)
		}
		got[c] = true
	}
	for i := range total {
		// Through one relay or both: a subscription must join them.
		publish(t, p, note(t, fmt.Sprint(i), 300-2*i))
		switch rng.IntN(8) {
		case 0:
			r := relays[rng.IntN(2)]
			r.stop()
			r.start()
		case 1, 2:
			for range rng.IntN(5) {
				if len(got) <= i {
					take()
				}
			}
		}
	}
	for len(got) < total {
		take()
	}
}

func TestStatusJSON(t *testing.T) {
	p, err := NewPool(Config{URLs: []string{"wss://relay.example"}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(p.Status())
	if err != nil {
		t.Fatal(err)
	}
	var back []map[string]any
	if err := json.Unmarshal(text, &back); err != nil || back[0]["state"] != "connecting" || back[0]["url"] != "wss://relay.example" {
		t.Errorf("%s %v", text, err)
	}
}

// FuzzSession feeds one connection with whatever a relay may send. It must not
// panic, nor pass on an event that does not verify.
func FuzzSession(f *testing.F) {
	good := note(f, "good", 0)
	f.Add([]byte(delivery("lw1", good)))
	f.Add([]byte(`["EOSE","lw1"]`))
	f.Add([]byte(`["CLOSED","lw1","error: x"]`))
	f.Add([]byte(`["OK","` + good.ID + `",true,""]`))
	f.Add([]byte(`["NOTICE","\u001b"]`))
	p, err := NewPool(Config{URLs: []string{"ws://relay.example"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		s := newSession(p.links[0], nil, make(chan struct{}), func(error) {})
		s.request(&feed{
			filters: nostr.Filters{{}},
			known:   func(*nostr.Event) bool { return false },
			event: func(ev *nostr.Event) {
				if nip01.Verify(ev) != nil {
					t.Errorf("passed on %s", ev)
				}
			},
			eose:   func() {},
			closed: func(string) {},
		})
		if err := s.handle(doc); err != nil {
			t.Errorf("one message ended the connection: %v", err)
		}
	})
}

// FuzzURLs checks the two parsers of addresses that come from outside.
func FuzzURLs(f *testing.F) {
	for _, s := range []string{"wss://relay.example/x?y#z", "ws://[::1]:7777", "https://host", "http://127.0.0.1:80/", "https://user@host"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if u, err := relayURL(raw); err == nil {
			if again, err := relayURL(u); err != nil || again != u {
				t.Errorf("%q became %q, then %q (%v)", raw, u, again, err)
			}
		}
		if u, err := (guard{}).url(raw); err == nil && u.Scheme != "https" {
			t.Errorf("%q is allowed", raw)
		}
	})
}
