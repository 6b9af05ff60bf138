package provider_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

func openOrder(mode receipts.Mode) buyer.Order {
	return buyer.Order{SchemaID: string(schemas.SandboxRun), Input: order(""), MaxMsats: rateMsats + 10, Mode: mode}
}

// TestOpenToAll: the first provider with a valid offer is paid, once; an offer
// that is not valid is passed over, however early it comes.
func TestOpenToAll(t *testing.T) {
	for _, mode := range []receipts.Mode{"", receipts.ModeFree} {
		t.Run("mode "+string(mode), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			refused := make(chan struct{})
			liar := w.rival(t, "liar")
			w.open(t, liar, func(_ context.Context, ev *nostr.Event) error {
				if ev.Kind == 7000 && ev.Content != "" { // an offer for another job
					ev.Content = string(bytes.Replace([]byte(ev.Content), []byte(`"job_hash":"sha256:`), []byte(`"job_hash":"sha256:0000`), 1))
				}
				return nil
			})
			c := w.customer(t, unhurried)
			placed := make(chan error, 1)
			var p buyer.Purchase
			go func() {
				var err error
				p, err = c.client.PlaceOpen(w.ctx, openOrder(mode), func(pr buyer.Progress) {
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
			rivals := w.honest(t, 2)
			check(t, <-placed)
			p, err := c.client.Follow(w.ctx, p.RequestID, nil)
			check(t, err)
			if p.State != buyer.StateDone || p.Provider == liar.key.PublicKey() {
				t.Errorf("purchase %s from %s", p.State, p.Provider)
			}
			want := int64(rateMsats)
			if mode == receipts.ModeFree {
				want = 0
			}
			if got := w.earned(t, rivals[0]) + w.earned(t, rivals[1]); got != want || w.earned(t, liar) != 0 {
				t.Errorf("the honest earned %d msats, the liar %d", got, w.earned(t, liar))
			}
		})
	}
}

// TestOpenTakesTheBestOffer: who is quickest wins nothing over who is better, and
// an offer from a key that announces nothing is the last resort, however cheap.
func TestOpenTakesTheBestOffer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dear, cheap := w.rival(t, "dear"), w.rival(t, "cheap")
	cheap.rate = rateMsats - 1000
	m := w.connect(t, cheap.key)
	w.open(t, dear, nil)
	w.open(t, cheap, func(ctx context.Context, ev *nostr.Event) error {
		if ev.Kind != 7000 { // it quotes when the other has been heard
			return nil
		}
		_, err := w.see(ctx, m, nostr.Filter{Kinds: []int{7000}, Authors: []string{dear.key.PublicKey()}}, func(nostr.Event) bool { return true })
		return err
	})
	nameless := w.rival(t, "nameless")
	nameless.rate = 1
	w.open(t, nameless, func(_ context.Context, ev *nostr.Event) error {
		if ev.Kind == 31990 {
			ev.Tags = nil // and so nobody finds it
		}
		return nil
	})
	c := w.customer(t, func(cfg *buyer.Config) {
		unhurried(cfg)
		cfg.OfferTimeout = slow / 2
	})
	for _, r := range []*rival{dear, cheap} {
		_, err := w.see(w.ctx, c.market, nostr.Filter{Kinds: []int{31990}, Authors: []string{r.key.PublicKey()}}, func(nostr.Event) bool { return true })
		check(t, err)
	}
	p, err := c.client.PlaceOpen(w.ctx, openOrder(""), nil)
	check(t, err)
	if p.Provider != cheap.key.PublicKey() {
		t.Errorf("taken is %s of dear %s, cheap %s, nameless %s", p.Provider, dear.key.PublicKey(), cheap.key.PublicKey(), nameless.key.PublicKey())
	}
	for _, r := range []*rival{dear, nameless} { // their invoices are free long before their quotes lapse
		f := nostr.Filter{Kinds: []int{7000}, Authors: []string{r.key.PublicKey()}, Tags: nostr.TagMap{"e": {p.RequestID}}}
		_, err := w.see(w.ctx, c.market, f, func(ev nostr.Event) bool {
			status := ev.Tags.Find("status")
			return status != nil && status[1] == "error" && len(status) > 2 && strings.HasPrefix(status[2], "canceled")
		})
		check(t, err)
		job, err := r.kernel.ProviderStore("paid-job").Job(w.ctx, p.RequestID)
		check(t, err)
		if inv, err := r.wallet.LookupInvoice(w.ctx, job.PaymentHash); err != nil || inv.State != payments.InvoiceCanceled {
			t.Errorf("the invoice of one who is not taken is %s, %v", inv.State, err)
		}
	}
	_, err = c.client.Follow(w.ctx, p.RequestID, nil)
	check(t, err)
	w.settledUp(t, c, cheap.rate+feeMsats)
}

// TestOpenToNobody: without a valid offer there is no purchase and nothing is paid.
func TestOpenToNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.customer(t, func(cfg *buyer.Config) { cfg.AnswerTimeout = slow / 6 })
	if _, err := c.client.PlaceOpen(w.ctx, openOrder(""), nil); !errors.Is(err, buyer.ErrFailed) {
		t.Errorf("placed: %v", err)
	}
	for _, bad := range []buyer.Order{
		{SchemaID: string(schemas.SandboxRun), Input: order(""), MaxMsats: 1, Mode: receipts.ModePostpay},
		{SchemaID: string(schemas.SandboxRun), Input: order(""), MaxMsats: 1, Provider: c.key.PublicKey()},
		{SchemaID: "oa.none.v1", MaxMsats: 1},
	} {
		if _, err := c.client.PlaceOpen(w.ctx, bad, nil); err == nil || errors.Is(err, buyer.ErrFailed) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	w.settledUp(t, c, 0)
	if list, err := c.store.Purchases(w.ctx, 0); err != nil || len(list) != 0 {
		t.Errorf("%d purchases, %v", len(list), err)
	}
}
