package provider

import (
	"github.com/lightwork-market/lightwork/market/job"
)

func because(code Code, detail string) Reason { return job.Because(code, detail) }

// told is the reason as a buyer hears it that has not paid for good. Before a run an
// error may name what is wrong with the request. Afterwards it could carry what the
// job found out, so it is one of six codes, in words of ours; the details are in the
// seller's log.
func told(r Reason, job Job) Reason {
	if job.Run == 0 {
		return r
	}

	switch r.Code {
	case CodeCanceled:
		return because(CodeCanceled, "by the buyer, while running")
	case CodeDeadline:
		return because(CodeDeadline, "the job was not done and delivered in time")
	case CodeStopped:
		return because(CodeStopped, "a limit stopped the job, or the sandbox did")
	case CodeExpectationNotMet:
		return because(CodeExpectationNotMet, "the outcome is not the one that the request asked for")
	case CodeUnpaid, CodePaymentLost:
		return because(CodeUnpaid, "no payment of the result is final")
	}

	return because(CodeAgentFailed, "the provider could not do the job")
}
