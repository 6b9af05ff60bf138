package provider

import (
	"context"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/provider/internal/openjob"
	"github.com/lightwork-market/lightwork/receipts"
)

// begin waits for a free slot and runs the job.
func (a *actor) begin(ctx context.Context) error {
	p, j := a.p, a.job
	held, err := a.bill.HeldUntil(ctx, j.RunLimit())
	if err != nil {
		return err
	}
	deadline := p.executor.Deadline(j, held)
	if j.Run >= p.limits.Runs {
		return openjob.GiveBack(StateFailed, CodeNodeRestart, fmt.Sprintf("no run of %d lasted", j.Run))
	}

	if delivered, err := a.deliveredBefore(ctx, deadline); err != nil {
		return err
	} else if delivered {
		return openjob.Delivered()
	}

	if !time.Now().Before(deadline) { // after an outage, say
		return openjob.GiveBack(StateFailed, CodeDeadline, "the job's deadline passed")
	}
	wait, stop := context.WithDeadline(ctx, deadline)
	defer stop()

	select {
	case <-j.Cancel: // before a slot that is free too
		return openjob.GiveBack(StateCanceled, CodeCanceled, "by the buyer, before the run")
	default:
	}

	leave, got := p.gate.Slot(wait, j.Job, j.Cancel)
	switch {
	case got:
	case ctx.Err() != nil:
		return ctx.Err()
	case wait.Err() == nil:
		return openjob.GiveBack(StateCanceled, CodeCanceled, "by the buyer, before the run")
	default:
		return openjob.GiveBack(StateFailed, CodeDeadline, "no free slot in time")
	}

	attempt, err := p.executor.Begin(wait, j, deadline)
	if err != nil {
		leave()
		return err
	}
	made, err := attempt.Perform(ctx)
	if err == nil {
		err = a.delivery.Record(ctx, made)
	}
	leave()
	return attempt.Conclude(ctx, err)
}

// deliveredBefore asks what the relays know of the job, until its deadline. A
// restored database can be older than the deadlines in it: then a while longer,
// since what was delivered and paid must not be paid back.
func (a *actor) deliveredBefore(ctx context.Context, deadline time.Time) (bool, error) {
	p := a.p
	until := deadline
	if now := time.Now(); !now.Before(deadline) {
		until = now.Add(p.limits.QuoteTTL)
	}
	asking, stop := context.WithDeadline(ctx, until)
	defer stop()
	delivered, err := p.restored.IsReceipted(asking, a.job.RequestID, receipts.PurposeResult)
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	return err == nil && delivered, nil
}
