package provider_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/internal/port"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// TestModes buys one job in each mode.
func TestModes(t *testing.T) {
	requirements.Covers(t, "OA-4.3", "OA-4.4", "OA-4.5", "OA-4.6", "OA-4.7")
	for i, mode := range append(markettest.AllModes, receipts.ModeHold, receipts.ModePostpay) {
		delivery := []receipts.Delivery{receipts.DeliveryPlain, receipts.DeliverySealed}[i/len(markettest.AllModes)]
		t.Run(string(mode)+" "+string(delivery), func(t *testing.T) {
			t.Parallel()
			w := markettest.New(t)
			w.Delivery = delivery
			w.Serve(t, nil)
			c := w.NewCustomer(t, nil)
			p := w.Place(t, c, mode, markettest.SandboxInput(""))
			var words []string
			p = w.Sold(t, c, w.Follow(t, c, p.RequestID, func(pr buyer.Progress) { words = append(words, pr.What) }), mode)
			if w.Runner.Count() != 1 {
				t.Errorf("%d runs", w.Runner.Count())
			}
			if paid, result := slices.Index(words, "paid"), slices.IndexFunc(words, func(s string) bool { return s == "result" || s == "sealed" }); mode == receipts.ModePostpay && (result < 0 || paid < result) {
				t.Errorf("postpay paid before the result: %v", words)
			}
			again, err := c.Client.Follow(w.Ctx, p.RequestID, nil)
			if err != nil || again.State != buyer.StateDone {
				t.Errorf("following what is done: %s, %v", again.State, err)
			}
			budget := w.Budget(t, c.Store)
			if want := markettest.FaucetMsats - w.Balance(t, c.Party); budget.ReservedMsats != 0 || budget.SpentMsats != want {
				t.Errorf("budget: %d msats spent, %d reserved; the wallet spent %d", budget.SpentMsats, budget.ReservedMsats, want)
			}
		})
	}
}

// TestReceiptsChain: of two jobs for the same buyer the second receipt names the first.
func TestReceiptsChain(t *testing.T) {
	w := markettest.New(t)
	w.Serve(t, nil)
	c := w.NewCustomer(t, nil)
	for i := range 2 {
		p := w.Place(t, c, receipts.ModeHold, markettest.SandboxInput(""))
		if _, err := w.Follow(t, c, p.RequestID, nil).Wait(); err != nil {
			t.Fatal(err)
		}
		b, err := c.Client.Bundle(w.Ctx, p.RequestID)
		markettest.Check(t, err)
		report := receipts.Verify(b, receipts.Pins{})
		if got := report.Claim(receipts.ClaimChain).State; report.ExitCode() != receipts.ExitProved || i == 1 && got != receipts.Proved {
			t.Errorf("receipt %d: chain %s", i+1, got)
		}
	}
	w.Moved(t, c.Party, 2*markettest.RateMsats, 2*(markettest.RateMsats+markettest.FeeMsats))
}

// TestManyBuyersAtOnce: jobs of several buyers at the same time do not mix.
func TestManyBuyersAtOnce(t *testing.T) {
	w := markettest.New(t)
	w.Serve(t, nil)
	var wg sync.WaitGroup
	for range 4 {
		c := w.NewCustomer(t, nil)
		p := w.Place(t, c, receipts.ModeHold, markettest.SandboxInput(""))
		f := w.Follow(t, c, p.RequestID, nil)
		wg.Go(func() {
			if p, err := f.Wait(); err != nil {
				t.Errorf("purchase %s (%s): %v", p.State, p.Reason, err)
			}
			if got := markettest.FaucetMsats - w.Balance(t, c.Party); got != markettest.RateMsats+markettest.FeeMsats {
				t.Errorf("a buyer spent %d msats", got)
			}
		})
	}
	wg.Wait()
	if got := w.Balance(t, w.Seller) - markettest.FaucetMsats; got != 4*markettest.RateMsats {
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
			w := markettest.New(t)
			w.Delivery = tt.delivery
			seen := make(chan string, 8)
			w.Runner.Do = w.Streaming(seen)
			w.Serve(t, func(cfg *provider.Config) { cfg.Offers = []provider.Offer{markettest.TextOffer()} })
			c := w.NewCustomer(t, nil)
			p, err := c.Client.Place(w.Ctx, buyer.Order{
				Provider: w.Seller.Key.PublicKey(), SchemaID: string(schemas.TextGeneration), Input: []byte(`{"prompt":"Which fruit is yellow?"}`),
				MaxMsats: markettest.MaxMsats, Mode: mode, Delivery: w.Delivery,
			})
			markettest.Check(t, err)
			var got []string
			w.Sold(t, c, w.Follow(t, c, p.RequestID, func(pr buyer.Progress) {
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
	w := markettest.New(t)
	w.Relays = append([]string{"ws://" + port.Reserve(t)}, w.Relays...)
	w.Serve(t, nil)
	c := w.NewCustomer(t, nil)
	w.Sold(t, c, w.Follow(t, c, w.Place(t, c, receipts.ModeHold, markettest.SandboxInput("")).RequestID, nil), receipts.ModeHold)
}

// TestResultThatSwells: a result that is small and whose event is not, since
// JSON escapes what is in it, travels as a blob and is paid for.
func TestResultThatSwells(t *testing.T) {
	w := markettest.New(t)
	w.Delivery = receipts.DeliveryPlain
	text := strings.Repeat(`"`, 15_000)
	w.Runner.Do = func(context.Context, provider.Run) (provider.Outcome, error) {
		return w.Runner.Good(func(r *schemas.SandboxRunResult) { r.Runs[0].StdoutPreview = text })
	}
	w.Serve(t, nil)
	c := w.NewCustomer(t, nil)
	p := w.Sold(t, c, w.Follow(t, c, w.Place(t, c, receipts.ModeHold, markettest.SandboxInput("")).RequestID, nil), receipts.ModeHold)
	if len(p.Output) >= 32<<10 || len(p.ResultEvent) >= 60<<10 {
		t.Errorf("output of %d bytes in an event of %d", len(p.Output), len(p.ResultEvent))
	}
}
