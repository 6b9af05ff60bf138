package flow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/provider/internal/charge"
	"github.com/lightwork-market/lightwork/provider/internal/openjob"
	"github.com/lightwork-market/lightwork/provider/internal/refund"
	"github.com/nbd-wtf/go-nostr"
)

// end carries out how a step ends the job. Where the buyer gets its money back it is
// retried as a whole. Of a wallet that does not answer it is asked after the job's end.
func (a *actor) end(ctx context.Context, e *openjob.End) error {
	switch {
	case e.Reason.Code == job.CodeRestored && !e.Cancel:
		return a.closeSilent(ctx, e)
	case !e.Cancel:
		return a.closeOwing(ctx, e, e.CameMsats)
	}

	for pause := time.Second; ; pause = min(2*pause, 30*time.Second) {
		came, err := a.bill.GiveBack(ctx)
		switch came = max(0, came-e.BackMsats); {
		case err != nil:
		case came == 0 && e.Reason.Code == job.CodeRestored:
			err = a.closeSilent(ctx, e)
		default:
			err = a.closeOwing(ctx, e, came)
		}
		if err != nil && a.bill.IsSilent() {
			err = a.giveUp(ctx, e.State)
		}
		if err == nil || ctx.Err() != nil || errors.Is(err, job.ErrConflict) {
			return err
		}
		a.log.Warn("give the money back, trying again", "request", a.job.RequestID, "in", pause, "err", err)
		a.cfg.OnStoreError(err)

		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// closeOwing ends the job, and says what is owed for it and what becomes of that.
func (a *actor) closeOwing(ctx context.Context, e *openjob.End, cameMsats int64) error {
	if e.State == job.StateSucceeded {
		return a.close(ctx, e, "", nil)
	}

	text := tellable(e.Reason, a.job.Run).String()
	if kept := charge.FeeKept(&a.job.Job, e.Reason.Code); kept > 0 {
		text += fmt.Sprintf("; the engagement fee of %d msats stays paid: the attempt was made", kept)
	}
	owed := credit(a.job, cameMsats+charge.FeeOwed(&a.job.Job, e.Reason.Code))
	if owed == nil {
		return a.close(ctx, e, text, nil)
	}

	var why string
	owed.Refund, why = a.cfg.Refunds.Plan(ctx, a.job.Job, *owed, e.Reason.Code)
	err := a.close(ctx, e, text+"; "+refund.OwedText(*owed, why), owed)
	if errors.Is(err, job.ErrRefundTaken) { // named for two jobs: it pays one of them
		owed.Refund = nil
		err = a.close(ctx, e, text+"; "+refund.OwedText(*owed, "its refund invoice was named before"), owed)
	}

	return err
}

// close ends the job in the store, with the words for its buyer.
func (a *actor) close(ctx context.Context, e *openjob.End, text string, owed *job.Credit) error {
	status := "error"
	if e.State == job.StateSucceeded {
		status = "success"
	} else if a.job.CreditMsats > 0 {
		text += fmt.Sprintf("; the %d msats of credit it used are yours again", a.job.CreditMsats)
	}

	var owes nostr.Tags
	if owed != nil {
		owes = nostr.Tags{refund.OwedTag(owed.Msats)}
	}
	feedback, err := a.cfg.Publisher.Feedback(ctx, a.job.To, status, text, "", owes...)
	if err != nil {
		return err
	}
	out := []job.OutEvent{feedback}
	if e.State == job.StateSucceeded {
		out = append(out, a.delivery.Session(ctx)...)
	}

	if err := a.cfg.Store.Close(ctx, a.job.RequestID, e.State, e.Reason, owed, out...); err != nil {
		return fmt.Errorf("close job: %w", err)
	}
	a.cfg.Tell(job.EndEvent{RequestID: a.job.RequestID, State: e.State, Reason: e.Reason, Owed: owed})
	a.cfg.Publisher.Send(out...)
	a.cfg.Refunds.Wake()
	a.log.Info("closed", "request", a.job.RequestID, "state", e.State, "reason", e.Reason.String())
	return nil
}

// closeSilent ends a job that an earlier life has ended. The buyer was told then.
func (a *actor) closeSilent(ctx context.Context, e *openjob.End) error {
	if err := a.cfg.Store.Close(ctx, a.job.RequestID, e.State, e.Reason, nil); err != nil {
		return fmt.Errorf("close job: %w", err)
	}
	a.cfg.Tell(job.EndEvent{RequestID: a.job.RequestID, State: e.State, Reason: e.Reason})
	a.log.Warn("closed: it had ended after the backup", "request", a.job.RequestID, "reason", e.Reason.String(), "payment_hash", a.job.PaymentHash.String())
	return nil
}

// giveUp ends a job of which the wallet does not say whether it was paid for. A wallet can
// make an invoice and then say nothing more of it: the job does not wait for it without
// end, and what came is not forgotten. From then on the wallet is asked, in each life of
// the node, until it answers.
func (a *actor) giveUp(ctx context.Context, to job.State) error {
	a.log.Error("a job is given up: the wallet does not say whether it was paid for; it is asked again until it does", "request", a.job.RequestID,
		"payment_hash", a.job.PaymentHash.String())
	e := &openjob.End{State: to, Reason: job.Because(job.CodePaymentUnknown, "the provider's wallet does not answer; what came for the job is owed once it does")}
	return a.closeOwing(ctx, e, 0)
}

// awaitAnswer asks the wallet of a job that was given up until it answers. What is
// not paid then is cancelled, and what is paid is owed.
func (a *actor) awaitAnswer(ctx context.Context) {
	a.cfg.Gate.Leave(a.job.RequestID)

	for pause := time.Second; ; pause = min(2*pause, 10*a.cfg.LookupEvery) {
		came, err := a.bill.GiveBack(ctx)
		if err == nil {
			err = a.owe(ctx, a.job, came+charge.FeeOwed(&a.job.Job, a.job.Reason.Code))
		}
		if err == nil || ctx.Err() != nil {
			return
		}
		a.log.Warn("ask the wallet of a job that was given up, trying again", "request", a.job.RequestID, "in", pause, "err", err)
		a.cfg.OnStoreError(err)

		select {
		case <-a.job.Wake:
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// credit is what is owed to the job's buyer, nil if nothing is.
func credit(j *openjob.Job, msats int64) *job.Credit {
	if msats == 0 {
		return nil
	}
	return &job.Credit{RequestID: j.RequestID, Buyer: j.Buyer, Msats: msats, RefundTo: refund.Target(j.Asked)}
}

// late looks once more at the payments of a job that has ended. What came for it and is
// confirmed is owed.
func (f *Flow) late(ctx context.Context, j job.Job) {
	came, err := f.cfg.Collector.CameFor(ctx, &j)
	if err != nil {
		f.log.Warn("look for late money", "request", j.RequestID, "err", err)
		return
	}
	if came == 0 {
		return
	}

	ended, _ := openjob.Parse(ctx, f.cfg.Publisher, j) // what came is owed whatever its request says
	if err := f.owe(ctx, ended, came); err != nil {
		f.log.Error("record late money", "request", j.RequestID, "msats", came, "err", err)
		f.cfg.OnStoreError(err)
	}
}

// owe records what came in all for a job that has ended, of which the buyer is told
// what is new.
func (f *Flow) owe(ctx context.Context, j *openjob.Job, came int64) error {
	owed := job.Credit{RequestID: j.RequestID, Buyer: j.Buyer, Msats: came, RefundTo: refund.Target(j.Asked)}
	var out job.OutEvent
	msats, err := f.cfg.Store.AddLate(ctx, owed, func(msats int64) (_ job.OutEvent, err error) {
		late := owed
		late.Msats = msats
		out, err = f.cfg.Publisher.Feedback(ctx, j.To, "refund", refund.OwedText(late, "it came after the job had ended"), "", refund.OwedTag(owed.Msats))
		return out, err
	})
	if err != nil || msats == 0 {
		return err
	}
	f.cfg.Tell(job.DebtEvent{RequestID: j.RequestID, Msats: msats})
	f.cfg.Publisher.Send(out)
	f.log.Warn("money came after the job had ended: it is owed", "request", j.RequestID, "msats", msats)
	f.cfg.Refunds.Begin(ctx, j.RequestID)
	return nil
}

// tellable is the reason as a buyer hears it that has not paid for good. Before a run an
// error may name what is wrong with the request. Afterwards it could carry what the
// job found out, so it is one of six codes, in words of ours; the details are in the
// seller's log.
func tellable(r job.Reason, runs int) job.Reason {
	if runs == 0 {
		return r
	}

	switch r.Code {
	case job.CodeCanceled:
		return job.Because(job.CodeCanceled, "by the buyer, while running")
	case job.CodeDeadline:
		return job.Because(job.CodeDeadline, "the job was not done and delivered in time")
	case job.CodeStopped:
		return job.Because(job.CodeStopped, "a limit stopped the job, or the sandbox did")
	case job.CodeExpectationNotMet:
		return job.Because(job.CodeExpectationNotMet, "the outcome is not the one that the request asked for")
	case job.CodeUnpaid, job.CodePaymentLost:
		return job.Because(job.CodeUnpaid, "no payment of the result is final")
	}

	return job.Because(job.CodeAgentFailed, "the provider could not do the job")
}

// Owe is what is owed to a job's buyer, nil if nothing is, and how the buyer is told of it.
func Owe(j *openjob.Job, msats int64, why string) (*job.Credit, string) {
	owed := credit(j, msats)
	if owed == nil {
		return nil, ""
	}
	return owed, refund.OwedText(*owed, why)
}
