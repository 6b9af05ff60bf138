package observe

import (
	"errors"

	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
)

// Event records an event of a job. It is the function for provider.Config.Events.
func (b *Board) Event(e provider.JobEvent) {
	switch e := e.(type) {
	case provider.AdmissionEvent:
		b.quoted(e.Job)
	case provider.RefusalEvent:
		b.refused(e.Reason.Code)
	case provider.PaymentEvent:
		b.paid(e.RequestID, e.Payment)
	case provider.StateEvent:
		b.moved(e.RequestID, e.State)
	case provider.SettlementEvent:
		if e.Purpose == receipts.PurposeEngagement {
			b.earned(e.PaidMsats)
		} else {
			b.settled(e)
		}
	case provider.DebtEvent:
		b.owes(e.Msats)
	case provider.EndEvent:
		b.closed(e)
	case provider.RunEvent:
		b.ran(e)
	case provider.PublicationEvent:
		b.published(e)
	}
}

func (b *Board) ran(e provider.RunEvent) {
	outcome := runOK
	var failed *provider.RunError
	switch {
	case errors.As(e.Err, &failed):
		outcome = string(failed.Reason.Code)
	case e.Err != nil:
		outcome = "error"
	}
	b.m.runs.WithLabelValues(e.SchemaID, outcome).Observe(e.Took.Seconds())
}

func (b *Board) published(e provider.PublicationEvent) {
	b.m.publish.Observe(e.Took.Seconds())
	for _, a := range e.Acks {
		result := publishedNot
		if a.OK {
			result = publishedOK
		}
		b.m.published.WithLabelValues(a.Relay, result).Inc()
	}
}
