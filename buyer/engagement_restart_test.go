package buyer_test

import (
	"context"
	"errors"
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/receipts"
)

// feeSteps is a buyer's store that stops its user after a step of the fee.
type feeSteps struct {
	markettest.StepStore
}

func (i *feeSteps) SetEngagementReceipt(ctx context.Context, id, receiptID string, event []byte) error {
	return i.Done("SetEngagementReceipt", i.Store.SetEngagementReceipt(ctx, id, receiptID, event))
}

// TestEngagedBuyerStopsAndGoesOn: likewise on the other side.
func TestEngagedBuyerStopsAndGoesOn(t *testing.T) {
	for _, mode := range []receipts.Mode{receipts.ModeHold, receipts.ModePostpay} {
		for _, at := range []string{"Reserve", "SendPayment", "Paid", "SetEngagementReceipt", "SetResult"} {
			t.Run(string(mode)+"/"+at, func(t *testing.T) {
				t.Parallel()
				w := markettest.New(t)
				w.Serve(t, markettest.Engaging)
				c := w.NewCustomer(t, markettest.Engages)
				next := c.Client
				ctx, stop := context.WithCancel(w.Ctx)
				i := &feeSteps{markettest.StepStore{Store: c.Store, At: at, Stop: stop}}
				c.Client = c.Open(t, func(cfg *buyer.Config) {
					markettest.Engages(cfg)
					cfg.Store, cfg.Wallet = i, &markettest.GatedWallet{Client: c.Wallet, AfterSend: func() { _ = i.Done("SendPayment", nil) }}
				})
				p := w.Engage(t, c, mode, markettest.Expects)
				if _, err := c.Client.Follow(ctx, p.RequestID, nil); !errors.Is(err, context.Canceled) {
					t.Fatalf("following was not interrupted: %v", err)
				}
				c.Client = next
				w.FeeAndResultProved(t, c, w.Follow(t, c, p.RequestID, nil))
			})
		}
	}
}
