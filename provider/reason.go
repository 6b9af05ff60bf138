package provider

// Reason says why a job was refused or ended: a machine-readable code, then
// words for a person. It is what a 7000 event's status tag carries.
type Reason struct {
	Code   Code
	Detail string
}

// Code is stable and machine-readable; docs/protocol.md lists them.
type Code string

// Reason codes.
const (
	CodeUnsupportedSchema     Code = "unsupported_schema"
	CodeUntypedJob            Code = "untyped_job"
	CodeMissingInput          Code = "input_missing"
	CodeUnusableInput         Code = "input_unusable"
	CodeUnsupportedInput      Code = "unsupported_input"
	CodeUnsupportedEncryption Code = "unsupported_encryption"
	CodeInvalidInput          Code = "invalid_input"
	CodeImageNotAvailable     Code = "image_not_available"
	CodeOverResources         Code = "over_resources"
	CodePaused                Code = "paused"
	CodeNotAllowed            Code = "not_allowed"
	CodeProofOfWork           Code = "proof_of_work_needed"
	CodeBidTooLow             Code = "bid_too_low"
	CodePriceTooSmall         Code = "price_too_small"
	CodeOverCapacity          Code = "over_capacity"
	CodeTooManyUnpaid         Code = "too_many_unpaid"
	CodePaymentExpired        Code = "payment_expired"
	CodePaymentLost           Code = "payment_lost"
	CodePaymentUnknown        Code = "payment_unknown"
	CodeCanceled              Code = "canceled"
	CodeDeadline              Code = "deadline"
	CodeAgentUnavailable      Code = "agent_unavailable"
	CodeAgentFailed           Code = "agent_failed"
	CodeInvalidOutput         Code = "invalid_output"
	CodeStopped               Code = "stopped"
	CodeExpectationNotMet     Code = "expectation_not_met"
	CodeNodeRestart           Code = "node_restart"
	CodeUnpaid                Code = "unpaid"
	CodeRestored              Code = "restored"
	CodeInternal              Code = "internal"
)

// Codes lists every code.
func Codes() []Code {
	return []Code{
		CodeUnsupportedSchema, CodeUntypedJob, CodeMissingInput, CodeUnusableInput, CodeUnsupportedInput, CodeUnsupportedEncryption,
		CodeInvalidInput, CodeImageNotAvailable, CodeOverResources, CodePaused, CodeNotAllowed, CodeProofOfWork,
		CodeBidTooLow, CodePriceTooSmall, CodeOverCapacity, CodeTooManyUnpaid, CodePaymentExpired, CodePaymentLost,
		CodePaymentUnknown, CodeCanceled, CodeDeadline, CodeAgentUnavailable, CodeAgentFailed, CodeInvalidOutput, CodeStopped,
		CodeExpectationNotMet, CodeNodeRestart, CodeUnpaid, CodeRestored, CodeInternal,
	}
}

// retryLater is all that a buyer can do about CodeInternal; what went wrong is in the
// provider's log.
const retryLater = "nothing was taken; ask again later, or another provider"

// notOnOffer goes with CodeUnsupportedSchema.
const notOnOffer = "not on offer here; see the 31990 announcement"

// String is the wire form: "code: detail".
func (r Reason) String() string {
	if r.Detail == "" {
		return string(r.Code)
	}
	return string(r.Code) + ": " + r.Detail
}

// told is the reason as a buyer hears it that has not paid for good. Before a run an
// error may name what is wrong with the request. Afterwards it could carry what the
// job found out, so it is one of six codes, in words of ours; the details are in the
// seller's log.
func (r Reason) told(job Job) Reason {
	if job.Run == 0 {
		return r
	}
	switch r.Code {
	case CodeCanceled:
		return Reason{CodeCanceled, "by the buyer, while running"}
	case CodeDeadline:
		return Reason{CodeDeadline, "the job was not done and delivered in time"}
	case CodeStopped:
		return Reason{CodeStopped, "a limit stopped the job, or the sandbox did"}
	case CodeExpectationNotMet:
		return Reason{CodeExpectationNotMet, "the outcome is not the one that the request asked for"}
	case CodeUnpaid, CodePaymentLost:
		return Reason{CodeUnpaid, "no payment of the result is final"}
	}
	return Reason{CodeAgentFailed, "the provider could not do the job"}
}
