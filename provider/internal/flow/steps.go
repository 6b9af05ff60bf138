package flow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/provider/internal/openjob"
	"github.com/lightwork-market/lightwork/receipts"
)

// steps has the next step of a job in each state that is no end. A step commits what it
// has done, or returns why not: an [openjob.End] says how the job ends. Where steps may
// lead is [job.State.Leads], which the store holds them to.
var steps = map[job.State]func(a *actor, ctx context.Context) error{
	job.StateQuoted:     (*actor).charge,
	job.StatePaid:       (*actor).run,
	job.StateRunning:    (*actor).run,
	job.StateDelivering: (*actor).deliver,
}

// drive does the job's next step from where it stands, reads where it stands now, and
// repeats until the job is terminal. A step that fails for a passing reason is tried
// again; since every step commits before the next begins, a restart enters this loop at
// the same place.
func (a *actor) drive(ctx context.Context) {
	log := a.log.With("request", a.job.RequestID)

	canceled := a.job.Cancel
	for pause := time.Second; ; {
		err := a.job.Refresh(ctx, a.cfg.Store.Job)

		if err == nil && a.job.State.Terminal() {
			if a.job.Reason.Code == job.CodePaymentUnknown {
				a.awaitAnswer(ctx)
			}
			a.late(ctx, a.job.Job)
			return
		}

		if err == nil {
			err = a.step(ctx)
		}
		if end := (*openjob.End)(nil); errors.As(err, &end) {
			err = a.end(ctx, end)
		}

		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			pause = time.Second
			continue
		}

		log.Warn("step failed, trying again", "state", a.job.State, "in", pause, "err", err)
		a.cfg.OnStoreError(err)
		if a.job.State == job.StateQuoted && !time.Now().Before(a.job.ExpiresAt) {
			a.cfg.Gate.Leave(a.job.RequestID) // it is in nobody's way while it waits for the wallet
		}
		if a.bill.IsSilent() {
			to := job.StateFailed
			if a.job.State == job.StateQuoted {
				to = job.StateExpired
			}
			if a.giveUp(ctx, to) == nil {
				continue
			}
		}

		wake := a.job.Wake
		if errors.As(err, new(*job.RunError)) {
			wake = nil // news from relays and wallet mends no agent
		}

		select {
		case <-time.After(pause):
		case <-canceled:
			canceled = nil // once; the step looks at it
		case <-wake:
		case <-ctx.Done():
			return
		}

		pause = min(2*pause, 30*time.Second)
	}
}

// step is the next step of the job.
func (a *actor) step(ctx context.Context) error {
	switch {
	case a.unreadable != nil && a.job.State == job.StateDelivering:
		if !a.job.CanSettle() {
			return a.unreadable // the result is there: it waits for a program that reads it
		}
	case a.unreadable != nil:
		return openjob.GiveBack(job.StateFailed, job.CodeInternal, "stored request unreadable")
	}

	step, ok := steps[a.job.State]
	if !ok {
		return fmt.Errorf("job in unknown state %q", a.job.State)
	}
	return step(a, ctx)
}

// charge asks for what is paid before the job runs, and waits for it: the engagement fee
// if there is one, then the price. In postpay the invoice is made now, since the result
// names it. With nothing left to pay the job runs.
func (a *actor) charge(ctx context.Context) error {
	due := a.job.Due()
	switch {
	case a.job.Mode == receipts.ModeFree:
	case due.BOLT11 == "":
		return a.bill.Ask(ctx, due)
	case a.job.PaidFirst(due):
		return a.awaitPayment(ctx, due)
	}
	return a.run(ctx)
}

// awaitPayment waits for a payment that is made before the job goes on. A fee is settled
// at once.
func (a *actor) awaitPayment(ctx context.Context, c *job.Charge) error {
	pay, err := a.bill.AwaitPayment(ctx, c)
	if err != nil {
		return err
	}
	if c.Purpose == receipts.PurposeEngagement {
		return a.settle(ctx, c, pay)
	}
	if err := a.bill.RecordPaid(ctx, pay); err != nil {
		return err
	}
	a.cfg.Gate.Activate(a.job.RequestID)
	return nil
}

// run waits for the job's files and for a free slot, and runs the job.
func (a *actor) run(ctx context.Context) error {
	j := a.job
	held, err := a.bill.HeldUntil(ctx, j.RunLimit())
	if err != nil {
		return err
	}
	deadline := a.cfg.Executor.Deadline(j, held)
	if j.Run >= a.cfg.Runs {
		return openjob.GiveBack(job.StateFailed, job.CodeNodeRestart, fmt.Sprintf("no run of %d lasted", j.Run))
	}

	if err := a.endedBefore(ctx, deadline); err != nil {
		return err
	}

	if !time.Now().Before(deadline) { // after an outage, say
		return openjob.GiveBack(job.StateFailed, job.CodeDeadline, "the job's deadline passed")
	}
	wait, stop := context.WithDeadline(ctx, deadline)
	defer stop()

	select {
	case <-j.Cancel: // before a slot that is free too
		return openjob.GiveBack(job.StateCanceled, job.CodeCanceled, "by the buyer, before the run")
	default:
	}

	if j.Tree, err = a.cfg.Trees.Bring(wait, j); err != nil { // before the slot, which others wait for
		return err
	}
	leave, got := a.cfg.Gate.Slot(wait, j.Job, j.Cancel)
	switch {
	case got:
	case ctx.Err() != nil:
		return ctx.Err()
	case wait.Err() == nil:
		return openjob.GiveBack(job.StateCanceled, job.CodeCanceled, "by the buyer, before the run")
	default:
		return openjob.GiveBack(job.StateFailed, job.CodeDeadline, "no free slot in time")
	}

	attempt, err := a.cfg.Executor.Begin(wait, j, deadline)
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

// endedBefore asks what the relays know of the job, until its deadline; its error ends the
// job if an earlier life has. A restored database can be older than the deadlines in it: then
// a while longer, since what was delivered and paid must not be paid back.
func (a *actor) endedBefore(ctx context.Context, deadline time.Time) error {
	until := deadline
	if now := time.Now(); !now.Before(deadline) {
		until = now.Add(a.cfg.QuoteTTL)
	}
	asking, stop := context.WithDeadline(ctx, until)
	defer stop()

	delivered, err := a.cfg.Restored.IsReceipted(asking, a.job.RequestID, receipts.PurposeResult)
	if err == nil && delivered {
		return openjob.Delivered()
	}
	back, failed, err := a.cfg.Restored.HasFailed(asking, a.job.RequestID)
	if err == nil && failed {
		return openjob.FailedBefore(back)
	}
	return ctx.Err()
}

// deliver brings a durable result to the buyer and the money home, in this
// order: blobs on a server, the 6050 on a relay (the outbox does both), then
// settling. What could not be published was not served: then the money goes back.
func (a *actor) deliver(ctx context.Context) error {
	by, err := a.bill.DeliverBy(ctx)
	if end := (*openjob.End)(nil); errors.As(err, &end) {
		if err := a.end(ctx, end); err != nil {
			return err
		}
		return a.cfg.Publisher.Withdraw(ctx, a.job.Result.EventID)
	}
	if err != nil {
		return err
	}

	if a.job.Mode == receipts.ModePrepay { // the money may be back with the buyer
		if err := a.endedBefore(ctx, by); err != nil {
			return err
		}
	}

	taken, err := a.delivery.IsTaken(ctx)
	if err != nil {
		return err
	}
	if !taken {
		return a.delivery.Await(ctx, by)
	}

	var pay *job.Payment
	switch a.job.Mode {
	case receipts.ModeFree:
		if err := a.end(ctx, &openjob.End{State: job.StateSucceeded}); err != nil {
			return err
		}
		a.job.State = job.StateSucceeded
		a.job.Keep()
		return nil
	case receipts.ModePrepay:
		pay = a.job.Payment
	case receipts.ModePostpay:
		pay, err = a.bill.AwaitPostpay(ctx)
	case receipts.ModeHold:
		pay, err = a.bill.ClaimHold(ctx)
	}
	if err != nil || pay == nil {
		return err
	}
	return a.settle(ctx, &a.job.Charge, *pay)
}

// settle takes the final payment of a charge, for which its receipt is issued.
func (a *actor) settle(ctx context.Context, c *job.Charge, pay job.Payment) error {
	if a.bill.AwaitAcceptance(ctx, c) {
		return ctx.Err() // look again: it may be here
	}
	isReceipted, err := a.cfg.Restored.IsReceipted(ctx, a.job.RequestID, c.Purpose) // the chain is known before it goes on
	if err != nil {
		return err
	}
	if isReceipted {
		return openjob.Delivered()
	}

	var record []job.OutEvent
	if c.Purpose == receipts.PurposeResult {
		record = a.delivery.Session(ctx)
	}
	if err := a.bill.Settle(ctx, c, pay, record); err != nil {
		return err
	}

	switch {
	case c.Purpose == receipts.PurposeEngagement:
		if !a.job.PaysFirst() {
			a.cfg.Gate.Activate(a.job.RequestID)
		}
	case a.bill.IsOnChain(): // more may have come than the price
		a.cfg.Refunds.Begin(ctx, a.job.RequestID)
	}

	return nil
}
