package provider

import "fmt"

// feeStays reports whether a fee that was paid pays for something: an attempt
// that was begun, and that the buyer, its request or its payment ended.
func feeStays(job Job, ended Code) bool {
	switch ended {
	case CodeCanceled, CodeStopped, CodeExpectationNotMet, CodeUnpaid, CodePaymentLost:
		return job.Run > 0
	}
	return false
}

// feeOwed is the settled fee of a job that ends so, if it is the buyer's again.
func feeOwed(job Job, ended Code) int64 {
	if job.Engagement == nil || job.OwesFee() || feeStays(job, ended) {
		return 0
	}
	return job.Engagement.Payment.PaidMsats
}

// feeText says what becomes of a fee that stays with us.
func feeText(job Job, ended Code) string {
	if job.Engagement == nil || job.OwesFee() || !feeStays(job, ended) {
		return ""
	}
	return fmt.Sprintf("; the engagement fee of %d msats stays paid: the attempt was made", job.Engagement.Payment.PaidMsats)
}
