package provider

import (
	"slices"
	"testing"

	"github.com/lightwork-market/lightwork/payments"
)

// TestWhoseFault holds who bears what where a job has ended without a result that is
// paid for: the fee for an attempt is the buyer's again, and routing a refund costs us
// something, exactly where the fault is ours.
func TestWhoseFault(t *testing.T) {
	ours := []Code{CodeAgentUnavailable, CodeAgentFailed, CodeInvalidOutput, CodeDeadline, CodeNodeRestart, CodeInternal}
	theirs := []Code{CodeCanceled, CodeStopped, CodeExpectationNotMet, CodeUnpaid, CodePaymentLost}
	fee := &Charge{Payment: &Payment{PaidMsats: 700}, Receipt: []byte("{}")}
	pays := Refunds{MaxFeeMsats: 1000}
	for _, code := range Codes() {
		limit := int64(0)
		if slices.Contains(ours, code) {
			limit = 400 // a fiftieth of the refund
		}
		if got := pays.feeLimit(20_000, code); got != limit {
			t.Errorf("a refund for %s may cost %d msats in fees, want %d", code, got, limit)
		}
		if got := pays.feeLimit(payments.MaxMsats, code); limit > 0 && got != pays.MaxFeeMsats || limit == 0 && got != 0 {
			t.Errorf("the largest refund for %s may cost %d msats in fees", code, got)
		}

		for run, job := range []Job{{Engagement: fee}, {Engagement: fee, Run: 1}} {
			want := fee.Payment.PaidMsats
			if run > 0 && slices.Contains(theirs, code) {
				want = 0
			}
			if got := feeOwed(job, code); got != want {
				t.Errorf("%d msats of the fee are owed for %s after %d runs, want %d", got, code, run, want)
			}
		}
	}
}
