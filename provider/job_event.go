package provider

import "github.com/lightwork-market/lightwork/receipts"

func settlement(job Job, purpose receipts.Purpose, pay Payment, issued Issued) SettlementEvent {
	e := SettlementEvent{RequestID: job.RequestID, Purpose: purpose, PaidMsats: pay.PaidMsats, ReceiptID: issued.ReceiptID}
	if issued.Excess != nil {
		e.ExcessMsats = issued.Excess.Msats
	}
	return e
}

// tell passes an event on to whoever watches this provider.
func (p *Provider) tell(e JobEvent) {
	if p.cfg.Events != nil {
		p.cfg.Events(e)
	}
}
