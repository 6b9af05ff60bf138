package provider_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/relay/exchange"
	"github.com/lightwork-market/lightwork/relay/server"
)

// TestAnswersWhereTheBuyerReads: a request names a relay of the buyer's own, or
// its relay list does (NIP-65), and everything that is said of the job is found
// there too.
func TestAnswersWhereTheBuyerReads(t *testing.T) {
	for name, says := range map[string]func(w *world, own string) (tag nostr.Tag, list nostr.Tags){
		"request": func(w *world, own string) (nostr.Tag, nostr.Tags) {
			return nostr.Tag{"relays", w.relays[0], "not a relay", own, own + "/", "ws://127.0.0.1:1"}, nil
		},
		"list": func(w *world, own string) (nostr.Tag, nostr.Tags) {
			return nostr.Tag{"relays", w.relays[0]}, nostr.Tags{{"r", "ws://127.0.0.1:1", "write"}, {"r"}, {"r", "not a relay"}, {"r", w.relays[0]}, {"r", own, "read"}}
		},
		"list after request": func(_ *world, own string) (nostr.Tag, nostr.Tags) {
			return nostr.Tag{"relays", "ws://127.0.0.1:1", "ws://127.0.0.1:2"}, nostr.Tags{{"r", own}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			own, there := w.further(t)
			w.serve(t, nil)
			c := w.customer(t, nil)
			tag, list := says(w, own)
			if list != nil {
				check(t, c.market.Send(w.ctx, raw(t, c.key, 10002, "", list...)))
			}
			ev := w.request(t, c.key, order(""), nostr.Tag{"param", "payment_mode", "free"}, tag)
			check(t, c.market.Send(w.ctx, ev))
			w.await(t, ev.ID, provider.StateSucceeded)
			w.find(t, there, nostr.Filter{Kinds: []int{6050}, Tags: nostr.TagMap{"e": {ev.ID}}})
			said := map[string]bool{}
			w.hear(t, there, nostr.Filter{Kinds: []int{7000}, Tags: nostr.TagMap{"e": {ev.ID}}}, func(ev nostr.Event) bool {
				said[ev.Tags.Find("status")[1]] = true
				return said["processing"] && said["success"]
			})
		})
	}
}

// TestRelayListsOfOthers: a list for writing says nothing of where to read, and
// nobody's list speaks for another.
func TestRelayListsOfOthers(t *testing.T) {
	w := newWorld(t)
	own, there := w.further(t)
	w.serve(t, nil)
	c, stranger := w.customer(t, nil), w.customer(t, nil)
	check(t, c.market.Send(w.ctx, raw(t, c.key, 10002, "", nostr.Tag{"r", own, "write"})))
	check(t, c.market.Send(w.ctx, raw(t, stranger.key, 10002, "", nostr.Tag{"r", own})))
	ask := func(c *customer) string {
		ev := w.request(t, c.key, order(""), nostr.Tag{"param", "payment_mode", "free"})
		check(t, c.market.Send(w.ctx, ev))
		w.await(t, ev.ID, provider.StateSucceeded)
		return ev.ID
	}
	first := ask(c)
	second := ask(stranger)
	w.find(t, there, nostr.Filter{Kinds: []int{6050}, Tags: nostr.TagMap{"e": {second}}})
	if found := w.statuses(t, there, first); len(found) != 0 {
		t.Errorf("a relay for writing was told %v", found)
	}
}

// further runs one more relay, which the provider does not know.
func (w *world) further(t *testing.T) (url string, there *exchange.Market) {
	t.Helper()
	rel, err := server.New(w.ctx, server.Config{Dir: filepath.Join(t.TempDir(), "relay")})
	check(t, err)
	ln := listen(t)
	url = "ws://" + ln.Addr().String()
	there, err = exchange.New(exchange.Config{Relays: []string{url}})
	check(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(w.ctx))
	var g errgroup.Group
	g.Go(func() error { return rel.Serve(ctx, ln) })
	g.Go(func() error { _ = there.Serve(ctx); return nil })
	t.Cleanup(func() { stop(); check(t, g.Wait()) })
	return url, there
}

func (w *world) statuses(t *testing.T, m *exchange.Market, id string) map[string]bool {
	t.Helper()
	list, err := m.Query(w.ctx, nostr.Filter{Kinds: []int{7000}, Tags: nostr.TagMap{"e": {id}}})
	check(t, err)
	found := map[string]bool{}
	for _, ev := range list {
		found[ev.Tags.Find("status")[1]] = true
	}
	return found
}
