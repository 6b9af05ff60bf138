package provider_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay"
	"github.com/lightwork-market/lightwork/schemas"
)

const sandboxRun = string(schemas.SandboxRun)

// sell opens a rival's shop with further changes to what it offers, and returns how
// to close it.
func (w *world) sell(t *testing.T, r *rival, change func(*provider.Config), lie func(context.Context, *nostr.Event) error) (stop func()) {
	t.Helper()
	m, hangUp := w.dial(t, r.key)
	cfg := provider.Config{
		Signer: signer{r.key, lie}, Store: r.kernel.ProviderStore("paid-job"), Wallet: r.wallet, Market: m, Runner: r.runner, Cipher: r.key,
		RootSecret: r.secret, Policy: []byte(`{"version":1}`),
		Offers: []provider.Offer{{SchemaID: sandboxRun, Modes: []receipts.Mode{receipts.ModeHold}, PerMinuteMsats: r.rate}},
		Images: provider.Images{HostDigest: toolchain().String(), Registered: func(string) bool { return false }},
	}
	if change != nil {
		change(&cfg)
	}
	p, err := provider.New(cfg)
	check(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := p.Serve(ctx); err != nil {
			t.Errorf("provider: %v", err)
		}
		hangUp()
	}()
	stop = sync.OnceFunc(cancel)
	t.Cleanup(func() { stop(); <-done })
	return stop
}

// ghost announces a price and a beat, and is not there.
func (w *world) ghost(t *testing.T, c *customer, price receipts.Price) {
	t.Helper()
	key, err := relay.GenerateKey()
	check(t, err)
	doc, err := json.Marshal(map[string]any{
		"name": "ghost", "capabilities": map[string]any{"supported_jobs": []string{sandboxRun}},
		"lightwork": map[string]any{
			"modes": map[string]any{sandboxRun: []string{"hold"}}, "prices": map[string]any{sandboxRun: price}, "network": payments.Play,
			"host_image_digest": toolchain().String(),
		},
	})
	check(t, err)
	check(t, c.market.Send(w.ctx, raw(t, key, 31990, string(doc), nostr.Tag{"d", "lightwork"}, nostr.Tag{"k", "5050"}, domain.Announcement.Tag())))
	check(t, c.market.Send(w.ctx, raw(t, key, 11998, "", nostr.Tag{"d", "lightwork"})))
}

// alive waits until the rivals are on the relay with announcement and beat.
func (w *world) alive(t *testing.T, c *customer, rivals ...*rival) {
	t.Helper()
	for _, r := range rivals {
		for _, kind := range []int{31990, 11998} {
			_, err := w.see(w.ctx, c.market, nostr.Filter{Kinds: []int{kind}, Authors: []string{r.key.PublicKey()}}, func(nostr.Event) bool { return true })
			check(t, err)
		}
	}
}

func (w *world) named(t *testing.T, name string, rate int64) *rival {
	t.Helper()
	r := w.rival(t, name)
	r.rate = rate
	return r
}

// givesBack has whatever is held for a rival come back, as it does when nobody takes
// it in time.
func (w *world) givesBack(t *testing.T, r *rival) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = r.wallet.WatchInvoices(ctx, func(hash payments.Hash) {
			inv, err := r.wallet.LookupInvoice(ctx, hash)
			if err == nil && inv.State == payments.InvoiceHeld {
				err = r.wallet.CancelInvoice(ctx, hash)
			}
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// anybody is the usual order from whoever serves it best.
func anybody() buyer.Order {
	return buyer.Order{SchemaID: sandboxRun, Input: order(""), MaxMsats: 100_000}
}

// orders places the usual order with the best candidate.
func (w *world) orders(t *testing.T, c *customer) buyer.Purchase {
	t.Helper()
	list, err := c.client.Candidates(w.ctx, anybody())
	check(t, err)
	p, err := c.client.PlaceOrder(w.ctx, anybody(), list[0])
	check(t, err)
	return p
}

// answersPings reports whether an event is one that a provider which serves nobody
// still signs.
func answersPings(ev *nostr.Event) bool {
	status := ev.Tags.Find("status")
	return ev.Kind != 7000 || status != nil && status[1] == "pong"
}

// TestMarketOfLiars: ten providers, most of which lie in a way of their own. No order
// costs more than the cheapest honest one and a tenth, and nothing else is paid.
func TestMarketOfLiars(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.customer(t, func(cfg *buyer.Config) { cfg.Modes = []receipts.Mode{receipts.ModeHold} })

	w.ghost(t, c, receipts.Price{PerMinuteMsats: 1_000})
	w.ghost(t, c, receipts.Price{PerMinuteMsats: 1_500})
	w.ghost(t, c, receipts.Price{BaseMsats: payments.MaxMsats, PerMinuteMsats: payments.MaxMsats})
	bait := w.named(t, "bait", 60_000)
	w.sell(t, bait, func(cfg *provider.Config) {
		cfg.Offers = append(cfg.Offers, provider.Offer{SchemaID: string(schemas.Embedding), Modes: []receipts.Mode{receipts.ModeHold}, BaseMsats: 1})
	}, nil)
	late := w.named(t, "slow", 3_000)
	w.sell(t, late, nil, func(ctx context.Context, ev *nostr.Event) error {
		if answersPings(ev) {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	})
	wrong := w.named(t, "wrong", 5_000)
	w.sell(t, wrong, nil, func(_ context.Context, ev *nostr.Event) error {
		if !answersPings(ev) {
			ev.Content = string(bytes.Replace([]byte(ev.Content), []byte(`"price_msats":5000`), []byte(`"price_msats":4000`), 1))
		}
		return nil
	})
	gone := w.named(t, "gone", 6_000)
	w.sell(t, gone, nil, func(ctx context.Context, ev *nostr.Event) error {
		if status := ev.Tags.Find("status"); ev.Kind != 6050 && (answersPings(ev) || status[1] == "payment-required") {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	})
	w.givesBack(t, gone)
	honest := []*rival{w.named(t, "honest", 21_000), w.named(t, "honest-2", 22_000), w.named(t, "honest-3", 23_000)}
	for _, r := range honest {
		w.sell(t, r, nil, nil)
	}
	w.alive(t, c, append(honest, bait, late, wrong, gone)...)

	spent := int64(0)
	for range 3 {
		p, err := c.client.FollowOrder(w.ctx, w.orders(t, c).RequestID, nil)
		if err != nil || p.State != buyer.StateDone || p.ReceiptID == "" {
			t.Fatalf("the order is %s (%s), %v", p.State, p.Reason, err)
		}
		if most := honest[0].rate + honest[0].rate/10; p.Payment.AmountMsats > most {
			t.Errorf("an order cost %d msats, the cheapest honest one %d", p.Payment.AmountMsats, honest[0].rate)
		}
		spent += p.Payment.AmountMsats + p.Payment.FeeMsats
	}
	w.settledUp(t, c, spent)
	for _, r := range []*rival{bait, late, wrong, gone} {
		if got := w.earned(t, r); got != 0 {
			t.Errorf("a liar earned %d msats", got)
		}
	}
	if open, err := c.store.OpenOrders(w.ctx); err != nil || len(open) > 0 {
		t.Errorf("orders are open: %v, %v", open, err)
	}
}

// TestCrowdOfGhosts: however many providers are announced and gone, an honest one is
// asked within ten seconds, and the next order passes over who was asked in vain.
func TestCrowdOfGhosts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.customer(t, nil)
	for i := range 40 {
		w.ghost(t, c, receipts.Price{PerMinuteMsats: 1_000 + int64(i)})
	}
	honest := w.named(t, "honest", rateMsats)
	w.sell(t, honest, nil, nil)
	w.alive(t, c, honest)

	first := w.orders(t, c)
	began, asked, waited := time.Now(), 0, time.Duration(0)
	p, err := c.client.FollowOrder(w.ctx, first.RequestID, func(pr buyer.Progress) {
		if pr.What == "requested" {
			asked, waited = asked+1, time.Since(began)
		}
	})
	if err != nil || p.Provider != honest.key.PublicKey() {
		t.Fatalf("the order is %s (%s), %v", p.State, p.Reason, err)
	}
	if asked > 4 || waited > 2*10*time.Second {
		t.Errorf("%d were asked, the honest one after %v", asked, waited)
	}
	if was, err := c.store.Purchase(w.ctx, first.RequestID); err != nil || was.State != buyer.StateFailed || !bytes.HasPrefix([]byte(was.Reason), []byte("no_answer: ")) {
		t.Errorf("the first request is %s (%s), %v", was.State, was.Reason, err)
	}
	deleted := nostr.Filter{Kinds: []int{5}, Authors: []string{c.key.PublicKey()}, Tags: nostr.TagMap{"e": {first.RequestID}}}
	_, err = w.see(w.ctx, c.market, deleted, func(nostr.Event) bool { return true })
	check(t, err)

	list, err := c.client.Candidates(w.ctx, anybody())
	check(t, err)
	if len(list) != 41 || list[0].Provider == first.Provider || list[40].Provider != first.Provider {
		t.Errorf("who did not answer is not the last of %d", len(list))
	}
	w.settledUp(t, c, rateMsats+feeMsats)
}

// TestLateQuoteIsNotPaid: a provider that quotes after another was asked in its
// place gets nothing, also when the buyer is started again.
func TestLateQuoteIsNotPaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.customer(t, nil)
	released := make(chan struct{})
	late := w.named(t, "late", 3_000)
	w.sell(t, late, nil, func(ctx context.Context, ev *nostr.Event) error {
		if answersPings(ev) {
			return nil
		}
		select {
		case <-released:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	honest := w.named(t, "honest", rateMsats)
	w.sell(t, honest, nil, nil)
	w.alive(t, c, late, honest)

	first := w.orders(t, c)
	p, err := c.client.FollowOrder(w.ctx, first.RequestID, nil)
	if err != nil || first.Provider != late.key.PublicKey() || p.Provider != honest.key.PublicKey() {
		t.Fatalf("the order is %s (%s), %v", p.State, p.Reason, err)
	}
	close(released)
	said := nostr.Filter{Kinds: []int{7000}, Authors: []string{late.key.PublicKey()}, Tags: nostr.TagMap{"e": {first.RequestID}}}
	_, err = w.see(w.ctx, c.market, said, func(nostr.Event) bool { return true })
	check(t, err)
	c.client = c.open(t, nil)
	if p, err := c.client.FollowOrder(w.ctx, first.RequestID, nil); err == nil || p.State != buyer.StateFailed {
		t.Errorf("the first request is %s (%s), %v", p.State, p.Reason, err)
	}
	w.settledUp(t, c, rateMsats+feeMsats)
	if got := w.earned(t, late); got != 0 {
		t.Errorf("the late one earned %d msats", got)
	}
}

// TestOrderGoesOnAfterARestart: a buyer that is stopped at any step of an order goes
// on where it was, and pays once.
func TestOrderGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	for _, stopAt := range []string{"next", "requested 2", "quoted", "accepted"} {
		t.Run(stopAt, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c := w.customer(t, nil)
			w.ghost(t, c, receipts.Price{PerMinuteMsats: 1_000})
			honest := w.named(t, "honest", rateMsats)
			w.sell(t, honest, nil, nil)
			w.alive(t, c, honest)

			first := w.orders(t, c)
			ctx, crash := context.WithCancel(w.ctx)
			defer crash()
			requested := 0
			p, err := c.client.FollowOrder(ctx, first.RequestID, func(pr buyer.Progress) {
				step := pr.What
				if step == "requested" {
					requested++
					step = fmt.Sprint(step, " ", requested)
				}
				if step == stopAt {
					crash()
				}
			})
			if err == nil {
				t.Fatalf("the order was not stopped: %s", p.State)
			}
			open, err := c.store.OpenOrders(w.ctx)
			if err != nil || len(open) != 1 || open[0] != first.RequestID {
				t.Fatalf("open orders %v, %v", open, err)
			}
			c.client = c.open(t, nil)
			p, err = c.client.FollowOrder(w.ctx, first.RequestID, nil)
			if err != nil || p.State != buyer.StateDone || p.Provider != honest.key.PublicKey() {
				t.Fatalf("the order is %s (%s), %v", p.State, p.Reason, err)
			}
			w.settledUp(t, c, rateMsats+feeMsats)
			if open, err := c.store.OpenOrders(w.ctx); err != nil || len(open) > 0 {
				t.Errorf("orders are open: %v, %v", open, err)
			}
		})
	}
}
