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
