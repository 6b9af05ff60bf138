package provider_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/relay"
	"github.com/lightwork-market/lightwork/relay/server"
)

// TestAnswersWhereTheBuyerReads: a request names a relay of the buyer's own, and
// everything that is said of the job is found there too.
func TestAnswersWhereTheBuyerReads(t *testing.T) {
	w := newWorld(t)
	rel, err := server.New(w.ctx, server.Config{Dir: filepath.Join(t.TempDir(), "relay")})
	check(t, err)
	ln := listen(t)
	serve, stop := context.WithCancel(context.WithoutCancel(w.ctx))
	var g errgroup.Group
	g.Go(func() error { return rel.Serve(serve, ln) })
	t.Cleanup(func() { stop(); check(t, g.Wait()) })
	w.serve(t, nil)
	c := w.customer(t, nil)
	own := "ws://" + ln.Addr().String()
	ev := w.request(t, c.key, order(""), nostr.Tag{"param", "payment_mode", "free"},
		nostr.Tag{"relays", w.relays[0], "not a relay", own, own + "/", "ws://127.0.0.1:1"})
	check(t, c.market.Send(w.ctx, ev))
	w.await(t, ev.ID, provider.StateSucceeded)

	pool, err := relay.NewPool(relay.Config{URLs: []string{own}})
	check(t, err)
	ctx, hangUp := context.WithCancel(context.WithoutCancel(w.ctx))
	g.Go(func() error { return pool.Serve(ctx) })
	t.Cleanup(hangUp)
	there := &market{pool: pool}
	w.find(t, there, nostr.Filter{Kinds: []int{6050}, Tags: nostr.TagMap{"e": {ev.ID}}})
	said := map[string]bool{}
	w.hear(t, there, nostr.Filter{Kinds: []int{7000}, Tags: nostr.TagMap{"e": {ev.ID}}}, func(ev nostr.Event) bool {
		said[ev.Tags.Find("status")[1]] = true
		return said["processing"] && said["success"]
	})
}
