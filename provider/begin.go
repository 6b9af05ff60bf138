package provider

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/provider/internal/openjob"
	"github.com/lightwork-market/lightwork/receipts"
)

// begin waits for a free slot and runs the job.
func (a *actor) begin(ctx context.Context) error {
	p, j := a.p, a.job
	deadline, err := a.deadline(ctx)
	if err != nil {
		return err
	}
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

	err = a.run(wait, deadline)
	leave()
	if v := (*verdict)(nil); errors.As(err, &v) {
		return a.conclude(ctx, v)
	}
	return err
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

// runMargin is what a run gets beyond the request's own limit, for starting
// and stopping the agent.
const runMargin = 30 * time.Second

// deadline is the job's one deadline: the least of all that bounds the work
// (K-24). It was decided as the first run started, or it is now: from the time to
// wait for a slot, the request's own limit, and how long the payment is held.
func (a *actor) deadline(ctx context.Context) (time.Time, error) {
	limit := a.job.RunLimit()
	end := a.job.Deadline
	if end.IsZero() {
		end = a.startBy().Add(limit + runMargin)
	}
	held, err := a.bill.HeldUntil(ctx, limit)
	if err != nil || held.IsZero() {
		return end, err
	}
	return earlier(end, held), nil
}

// startBy is when a job that has not begun is waited for no longer: counted from
// what the store has, so that a restart gives no time.
func (a *actor) startBy() time.Time {
	j, wait := a.job, a.p.limits.QuoteTTL
	if j.State != StateQuoted { // paid then
		return j.StateAt.Add(wait)
	}
	by := j.AddedAt.Add(wait)
	if j.Engagement != nil { // as long after the fee as without one
		by = by.Add(wait)
	}
	return earlier(by, j.ExpiresAt)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
