package buyer_test

import (
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// TestChainAsBuyer: what one job gave goes into the next, by name where the
// provider can read it, as text where it cannot; a receipt proves both.
func TestChainAsBuyer(t *testing.T) {
	w := markettest.New(t)
	w.Echoes(t, nil)
	c := w.NewCustomer(t, nil)
	buy := func(o buyer.Order) buyer.Purchase {
		t.Helper()
		o.Provider, o.SchemaID, o.MaxMsats, o.Mode = w.Seller.Key.PublicKey(), string(schemas.TextGeneration), markettest.MaxMsats, receipts.ModeHold
		p, err := c.Client.Place(w.Ctx, o)
		markettest.Check(t, err)
		p, err = w.Follow(t, c, p.RequestID, nil).Wait()
		if err != nil || p.State != buyer.StateDone {
			t.Fatalf("purchase %s (%s), %v", p.State, p.Reason, err)
		}
		return p
	}
	for _, delivery := range []receipts.Delivery{receipts.DeliveryPlain, receipts.DeliverySealed} {
		first := buy(buyer.Order{Input: []byte(`{"prompt":"a"}`), Delivery: delivery})
		input, err := buyer.InputOf(first)
		markettest.Check(t, err)
		if named := input.Event != nil; named != (delivery == receipts.DeliveryPlain) {
			t.Errorf("%s: named %v", delivery, named)
		}
		second := buy(buyer.Order{Input: []byte(`{"prompt":"b"}`), Inputs: []buyer.Input{input}, Delivery: delivery})
		if !strings.Contains(string(second.Output), "<b") || !strings.Contains(string(second.Output), "<a>") {
			t.Errorf("%s: %s", delivery, second.Output)
		}
		b, err := c.Client.Bundle(w.Ctx, second.RequestID)
		markettest.Check(t, err)
		pins := receipts.Pins{Network: payments.Play}
		if report := receipts.Verify(b, pins); report.ExitCode() != receipts.ExitProved {
			t.Errorf("%s: %+v", delivery, report.Claims)
		}
		if input.Event == nil {
			continue
		}
		b.Inputs = nil
		if claim := receipts.Verify(b, pins).Claim(receipts.ClaimJob); claim.State != receipts.NotProvable {
			t.Errorf("without its inputs: %+v", claim)
		}
		other := *input.Event
		other.Content = "c"
		b.Inputs = receipts.WriteInputs([]receipts.Event{other})
		if claim := receipts.Verify(b, pins).Claim(receipts.ClaimJob); claim.State != receipts.Failed {
			t.Errorf("with a forged input: %+v", claim)
		}
	}
}
