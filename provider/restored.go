package provider

import (
	"context"
	"fmt"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/receipts"
)

// A database restored from a backup may hold jobs as open that a later life has
// delivered and been paid for (P16). They must be neither done again nor
// receipted again, and nothing is owed for them. Two witnesses tell: a receipt
// of ours on the relays, and a held payment that is settled, since only a life
// with a durable result gives the preimage out.

// maxWitnessed bounds one question to the relays about open jobs.
const maxWitnessed = 256

// witness asks the relays for receipts of jobs that are open here.
func (p *Provider) witness(ctx context.Context) error {
	open, err := p.cfg.Store.OpenJobs(ctx)
	if err != nil {
		return fmt.Errorf("list open jobs: %w", err)
	}
	for len(open) > 0 {
		some := open[:min(len(open), maxWitnessed)]
		open = open[len(some):]
		signed, err := p.cfg.Market.Query(ctx, nostr.Filter{
			Kinds: []int{p.kinds.Receipt}, Authors: []string{p.key}, Tags: nostr.TagMap{"e": some},
		})
		if err != nil {
			return err
		}
		for _, ev := range p.shown(ctx, signed) {
			r, err := receipts.ParseReceipt([]byte(ev.Content))
			if err == nil && ev.PubKey == p.key {
				p.receipted[receiptedCharge{r.RequestEventID, r.PaidFor()}] = struct{}{}
			}
		}
	}
	return nil
}

// receiptedCharge is a charge that has its receipt.
type receiptedCharge struct {
	requestID string
	purpose   receipts.Purpose
}

// known waits until the relays have told what this key signed, and reports
// whether that includes the receipt of a charge.
func (p *Provider) known(ctx context.Context, job Job, purpose receipts.Purpose) (receipted bool, err error) {
	select {
	case <-p.remembered:
		_, receipted = p.receipted[receiptedCharge{job.RequestID, purpose}]
		return receipted, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

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
