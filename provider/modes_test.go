package provider_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/port"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// sold checks a purchase that succeeded: the state of both sides, the money,
// and a receipt that a stranger can verify with nothing left open.
func (w *world) sold(t *testing.T, c *customer, f *following, mode receipts.Mode) buyer.Purchase {
	t.Helper()
	p, err := f.wait()
	if err != nil {
		t.Fatalf("purchase %s (%s): %v", p.State, p.Reason, err)
	}
	job := w.await(t, p.RequestID, provider.StateSucceeded)
	if p.State != buyer.StateDone || string(p.Output) != string(job.Result.Output) {
		t.Errorf("purchase %s, output %s", p.State, p.Output)
	}
	if mode == receipts.ModeFree {
		w.moved(t, c.party, 0, 0)
		if p.ReceiptID != "" || job.ReceiptID != "" || p.Attempt != nil {
			t.Errorf("a free job has receipt %q", p.ReceiptID)
		}
		return p
	}
	w.moved(t, c.party, rateMsats, rateMsats+feeMsats)
	if p.ReceiptID == "" || p.ReceiptID != job.ReceiptID {
		t.Fatalf("the buyer's receipt is %q, the provider's %q", p.ReceiptID, job.ReceiptID)
	}
	b, err := c.client.Bundle(w.ctx, p.RequestID)
	check(t, err)
	node, err := w.seller.wallet.Node(w.ctx)
	check(t, err)
	report := receipts.Verify(b, receipts.Pins{
		Provider: w.seller.key.PublicKey(), Buyer: c.key.PublicKey(), Payee: node.PubKey, Network: payments.Play,
		Required: []string{receipts.ClaimBuyerAccepted},
	})
	sealed := w.delivery != receipts.DeliveryPlain && (mode == receipts.ModeHold || mode == receipts.ModePostpay)
	if (p.SealedEvent != nil) != sealed || (b.Seal != nil) != sealed {
		t.Errorf("sealed is %v", p.SealedEvent != nil)
	}
	if sealed && (bytes.Contains(p.ResultEvent, []byte("output_hash")) || bytes.Contains(p.ResultEvent, []byte(job.Result.OutputHash.Hex()))) {
		t.Errorf("the event of a sealed result tells of the output: %s", p.ResultEvent)
	}
	if report.ExitCode() != receipts.ExitProved || report.AmountMsats != rateMsats || report.Mode != mode {
		t.Errorf("mode %s, %d msats: %+v", report.Mode, report.AmountMsats, report.Claims)
	}
	return p
}

// TestModes buys one job in each mode.
func TestModes(t *testing.T) {
	requirements.Covers(t, "OA-4.3", "OA-4.4", "OA-4.5", "OA-4.6", "OA-4.7")
	for i, mode := range append(allModes, receipts.ModeHold, receipts.ModePostpay) {
		delivery := []receipts.Delivery{receipts.DeliveryPlain, receipts.DeliverySealed}[i/len(allModes)]
		t.Run(string(mode)+" "+string(delivery), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.delivery = delivery
			w.serve(t, nil)
			c := w.customer(t, nil)
			p := w.place(t, c, mode, order(""))
			var words []string
			p = w.sold(t, c, w.follow(t, c, p.RequestID, func(pr buyer.Progress) { words = append(words, pr.What) }), mode)
			if w.runner.count() != 1 {
				t.Errorf("%d runs", w.runner.count())
			}
			if paid, result := slices.Index(words, "paid"), slices.IndexFunc(words, func(s string) bool { return s == "result" || s == "sealed" }); mode == receipts.ModePostpay && (result < 0 || paid < result) {
				t.Errorf("postpay paid before the result: %v", words)
			}
			again, err := c.client.Follow(w.ctx, p.RequestID, nil)
			if err != nil || again.State != buyer.StateDone {
				t.Errorf("following what is done: %s, %v", again.State, err)
			}
			budget := w.budget(t, c.store)
			if want := faucetMsats - w.balance(t, c.party); budget.ReservedMsats != 0 || budget.SpentMsats != want {
				t.Errorf("budget: %d msats spent, %d reserved; the wallet spent %d", budget.SpentMsats, budget.ReservedMsats, want)
			}
		})
	}
}

// TestReceiptsChain: of two jobs for the same buyer the second receipt names the first.
func TestReceiptsChain(t *testing.T) {
	w := newWorld(t)
	w.serve(t, nil)
	c := w.customer(t, nil)
	for i := range 2 {
		p := w.place(t, c, receipts.ModeHold, order(""))
		if _, err := w.follow(t, c, p.RequestID, nil).wait(); err != nil {
			t.Fatal(err)
		}
		b, err := c.client.Bundle(w.ctx, p.RequestID)
		check(t, err)
		report := receipts.Verify(b, receipts.Pins{})
		if got := report.Claim(receipts.ClaimChain).State; report.ExitCode() != receipts.ExitProved || i == 1 && got != receipts.Proved {
			t.Errorf("receipt %d: chain %s", i+1, got)
		}
	}
	w.moved(t, c.party, 2*rateMsats, 2*(rateMsats+feeMsats))
}

// TestManyBuyersAtOnce: jobs of several buyers at the same time do not mix.
func TestManyBuyersAtOnce(t *testing.T) {
	w := newWorld(t)
	w.serve(t, nil)
	var wg sync.WaitGroup
	for range 4 {
		c := w.customer(t, nil)
		p := w.place(t, c, receipts.ModeHold, order(""))
		f := w.follow(t, c, p.RequestID, nil)
		wg.Go(func() {
			if p, err := f.wait(); err != nil {
				t.Errorf("purchase %s (%s): %v", p.State, p.Reason, err)
			}
			if got := faucetMsats - w.balance(t, c.party); got != rateMsats+feeMsats {
				t.Errorf("a buyer spent %d msats", got)
			}
		})
	}
	wg.Wait()
	if got := w.balance(t, w.seller) - faucetMsats; got != 4*rateMsats {
		t.Errorf("the provider got %d msats", got)
	}
}

// TestPartialOutput: what a run prints reaches the buyer while it runs where
// nothing has to be paid. Otherwise the clock tells that it goes on.
func TestPartialOutput(t *testing.T) {
	for _, tt := range []struct {
		mode     receipts.Mode
		delivery receipts.Delivery
		shown    bool
	}{
		{receipts.ModeFree, receipts.DeliveryPlain, true},
		{receipts.ModeHold, receipts.DeliveryPlain, false},
		{receipts.ModePrepay, receipts.DeliveryPlain, false},
		{receipts.ModeHold, receipts.DeliverySealed, false},
		{receipts.ModePostpay, receipts.DeliveryPlain, false},
		{receipts.ModePostpay, receipts.DeliverySealed, false},
	} {
		mode := tt.mode
		t.Run(string(mode)+" "+string(tt.delivery), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.delivery = tt.delivery
			seen := make(chan string, 8)
			w.runner.do = w.streaming(seen)
			w.serve(t, func(cfg *provider.Config) { cfg.Offers = []provider.Offer{textOffer()} })
			c := w.customer(t, nil)
			p, err := c.client.Place(w.ctx, buyer.Order{
				Provider: w.seller.key.PublicKey(), SchemaID: string(schemas.TextGeneration), Input: []byte(`{"prompt":"Which fruit is yellow?"}`),
				MaxMsats: maxMsats, Mode: mode, Delivery: w.delivery,
			})
			check(t, err)
			var got []string
			w.sold(t, c, w.follow(t, c, p.RequestID, func(pr buyer.Progress) {
				if pr.What == "partial" || pr.What == "working" {
					got = append(got, pr.Text)
					seen <- pr.Text
				}
			}), mode)
			want := "running"
			if tt.shown {
				want = "the secret output"
			}
			if text := strings.Join(got, ""); text != want {
				t.Errorf("the buyer was told %q, want %q", text, want)
			}
		})
	}
}

// TestDeadRelayBeside: a relay that is not there delays nothing.
func TestDeadRelayBeside(t *testing.T) {
	w := newWorld(t)
	w.relays = append([]string{"ws://" + port.Reserve(t)}, w.relays...)
	w.serve(t, nil)
	c := w.customer(t, nil)
	w.sold(t, c, w.follow(t, c, w.place(t, c, receipts.ModeHold, order("")).RequestID, nil), receipts.ModeHold)
}

// TestResultThatSwells: a result that is small and whose event is not, since
// JSON escapes what is in it, travels as a blob and is paid for.
func TestResultThatSwells(t *testing.T) {
	w := newWorld(t)
	w.delivery = receipts.DeliveryPlain
	text := strings.Repeat(`"`, 15_000)
	w.runner.do = func(context.Context, provider.Run) (provider.Outcome, error) {
		return w.runner.good(func(r *schemas.SandboxRunResult) { r.Runs[0].StdoutPreview = text })
	}
	w.serve(t, nil)
	c := w.customer(t, nil)
	p := w.sold(t, c, w.follow(t, c, w.place(t, c, receipts.ModeHold, order("")).RequestID, nil), receipts.ModeHold)
	if len(p.Output) >= 32<<10 || len(p.ResultEvent) >= 60<<10 {
		t.Errorf("output of %d bytes in an event of %d", len(p.Output), len(p.ResultEvent))
	}
}
