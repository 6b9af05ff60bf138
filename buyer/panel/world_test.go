package panel_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/nbd-wtf/go-nostr"
	"go.uber.org/goleak"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/buyer/panel"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay/exchange"
	"github.com/lightwork-market/lightwork/schemas"
)

func membersOf(rivals ...*markettest.Rival) (seats []buyer.Listing) {
	for _, r := range rivals {
		seats = append(seats, buyer.Listing{
			Provider: r.Key.PublicKey(), PerMinuteMsats: markettest.RateMsats, BaseMsats: map[string]int64{string(schemas.SandboxRun): 0},
		})
	}
	return seats
}

// placePanel orders the usual job from the rivals; they may take the price and 10
// msats each, and not one msat more.
func placePanel(t *testing.T, w *markettest.World, c *markettest.Customer, rule panel.Rule, rivals ...*markettest.Rival) panel.Panel {
	t.Helper()
	p, err := c.Panels(t).Place(w.Ctx, panel.Order{
		SchemaID: string(schemas.SandboxRun), Input: markettest.SandboxInput(""), Members: membersOf(rivals...), Rule: rule,
		MaxMsats: int64(len(rivals)) * (markettest.RateMsats + 10), CommitTimeout: markettest.Slow,
	})
	markettest.Check(t, err)
	return p
}

func isReveal(ev nostr.Event) bool {
	t := ev.Tags.Find("status")
	return t != nil && t[1] == receipts.StatusReveal
}

// spyOn tells what an honest provider commits to and reveals.
type spy struct {
	w      *markettest.World
	m      *exchange.Market
	victim string
}

func (s spy) commit(ctx context.Context) (string, error) {
	ev, err := s.w.See(ctx, s.m, nostr.Filter{Kinds: []int{6050}, Authors: []string{s.victim}}, func(ev nostr.Event) bool { return ev.Tags.Find(receipts.TagCommit) != nil })
	if err != nil {
		return "", err
	}
	return ev.Tags.Find(receipts.TagCommit)[1], nil
}

func (s spy) reveal(ctx context.Context) (receipts.Reveal, error) {
	ev, err := s.w.See(ctx, s.m, nostr.Filter{Kinds: []int{7000}, Authors: []string{s.victim}}, isReveal)
	if err != nil {
		return receipts.Reveal{}, err
	}
	return receipts.ParseReveal([]byte(ev.Content))
}

// rubbish is an outcome that took no work: valid, and wrong.
func rubbish(r *markettest.Runner) func(context.Context, provider.Run) (provider.Outcome, error) {
	return func(context.Context, provider.Run) (provider.Outcome, error) {
		return r.Good(func(res *schemas.SandboxRunResult) { res.Runs[0].ExitCode, res.Status = 1, schemas.StatusFailed })
	}
}

// proved checks that a seat's purchase ended with a receipt that a stranger can
// verify.
func proved(t *testing.T, w *markettest.World, c *markettest.Customer, seat panel.Member) {
	t.Helper()
	p, err := c.Store.Purchase(w.Ctx, seat.RequestID)
	markettest.Check(t, err)
	if p.State != buyer.StateDone || p.ReceiptID == "" {
		t.Errorf("seat of %s is %s (%s)", seat.Provider, p.State, p.Reason)
		return
	}
	b, err := c.Client.Bundle(w.Ctx, p.RequestID)
	markettest.Check(t, err)
	report := receipts.Verify(b, receipts.Pins{
		Provider: seat.Provider, Buyer: c.Key.PublicKey(), Network: payments.Play, Required: []string{receipts.ClaimBuyerAccepted},
	})
	if report.ExitCode() != receipts.ExitProved {
		t.Errorf("seat of %s: %+v", seat.Provider, report.Claims)
	}
	if !bytes.Contains(p.Request, []byte(`\"redundancy\":`)) {
		t.Errorf("the request that the receipt binds says nothing of redundancy: %s", p.Request)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
