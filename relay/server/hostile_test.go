package server

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

// tagValues is a JSON list of n values that begin with the prefix.
func tagValues(prefix string, n int) string {
	values := make([]string, n)
	for i := range values {
		values[i] = prefix + fmt.Sprint(i)
	}
	list, _ := json.Marshal(values) // strings always marshal
	return string(list)
}

func TestFilterValuesOfAConnection(t *testing.T) {
	r := start(t, Config{Limits: Limits{MaxLiveValues: 1000}})
	p := r.dial()
	p.send(`["REQ","a",{"limit":0,"#t":` + tagValues("a", 600) + `}]`)
	p.expect("EOSE a")
	p.send(`["REQ","b",{"limit":0,"#t":` + tagValues("b", 600) + `}]`)
	p.expect("CLOSED b error: too many filter values")
	p.send(`["REQ","c",{"limit":0,"#t":["` + strings.Repeat("c", 64*500) + `"]}]`) // few, but long
	p.expect("CLOSED c error: too many filter values")
	p.send(`["REQ","d",{"limit":0}` + strings.Repeat(`,{"limit":0}`, 150) + `]`) // none, but filters
	p.expect("CLOSED d error: too many filter values")
	p.send(`["CLOSE","a"]`) // makes room
	p.send(`["REQ","b",{"limit":0,"#t":` + tagValues("b", 600) + `}]`)
	p.expect("EOSE b")
	p.put(note(t, "live", 0, nostr.Tag{"u", "x"}, nostr.Tag{"t", "a1"}))
	p.publish(note(t, "found", 0, nostr.Tag{"t", "b599"}))
	p.expect("EVENT b found")
}

func TestFilterValuesOfAll(t *testing.T) {
	r := start(t, Config{Limits: Limits{MaxLiveValuesTotal: 1000}})
	greedy, late := r.dial(), r.dial()
	greedy.send(`["REQ","a",{"limit":0,"#t":` + tagValues("a", 1400) + `}]`)
	greedy.expect("EOSE a")
	late.send(`["REQ","a",{"limit":0,"#t":` + tagValues("a", 700) + `}]`)
	late.expect("CLOSED a error: too many filter values")
	late.send(`["REQ","a",{"limit":0,"#t":` + tagValues("a", 400) + `}]`) // everybody has a few
	late.expect("EOSE a")
	_ = greedy.ws.Close(websocket.StatusNormalClosure, "")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for { // what it had is free once the relay has noticed
		late.send(`["REQ","b",{"limit":0,"#t":` + tagValues("b", 700) + `}]`)
		if m := late.next(); m.Label == nip01.LabelEOSE {
			return
		}
		if ctx.Err() != nil {
			t.Fatal("the values of a client that left are still counted")
		}
	}
}

// TestSlowQueries has clients that ask, over and over, for the events of one
// tag that have one of 1990 values of another.
func TestSlowQueries(t *testing.T) {
	r := start(t, Config{Limits: Limits{MessageBurst: 1 << 20}})
	var jobs []*job
	for i := range 4000 {
		ev := nostr.Event{Kind: 1, PubKey: modelKeys[aliceSecret], CreatedAt: ago(i), Content: fmt.Sprint(i), Tags: nostr.Tags{{"t", "x"}}}
		if i == 3999 {
			ev.Tags = append(ev.Tags, nostr.Tag{"r", "v1989"})
		}
		ev.ID, ev.Sig = nip01.ID(&ev), strings.Repeat("0", 128)
		jobs = append(jobs, &job{event: &ev, raw: nip01.Marshal(&ev)})
	}
	if _, err := r.srv.store.put(jobs); err != nil {
		t.Fatal(err)
	}
	filter := `{"#t":["x"],"#r":` + tagValues("v", 1990) + `}`
	if got := contents(t, r.srv.store, jobs, filter); got != "3999" { // the store has no budget of time
		t.Errorf("found %q", got)
	}
	asked := make(chan struct{}, 1000)
	for range 12 {
		p := r.dial()
		go func() {
			for p.ws.Write(context.Background(), websocket.MessageText, []byte(`["REQ","q",`+filter+`,`+filter+`,`+filter+`]`)) == nil {
				for {
					m, err := p.read()
					if err != nil {
						return
					}
					if m.Label != nip01.LabelEvent {
						break
					}
				}
				select {
				case asked <- struct{}{}:
				default:
				}
			}
		}()
	}
	for range 12 {
		<-asked
	}
	began := time.Now()
	r.dial().stored(`{"kinds":[31990],"limit":10}`)
	if took := time.Since(began); took > patience/4 {
		t.Errorf("an honest query took %v", took)
	}
}

// TestLargeTagConditions has conditions with more entries than are kept. It asks
// the store itself, which has no budget of time.
func TestLargeTagConditions(t *testing.T) {
	r := start(t, Config{})
	var jobs []*job
	put := func(i int, tags ...nostr.Tag) {
		ev := nostr.Event{Kind: 1, PubKey: modelKeys[aliceSecret], CreatedAt: ago(i), Content: fmt.Sprint(i), Tags: tags}
		ev.ID, ev.Sig = nip01.ID(&ev), strings.Repeat("0", 128)
		jobs = append(jobs, &job{event: &ev, raw: nip01.Marshal(&ev)})
	}
	for i := range 60 {
		var tags []nostr.Tag
		for k := range 400 {
			tags = append(tags, nostr.Tag{"r", fmt.Sprint("v", k)}, nostr.Tag{"s", fmt.Sprint("v", k)})
		}
		if i%20 == 7 {
			tags = append(tags, nostr.Tag{"t", "x"})
		}
		put(i, tags...)
	}
	for i := range 300 {
		put(100+i, nostr.Tag{"t", "x"})
	}
	if _, err := r.srv.store.put(jobs); err != nil {
		t.Fatal(err)
	}
	all := tagValues("v", 400)
	for filter, want := range map[string]string{
		`{"#t":["x"],"#r":` + all + `}`:                 "7 27 47", // narrowed
		`{"#t":["x"],"#r":["v1"],"limit":2}`:            "7 27",    // small
		`{"#t":["x"],"#r":` + all + `,"#s":["v1"]}`:     "7 27 47",
		`{"#r":` + all + `,"#s":` + all + `,"limit":2}`: "0 1", // walked
	} {
		if got := contents(t, r.srv.store, jobs, filter); got != want {
			t.Errorf("%.60s: %q, want %q", filter, got, want)
		}
	}
}

// TestQueryBudget asks for what no index can answer quickly, and then for
// something simple.
func TestQueryBudget(t *testing.T) {
	r := start(t, Config{})
	q := r.srv.request(r.srv.queries.join("test"), nil)
	q.remaining = time.Nanosecond
	if _, err := q.find(t.Context(), &nostr.Filter{Kinds: []int{1}}); err == nil || !strings.Contains(err.Error(), errTooMuch.Error()) {
		t.Errorf("a query without time: %v", err)
	}
	if _, err := r.srv.request(q.by, nil).find(t.Context(), &nostr.Filter{Kinds: []int{1}}); err != nil {
		t.Errorf("the next request: %v", err)
	}
}

func TestDefaultBoundsOfAnEvent(t *testing.T) {
	r := start(t, Config{})
	many := func(n int, kind int, name string) nostr.Event {
		ev := nostr.Event{Kind: kind}
		for i := range n {
			ev.Tags = append(ev.Tags, nostr.Tag{name, fmt.Sprintf("%064x", i)})
		}
		return sign(t, aliceSecret, ev)
	}
	p := r.dial()
	p.put(many(512, 1, "t"))
	p.publish(many(513, 1, "t"))
	p.expect("OK false invalid: too many elements: an event has at most 512 tags")
	p.put(many(100, 5, "e"))
	p.publish(many(101, 5, "e"))
	p.expect("OK false invalid: more than 100 deletions in one event")
	p.put(note(t, "skewed", -200))
	p.publish(note(t, "future", -400))
	p.expect("OK false invalid: created_at is too far ahead")
}

// TestRateCountsWork has messages that are larger than one unit of the rate.
func TestRateCountsWork(t *testing.T) {
	tags := make([]nostr.Tag, 64)
	for i := range tags {
		tags[i] = nostr.Tag{"t", fmt.Sprint(i)}
	}
	var targets []nostr.Tag
	for i := range 16 {
		targets = append(targets, nostr.Tag{"e", fmt.Sprintf("%064x", i)})
	}
	deletion := sign(t, aliceSecret, nostr.Event{Kind: 5, Tags: targets})
	for name, c := range map[string]struct {
		ev   nostr.Event
		left int // of seven
	}{
		"small":     {note(t, "small", 0), 6},
		"tags":      {note(t, "tags", 0, tags...), 2},
		"bytes":     {note(t, strings.Repeat("x", 60<<10), 0), 3},
		"deletions": {deletion, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, Config{Limits: Limits{MessageBurst: 7}})
			r.srv.cfg.Limits.MessagesPerSecond = 0 // nothing is added during the test
			p := r.dial()
			p.put(c.ev)
			for i := range c.left {
				p.put(note(t, fmt.Sprint(i), i))
			}
			p.publish(note(t, "one more", 0))
			p.expect("OK false rate-limited: slow down")
		})
	}
}

func TestTurns(t *testing.T) {
	queries := newQueryQueue()
	busy, other := queries.join("10.0.0.1"), queries.join("10.0.0.1")
	fresh := queries.join("10.0.0.2")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	get := func(p *queryClient) chan error {
		before := func() int { queries.mu.Lock(); defer queries.mu.Unlock(); return len(queries.waiting) + queries.free }()
		got := make(chan error, 1)
		go func() { got <- queries.acquire(ctx, p, 0) }()
		for { // until it runs or waits
			queries.mu.Lock()
			now := len(queries.waiting) + queries.free
			queries.mu.Unlock()
			if now != before || ctx.Err() != nil {
				return got
			}
		}
	}
	if err := <-get(busy); err != nil {
		t.Fatal(err)
	}
	queries.release(busy, 10*time.Second)
	for range maxQueries - 1 { // the heavy one gets all but the last
		if err := <-get(busy); err != nil {
			t.Fatal(err)
		}
	}
	held := get(busy)
	select {
	case <-held:
		t.Fatal("a heavy client got the last turn")
	default:
	}
	if err := <-get(fresh); err != nil {
		t.Fatal(err)
	}
	// All are taken: the next is the one whose connection and address used
	// least, whoever came first.
	second, third := get(other), get(fresh)
	queries.release(fresh, time.Millisecond)
	if err := <-third; err != nil {
		t.Fatal(err)
	}
	queries.release(fresh, time.Millisecond)
	if err := <-second; err != nil {
		t.Fatal(err)
	}
	queries.release(other, 0)
	queries.release(busy, 0)
	if err := <-held; err != nil {
		t.Fatal(err)
	}
	for _, p := range []*queryClient{busy, other, fresh} {
		queries.leave(p)
	}
	if len(queries.addresses) > 0 {
		t.Errorf("addresses are left: %v", queries.addresses)
	}
}

func TestAddressOf(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.1:80": "192.0.2.1", "[::ffff:192.0.2.1]:80": "192.0.2.1",
		"[2001:db8::1]:80": "2001:db8::/64", "[2001:db8::2%eth0]:81": "2001:db8::/64", "pipe": "pipe",
	} {
		if got := addressOf(remote); got != want {
			t.Errorf("%s: %s, want %s", remote, got, want)
		}
	}
}
