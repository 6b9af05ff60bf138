package provider

import (
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/provider/internal/admission"
	"github.com/lightwork-market/lightwork/provider/internal/announce"
	"github.com/lightwork-market/lightwork/provider/internal/flow"
	"github.com/lightwork-market/lightwork/provider/internal/refund"
)

// The words of package job that a program which embeds a provider uses. Package job has
// more, for those who write a [Store].
type (
	Offer            = job.Offer
	Images           = job.Images
	Runner           = job.Runner
	Run              = job.Run
	Outcome          = job.Outcome
	Call             = job.Call
	RunError         = job.RunError
	JobEvent         = job.Event
	AdmissionEvent   = job.AdmissionEvent
	RefusalEvent     = job.RefusalEvent
	PaymentEvent     = job.PaymentEvent
	StateEvent       = job.StateEvent
	SettlementEvent  = job.SettlementEvent
	DebtEvent        = job.DebtEvent
	EndEvent         = job.EndEvent
	RefundEvent      = job.RefundEvent
	RunEvent         = job.RunEvent
	PublicationEvent = job.PublicationEvent
	State            = job.State
	Job              = job.Job
	Payment          = job.Payment
	Directive        = job.Directive
	Plan             = job.Plan
	Result           = job.Result
	Charge           = job.Charge
	OutEvent         = job.OutEvent
	Pending          = job.Pending
	Ack              = job.Ack
	Issue            = job.Issue
	Issued           = job.Issued
	Reason           = job.Reason
	Code             = job.Code
	Credit           = job.Credit
	Refund           = job.Refund
	RefundEnd        = job.RefundEnd
	Debt             = job.Debt
)

// The states of a job.
const (
	StateRefused    = job.StateRefused
	StateQuoted     = job.StateQuoted
	StatePaid       = job.StatePaid
	StateRunning    = job.StateRunning
	StateDelivering = job.StateDelivering
	StateSucceeded  = job.StateSucceeded
	StateFailed     = job.StateFailed
	StateCanceled   = job.StateCanceled
	StateExpired    = job.StateExpired
)

// The reasons why a job is refused or ends.
const (
	CodeUnsupportedSchema     = job.CodeUnsupportedSchema
	CodeUntypedJob            = job.CodeUntypedJob
	CodeMissingInput          = job.CodeMissingInput
	CodeUnusableInput         = job.CodeUnusableInput
	CodeUnsupportedInput      = job.CodeUnsupportedInput
	CodeUnsupportedEncryption = job.CodeUnsupportedEncryption
	CodeInvalidInput          = job.CodeInvalidInput
	CodeImageNotAvailable     = job.CodeImageNotAvailable
	CodeOverResources         = job.CodeOverResources
	CodePaused                = job.CodePaused
	CodeNotAllowed            = job.CodeNotAllowed
	CodeProofOfWork           = job.CodeProofOfWork
	CodeBidTooLow             = job.CodeBidTooLow
	CodePriceTooSmall         = job.CodePriceTooSmall
	CodeOverCapacity          = job.CodeOverCapacity
	CodeTooManyUnpaid         = job.CodeTooManyUnpaid
	CodePaymentExpired        = job.CodePaymentExpired
	CodePaymentLost           = job.CodePaymentLost
	CodePaymentUnknown        = job.CodePaymentUnknown
	CodeCanceled              = job.CodeCanceled
	CodeDeadline              = job.CodeDeadline
	CodeAgentUnavailable      = job.CodeAgentUnavailable
	CodeAgentFailed           = job.CodeAgentFailed
	CodeInvalidOutput         = job.CodeInvalidOutput
	CodeStopped               = job.CodeStopped
	CodeExpectationNotMet     = job.CodeExpectationNotMet
	CodeNodeRestart           = job.CodeNodeRestart
	CodeUnpaid                = job.CodeUnpaid
	CodeRestored              = job.CodeRestored
	CodeInternal              = job.CodeInternal
)

// Codes lists every code.
func Codes() []Code { return job.Codes() }

// The errors of a [Store] that a program meets; package job has all.
var (
	ErrNotFound    = job.ErrNotFound
	ErrStoreFailed = job.ErrStoreFailed
	ErrRefundOpen  = job.ErrRefundOpen
	ErrDebtSettled = job.ErrDebtSettled
)

// What a provider announces.
type (
	Profile      = announce.Profile
	Hardware     = announce.Hardware
	Announcement = announce.Announcement
	Capabilities = announce.Capabilities
	Pricing      = announce.Pricing
	Capacity     = announce.Capacity
	Stability    = announce.Stability
	NIP90Key     = announce.NIP90Key
	Extension    = announce.Extension
)

// Who may buy, and how much at a time.
type (
	Limits     = admission.Limits
	LimitError = admission.LimitError
	Access     = admission.Access
	Trust      = admission.Trust
	Admission  = admission.State
)

// The states of admission, and the kinds of trust.
const (
	AdmissionOpen     = admission.Open
	AdmissionPaused   = admission.Paused
	AdmissionDraining = admission.Draining
	TrustNobody       = admission.TrustNobody
	TrustFollows      = admission.TrustFollows
	TrustFollows2     = admission.TrustFollows2
)

// Errors of Serve where the node was given other secrets than its open jobs have.
var (
	ErrOtherKey    = flow.ErrOtherKey
	ErrOtherSecret = flow.ErrOtherSecret
	ErrHidden      = flow.ErrHidden
)

// How debts are paid back.
type (
	Refunds      = refund.Settings
	ChainPlanner = refund.ChainPlanner
	Addresses    = refund.Addresses
)
