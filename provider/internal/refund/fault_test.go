package refund

import (
	"slices"
	"testing"

	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/payments"
)

// TestWhoseFault: routing a refund costs us something exactly where the fault is ours.
func TestWhoseFault(t *testing.T) {
	ours := []job.Code{job.CodeAgentUnavailable, job.CodeAgentFailed, job.CodeInvalidOutput, job.CodeDeadline, job.CodeNodeRestart, job.CodeInternal}
	pays := Settings{MaxFeeMsats: 1000}
	for _, code := range job.Codes() {
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
	}
}
