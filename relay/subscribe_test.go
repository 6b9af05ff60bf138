package relay

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/relay/nip01"
	"github.com/lightwork-market/lightwork/relay/server"
)

func since(age int) *nostr.Timestamp {
	t := nostr.Now() - nostr.Timestamp(age)
	return &t
}

// collect reads until n different contents came, and fails at a repetition.
func collect(t *testing.T, s *Subscription, n int) map[string]bool {
	t.Helper()
	got := map[string]bool{}
	for len(got) < n {
		c := receive(t, s)
		if got[c] {
			t.Fatalf("%q came twice", c)
		}
		got[c] = true
	}
	return got
}

// TestPages has a relay that sends at most 7 stored events for a filter: a
// subscription with a since gets all of them.
func TestPages(t *testing.T) {
	r := startRelay(t)
	r.stop()
	r.cfg.Limits = server.Limits{MaxLimit: 7}
	r.start()
	p := startPool(t, Config{URLs: []string{r.url()}})
	const total = 60
	for i := range total {
		tags, age := nostr.Tag{"t", "even"}, 2*i
		if i%2 == 1 {
			tags = nostr.Tag{"t", "odd"}
		}
		if i >= 16 { // minutes apart from those before, for the filter below
			age += 500
		}
		publish(t, p, note(t, fmt.Sprint(i), age, tags))
	}
	s := subscribe(t, p, SubscribeOptions{}, nostr.Filter{Kinds: []int{1}, Since: since(1000)})
	collect(t, s, total)
	s = subscribe(t, p, SubscribeOptions{},
		nostr.Filter{Tags: nostr.TagMap{"t": {"even"}}, Since: since(1000)},
		nostr.Filter{Tags: nostr.TagMap{"t": {"odd"}}, Since: since(300)})
	collect(t, s, total/2+8)
	publish(t, p, note(t, "live", 0, nostr.Tag{"t", "odd"}))
	if got := receive(t, s); got != "live" {
		t.Errorf("got %q", got)
	}
}

// TestSlowConsumer publishes much more than the queue holds before the reader
// takes its first event, while another subscription of the same pool reads at
// once: the slow one loses nothing, the other does not wait.
func TestSlowConsumer(t *testing.T) {
	r := startRelay(t)
	p := startPool(t, Config{URLs: []string{r.url()}, QueueEvents: 5})
	slow := subscribe(t, p, SubscribeOptions{}, nostr.Filter{Kinds: []int{1}, LimitZero: true})
	ready(t, slow)
	const total = 50
	for i := range total {
		publish(t, p, note(t, fmt.Sprint(i), 0))
	}
	if events, err := p.Query(t.Context(), kind1); err != nil || len(events) != total {
		t.Fatalf("another reader: %d events, %v", len(events), err)
	}
	collect(t, slow, total)
	publish(t, p, note(t, "live", 0))
	if got := receive(t, slow); got != "live" {
		t.Errorf("got %q", got)
	}
}

// TestSlowConsumerAcrossRestart loses the connection while events that did not
// fit the queue are still missing.
func TestSlowConsumerAcrossRestart(t *testing.T) {
	r := startRelay(t)
	p := startPool(t, Config{URLs: []string{r.url()}, QueueEvents: 5})
	slow := subscribe(t, p, SubscribeOptions{}, nostr.Filter{Kinds: []int{1}, LimitZero: true})
	ready(t, slow)
	const total = 40
	for i := range total {
		publish(t, p, note(t, fmt.Sprint(i), 0))
		if i == total/2 {
			r.stop()
			r.start()
		}
	}
	collect(t, slow, total)
}

func TestSinceOption(t *testing.T) {
	r := startRelay(t)
	p := startPool(t, Config{URLs: []string{r.url()}})
	for _, age := range []int{300, 200, 100} {
		publish(t, p, note(t, fmt.Sprint(age), age))
	}
	var asked atomic.Int64
	eose := make(chan string, 10)
	s := subscribe(t, p, SubscribeOptions{
		Since:  func() nostr.Timestamp { asked.Add(1); return *since(250) },
		OnEOSE: func(relay string) { eose <- relay },
	}, kind1)
	got := collect(t, s, 2)
	if got["300"] {
		t.Error("an event before the cursor came")
	}
	if url := <-eose; url != r.url() {
		t.Errorf("EOSE of %q", url)
	}
	r.stop()
	r.start()
	<-eose // after the reconnection
	if asked.Load() < 2 {
		t.Error("the cursor was not asked again")
	}
}

// TestLimitIsEnforced has a relay that ignores limits.
func TestLimitIsEnforced(t *testing.T) {
	url := fakeRelay(t, func(m nip01.ClientMessage, send func(string)) {
		if m.Label == nip01.LabelReq {
			for i := range 10 {
				send(delivery(m.SubID, note(t, fmt.Sprint(i), 100+i)))
			}
			send(quoted("EOSE", m.SubID))
			send(delivery(m.SubID, note(t, "late, not limited", 5000)))
		}
	})
	p := startPool(t, Config{URLs: []string{url}})
	s := subscribe(t, p, SubscribeOptions{}, nostr.Filter{Kinds: []int{1}, Limit: 3})
	for i, want := range []string{"0", "1", "2", "late, not limited"} {
		if got := receive(t, s); got != want {
			t.Errorf("event %d: %q, want %q", i, got, want)
		}
	}
	events, err := p.Query(t.Context(), nostr.Filter{Kinds: []int{1}, Limit: 3})
	if err != nil || len(events) != 3 {
		t.Errorf("query: %d events, %v", len(events), err)
	}
}

// TestHostileRelay sends forged, foreign, oversize and unreadable messages:
// only the good event comes through, and the connection lives.
func TestHostileRelay(t *testing.T) {
	good := note(t, "good", 0)
	forged := note(t, "forged", 0)
	forged.Content = "changed"
	wrongSig := note(t, "wrong sig", 0)
	wrongSig.Sig = good.Sig
	stolenID := note(t, "stolen id", 0)
	stolenID.ID = good.ID // must not make the good one look known
	foreign := nostr.Event{Kind: 2, CreatedAt: nostr.Now(), Content: "foreign"}
	if err := testKey(t).Sign(t.Context(), &foreign); err != nil {
		t.Fatal(err)
	}
	url := fakeRelay(t, func(m nip01.ClientMessage, send func(string)) {
		if m.Label != nip01.LabelReq {
			return
		}
		for _, doc := range []string{
			"", "garbage", "[]", `["EVENT"]`, `["EOSE"]`, `["OK","x",1]`, `["AUTH","challenge"]`, `["NOTICE",1]`,
			`["COUNT","x",{"count":1}]`, strings.Repeat("[", 1000), "\xff\xfe", `["EVENT","` + m.SubID + `",{}]`,
			delivery("unknown", good),
			delivery(m.SubID, stolenID), delivery(m.SubID, forged), delivery(m.SubID, wrongSig), delivery(m.SubID, foreign),
			delivery(m.SubID, note(t, strings.Repeat("x", 5000), 0)), // above MaxEventBytes
			`["NOTICE","` + strings.Repeat("x", 20000) + `"]`,        // above MaxMessageBytes
			delivery(m.SubID, good), delivery(m.SubID, good),
			quoted("NOTICE", "hello \x1b[2J"),
			quoted("EOSE", m.SubID),
			delivery(m.SubID, note(t, "end", 0)),
		} {
			send(doc)
		}
	})
	p := startPool(t, Config{URLs: []string{url}, MaxEventBytes: 4000, MaxMessageBytes: 16000})
	s := subscribe(t, p, SubscribeOptions{}, kind1)
	for _, want := range []string{"good", "end"} {
		if got := receive(t, s); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	st := p.Status()[0]
	if st.Connects != 1 || st.Received != 2 || st.Rejected < 10 || st.Notice != "hello  [2J" {
		t.Errorf("status %+v", st)
	}
	if events, err := p.Query(t.Context(), kind1); err != nil || len(events) != 1 {
		t.Errorf("query: %v %v", events, err)
	}
}

// TestForgerIsLeft floods with bad signatures: the pool ends the connection.
func TestForgerIsLeft(t *testing.T) {
	forged := note(t, "x", 0)
	forged.Content = "y"
	url := fakeRelay(t, func(m nip01.ClientMessage, send func(string)) {
		if m.Label == nip01.LabelReq {
			for range maxStrikes {
				send(delivery(m.SubID, forged))
			}
		}
	})
	p := startPool(t, Config{URLs: []string{url}, MinBackoff: time.Hour, MaxBackoff: time.Hour})
	subscribe(t, p, SubscribeOptions{}, kind1)
	waitFor(t, "the end of the connection", func() bool {
		st := p.Status()[0]
		return st.State == StateWaiting && strings.Contains(st.Error, ErrMisbehaved.Error())
	})
}

// TestClosedIsAskedAgain has a relay that refuses the first REQ of every kind
// of request.
func TestClosedIsAskedAgain(t *testing.T) {
	var asked atomic.Int64
	ev := note(t, "finally", 0)
	url := fakeRelay(t, func(m nip01.ClientMessage, send func(string)) {
		if m.Label != nip01.LabelReq {
			return
		}
		if asked.Add(1) == 1 {
			send(quoted("CLOSED", m.SubID, "rate-limited: later"))
			return
		}
		send(delivery(m.SubID, ev))
	})
	p := startPool(t, Config{URLs: []string{url}, QueryTimeout: 200 * time.Millisecond})
	s := subscribe(t, p, SubscribeOptions{}, kind1)
	if got := receive(t, s); got != "finally" {
		t.Errorf("got %q", got)
	}
}

func TestQueryRefused(t *testing.T) {
	url := fakeRelay(t, func(m nip01.ClientMessage, send func(string)) {
		send(quoted("CLOSED", m.SubID, "restricted: members only"))
	})
	p := startPool(t, Config{URLs: []string{url}})
	if _, err := p.Query(t.Context(), kind1); err == nil || !strings.Contains(err.Error(), "members only") {
		t.Errorf("query: %v", err)
	}
}

func TestPagePlan(t *testing.T) {
	at := func(sec nostr.Timestamp) *nostr.Event { return &nostr.Event{Kind: 1, CreatedAt: sec} }
	from := nostr.Timestamp(10)
	newFirst := func() *page { return newPage(nostr.Filters{{Kinds: []int{1}, Since: &from}}) }

	if newFirst().next() != nil {
		t.Error("an empty answer has a next page")
	}
	p := newFirst()
	p.count(at(30), false)
	p.count(at(20), false)
	p.count(&nostr.Event{Kind: 2, CreatedAt: 5}, false) // of no filter
	next := p.next()
	if next == nil || *next.filters[0].Until != 20 || *next.filters[0].Since != 10 {
		t.Fatalf("next %+v", next)
	}
	next.count(at(20), true) // only the overlap
	if next = next.next(); next == nil || *next.filters[0].Until != 19 {
		t.Fatalf("next %+v", next)
	}
	p = newFirst()
	p.count(at(10), true)
	if p.next() != nil {
		t.Error("a page before since")
	}
	p.depth = maxPages
	p.stats[0].fresh = 1
	if p.next() != nil {
		t.Error("pages without end")
	}
	for _, f := range []nostr.Filter{{}, {Since: &from, Limit: 1}, {Since: &from, LimitZero: true}} {
		p := newPage(nostr.Filters{f})
		p.count(at(20), false)
		if p.next() != nil {
			t.Errorf("%+v has a next page", f)
		}
	}
}

func TestSeenForgetsTheOldest(t *testing.T) {
	s := newSeen(2)
	id := func(i int) string { return fmt.Sprintf("%064x", i) }
	for i := range 5 {
		s.add(id(i))
	}
	for i, want := range []bool{false, false, true, true, true} {
		if s.has(id(i)) != want {
			t.Errorf("id %d: %v", i, !want)
		}
	}
}
