package provider_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/relay/exchange"
	"github.com/lightwork-market/lightwork/relay/server"
)

// TestAnswersWhereTheBuyerReads: a request names a relay of the buyer's own, or
// its relay list does (NIP-65), and everything that is said of the job is found
// there too.
func TestAnswersWhereTheBuyerReads(t *testing.T) {
	for name, says := range map[string]func(w *markettest.World, own string) (tag nostr.Tag, list nostr.Tags){
		"request": func(w *markettest.World, own string) (nostr.Tag, nostr.Tags) {
			return nostr.Tag{"relays", w.Relays[0], "not a relay", own, own + "/", "ws://127.0.0.1:1"}, nil
		},
		"list": func(w *markettest.World, own string) (nostr.Tag, nostr.Tags) {
			return nostr.Tag{"relays", w.Relays[0]}, nostr.Tags{{"r", "ws://127.0.0.1:1", "write"}, {"r"}, {"r", "not a relay"}, {"r", w.Relays[0]}, {"r", own, "read"}}
		},
		"list after request": func(_ *markettest.World, own string) (nostr.Tag, nostr.Tags) {
			return nostr.Tag{"relays", "ws://127.0.0.1:1", "ws://127.0.0.1:2"}, nostr.Tags{{"r", own}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := markettest.New(t)
			own, there := further(t, w)
			w.Serve(t, nil)
			c := w.NewCustomer(t, nil)
			tag, list := says(w, own)
			if list != nil {
				markettest.Check(t, c.Market.Send(w.Ctx, markettest.SignedEvent(t, c.Key, 10002, "", list...)))
			}
			ev := w.Request(t, c.Key, markettest.SandboxInput(""), nostr.Tag{"param", "payment_mode", "free"}, tag)
			markettest.Check(t, c.Market.Send(w.Ctx, ev))
			w.Await(t, ev.ID, provider.StateSucceeded)
			w.Find(t, there, nostr.Filter{Kinds: []int{6050}, Tags: nostr.TagMap{"e": {ev.ID}}})
			said := map[string]bool{}
			w.Hear(t, there, nostr.Filter{Kinds: []int{7000}, Tags: nostr.TagMap{"e": {ev.ID}}}, func(ev nostr.Event) bool {
				said[ev.Tags.Find("status")[1]] = true
				return said["processing"] && said["success"]
			})
		})
	}
}

// TestRelayListsOfOthers: a list for writing says nothing of where to read, and
// nobody's list speaks for another.
func TestRelayListsOfOthers(t *testing.T) {
	w := markettest.New(t)
	own, there := further(t, w)
	w.Serve(t, nil)
	c, stranger := w.NewCustomer(t, nil), w.NewCustomer(t, nil)
	markettest.Check(t, c.Market.Send(w.Ctx, markettest.SignedEvent(t, c.Key, 10002, "", nostr.Tag{"r", own, "write"})))
	markettest.Check(t, c.Market.Send(w.Ctx, markettest.SignedEvent(t, stranger.Key, 10002, "", nostr.Tag{"r", own})))
	ask := func(c *markettest.Customer) string {
		ev := w.Request(t, c.Key, markettest.SandboxInput(""), nostr.Tag{"param", "payment_mode", "free"})
		markettest.Check(t, c.Market.Send(w.Ctx, ev))
		w.Await(t, ev.ID, provider.StateSucceeded)
		return ev.ID
	}
	first := ask(c)
	second := ask(stranger)
	w.Find(t, there, nostr.Filter{Kinds: []int{6050}, Tags: nostr.TagMap{"e": {second}}})
	if found := statuses(t, w, there, first); len(found) != 0 {
		t.Errorf("a relay for writing was told %v", found)
	}
}

// further runs one more relay, which the provider does not know.
func further(t *testing.T, w *markettest.World) (url string, there *exchange.Market) {
	t.Helper()
	rel, err := server.New(w.Ctx, server.Config{Dir: filepath.Join(t.TempDir(), "relay"), Uploaders: []string{server.Anyone}})
	markettest.Check(t, err)
	ln := markettest.Listen(t)
	url = "ws://" + ln.Addr().String()
	there, err = exchange.New(exchange.Config{Relays: []string{url}})
	markettest.Check(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(w.Ctx))
	var g errgroup.Group
	g.Go(func() error { return rel.Serve(ctx, ln) })
	g.Go(func() error { _ = there.Serve(ctx); return nil })
	t.Cleanup(func() { stop(); markettest.Check(t, g.Wait()) })
	return url, there
}

func statuses(t *testing.T, w *markettest.World, m *exchange.Market, id string) map[string]bool {
	t.Helper()
	list, err := m.Query(w.Ctx, nostr.Filter{Kinds: []int{7000}, Tags: nostr.TagMap{"e": {id}}})
	markettest.Check(t, err)
	found := map[string]bool{}
	for _, ev := range list {
		found[ev.Tags.Find("status")[1]] = true
	}
	return found
}
