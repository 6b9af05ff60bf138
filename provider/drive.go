package provider

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/provider/internal/charge"
	"github.com/lightwork-market/lightwork/provider/internal/deliver"
	"github.com/lightwork-market/lightwork/provider/internal/openjob"
	"github.com/lightwork-market/lightwork/provider/internal/refund"
	"github.com/lightwork-market/lightwork/receipts"
)

// actor owns one job: its goroutine does the job's steps.
type actor struct {
	p        *Provider
	job      *openjob.Job
	bill     *charge.Bill
	delivery *deliver.Delivery
	// unreadable is why some of the job's documents could not be parsed; nil if all were.
	unreadable error
	canceled   sync.Once // job.Cancel is closed
}

// drive does the job's next step from where it stands, reads where it stands now, and
// repeats until the job is terminal. A step that fails for a passing reason is tried
// again; since every step commits before the next begins, a restart enters this loop at
// the same place.
func (a *actor) drive(ctx context.Context) {
	p, id := a.p, a.job.RequestID
	log := p.log.With("request", id)

	canceled := a.job.Cancel
	for pause := time.Second; ; {
		err := a.job.Refresh(ctx, p.cfg.Store.Job)

		if err == nil && a.job.State.Terminal() {
			if a.job.Reason.Code == CodePaymentUnknown {
				a.awaitAnswer(ctx)
			}
			p.late(ctx, a.job.Job)
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
		p.storeTrouble(err)
		if a.job.State == StateQuoted && !time.Now().Before(a.job.ExpiresAt) {
			p.gate.Leave(id) // it is in nobody's way while it waits for the wallet
		}
		if a.bill.IsSilent() {
			to := StateFailed
			if a.job.State == StateQuoted {
				to = StateExpired
			}
			if a.giveUp(ctx, to) == nil {
				continue
			}
		}

		wake := a.job.Wake
		if errors.As(err, new(*RunError)) {
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
	if a.unreadable != nil && a.job.State != StateDelivering {
		return openjob.GiveBack(StateFailed, CodeInternal, "stored request unreadable")
	} else if a.unreadable != nil {
		return a.unreadable
	}

	switch a.job.State {
	case StateQuoted:
		c := a.job.Due()
		switch {
		case a.job.Mode == receipts.ModeFree:
		case c.BOLT11 == "":
			return a.bill.Ask(ctx, c)
		case a.job.PaidFirst(c):
			return a.awaitPayment(ctx, c)
		}
		return a.begin(ctx)
	case StatePaid, StateRunning:
		return a.begin(ctx)
	case StateDelivering:
		return a.deliver(ctx)
	}

	return fmt.Errorf("job in unknown state %q", a.job.State)
}

// awaitPayment waits for a payment that is made before the job goes on. A fee is settled
// at once.
func (a *actor) awaitPayment(ctx context.Context, c *Charge) error {
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
	a.p.gate.Activate(a.job.RequestID)
	return nil
}

// settle takes the final payment of a charge, for which its receipt is issued.
func (a *actor) settle(ctx context.Context, c *Charge, pay Payment) error {
	if a.bill.AwaitAcceptance(ctx, c) {
		return ctx.Err() // look again: it may be here
	}
	isReceipted, err := a.p.restored.IsReceipted(ctx, a.job.RequestID, c.Purpose) // the chain is known before it goes on
	if err != nil {
		return err
	}
	if isReceipted {
		return openjob.Delivered()
	}

	var record []OutEvent
	if c.Purpose == receipts.PurposeResult {
		record = a.delivery.Session(ctx)
	}
	if err := a.bill.Settle(ctx, c, pay, record); err != nil {
		return err
	}

	switch {
	case c.Purpose == receipts.PurposeEngagement:
		if !a.job.PaysFirst() {
			a.p.gate.Activate(a.job.RequestID)
		}
	case a.bill.IsOnChain(): // more may have come than the price
		a.p.refunds.Begin(ctx, a.job.RequestID)
	}

	return nil
}

// end carries out how a step ends the job. Where the buyer gets its money back it is
// retried as a whole. Of a wallet that does not answer it is asked after the job's end.
func (a *actor) end(ctx context.Context, e *openjob.End) error {
	switch {
	case e.Reason.Code == CodeRestored:
		return a.closeDelivered(ctx, e)
	case !e.Cancel:
		return a.closeOwing(ctx, e, e.CameMsats)
	}

	for pause := time.Second; ; pause = min(2*pause, 30*time.Second) {
		came, err := a.bill.GiveBack(ctx)
		if err == nil {
			err = a.closeOwing(ctx, e, came)
		}
		if err != nil && a.bill.IsSilent() {
			err = a.giveUp(ctx, e.State)
		}
		if err == nil || ctx.Err() != nil || errors.Is(err, ErrConflict) {
			return err
		}
		a.p.log.Warn("give the money back, trying again", "request", a.job.RequestID, "in", pause, "err", err)
		a.p.storeTrouble(err)

		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// closeOwing ends the job, and says what is owed for it and what becomes of that.
func (a *actor) closeOwing(ctx context.Context, e *openjob.End, cameMsats int64) error {
	if e.State == StateSucceeded {
		return a.close(ctx, e, "", nil)
	}

	text := told(e.Reason, a.job.Job).String()
	if kept := charge.FeeKept(&a.job.Job, e.Reason.Code); kept > 0 {
		text += fmt.Sprintf("; the engagement fee of %d msats stays paid: the attempt was made", kept)
	}
	owed := a.p.credit(a.job, cameMsats+charge.FeeOwed(&a.job.Job, e.Reason.Code))
	if owed == nil {
		return a.close(ctx, e, text, nil)
	}

	var why string
	owed.Refund, why = a.p.refunds.Plan(ctx, a.job.Job, *owed, e.Reason.Code)
	err := a.close(ctx, e, text+"; "+refund.OwedText(*owed, why), owed)
	if errors.Is(err, ErrRefundTaken) { // named for two jobs: it pays one of them
		owed.Refund = nil
		err = a.close(ctx, e, text+"; "+refund.OwedText(*owed, "its refund invoice was named before"), owed)
	}

	return err
}

// close ends the job in the store, with the words for its buyer.
func (a *actor) close(ctx context.Context, e *openjob.End, text string, owed *Credit) error {
	status := "error"
	if e.State == StateSucceeded {
		status = "success"
	} else if a.job.CreditMsats > 0 {
		text += fmt.Sprintf("; the %d msats of credit it used are yours again", a.job.CreditMsats)
	}

	var owes nostr.Tags
	if owed != nil {
		owes = nostr.Tags{refund.OwedTag(owed.Msats)}
	}
	feedback, err := a.p.pub.Feedback(ctx, a.job.To, status, text, "", owes...)
	if err != nil {
		return err
	}
	out := []OutEvent{feedback}
	if e.State == StateSucceeded {
		out = append(out, a.delivery.Session(ctx)...)
	}

	if err := a.p.cfg.Store.Close(ctx, a.job.RequestID, e.State, e.Reason, owed, out...); err != nil {
		return fmt.Errorf("close job: %w", err)
	}
	a.p.tell(EndEvent{RequestID: a.job.RequestID, State: e.State, Reason: e.Reason, Owed: owed})
	a.p.pub.Send(out...)
	a.p.refunds.Wake()
	a.p.log.Info("closed", "request", a.job.RequestID, "state", e.State, "reason", e.Reason.String())
	return nil
}

// closeDelivered ends a job that an earlier life has delivered. The buyer was told then.
func (a *actor) closeDelivered(ctx context.Context, e *openjob.End) error {
	if err := a.p.cfg.Store.Close(ctx, a.job.RequestID, e.State, e.Reason, nil); err != nil {
		return fmt.Errorf("close job: %w", err)
	}
	a.p.tell(EndEvent{RequestID: a.job.RequestID, State: e.State, Reason: e.Reason})
	a.p.log.Warn("closed: it was delivered after the backup", "request", a.job.RequestID, "payment_hash", a.job.PaymentHash.String())
	return nil
}

// giveUp ends a job of which the wallet does not say whether it was paid for. A wallet can
// make an invoice and then say nothing more of it: the job does not wait for it without
// end, and what came is not forgotten. From then on the wallet is asked, in each life of
// the node, until it answers.
func (a *actor) giveUp(ctx context.Context, to State) error {
	a.p.log.Error("a job is given up: the wallet does not say whether it was paid for; it is asked again until it does", "request", a.job.RequestID,
		"payment_hash", a.job.PaymentHash.String())
	e := &openjob.End{State: to, Reason: because(CodePaymentUnknown, "the provider's wallet does not answer; what came for the job is owed once it does")}
	return a.closeOwing(ctx, e, 0)
}

// awaitAnswer asks the wallet of a job that was given up until it answers. What is
// not paid then is cancelled, and what is paid is owed.
func (a *actor) awaitAnswer(ctx context.Context) {
	a.p.gate.Leave(a.job.RequestID)

	for pause := time.Second; ; pause = min(2*pause, 10*a.p.limits.LookupEvery) {
		came, err := a.bill.GiveBack(ctx)
		if err == nil {
			err = a.p.owe(ctx, a.job, came+charge.FeeOwed(&a.job.Job, a.job.Reason.Code))
		}
		if err == nil || ctx.Err() != nil {
			return
		}
		a.p.log.Warn("ask the wallet of a job that was given up, trying again", "request", a.job.RequestID, "in", pause, "err", err)
		a.p.storeTrouble(err)

		select {
		case <-a.job.Wake:
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// credit is what is owed to the job's buyer, nil if nothing is.
func (p *Provider) credit(j *openjob.Job, msats int64) *Credit {
	if msats == 0 {
		return nil
	}
	return &Credit{RequestID: j.RequestID, Buyer: j.Buyer, Msats: msats, RefundTo: refund.Target(j.Asked)}
}

// late looks once more at the payments of a job that has ended. What came for it and is
// confirmed is owed.
func (p *Provider) late(ctx context.Context, j Job) {
	came, err := p.collector.CameFor(ctx, &j)
	if err != nil {
		p.log.Warn("look for late money", "request", j.RequestID, "err", err)
		return
	}
	if came == 0 {
		return
	}

	ended, _ := openjob.Parse(ctx, p.pub, j) // what came is owed whatever its request says
	if err := p.owe(ctx, ended, came); err != nil {
		p.log.Error("record late money", "request", j.RequestID, "msats", came, "err", err)
		p.storeTrouble(err)
	}
}

// owe records what came in all for a job that has ended, of which the buyer is told
// what is new.
func (p *Provider) owe(ctx context.Context, j *openjob.Job, came int64) error {
	owed := Credit{RequestID: j.RequestID, Buyer: j.Buyer, Msats: came, RefundTo: refund.Target(j.Asked)}
	var out OutEvent
	msats, err := p.cfg.Store.AddLate(ctx, owed, func(msats int64) (_ OutEvent, err error) {
		late := owed
		late.Msats = msats
		out, err = p.pub.Feedback(ctx, j.To, "refund", refund.OwedText(late, "it came after the job had ended"), "", refund.OwedTag(owed.Msats))
		return out, err
	})
	if err != nil || msats == 0 {
		return err
	}
	p.tell(DebtEvent{RequestID: j.RequestID, Msats: msats})
	p.pub.Send(out)
	p.log.Warn("money came after the job had ended: it is owed", "request", j.RequestID, "msats", msats)
	p.refunds.Begin(ctx, j.RequestID)
	return nil
}

// acceptance keeps the buyer's signed acceptance of our quote.
func (p *Provider) acceptance(ctx context.Context, ev nostr.Event) {
	t := ev.Tags.Find("e")
	if t == nil {
		return
	}
	a := p.openOf(ev.PubKey, t[1])
	if a == nil {
		return
	}
	j, err := p.cfg.Store.Job(ctx, t[1])
	if err != nil || j.State.Terminal() {
		return
	}
	if p.collector.Accept(ctx, &j, a.job.QuoteOf(j.Due()), ev) {
		p.wake(j.RequestID)
	}
}

// closing answers a buyer that closed its panel's commits: with the reveal, if
// our commit is among those that count.
func (p *Provider) closing(ctx context.Context, ev nostr.Event) {
	c, err := p.deliverer.ClosingOf(ctx, ev)
	if err != nil {
		p.log.Debug("closing dropped", "event", ev.ID, "err", err)
		return
	}

	for _, seat := range c.Results {
		if seat.Provider != p.key {
			continue
		}
		a := p.openOf(ev.PubKey, seat.RequestID)
		if a == nil || a.unreadable != nil {
			continue
		}
		j, err := p.cfg.Store.Job(ctx, seat.RequestID)
		if err != nil {
			continue
		}
		if err := a.delivery.Reveal(ctx, &j, c, seat); err != nil {
			p.log.Error("reveal", "request", j.RequestID, "err", err)
			p.storeTrouble(err)
		}
	}
}

// onAck notes answers to a job's result and wakes the job.
func (p *Provider) onAck(requestID string, acks []Ack) {
	p.mu.Lock()
	a := p.open[requestID]
	p.mu.Unlock()
	if a != nil {
		a.delivery.Note(acks)
		a.wake()
	}
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
		return a.p.pub.Withdraw(ctx, a.job.Result.EventID)
	}
	if err != nil {
		return err
	}

	taken, err := a.delivery.IsTaken(ctx)
	if err != nil {
		return err
	}
	if !taken {
		return a.delivery.Await(ctx, by)
	}

	var pay *Payment
	switch a.job.Mode {
	case receipts.ModeFree:
		if err := a.end(ctx, &openjob.End{State: StateSucceeded}); err != nil {
			return err
		}
		a.job.State = StateSucceeded
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
