package provider_test

import (
	"context"
	"sync"
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// TestOfferAgainstTheRulesIsNotFirst: who offers at once what the buyer's rules
// do not approve takes nothing from the provider that comes after it.
func TestOfferAgainstTheRulesIsNotFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	quick := w.rival(t, "quick")
	w.open(t, quick, nil) // its first mode is hold
	offered := make(chan struct{})
	w.runner.do = func(ctx context.Context, _ provider.Run) (provider.Outcome, error) {
		select {
		case <-offered:
			return w.runner.good(nil)
		case <-ctx.Done():
			return provider.Outcome{}, ctx.Err()
		}
	}
	w.serve(t, func(cfg *provider.Config) { cfg.Offers[0].Modes = []receipts.Mode{receipts.ModePostpay} })
	c := w.customer(t, func(cfg *buyer.Config) {
		unhurried(cfg)
		cfg.Approvals = []buyer.ApprovalRule{{ID: "work first", Modes: []receipts.Mode{receipts.ModePostpay}, Do: buyer.Approve}}
	})
	p, err := c.client.PlacePanel(w.ctx, buyer.PanelOrder{
		SchemaID: string(schemas.SandboxRun), Input: order(""), Rule: buyer.RuleFirst, MaxMsats: rateMsats + 10,
		Seats: seatsOf(quick, &rival{party: w.seller}), CommitTimeout: slow,
	})
	check(t, err)
	was := sync.OnceFunc(func() { close(offered) })
	p, err = c.client.FollowPanel(w.ctx, p.ID, func(seat string, pr buyer.Progress) {
		if seat == quick.key.PublicKey() && (pr.What == "quoted" || pr.What == "refused") {
			was()
		}
	})
	check(t, err)
	if p.Decision.Outcome != buyer.OutcomeFirst || !p.Seats[1].Ruling.Taken {
		t.Errorf("decision %+v, seats %+v", p.Decision, p.Seats)
	}
	w.moved(t, c.party, rateMsats, rateMsats+feeMsats)
}
