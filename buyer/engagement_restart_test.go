package buyer_test

import (
	"context"
	"errors"
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/receipts"
)

// TestEngagedBuyerStopsAndGoesOn: likewise on the other side.
func TestEngagedBuyerStopsAndGoesOn(t *testing.T) {
	for _, mode := range []receipts.Mode{receipts.ModeHold, receipts.ModePostpay} {
		for _, at := range []string{"Reserve", "SendPayment", "Paid", "SetReceipt of the fee", "SetResult"} {
			t.Run(string(mode)+"/"+at, func(t *testing.T) {
				t.Parallel()
				w := markettest.New(t)
				w.Serve(t, markettest.Engaging)
				c := w.NewCustomer(t, markettest.Engages)
				next := c.Client
				ctx, stop := context.WithCancel(w.Ctx)
				i := &markettest.StepStore{Store: c.Store, At: at, Stop: stop}
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
