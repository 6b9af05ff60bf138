package charge

import (
	"slices"
	"testing"

	"github.com/lightwork-market/lightwork/market/job"
)

// TestWhoseFault holds who bears what where a job has ended without a result that is
// paid for: the fee for an attempt is the buyer's again unless the end was the buyer's
// doing.
func TestWhoseFault(t *testing.T) {
	theirs := []job.Code{job.CodeCanceled, job.CodeStopped, job.CodeExpectationNotMet, job.CodeUnpaid, job.CodePaymentLost}
	fee := &job.Charge{Payment: &job.Payment{PaidMsats: 700}, Receipt: []byte("{}")}
	for _, code := range job.Codes() {
		for run, j := range []job.Job{{Engagement: fee}, {Engagement: fee, Run: 1}} {
			want := fee.Payment.PaidMsats
			if run > 0 && slices.Contains(theirs, code) {
				want = 0
			}
			if kept := FeeKept(&j, code); kept != fee.Payment.PaidMsats-want {
				t.Errorf("%d msats of the fee stay paid for %s after %d runs", kept, code, run)
			}
			if got := FeeOwed(&j, code); got != want {
				t.Errorf("%d msats of the fee are owed for %s after %d runs, want %d", got, code, run, want)
			}
		}
	}
}
