package provider

import (
	"slices"
	"testing"
)

// TestWhoseFault holds who bears what where a job has ended without a result that is
// paid for: the fee for an attempt is the buyer's again unless the end was the buyer's
// doing.
func TestWhoseFault(t *testing.T) {
	theirs := []Code{CodeCanceled, CodeStopped, CodeExpectationNotMet, CodeUnpaid, CodePaymentLost}
	fee := &Charge{Payment: &Payment{PaidMsats: 700}, Receipt: []byte("{}")}
	for _, code := range Codes() {
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
