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
		b.addQuote(e.Job)
	case provider.RefusalEvent:
		b.addRefusal(e.Reason.Code)
	case provider.PaymentEvent:
		b.addPayment(e.RequestID, e.Payment)
	case provider.StateEvent:
		b.setState(e.RequestID, e.State)
	case provider.SettlementEvent:
		if e.Purpose == receipts.PurposeEngagement {
			b.addEarning(e.PaidMsats)
		} else {
			b.addSettlement(e)
		}
	case provider.DebtEvent:
		b.addDebt(e.Msats)
	case provider.EndEvent:
		b.endUnpaid(e)
	case provider.RunEvent:
		b.addRun(e)
	case provider.PublicationEvent:
		b.addPublication(e)
	}
}

func (b *Board) addRun(e provider.RunEvent) {
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

func (b *Board) addPublication(e provider.PublicationEvent) {
	b.m.publish.Observe(e.Took.Seconds())
	for _, a := range e.Acks {
		result := publishedNot
		if a.OK {
			result = publishedOK
		}
		b.m.published.WithLabelValues(a.Relay, result).Inc()
	}
}
