package server

import (
	"fmt"
	"testing"

	"github.com/nbd-wtf/go-nostr"
)

// TestAgain: an event that is there is a duplicate, whether its id is remembered
// or not; one that was there is what it is by now.
func TestAgain(t *testing.T) {
	dir := t.TempDir()
	r := start(t, Config{Dir: dir})
	p := r.dial()
	ev := note(t, "said", 10)
	p.put(ev)
	again := func(want string) {
		t.Helper()
		p.publish(ev)
		p.expect(want)
	}
	again("OK true " + duplicateText)
	r.stop()
	r = start(t, Config{Dir: dir}) // and remembers nothing
	p = r.dial()
	if r.srv.recent.has(ev.ID) {
		t.Fatal("it remembers")
	}
	again("OK true " + duplicateText)
	if !r.srv.recent.has(ev.ID) {
		t.Error("a duplicate is not remembered")
	}
	p.put(sign(t, aliceSecret, nostr.Event{Kind: nostr.KindDeletion, CreatedAt: ago(5), Tags: nostr.Tags{{"e", ev.ID}}}))
	again("OK false blocked: its author deleted this event")
}

func TestRecentIsBounded(t *testing.T) {
	r := newRecent()
	id := func(i int) string { return fmt.Sprintf("%064x", i) }
	for i := range 3*recentIDs + 1 {
		r.add(id(i))
		if !r.has(id(i)) || !r.has(id(max(0, i-recentIDs+1))) {
			t.Fatalf("after %d ids a recent one is forgotten", i)
		}
	}
	if n := len(r.young) + len(r.old); n > 2*recentIDs || r.has(id(0)) {
		t.Errorf("%d ids are remembered", n)
	}
}
