package crashtest

import (
	"context"
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// debtor is the wallet that a provider's refunds are paid from, under a killer.
type debtor struct {
	payments.Payer
	k *killer
}

func (d debtor) SendPayment(ctx context.Context, p payments.Pay) error {
	return d.k.step("refund:SendPayment", func() error { return d.Payer.SendPayment(ctx, p) })
}

func (d debtor) TrackPayment(ctx context.Context, h payments.Hash) (pay payments.Payment, err error) {
	err = d.k.step("refund:TrackPayment", func() error {
		pay, err = d.Payer.TrackPayment(ctx, h)
		return err
	})
	return pay, err
}

func (s jobStore) SetRefundSent(ctx context.Context, id string, attempt int) error {
	return s.k.step("store:SetRefundSent", func() error { return s.Store.SetRefundSent(ctx, id, attempt) })
}

func (s jobStore) EndRefund(ctx context.Context, id string, end provider.RefundEnd, out ...provider.OutEvent) error {
	return s.k.step("store:EndRefund", func() error { return s.Store.EndRefund(ctx, id, end, out...) })
}

// announced is what the price of order() is, so that the buyer's wallet makes an
// invoice for its refund.
func announced() *buyer.Listing {
	return &buyer.Listing{BaseMsats: map[string]int64{string(schemas.SandboxRun): 0}, PerMinuteMsats: rateMsats}
}

// TestRefundIsSentOnce kills the provider around every step of paying a failed
// prepaid job back, and the buyer while it waits: the money comes back, once.
func TestRefundIsSentOnce(t *testing.T) {
	requirements.Covers(t, "K-48")
	for _, point := range []string{
		"before store:Close", "after store:Close", "before store:SetRefundSent", "after store:SetRefundSent", "before refund:SendPayment", "after refund:SendPayment",
		"before refund:TrackPayment", "after refund:TrackPayment", "before store:EndRefund", "after store:EndRefund",
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, receipts.ModePrepay)
			w.seller.Fail, w.seller.KillAt = true, point
			w.tell(t, true, buyer.StateFailed)
			w.refunded(t)
			if got := killedAt(t, w.seller); got != point {
				t.Errorf("killed at %q", got)
			}
		})
	}
	for _, point := range []string{"after store:Paid", "before store:SetRefund", "after store:SetRefund"} {
		t.Run("buyer/"+point, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, receipts.ModePrepay)
			w.seller.Fail, w.customer.KillAt = true, point
			w.tell(t, true, buyer.StateFailed)
			w.refunded(t)
		})
	}
}

func (s purchaseStore) SetRefund(ctx context.Context, id string, msats int64) error {
	return s.k.step("store:SetRefund", func() error { return s.Store.SetRefund(ctx, id, msats) })
}

// refunded checks that the price came back: each side has paid the fee of what it sent.
func (w *world) refunded(t *testing.T) {
	t.Helper()
	p, budget := w.purchase(t, nil)
	if p.State != buyer.StateFailed || p.RefundMsats != priceMsats || budget.ReservedMsats != 0 || budget.SpentMsats != priceMsats+feeMsats {
		t.Errorf("purchase %s (%s), refunded %d msats, budget %+v", p.State, p.Reason, p.RefundMsats, budget)
	}
	if job, receiptRows := w.job(t); job.State != provider.StateFailed || receiptRows != 0 {
		t.Errorf("job %s (%s), %d receipts", job.State, job.Reason, receiptRows)
	}
	if seller, customer := w.balances(t); seller != faucetMsats-feeMsats || customer != faucetMsats-feeMsats {
		t.Errorf("the provider has %d msats more, the buyer %d", seller-faucetMsats, customer-faucetMsats)
	}
}
