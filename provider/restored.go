package provider

import (
	"context"
	"fmt"
)

// closeDelivered ends a job that an earlier life has delivered. The buyer was
// told then.
func (p *Provider) closeDelivered(ctx context.Context, job Job) error {
	reason := because(CodeRestored, "delivered and paid after the backup that this database comes from")
	if err := p.cfg.Store.Close(ctx, job.RequestID, StateFailed, reason, nil); err != nil {
		return fmt.Errorf("close job: %w", err)
	}
	p.tell(EndEvent{RequestID: job.RequestID, State: StateFailed, Reason: reason})
	p.log.Warn("closed: it was delivered after the backup", "request", job.RequestID, "payment_hash", job.PaymentHash.String())
	return nil
}
