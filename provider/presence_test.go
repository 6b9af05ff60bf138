package provider_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/relay/exchange"
	"github.com/lightwork-market/lightwork/schemas"
)

// find waits until the relay has an event that fits.
func (w *world) find(t *testing.T, m *exchange.Market, f nostr.Filter) (found nostr.Event) {
	t.Helper()
	w.hear(t, m, f, func(ev nostr.Event) bool { found = ev; return true })
	return found
}

// hear hands on what is stored and what comes, until done.
func (w *world) hear(t *testing.T, m *exchange.Market, f nostr.Filter, done func(nostr.Event) bool) {
	t.Helper()
	ctx, stop := context.WithCancel(w.ctx)
	defer stop()
	was := false
	err := m.Listen(ctx, nostr.Filters{f}, func() {}, func(ev nostr.Event) {
		if !was && done(ev) {
			was = true
			stop()
		}
	})
	if !was {
		t.Fatalf("waiting for %v: %v", f, err)
	}
}

// TestPresence: who this is, that it is alive, and the answer to a ping; and
// that a person's own profile is left alone.
func TestPresence(t *testing.T) {
	w := newWorld(t)
	me := []string{w.seller.key.PublicKey()}
	c := w.customer(t, nil)
	own := raw(t, w.seller.key, 0, `{"name":"a person"}`)
	check(t, c.market.Send(w.ctx, own))
	stop := w.serve(t, func(cfg *provider.Config) { cfg.Profile.Name = "a machine" })

	beat := w.find(t, c.market, nostr.Filter{Kinds: []int{11998}, Authors: me})
	if beat.Tags.GetD() != "lightwork" || beat.Tags.Find("expiration") == nil {
		t.Errorf("beat %v", beat.Tags)
	}
	list := w.find(t, c.market, nostr.Filter{Kinds: []int{10002}, Authors: me})
	if list.Tags.FindWithValue("r", w.relays[0]) == nil {
		t.Errorf("relay list %v", list.Tags)
	}
	ping := raw(t, c.key, 7007, "", nostr.Tag{"p", me[0]})
	check(t, c.market.Send(w.ctx, ping))
	if pong := w.find(t, c.market, nostr.Filter{Kinds: []int{7000}, Tags: nostr.TagMap{"e": {ping.ID}}}); pong.Tags.Find("status")[1] != "pong" {
		t.Errorf("pong %v", pong.Tags)
	}
	if got := w.find(t, c.market, nostr.Filter{Kinds: []int{0}, Authors: me}); got.ID != own.ID {
		t.Errorf("the profile of the key's owner was replaced: %s", got.Content)
	}

	w.find(t, c.market, nostr.Filter{Kinds: []int{31990}, Authors: me})
	stop()
	acks, err := provider.Retire(w.ctx, w.seller.key, c.market, "")
	if err != nil || len(acks) != 1 || !acks[0].OK {
		t.Fatalf("%+v, %v", acks, err)
	}
	for _, kind := range []int{31990, 11998} {
		if left, err := c.market.Query(w.ctx, nostr.Filter{Kinds: []int{kind}, Authors: me}); err != nil || len(left) != 0 {
			t.Errorf("kind %d after retiring: %v, %v", kind, left, err)
		}
	}
}

// TestFurtherKinds: a configured kind is taken where it names its schema, and
// answered in its own; what is open to all and not ours is left to others.
func TestFurtherKinds(t *testing.T) {
	w := newWorld(t)
	w.serve(t, func(cfg *provider.Config) { cfg.Kinds.Also = []int{5102} })
	c := w.customer(t, nil)
	typed := nostr.Tags{{"param", "job_type", "oa.sandbox_run.v1"}, {"i", string(order("")), "text"}, {"param", "payment_mode", "free"}}
	ours := raw(t, c.key, 5102, "", typed...)
	check(t, c.market.Send(w.ctx, ours))
	w.await(t, ours.ID, provider.StateSucceeded)
	if got := w.find(t, c.market, nostr.Filter{Tags: nostr.TagMap{"e": {ours.ID}}, Kinds: []int{6102}}); got.PubKey != w.seller.key.PublicKey() {
		t.Errorf("result %v", got.Tags)
	}
	open := raw(t, c.key, 5102, "", nostr.Tag{"i", "a picture of a cat", "text"})
	named := raw(t, c.key, 5102, "", nostr.Tag{"i", "a picture of a cat", "text"}, nostr.Tag{"p", w.seller.key.PublicKey()})
	for _, ev := range []nostr.Event{open, named} {
		check(t, c.market.Send(w.ctx, ev))
		w.await(t, ev.ID, provider.StateRefused)
	}
	w.find(t, c.market, nostr.Filter{Tags: nostr.TagMap{"e": {named.ID}}})
	if got, err := c.market.Query(w.ctx, nostr.Filter{Tags: nostr.TagMap{"e": {open.ID}}}); err != nil || len(got) > 0 {
		t.Errorf("answered what was open to all: %v, %v", got, err)
	}
	unheard := raw(t, c.key, 5103, "", typed...)
	check(t, c.market.Send(w.ctx, unheard))
	if _, err := w.store.Job(w.ctx, unheard.ID); err == nil {
		t.Error("a kind that is not configured was taken")
	}
}

// noNode is a wallet that cannot say who it is.
type noNode struct{ provider.Wallet }

func (noNode) Node(context.Context) (payments.Node, error) {
	return payments.Node{}, errors.New("the wallet is down")
}

// TestGoodbye: a provider that stops, or cannot start, is at once known to be away,
// and is back as soon as it is started again.
func TestGoodbye(t *testing.T) {
	w := newWorld(t)
	me := []string{w.seller.key.PublicKey()}
	c := w.customer(t, nil)
	usual := buyer.Order{SchemaID: string(schemas.SandboxRun), Input: order(""), MaxMsats: maxMsats}
	away := func(when string) {
		t.Helper()
		list, err := c.client.Candidates(w.ctx, usual)
		if err != nil || len(list) != 1 || !errors.Is(list[0].Refusal, buyer.ErrPaused) {
			t.Errorf("%s: %d candidates, %v", when, len(list), err)
		}
		if beats, err := c.market.Query(w.ctx, nostr.Filter{Kinds: []int{11998}, Authors: me}); err != nil || len(beats) != 0 {
			t.Errorf("%s: beats %v, %v", when, beats, err)
		}
	}
	here := func() {
		t.Helper()
		w.hear(t, c.market, nostr.Filter{Kinds: []int{31990}, Authors: me}, func(ev nostr.Event) bool {
			return !strings.Contains(ev.Content, `"paused":true`)
		})
		w.find(t, c.market, nostr.Filter{Kinds: []int{11998}, Authors: me})
	}
	stop := w.serve(t, nil)
	here()
	stop()
	away("stopped")
	stop = w.serve(t, nil)
	here()
	stop()

	// The beat of a life that was killed, of the second after the last goodbye.
	left := nostr.Event{Kind: 11998, CreatedAt: nostr.Now() + 1, Tags: nostr.Tags{{"d", "lightwork"}}}
	check(t, w.seller.key.Sign(w.ctx, &left))
	check(t, c.market.Send(w.ctx, left))
	m := w.connect(t, w.seller.key)
	cfg := w.config(m)
	cfg.Wallet = noNode{cfg.Wallet}
	p, err := provider.New(cfg)
	check(t, err)
	if err := p.Serve(w.ctx); err == nil {
		t.Fatal("it began without its wallet")
	}
	away("not started")
}
