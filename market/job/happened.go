package job

import (
	"time"

	"github.com/lightwork-market/lightwork/receipts"
)

// Event is something that happened to a job, told once it is durable: one of
// [AdmissionEvent], [RefusalEvent], [PaymentEvent], [StateEvent], [SettlementEvent],
// [DebtEvent], [RefundEvent], [EndEvent], [RunEvent] and [PublicationEvent]. Amounts are msats.
type Event interface{ jobEvent() }

// AdmissionEvent: a request was taken, and its job is quoted.
type AdmissionEvent struct{ Job Job }

// RefusalEvent: a request was not taken.
type RefusalEvent struct{ Reason Reason }

// PaymentEvent: a job's price is there, held or settled. The job is paid.
type PaymentEvent struct {
	RequestID string
	Payment   Payment
}

// StateEvent: a run of a job began, or gave a result.
type StateEvent struct {
	RequestID string
	State     State // StateRunning or StateDelivering
}

// SettlementEvent: money is ours for good, and its receipt is issued. For a result
// the job has succeeded; an engagement fee ends no job.
type SettlementEvent struct {
	RequestID   string
	Purpose     receipts.Purpose
	PaidMsats   int64
	ReceiptID   string
	ExcessMsats int64 // that came beyond the price, and are owed
}

// DebtEvent: money that came after a job had ended is owed to its buyer.
type DebtEvent struct {
	RequestID string
	Msats     int64
}

// EndEvent: a job ended without a receipt.
type EndEvent struct {
	RequestID string
	State     State
	Reason    Reason
	Owed      *Credit // nil if nothing is owed to its buyer
}

// RefundEvent: an attempt to pay a debt back ended.
type RefundEvent struct {
	RequestID string
	End       RefundEnd
}

// RunEvent: an agent ended a run, with Err if it gave no result.
type RunEvent struct {
	RequestID, SchemaID string
	Took                time.Duration
	Err                 error
}

// PublicationEvent: relays answered to an event of ours, of a job or not.
type PublicationEvent struct {
	Kind int
	Took time.Duration
	Acks []Ack
}

func (AdmissionEvent) jobEvent()   {}
func (RefusalEvent) jobEvent()     {}
func (PaymentEvent) jobEvent()     {}
func (StateEvent) jobEvent()       {}
func (SettlementEvent) jobEvent()  {}
func (DebtEvent) jobEvent()        {}
func (RefundEvent) jobEvent()      {}
func (EndEvent) jobEvent()         {}
func (RunEvent) jobEvent()         {}
func (PublicationEvent) jobEvent() {}
