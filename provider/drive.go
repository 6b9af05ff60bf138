package provider

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider/internal/publish"
	"github.com/lightwork-market/lightwork/provider/internal/refund"
	"github.com/lightwork-market/lightwork/receipts"
)

// drive owns one job: it does the next step from where the job stands, reads
// where it stands now, and repeats until the job is terminal. A step that fails
// for a passing reason is tried again; since every step commits before the next
// begins, a restart enters this loop at the same place.
func (p *Provider) drive(ctx context.Context, job Job, sig *jobSignal) {
	id := job.RequestID
	log := p.log.With("request", id)
	sig.stands = &job

	canceled := sig.cancel
	for pause := time.Second; ; {
		var err error
		if sig.stands != nil {
			job, sig.stands = *sig.stands, nil
		} else {
			job, err = p.cfg.Store.Job(ctx, id)
		}

		if err == nil && job.State.Terminal() {
			if job.Reason.Code == CodePaymentUnknown {
				p.awaitAnswer(ctx, job, sig)
			}
			p.late(ctx, job)
			return
		}

		if err == nil {
			err = p.step(ctx, job, sig)
		}

		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			pause = time.Second
			continue
		}

		log.Warn("step failed, trying again", "state", job.State, "in", pause, "err", err)
		p.storeTrouble(err)
		if job.State == StateQuoted && !time.Now().Before(job.ExpiresAt) {
			p.gate.Leave(id) // it is in nobody's way while it waits for the wallet
		}
		if p.silent(job) {
			to := StateFailed
			if job.State == StateQuoted {
				to = StateExpired
			}
			if p.giveUp(ctx, job, to) == nil {
				continue
			}
		}

		wake := sig.wake
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

func (p *Provider) step(ctx context.Context, job Job, sig *jobSignal) error {
	switch job.State {
	case StateQuoted:
		c := job.Due()
		switch {
		case job.Mode == receipts.ModeFree:
		case c.BOLT11 == "":
			return p.ensureInvoice(ctx, job, c, sig)
		case job.PaidFirst(c):
			return p.awaitPayment(ctx, job, c, sig)
		}
		return p.begin(ctx, job, sig)
	case StatePaid, StateRunning:
		return p.begin(ctx, job, sig)
	case StateDelivering:
		return p.deliver(ctx, job, sig)
	}

	return fmt.Errorf("job in unknown state %q", job.State)
}

// ensureInvoice asks the wallet for the invoice of a charge (the same one, however
// often it asks: P2, P3) and queues what the buyer needs to pay it.
func (p *Provider) ensureInvoice(ctx context.Context, job Job, c *Charge, sig *jobSignal) error {
	inv, err := p.newInvoice(ctx, job, c, sig)
	if err != nil || inv == nil {
		return err
	}

	var out []OutEvent
	if job.PaidFirst(c) {
		ev, err := p.paymentRequired(ctx, job, c, inv.BOLT11)
		if err != nil {
			return err
		}
		out = append(out, ev)
	}

	var chosen payments.Hash
	if c.PaymentHash.IsZero() {
		chosen = inv.PaymentHash
	}
	if err := p.cfg.Store.SetInvoice(ctx, job.RequestID, c.Purpose, inv.BOLT11, chosen, out...); err != nil {
		return fmt.Errorf("record invoice for the %s: %w", c.Purpose, err)
	}
	p.pub.Send(out...)
	return nil
}

// awaitPayment waits until the wallet itself says that the invoice is paid, for
// good, or held. Past the quote's expiry the invoice is cancelled; money that arrives
// before the cancellation still counts.
func (p *Provider) awaitPayment(ctx context.Context, job Job, c *Charge, sig *jobSignal) error {
	for {
		inv, err := p.finalInvoice(ctx, job, c.PaymentHash)
		if err != nil {
			return fmt.Errorf("look up invoice for the %s: %w", c.Purpose, err)
		}

		wait := p.limits.LookupEvery
		switch {
		case underpaid(inv, c.PriceMsats):
			return p.lost(ctx, job, inv)
		case inv.State == payments.InvoiceCanceled:
			return p.invoiceExpired(ctx, job, c, inv)
		case inv.State == payments.InvoicePending:
			if p.unconfirmed(job, c.ExpiresAt) {
				return p.giveBack(ctx, job, StateExpired, because(CodePaymentExpired, notConfirmed))
			}
		case unshown(c, inv):
			return p.noPreimage(ctx, job)
		case arrived(inv, job.Mode, c):
			return p.paid(ctx, job, c, sig, payment(inv))
		case !time.Now().Before(c.ExpiresAt):
			if err := p.lapse(ctx, job, c, sig); err != nil {
				return fmt.Errorf("cancel expired invoice: %w", err)
			}
			continue
		default:
			wait = min(wait, time.Until(c.ExpiresAt))
		}

		select {
		case <-sig.wake:
		case <-time.After(wait):
		case <-sig.cancel:
			return p.giveBack(ctx, job, StateCanceled, because(CodeCanceled, "by the buyer, before payment"))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// arrived reports whether all of the price is there: settled, or held where the job
// is paid by a hold invoice. No other charge is made by one, so a wallet that calls it
// held has not settled it yet, and may never do so.
func arrived(inv payments.Invoice, mode receipts.Mode, c *Charge) bool {
	held := inv.State == payments.InvoiceHeld && mode == receipts.ModeHold && c.Purpose == receipts.PurposeResult
	return (held || inv.State == payments.InvoiceSettled) && inv.PaidMsats >= c.PriceMsats
}

// paid records a payment that is made before the job goes on. A fee is settled at once.
func (p *Provider) paid(ctx context.Context, job Job, c *Charge, sig *jobSignal, pay Payment) error {
	if c.Purpose == receipts.PurposeEngagement {
		return p.settled(ctx, job, c, sig, pay)
	}
	d := directive(job, "payment:"+job.PaymentHash.String())
	err := p.cfg.Store.SetPaid(ctx, job.RequestID, pay, d, thread(job))
	if err != nil {
		return fmt.Errorf("record payment: %w", err)
	}
	p.tell(PaymentEvent{RequestID: job.RequestID, Payment: pay})
	p.gate.Activate(job.RequestID)
	p.log.Info("paid", "request", job.RequestID, "state", pay.State, "msats", pay.PaidMsats)
	return nil
}

func payment(inv payments.Invoice) Payment {
	return Payment{
		Hash: inv.PaymentHash, State: inv.State, PaidMsats: inv.PaidMsats,
		SettleBy: inv.SettleBy, RecordedAt: time.Now().UTC(), Outpoints: inv.Outpoints, Preimage: inv.Preimage,
	}
}

func directive(job Job, by string) Directive {
	return Directive{ID: "dir_" + job.QuoteHash.Hex()[:32], Key: job.RequestID + "/" + string(receipts.PurposeResult), ApprovedBy: by}
}

// thread is the job's place in the tree of threads.
func thread(job Job) string { return "root.job[" + job.RequestID + "]" }

// giveBack returns the money, if any came, and ends the job. It is retried as a
// whole; each part may be repeated. Hold: the payment is cancelled, which costs
// nobody anything. Prepay: what was received is owed to the buyer. Of a wallet that
// does not answer it is asked after the job's end.
func (p *Provider) giveBack(ctx context.Context, job Job, to State, reason Reason) error {
	for pause := time.Second; ; pause = min(2*pause, 30*time.Second) {
		err := p.tryGiveBack(ctx, job, to, reason)
		if err != nil && p.silent(job) {
			err = p.giveUp(ctx, job, to)
		}
		if err == nil || ctx.Err() != nil || errors.Is(err, ErrConflict) {
			return err
		}
		p.log.Warn("give the money back, trying again", "request", job.RequestID, "in", pause, "err", err)
		p.storeTrouble(err)

		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (p *Provider) tryGiveBack(ctx context.Context, job Job, to State, reason Reason) error {
	owed := feeOwed(job, reason.Code)
	for _, c := range invoiced(job) {
		came, err := p.moneyBack(ctx, job, c)
		if err != nil {
			return fmt.Errorf("invoice for the %s: %w", c.Purpose, err)
		}
		owed += came
	}
	return p.closeOwing(ctx, job, to, reason, p.credit(ctx, job, owed))
}

// moneyBack cancels an invoice, and returns what is owed where it was settled
// before that. A held payment goes back with the cancellation.
func (p *Provider) moneyBack(ctx context.Context, job Job, c *Charge) (owedMsats int64, err error) {
	inv, err := p.finalInvoice(ctx, job, c.PaymentHash)
	if err != nil {
		return 0, fmt.Errorf("look up invoice: %w", err)
	}
	if inv.State != payments.InvoiceSettled && inv.State != payments.InvoiceCanceled {
		err := p.cfg.Wallet.CancelInvoice(ctx, c.PaymentHash)
		p.listen(ctx, job, err)
		if errors.Is(err, payments.ErrUnsupported) && untold(job, c) {
			return 0, nil
		}
		if err != nil {
			return 0, fmt.Errorf("cancel invoice: %w", err)
		}
		if inv, err = p.finalInvoice(ctx, job, c.PaymentHash); err != nil {
			return 0, fmt.Errorf("look up cancelled invoice: %w", err)
		}
	}

	switch inv.State {
	case payments.InvoicePending: // on the chain; once it is confirmed, late sees it
		return 0, nil
	case payments.InvoiceCanceled:
		return partlyPaid(p.node.Rail(), inv), nil
	case payments.InvoiceSettled:
		return inv.PaidMsats, nil
	}

	return 0, fmt.Errorf("invoice is still %s after cancelling", inv.State)
}

// credit is what is owed to the job's buyer, nil if nothing is.
func (p *Provider) credit(ctx context.Context, job Job, msats int64) *Credit {
	if msats == 0 {
		return nil
	}
	return &Credit{RequestID: job.RequestID, Buyer: job.Buyer, Msats: msats, RefundTo: p.refunds.Target(ctx, job)}
}

// close ends a job for which nothing else came than perhaps its engagement fee.
func (p *Provider) close(ctx context.Context, job Job, to State, reason Reason) error {
	if to == StateSucceeded {
		return p.closeOwing(ctx, job, to, reason, nil)
	}
	return p.closeOwing(ctx, job, to, reason, p.credit(ctx, job, feeOwed(job, reason.Code)))
}

// closeOwing ends the job, and says what is owed for it and what becomes of that.
func (p *Provider) closeOwing(ctx context.Context, job Job, to State, reason Reason, owed *Credit) error {
	text := told(reason, job).String() + feeText(job, reason.Code)
	if owed == nil {
		return p.closeAs(ctx, job, to, reason, text, nil)
	}
	var why string
	owed.Refund, why = p.refunds.Plan(ctx, job, *owed, reason.Code)
	err := p.closeAs(ctx, job, to, reason, text+"; "+refund.OwedText(*owed, why), owed)
	if errors.Is(err, ErrRefundTaken) { // named for two jobs: it pays one of them
		owed.Refund = nil
		err = p.closeAs(ctx, job, to, reason, text+"; "+refund.OwedText(*owed, "its refund invoice was named before"), owed)
	}

	return err
}

func (p *Provider) closeAs(ctx context.Context, job Job, to State, reason Reason, text string, owed *Credit) error {
	status := "error"
	if to == StateSucceeded {
		status, text = "success", ""
	} else if job.CreditMsats > 0 {
		text += fmt.Sprintf("; the %d msats of credit it used are yours again", job.CreditMsats)
	}

	var owes nostr.Tags
	if owed != nil {
		owes = nostr.Tags{refund.OwedTag(owed.Msats)}
	}
	out, err := p.pub.Feedback(ctx, publish.BuyerOf(job), status, text, "", owes...)
	if err != nil {
		return err
	}
	told := []OutEvent{out}
	if to == StateSucceeded {
		told = append(told, p.trajectoryEvents(ctx, job)...)
	}
	if err := p.cfg.Store.Close(ctx, job.RequestID, to, reason, owed, told...); err != nil {
		return fmt.Errorf("close job: %w", err)
	}
	p.tell(EndEvent{RequestID: job.RequestID, State: to, Reason: reason, Owed: owed})
	p.pub.Send(told...)
	p.refunds.Wake()
	p.log.Info("closed", "request", job.RequestID, "state", to, "reason", reason.String())
	return nil
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
