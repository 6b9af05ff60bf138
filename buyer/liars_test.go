package buyer_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// anybody is the usual order from whoever serves it best.
func anybody() buyer.Order {
	return buyer.Order{SchemaID: markettest.SandboxRun, Input: markettest.SandboxInput(""), MaxMsats: 100_000}
}

// orders places the usual order with the best candidate.
func orders(t *testing.T, w *markettest.World, c *markettest.Customer) buyer.Purchase {
	t.Helper()
	list, err := c.Client.Candidates(w.Ctx, anybody())
	markettest.Check(t, err)
	p, err := c.Client.PlaceOrder(w.Ctx, anybody(), list[0])
	markettest.Check(t, err)
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
	w := markettest.New(t)
	c := w.NewCustomer(t, func(cfg *buyer.Config) { cfg.Modes = []receipts.Mode{receipts.ModeHold} })

	w.Ghost(t, c, receipts.Price{PerMinuteMsats: 1_000})
	w.Ghost(t, c, receipts.Price{PerMinuteMsats: 1_500})
	w.Ghost(t, c, receipts.Price{BaseMsats: payments.MaxMsats, PerMinuteMsats: payments.MaxMsats})
	bait := w.RivalAt(t, "bait", 60_000)
	w.Sell(t, bait, func(cfg *provider.Config) {
		cfg.Offers = append(cfg.Offers, provider.Offer{SchemaID: string(schemas.Embedding), Modes: []receipts.Mode{receipts.ModeHold}, BaseMsats: 1})
	}, nil)
	late := w.RivalAt(t, "slow", 3_000)
	w.Sell(t, late, nil, func(ctx context.Context, ev *nostr.Event) error {
		if answersPings(ev) {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	})
	wrong := w.RivalAt(t, "wrong", 5_000)
	w.Sell(t, wrong, nil, func(_ context.Context, ev *nostr.Event) error {
		if !answersPings(ev) {
			ev.Content = string(bytes.Replace([]byte(ev.Content), []byte(`"price_msats":5000`), []byte(`"price_msats":4000`), 1))
		}
		return nil
	})
	gone := w.RivalAt(t, "gone", 6_000)
	w.Sell(t, gone, nil, func(ctx context.Context, ev *nostr.Event) error {
		if status := ev.Tags.Find("status"); ev.Kind != 6050 && (answersPings(ev) || status[1] == "payment-required") {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	})
	w.GivesBack(t, gone)
	honest := []*markettest.Rival{w.RivalAt(t, "honest", 21_000), w.RivalAt(t, "honest-2", 22_000), w.RivalAt(t, "honest-3", 23_000)}
	for _, r := range honest {
		w.Sell(t, r, nil, nil)
	}
	w.Alive(t, c, append(honest, bait, late, wrong, gone)...)

	spent := int64(0)
	for range 3 {
		p, err := c.Client.FollowOrder(w.Ctx, orders(t, w, c).RequestID, nil)
		if err != nil || p.State != buyer.StateDone || p.ReceiptID == "" {
			t.Fatalf("the order is %s (%s), %v", p.State, p.Reason, err)
		}
		if most := honest[0].Rate + honest[0].Rate/10; p.Payment.AmountMsats > most {
			t.Errorf("an order cost %d msats, the cheapest honest one %d", p.Payment.AmountMsats, honest[0].Rate)
		}
		spent += p.Payment.AmountMsats + p.Payment.FeeMsats
	}
	w.SettledUp(t, c, spent)
	for _, r := range []*markettest.Rival{bait, late, wrong, gone} {
		if got := w.Earned(t, r); got != 0 {
			t.Errorf("a liar earned %d msats", got)
		}
	}
	if open, err := c.Store.OpenOrders(w.Ctx); err != nil || len(open) > 0 {
		t.Errorf("orders are open: %v, %v", open, err)
	}
}

// TestCrowdOfGhosts: however many providers are announced and gone, an honest one is
// asked within ten seconds, and the next order passes over who was asked in vain.
func TestCrowdOfGhosts(t *testing.T) {
	t.Parallel()
	w := markettest.New(t)
	c := w.NewCustomer(t, nil)
	for i := range 40 {
		w.Ghost(t, c, receipts.Price{PerMinuteMsats: 1_000 + int64(i)})
	}
	honest := w.RivalAt(t, "honest", markettest.RateMsats)
	w.Sell(t, honest, nil, nil)
	w.Alive(t, c, honest)

	first := orders(t, w, c)
	began, asked, waited := time.Now(), 0, time.Duration(0)
	p, err := c.Client.FollowOrder(w.Ctx, first.RequestID, func(pr buyer.Progress) {
		if pr.What == "requested" {
			asked, waited = asked+1, time.Since(began)
		}
	})
	if err != nil || p.Provider != honest.Key.PublicKey() {
		t.Fatalf("the order is %s (%s), %v", p.State, p.Reason, err)
	}
	if asked > 4 || waited > 2*10*time.Second {
		t.Errorf("%d were asked, the honest one after %v", asked, waited)
	}
	if was, err := c.Store.Purchase(w.Ctx, first.RequestID); err != nil || was.State != buyer.StateFailed || !bytes.HasPrefix([]byte(was.Reason), []byte("no_answer: ")) {
		t.Errorf("the first request is %s (%s), %v", was.State, was.Reason, err)
	}
	deleted := nostr.Filter{Kinds: []int{5}, Authors: []string{c.Key.PublicKey()}, Tags: nostr.TagMap{"e": {first.RequestID}}}
	_, err = w.See(w.Ctx, c.Market, deleted, func(nostr.Event) bool { return true })
	markettest.Check(t, err)

	list, err := c.Client.Candidates(w.Ctx, anybody())
	markettest.Check(t, err)
	if len(list) != 41 || list[0].Provider == first.Provider || list[40].Provider != first.Provider {
		t.Errorf("who did not answer is not the last of %d", len(list))
	}
	w.SettledUp(t, c, markettest.RateMsats+markettest.FeeMsats)
}

// TestLateQuoteIsNotPaid: a provider that quotes after another was asked in its
// place gets nothing, also when the buyer is started again.
func TestLateQuoteIsNotPaid(t *testing.T) {
	t.Parallel()
	w := markettest.New(t)
	c := w.NewCustomer(t, nil)
	released := make(chan struct{})
	late := w.RivalAt(t, "late", 3_000)
	w.Sell(t, late, nil, func(ctx context.Context, ev *nostr.Event) error {
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
	honest := w.RivalAt(t, "honest", markettest.RateMsats)
	w.Sell(t, honest, nil, nil)
	w.Alive(t, c, late, honest)

	first := orders(t, w, c)
	p, err := c.Client.FollowOrder(w.Ctx, first.RequestID, nil)
	if err != nil || first.Provider != late.Key.PublicKey() || p.Provider != honest.Key.PublicKey() {
		t.Fatalf("the order is %s (%s), %v", p.State, p.Reason, err)
	}
	close(released)
	said := nostr.Filter{Kinds: []int{7000}, Authors: []string{late.Key.PublicKey()}, Tags: nostr.TagMap{"e": {first.RequestID}}}
	_, err = w.See(w.Ctx, c.Market, said, func(nostr.Event) bool { return true })
	markettest.Check(t, err)
	c.Client = c.Open(t, nil)
	if p, err := c.Client.FollowOrder(w.Ctx, first.RequestID, nil); err == nil || p.State != buyer.StateFailed {
		t.Errorf("the first request is %s (%s), %v", p.State, p.Reason, err)
	}
	w.SettledUp(t, c, markettest.RateMsats+markettest.FeeMsats)
	if got := w.Earned(t, late); got != 0 {
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
			w := markettest.New(t)
			c := w.NewCustomer(t, nil)
			w.Ghost(t, c, receipts.Price{PerMinuteMsats: 1_000})
			honest := w.RivalAt(t, "honest", markettest.RateMsats)
			w.Sell(t, honest, nil, nil)
			w.Alive(t, c, honest)

			first := orders(t, w, c)
			ctx, crash := context.WithCancel(w.Ctx)
			defer crash()
			requested := 0
			p, err := c.Client.FollowOrder(ctx, first.RequestID, func(pr buyer.Progress) {
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
			open, err := c.Store.OpenOrders(w.Ctx)
			if err != nil || len(open) != 1 || open[0] != first.RequestID {
				t.Fatalf("open orders %v, %v", open, err)
			}
			c.Client = c.Open(t, nil)
			p, err = c.Client.FollowOrder(w.Ctx, first.RequestID, nil)
			if err != nil || p.State != buyer.StateDone || p.Provider != honest.Key.PublicKey() {
				t.Fatalf("the order is %s (%s), %v", p.State, p.Reason, err)
			}
			w.SettledUp(t, c, markettest.RateMsats+markettest.FeeMsats)
			if open, err := c.Store.OpenOrders(w.Ctx); err != nil || len(open) > 0 {
				t.Errorf("orders are open: %v, %v", open, err)
			}
		})
	}
}
