package job

// Reason says why a job was refused or ended: a machine-readable code, then
// words for a person. It is what a 7000 event's status tag carries.
type Reason struct {
	Code   Code
	Detail string
}

// Code is stable and machine-readable; docs/protocol/protocol.md lists them.
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

// String is the wire form: "code: detail".
func (r Reason) String() string {
	if r.Detail == "" {
		return string(r.Code)
	}
	return string(r.Code) + ": " + r.Detail
}

// Because is a reason with words for a person.
func Because(code Code, detail string) Reason { return Reason{code, detail} }

// Refusal is the error of a step after which a request is not taken, or its job ends.
type Refusal struct{ Reason Reason }

func (r *Refusal) Error() string { return r.Reason.String() }

// Refuse is the refusal for a reason.
func Refuse(code Code, detail string) error { return &Refusal{Because(code, detail)} }
