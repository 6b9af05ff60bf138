package provider_test

import (
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// TestSeatOverItsProvidersLimit: what the buyer has left for one key is that
// seat's concern, and costs the others nothing.
func TestSeatOverItsProvidersLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rivals := w.honest(t, 3)
	c := w.customer(t, func(cfg *buyer.Config) {
		unhurried(cfg)
		cfg.Limits.ProviderMsats = rateMsats + 50
	})
	known := rivals[0]
	p, err := c.client.Place(w.ctx, buyer.Order{
		Provider: known.key.PublicKey(), SchemaID: string(schemas.SandboxRun), Input: order(""), MaxMsats: rateMsats + 10, Mode: receipts.ModeHold,
	})
	check(t, err)
	_, err = w.follow(t, c, p.RequestID, nil).wait()
	check(t, err)
	panel := w.panel(t, c, buyer.RuleMajority, rivals...)
	panel, err = c.client.FollowPanel(w.ctx, panel.ID, nil)
	check(t, err)
	if panel.Decision.Outcome != buyer.OutcomeAgreed || panel.Seats[0].Ruling.Taken {
		t.Errorf("decision %+v, the first seat %+v", panel.Decision, panel.Seats[0].Ruling)
	}
	for _, r := range rivals {
		if got := w.earned(t, r); got != rateMsats {
			t.Errorf("a provider earned %d msats", got)
		}
	}
}

// TestFirstThatCannotBePaidIsNone: the first answer of several that the buyer cannot
// pay does not end the panel with nobody paid: the next is taken.
func TestFirstThatCannotBePaidIsNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	known, next := w.honest(t, 1)[0], w.rival(t, "next")
	c := w.customer(t, func(cfg *buyer.Config) {
		unhurried(cfg)
		cfg.Limits.ProviderMsats = rateMsats + 50
	})
	p, err := c.client.Place(w.ctx, buyer.Order{
		Provider: known.key.PublicKey(), SchemaID: string(schemas.SandboxRun), Input: order(""), MaxMsats: rateMsats + 10, Mode: receipts.ModeHold,
	})
	check(t, err)
	_, err = w.follow(t, c, p.RequestID, nil).wait()
	check(t, err)
	panel, err := c.client.PlacePanel(w.ctx, buyer.PanelOrder{
		SchemaID: string(schemas.SandboxRun), Input: order(""), Rule: buyer.RuleFirst, MaxMsats: rateMsats + 10,
		Seats: seatsOf(known, next), CommitTimeout: slow, Mode: receipts.ModeHold,
	})
	check(t, err)
	opened := make(chan struct{})
	panel, err = c.client.FollowPanel(w.ctx, panel.ID, func(seat string, pr buyer.Progress) {
		if seat == known.key.PublicKey() && pr.What == "refused" {
			close(opened)
			w.open(t, next, nil) // who comes later is first now
		}
	})
	check(t, err)
	select {
	case <-opened:
	default:
		t.Fatal("the known provider was not refused")
	}
	if panel.Decision.Outcome != buyer.OutcomeFirst || panel.Seats[0].Ruling.Taken || !panel.Seats[1].Ruling.Taken {
		t.Errorf("decision %+v, seats %+v %+v", panel.Decision, panel.Seats[0].Ruling, panel.Seats[1].Ruling)
	}
	seat, err := c.store.Purchase(w.ctx, panel.Seats[0].RequestID)
	if err != nil || seat.State != buyer.StateFailed || seat.Cancel == nil {
		t.Errorf("the seat that cannot be paid is %s, canceled: %v, %v", seat.State, seat.Cancel != nil, err)
	}
	w.settledUp(t, c, 2*(rateMsats+feeMsats))
}
