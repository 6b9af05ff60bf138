package buyer_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

func openOrder(mode receipts.Mode) buyer.Order {
	return buyer.Order{SchemaID: string(schemas.SandboxRun), Input: markettest.SandboxInput(""), MaxMsats: markettest.RateMsats + 10, Mode: mode}
}

// TestOpenToAll: the first provider with a valid offer is paid, once; an offer
// that is not valid is passed over, however early it comes.
func TestOpenToAll(t *testing.T) {
	for _, mode := range []receipts.Mode{"", receipts.ModeFree} {
		t.Run("mode "+string(mode), func(t *testing.T) {
			t.Parallel()
			w := markettest.New(t)
			refused := make(chan struct{})
			liar := w.NewRival(t, "liar")
			w.Open(t, liar, func(_ context.Context, ev *nostr.Event) error {
				if ev.Kind == 7000 && ev.Content != "" { // an offer for another job
					ev.Content = string(bytes.Replace([]byte(ev.Content), []byte(`"job_hash":"sha256:`), []byte(`"job_hash":"sha256:0000`), 1))
				}
				return nil
			})
			c := w.NewCustomer(t, markettest.Unhurried)
			placed := make(chan error, 1)
			var p buyer.Purchase
			go func() {
				var err error
				p, err = c.Client.PlaceOpen(w.Ctx, openOrder(mode), func(pr buyer.Progress) {
					if pr.What == "refused" {
						close(refused)
					}
				})
				placed <- err
			}()
			select { // the honest come to the market when the liar has been heard
			case <-refused:
			case err := <-placed:
				t.Fatalf("placed with %s: %v", p.Provider, err)
			}
			rivals := w.Honest(t, 2)
			markettest.Check(t, <-placed)
			p, err := c.Client.Follow(w.Ctx, p.RequestID, nil)
			markettest.Check(t, err)
			if p.State != buyer.StateDone || p.Provider == liar.Key.PublicKey() {
				t.Errorf("purchase %s from %s", p.State, p.Provider)
			}
			want := int64(markettest.RateMsats)
			if mode == receipts.ModeFree {
				want = 0
			}
			if got := w.Earned(t, rivals[0]) + w.Earned(t, rivals[1]); got != want || w.Earned(t, liar) != 0 {
				t.Errorf("the honest earned %d msats, the liar %d", got, w.Earned(t, liar))
			}
		})
	}
}

// TestOpenTakesTheBestOffer: who is quickest wins nothing over who is better, and
// an offer from a key that announces nothing is the last resort, however cheap.
func TestOpenTakesTheBestOffer(t *testing.T) {
	t.Parallel()
	w := markettest.New(t)
	dear, cheap := w.NewRival(t, "dear"), w.NewRival(t, "cheap")
	cheap.Rate = markettest.RateMsats - 1000
	m := w.Connect(t, cheap.Key)
	w.Open(t, dear, nil)
	w.Open(t, cheap, func(ctx context.Context, ev *nostr.Event) error {
		if ev.Kind != 7000 { // it quotes when the other has been heard
			return nil
		}
		_, err := w.See(ctx, m, nostr.Filter{Kinds: []int{7000}, Authors: []string{dear.Key.PublicKey()}}, func(nostr.Event) bool { return true })
		return err
	})
	nameless := w.NewRival(t, "nameless")
	nameless.Rate = 1
	w.Open(t, nameless, func(_ context.Context, ev *nostr.Event) error {
		if ev.Kind == 31990 {
			ev.Tags = nil // and so nobody finds it
		}
		return nil
	})
	c := w.NewCustomer(t, func(cfg *buyer.Config) {
		markettest.Unhurried(cfg)
		cfg.OfferTimeout = markettest.Slow / 2
	})
	for _, r := range []*markettest.Rival{dear, cheap} {
		_, err := w.See(w.Ctx, c.Market, nostr.Filter{Kinds: []int{31990}, Authors: []string{r.Key.PublicKey()}}, func(nostr.Event) bool { return true })
		markettest.Check(t, err)
	}
	p, err := c.Client.PlaceOpen(w.Ctx, openOrder(""), nil)
	markettest.Check(t, err)
	if p.Provider != cheap.Key.PublicKey() {
		t.Errorf("taken is %s of dear %s, cheap %s, nameless %s", p.Provider, dear.Key.PublicKey(), cheap.Key.PublicKey(), nameless.Key.PublicKey())
	}
	for _, r := range []*markettest.Rival{dear, nameless} { // their invoices are free long before their quotes lapse
		f := nostr.Filter{Kinds: []int{7000}, Authors: []string{r.Key.PublicKey()}, Tags: nostr.TagMap{"e": {p.RequestID}}}
		_, err := w.See(w.Ctx, c.Market, f, func(ev nostr.Event) bool {
			status := ev.Tags.Find("status")
			return status != nil && status[1] == "error" && len(status) > 2 && strings.HasPrefix(status[2], "canceled")
		})
		markettest.Check(t, err)
		job, err := r.DB.Sales("paid-job").Job(w.Ctx, p.RequestID)
		markettest.Check(t, err)
		if inv, err := r.Wallet.LookupInvoice(w.Ctx, job.PaymentHash); err != nil || inv.State != payments.InvoiceCanceled {
			t.Errorf("the invoice of one who is not taken is %s, %v", inv.State, err)
		}
	}
	_, err = c.Client.Follow(w.Ctx, p.RequestID, nil)
	markettest.Check(t, err)
	w.SettledUp(t, c, cheap.Rate+markettest.FeeMsats)
}

// TestOpenToNobody: without a valid offer there is no purchase and nothing is paid.
func TestOpenToNobody(t *testing.T) {
	t.Parallel()
	w := markettest.New(t)
	c := w.NewCustomer(t, func(cfg *buyer.Config) { cfg.AnswerTimeout = markettest.Slow / 6 })
	if _, err := c.Client.PlaceOpen(w.Ctx, openOrder(""), nil); !errors.Is(err, buyer.ErrFailed) {
		t.Errorf("placed: %v", err)
	}
	for _, bad := range []buyer.Order{
		{SchemaID: string(schemas.SandboxRun), Input: markettest.SandboxInput(""), MaxMsats: 1, Mode: receipts.ModePostpay},
		{SchemaID: string(schemas.SandboxRun), Input: markettest.SandboxInput(""), MaxMsats: 1, Provider: c.Key.PublicKey()},
		{SchemaID: "oa.none.v1", MaxMsats: 1},
	} {
		if _, err := c.Client.PlaceOpen(w.Ctx, bad, nil); err == nil || errors.Is(err, buyer.ErrFailed) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	w.SettledUp(t, c, 0)
	if list, err := c.Store.Purchases(w.Ctx, 0); err != nil || len(list) != 0 {
		t.Errorf("%d purchases, %v", len(list), err)
	}
}
