package charge

import (
	"testing"

	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// TestHasArrived: only what a hold invoice pays is there while it is held. A fee, and a
// price that is paid before the run, wait until the wallet has settled them: until
// then they lapse, and the buyer can cancel.
func TestHasArrived(t *testing.T) {
	for _, tt := range []struct {
		state   payments.InvoiceState
		paid    int64
		mode    receipts.Mode
		purpose receipts.Purpose
		want    bool
	}{
		{payments.InvoiceHeld, 100, receipts.ModeHold, receipts.PurposeResult, true},
		{payments.InvoiceHeld, 100, receipts.ModeHold, receipts.PurposeEngagement, false},
		{payments.InvoiceHeld, 100, receipts.ModePrepay, receipts.PurposeResult, false},
		{payments.InvoiceHeld, 99, receipts.ModeHold, receipts.PurposeResult, false},
		{payments.InvoiceSettled, 100, receipts.ModePrepay, receipts.PurposeResult, true},
		{payments.InvoiceSettled, 100, receipts.ModeHold, receipts.PurposeEngagement, true},
		{payments.InvoiceSettled, 99, receipts.ModePrepay, receipts.PurposeResult, false},
		{payments.InvoiceOpen, 0, receipts.ModeHold, receipts.PurposeResult, false},
	} {
		c := job.Charge{Purpose: tt.purpose, PriceMsats: 100}
		if got := hasArrived(payments.Invoice{State: tt.state, PaidMsats: tt.paid}, tt.mode, &c); got != tt.want {
			t.Errorf("%s of %d msats for the %s in %s: %v", tt.state, tt.paid, tt.purpose, tt.mode, got)
		}
	}
}
