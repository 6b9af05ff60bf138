package panel_test

import (
	"context"
	"sync"
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/buyer/panel"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// TestOfferAgainstTheRulesIsNotFirst: who offers at once what the buyer's rules
// do not approve takes nothing from the provider that comes after it.
func TestOfferAgainstTheRulesIsNotFirst(t *testing.T) {
	t.Parallel()
	w := markettest.New(t)
	quick := w.NewRival(t, "quick")
	w.Open(t, quick, nil) // its first mode is hold
	offered := make(chan struct{})
	w.Runner.Do = func(ctx context.Context, _ provider.Run) (provider.Outcome, error) {
		select {
		case <-offered:
			return w.Runner.Good(nil)
		case <-ctx.Done():
			return provider.Outcome{}, ctx.Err()
		}
	}
	w.Serve(t, func(cfg *provider.Config) { cfg.Offers[0].Modes = []receipts.Mode{receipts.ModePostpay} })
	c := w.NewCustomer(t, func(cfg *buyer.Config) {
		markettest.Unhurried(cfg)
		cfg.Approvals = []buyer.ApprovalRule{{ID: "work first", Modes: []receipts.Mode{receipts.ModePostpay}, Do: buyer.Approve}}
	})
	p, err := c.Panels(t).Place(w.Ctx, panel.Order{
		SchemaID: string(schemas.SandboxRun), Input: markettest.SandboxInput(""), Rule: panel.RuleFirst, MaxMsats: markettest.RateMsats + 10,
		Members: membersOf(quick, &markettest.Rival{Party: w.Seller}), CommitTimeout: markettest.Slow,
	})
	markettest.Check(t, err)
	was := sync.OnceFunc(func() { close(offered) })
	p, err = c.Panels(t).Follow(w.Ctx, p.ID, func(seat string, pr buyer.Progress) {
		if seat == quick.Key.PublicKey() && (pr.What == "quoted" || pr.What == "refused") {
			was()
		}
	})
	markettest.Check(t, err)
	if p.Decision.Outcome != panel.OutcomeFirst || !p.Members[1].Ruling.Taken {
		t.Errorf("decision %+v, seats %+v", p.Decision, p.Members)
	}
	w.Moved(t, c.Party, markettest.RateMsats, markettest.RateMsats+markettest.FeeMsats)
}
