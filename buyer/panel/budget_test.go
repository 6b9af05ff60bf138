package panel_test

import (
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/buyer/panel"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// TestSeatOverItsProvidersLimit: what the buyer has left for one key is that
// seat's concern, and costs the others nothing.
func TestSeatOverItsProvidersLimit(t *testing.T) {
	t.Parallel()
	w := markettest.New(t)
	rivals := w.Honest(t, 3)
	c := w.NewCustomer(t, func(cfg *buyer.Config) {
		markettest.Unhurried(cfg)
		cfg.Limits.ProviderMsats = markettest.RateMsats + 50
	})
	known := rivals[0]
	p, err := c.Client.Place(w.Ctx, buyer.Order{
		Provider: known.Key.PublicKey(), SchemaID: string(schemas.SandboxRun), Input: markettest.SandboxInput(""), MaxMsats: markettest.RateMsats + 10, Mode: receipts.ModeHold,
	})
	markettest.Check(t, err)
	_, err = w.Follow(t, c, p.RequestID, nil).Wait()
	markettest.Check(t, err)
	several := placePanel(t, w, c, panel.RuleMajority, rivals...)
	several, err = c.Panels(t).Follow(w.Ctx, several.ID, nil)
	markettest.Check(t, err)
	if several.Decision.Outcome != panel.OutcomeAgreed || several.Members[0].Ruling.Taken {
		t.Errorf("decision %+v, the first seat %+v", several.Decision, several.Members[0].Ruling)
	}
	for _, r := range rivals {
		if got := w.Earned(t, r); got != markettest.RateMsats {
			t.Errorf("a provider earned %d msats", got)
		}
	}
}

// TestFirstThatCannotBePaidIsNone: the first answer of several that the buyer cannot
// pay does not end the panel with nobody paid: the next is taken.
func TestFirstThatCannotBePaidIsNone(t *testing.T) {
	t.Parallel()
	w := markettest.New(t)
	known, next := w.Honest(t, 1)[0], w.NewRival(t, "next")
	c := w.NewCustomer(t, func(cfg *buyer.Config) {
		markettest.Unhurried(cfg)
		cfg.Limits.ProviderMsats = markettest.RateMsats + 50
	})
	p, err := c.Client.Place(w.Ctx, buyer.Order{
		Provider: known.Key.PublicKey(), SchemaID: string(schemas.SandboxRun), Input: markettest.SandboxInput(""), MaxMsats: markettest.RateMsats + 10, Mode: receipts.ModeHold,
	})
	markettest.Check(t, err)
	_, err = w.Follow(t, c, p.RequestID, nil).Wait()
	markettest.Check(t, err)
	several, err := c.Panels(t).Place(w.Ctx, panel.Order{
		SchemaID: string(schemas.SandboxRun), Input: markettest.SandboxInput(""), Rule: panel.RuleFirst, MaxMsats: markettest.RateMsats + 10,
		Members: membersOf(known, next), CommitTimeout: markettest.Slow, Mode: receipts.ModeHold,
	})
	markettest.Check(t, err)
	opened := make(chan struct{})
	several, err = c.Panels(t).Follow(w.Ctx, several.ID, func(seat string, pr buyer.Progress) {
		if seat == known.Key.PublicKey() && pr.What == "refused" {
			close(opened)
			w.Open(t, next, nil) // who comes later is first now
		}
	})
	markettest.Check(t, err)
	select {
	case <-opened:
	default:
		t.Fatal("the known provider was not refused")
	}
	if several.Decision.Outcome != panel.OutcomeFirst || several.Members[0].Ruling.Taken || !several.Members[1].Ruling.Taken {
		t.Errorf("decision %+v, seats %+v %+v", several.Decision, several.Members[0].Ruling, several.Members[1].Ruling)
	}
	seat, err := c.Store.Purchase(w.Ctx, several.Members[0].RequestID)
	if err != nil || seat.State != buyer.StateFailed || seat.Cancel == nil {
		t.Errorf("the seat that cannot be paid is %s, canceled: %v, %v", seat.State, seat.Cancel != nil, err)
	}
	w.SettledUp(t, c, 2*(markettest.RateMsats+markettest.FeeMsats))
}
