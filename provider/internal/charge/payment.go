package charge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider/internal/openjob"
	"github.com/lightwork-market/lightwork/receipts"
)

const (
	// finalPoll is the least time between two looks at a settled payment that is not
	// final yet. Most are within a few of these.
	finalPoll = 10 * time.Millisecond
	// finalSoon is how long that may take without a word to the operator.
	finalSoon = time.Minute
	// shownWithin is how long a wallet may call an invoice paid and not show the
	// preimage that it chose.
	shownWithin = 5 * time.Second
	// settlePoll is how often a hold that the wallet was told to settle is looked up.
	settlePoll = 250 * time.Millisecond
)

// notConfirmed is why a payment that was seen is not waited for any longer.
const notConfirmed = "what came is not confirmed, and may have been replaced; if it is confirmed after all, it is owed"

// Accept keeps the buyer's signed acceptance of a quote, for the receipt: j is how the job
// stands, quote that of its charge that is due. One that does not match is worth nothing
// and is dropped.
func (c *Collector) Accept(ctx context.Context, j *job.Job, quote receipts.Quote, ev nostr.Event) (kept bool) {
	of := j.Due()
	if of.Acceptance != nil {
		return false
	}

	var raw []byte
	inner, err := c.cfg.Publisher.Unwrap(ctx, ev.PubKey, ev)
	if err == nil {
		raw, err = json.Marshal(inner)
	}
	if err == nil {
		err = checkAcceptance(of, quote, raw)
	}
	if err != nil {
		c.log.Warn("acceptance dropped", "request", j.RequestID, "event", ev.ID, "err", err)
		return false
	}

	if err := c.cfg.Store.SetAcceptance(ctx, j.RequestID, of.Purpose, raw); err != nil {
		c.log.Error("record acceptance", "request", j.RequestID, "err", err)
		return false
	}
	return true
}

// checkAcceptance wants the acceptance that a receipt can bind: of this quote,
// and not from the future, which would put it after the payment.
func checkAcceptance(c *job.Charge, quote receipts.Quote, raw []byte) error {
	var ev receipts.Event
	if err := json.Unmarshal(raw, &ev); err != nil {
		return err
	}
	if ev.CreatedAt > time.Now().Unix() {
		return fmt.Errorf("it is dated %d s ahead of our clock", ev.CreatedAt-time.Now().Unix())
	}

	_, err := receipts.CheckAcceptance(ev, quote, c.PaymentHash)
	return err
}

// AwaitPayment waits until the wallet itself says that the invoice of a charge is paid,
// for good, or held. Past the quote's expiry the invoice is cancelled; money that arrives
// before the cancellation still counts.
func (b *Bill) AwaitPayment(ctx context.Context, c *job.Charge) (job.Payment, error) {
	for {
		inv, err := b.final(ctx, c.PaymentHash)
		if err != nil {
			return job.Payment{}, fmt.Errorf("look up invoice for the %s: %w", c.Purpose, err)
		}

		wait := b.cfg.Times.LookupEvery
		switch {
		case isUnderpaid(inv, c.PriceMsats):
			return job.Payment{}, b.lost(inv)
		case inv.State == payments.InvoiceCanceled:
			return job.Payment{}, b.expired(c, inv)
		case inv.State == payments.InvoicePending:
			if b.isUnconfirmed(c.ExpiresAt) {
				return job.Payment{}, openjob.GiveBack(job.StateExpired, job.CodePaymentExpired, notConfirmed)
			}
		case b.isUnshown(c, inv):
			return job.Payment{}, b.noPreimage()
		case hasArrived(inv, b.job.Mode, c):
			return paymentOf(inv), nil
		case !time.Now().Before(c.ExpiresAt):
			if err := b.lapse(ctx, c); err != nil {
				return job.Payment{}, fmt.Errorf("cancel expired invoice: %w", err)
			}
			continue
		default:
			wait = min(wait, time.Until(c.ExpiresAt))
		}

		select {
		case <-b.job.Wake:
		case <-time.After(wait):
		case <-b.job.Cancel:
			return job.Payment{}, openjob.GiveBack(job.StateCanceled, job.CodeCanceled, "by the buyer, before payment")
		case <-ctx.Done():
			return job.Payment{}, ctx.Err()
		}
	}
}

// hasArrived reports whether all of the price is there: settled, or held where the job
// is paid by a hold invoice. No other charge is made by one, so a wallet that calls it
// held has not settled it yet, and may never do so.
func hasArrived(inv payments.Invoice, mode receipts.Mode, c *job.Charge) bool {
	held := inv.State == payments.InvoiceHeld && mode == receipts.ModeHold && c.Purpose == receipts.PurposeResult
	return (held || inv.State == payments.InvoiceSettled) && inv.PaidMsats >= c.PriceMsats
}

func paymentOf(inv payments.Invoice) job.Payment {
	return job.Payment{
		Hash: inv.PaymentHash, State: inv.State, PaidMsats: inv.PaidMsats,
		SettleBy: inv.SettleBy, RecordedAt: time.Now().UTC(), Outpoints: inv.Outpoints, Preimage: inv.Preimage,
	}
}

// RecordPaid records the payment of a result that is paid before the job runs.
func (b *Bill) RecordPaid(ctx context.Context, pay job.Payment) error {
	d := b.job.Directive("payment:" + b.job.PaymentHash.String())
	if err := b.cfg.Store.SetPaid(ctx, b.job.RequestID, pay, d, b.job.ThreadName()); err != nil {
		return fmt.Errorf("record payment: %w", err)
	}
	b.cfg.Tell(job.PaymentEvent{RequestID: b.job.RequestID, Payment: pay})
	b.log.Info("paid", "request", b.job.RequestID, "state", pay.State, "msats", pay.PaidMsats)
	return nil
}

// HeldUntil is until when the work must be done, if the payment is held: the wallet is
// asked each time, since it may be gone, or be lost sooner than it said. need is how long
// the work takes. The zero time means that nothing is held.
func (b *Bill) HeldUntil(ctx context.Context, need time.Duration) (time.Time, error) {
	if b.job.Mode != receipts.ModeHold {
		return time.Time{}, nil
	}
	inv, err := b.lookup(ctx, b.job.PaymentHash)
	if err != nil {
		return time.Time{}, fmt.Errorf("look up held invoice: %w", err)
	}

	switch inv.State {
	case payments.InvoiceHeld:
	case payments.InvoiceSettled: // by a life with a durable result: only such a one gives the preimage out
		return time.Time{}, openjob.Delivered()
	default:
		return time.Time{}, openjob.GiveBack(job.StateFailed, job.CodePaymentLost, "the held payment is "+string(inv.State))
	}

	held := inv.SettleBy.Add(-b.cfg.Times.HoldMargin)
	if time.Until(held) < need {
		return time.Time{}, openjob.GiveBack(job.StateFailed, job.CodeDeadline, "the payment cannot be held long enough")
	}
	return held, nil
}

// deliverFor is how long a result that waits for no held payment is offered.
const deliverFor = 24 * time.Hour

// DeliverBy is until when a relay must have taken the result. The job ends if its held
// payment is gone.
func (b *Bill) DeliverBy(ctx context.Context) (time.Time, error) {
	switch b.job.Mode {
	case receipts.ModePostpay:
		return b.job.ExpiresAt, nil
	case receipts.ModeHold:
	default:
		return b.job.StateAt.Add(deliverFor), nil
	}

	inv, err := b.lookup(ctx, b.job.PaymentHash)
	switch {
	case err != nil:
		return time.Time{}, fmt.Errorf("look up held invoice: %w", err)
	case isUnderpaid(inv, b.job.PriceMsats):
		return time.Time{}, b.lost(inv)
	case inv.State == payments.InvoiceCanceled:
		return time.Time{}, openjob.Close(job.StateFailed, job.CodePaymentLost, "the held payment lapsed before the result was delivered", 0)
	case inv.State == payments.InvoiceHeld:
		return inv.SettleBy.Add(-b.cfg.Times.HoldMargin / 2), nil
	}

	return b.job.StateAt.Add(deliverFor), nil
}

// ClaimHold claims the held payment of a delivered result, and returns it once it is ours
// for good; nil if the job is to be looked at again. Settling may be repeated; only the
// lookup decides.
func (b *Bill) ClaimHold(ctx context.Context) (*job.Payment, error) {
	inv, err := b.final(ctx, b.job.PaymentHash)
	if err != nil {
		return nil, fmt.Errorf("look up held invoice: %w", err)
	}
	if inv.State == payments.InvoiceHeld && !time.Now().Before(inv.SettleBy) {
		// The wallet may be giving it back already, and where it closes the channel
		// meanwhile both would have it.
		return nil, openjob.GiveBack(job.StateFailed, job.CodeDeadline, "the result was delivered, and the held payment not settled in time")
	}

	if inv.State == payments.InvoiceHeld {
		if err := b.cfg.Wallet.SettleInvoice(ctx, b.Preimage(b.job.RequestID, &b.job.Charge)); err != nil {
			return nil, fmt.Errorf("settle: %w", err)
		}
		if inv, err = b.final(ctx, b.job.PaymentHash); err != nil {
			return nil, fmt.Errorf("look up settled invoice: %w", err)
		}
	}

	switch {
	case isUnderpaid(inv, b.job.PriceMsats):
		return nil, b.lost(inv)
	case inv.State == payments.InvoiceCanceled:
		return nil, openjob.Close(job.StateFailed, job.CodePaymentLost, "the held payment lapsed before it was settled", 0)
	case inv.State == payments.InvoiceSettled:
		pay := paymentOf(inv)
		return &pay, nil
	}

	select { // told to settle, and does not show it yet
	case <-b.job.Wake:
	case <-time.After(settlePoll):
	case <-ctx.Done():
	}

	return nil, ctx.Err()
}

// AwaitPostpay waits for the payment of a result that was delivered, and returns it; nil
// if the job is to be looked at again.
func (b *Bill) AwaitPostpay(ctx context.Context) (*job.Payment, error) {
	c := &b.job.Charge
	inv, err := b.final(ctx, c.PaymentHash)
	isOver := !time.Now().Before(c.ExpiresAt)
	switch {
	case err != nil:
		return nil, fmt.Errorf("look up invoice: %w", err)
	case isUnderpaid(inv, c.PriceMsats):
		return nil, b.lost(inv)
	case b.isUnshown(c, inv):
		return nil, b.noPreimage()
	case hasArrived(inv, b.job.Mode, c) && inv.State == payments.InvoiceSettled:
		pay := paymentOf(inv)
		return &pay, nil
	case inv.State == payments.InvoiceCanceled:
		return nil, openjob.Close(job.StateFailed, job.CodeUnpaid, "the result was delivered and never paid", 0)
	case inv.State == payments.InvoicePending && isOver:
		if b.isUnconfirmed(c.ExpiresAt) {
			return nil, openjob.GiveBack(job.StateFailed, job.CodeUnpaid, notConfirmed)
		}
	case isOver:
		return nil, b.lapse(ctx, c)
	}

	wait := b.cfg.Times.LookupEvery
	if left := time.Until(c.ExpiresAt); left > 0 {
		wait = min(wait, left)
	}

	// A buyer that cancels now has nothing but boxes, and says that it will not
	// open them: a panel did not take them. In the clear it has the result.
	cancel := b.job.Cancel
	if !b.job.IsSealed() {
		cancel = nil
	}

	select {
	case <-cancel:
		return nil, b.cfg.Wallet.CancelInvoice(ctx, c.PaymentHash)
	case <-b.job.Wake:
	case <-time.After(wait):
	case <-ctx.Done():
	}

	return nil, ctx.Err()
}

// settling is since when the wallet calls a payment settled that is not final. It
// outlives lookups that fail.
type settling struct {
	hash  payments.Hash
	since time.Time
	told  bool // the operator was
}

// final asks how an invoice of the job's stands. A wallet may call an invoice settled
// before the money has come: lnd does as soon as it has used the preimage, and can lose
// the payment then (lnd#7463). So what counts as paid is what is final, and nothing else
// can be done meanwhile, neither cancelling nor delivering. A preimage that the wallet
// chose and does not show yet is waited for a moment. With a channel peer that is away,
// or a channel that is being closed, the wait takes hours; the job is in nobody's way.
func (b *Bill) final(ctx context.Context, hash payments.Hash) (payments.Invoice, error) {
	s := &b.settling
	for {
		inv, err := b.lookup(ctx, hash)
		switch {
		case err != nil:
			return inv, err
		case inv.State != payments.InvoiceSettled || inv.Final && !b.isUnshown(&b.job.Charge, inv):
			*s = settling{}
			return inv, nil
		case s.hash != hash:
			*s = settling{hash: hash, since: time.Now()}
		}

		waited := time.Since(s.since)
		if inv.Final && waited > shownWithin { // it does not show the preimage that it chose
			return inv, nil
		}
		if waited > finalSoon && !s.told {
			s.told = true
			b.leave()
			b.log.Warn("the wallet calls a payment settled, and its channel has not settled it yet: waiting", "request", b.job.RequestID, "payment_hash", hash.String(),
				"hint", "its peer is away, or the channel is being closed: lncli listchannels and lncli pendingchannels show the HTLC")
		}

		select {
		case <-time.After(min(max(waited/4, finalPoll), b.cfg.Times.LookupEvery)): // at most a quarter later than it is so
		case <-ctx.Done():
			return payments.Invoice{}, ctx.Err()
		}
	}
}

// isUnshown reports that an invoice is settled without the preimage that the wallet
// chose for it: no receipt can be made then.
func (b *Bill) isUnshown(c *job.Charge, inv payments.Invoice) bool {
	return inv.State == payments.InvoiceSettled && inv.PaymentHash == c.PaymentHash && inv.Preimage.IsZero() && b.walletChose(c)
}

// noPreimage ends a job whose payment the wallet does not show: what came is owed.
func (b *Bill) noPreimage() error {
	b.log.Error("the wallet calls an invoice paid and shows no preimage, without which there is no receipt; sell with another wallet",
		"request", b.job.RequestID, "payment_hash", b.job.PaymentHash.String())
	return openjob.GiveBack(job.StateFailed, job.CodeInternal, "the provider's wallet shows no proof of the payment, so there can be no receipt")
}

// isUnconfirmed reports that a payment which is seen, and not final, is to be given
// up. Past the end of its quote the job is in nobody's way; but it has to end one
// day: of a transaction that was replaced by one to somebody else, lnd may go on
// saying that it waits for a block.
func (b *Bill) isUnconfirmed(expires time.Time) bool {
	over := time.Since(expires)
	if over >= 0 {
		b.leave()
	}
	return over >= b.cfg.Times.Unconfirmed
}

// isUnderpaid reports that a wallet lost so much of what it had called settled that
// the price is not there.
func isUnderpaid(inv payments.Invoice, priceMsats int64) bool {
	return inv.LostMsats > 0 && inv.PaidMsats < priceMsats
}

// lost ends a job whose payment fell short. What came all the same is the buyer's
// again, unless the result was delivered for it.
func (b *Bill) lost(inv payments.Invoice) error {
	came := inv.PaidMsats
	if b.job.State == job.StateDelivering {
		came = 0
	}
	return openjob.Close(job.StateFailed, job.CodePaymentLost,
		fmt.Sprintf("the wallet had called the payment settled, and then %d msats of it went back to the payer", inv.LostMsats), came)
}

// expired ends a job that was not paid for in time.
func (b *Bill) expired(c *job.Charge, inv payments.Invoice) error {
	what := "invoice"
	if c.Purpose == receipts.PurposeEngagement {
		what = "invoice of the engagement fee"
	}
	came := b.partlyPaid(inv)
	if came == 0 {
		return openjob.Close(job.StateExpired, job.CodePaymentExpired, "the "+what+" lapsed unpaid", 0)
	}
	return openjob.Close(job.StateExpired, job.CodePaymentExpired, fmt.Sprintf("%d msats of %d came in time", came, c.PriceMsats), came)
}

// lapse cancels the invoice of a charge whose time is over. One that the wallet cannot
// cancel ends by itself soon after, and the job is in nobody's way until then.
func (b *Bill) lapse(ctx context.Context, c *job.Charge) error {
	err := b.cfg.Wallet.CancelInvoice(ctx, c.PaymentHash)
	b.heard(ctx, err)
	if !errors.Is(err, payments.ErrUnsupported) {
		return err
	}
	b.leave()

	select {
	case <-b.job.Wake:
	case <-time.After(b.cfg.Times.LookupEvery):
	case <-ctx.Done():
		return ctx.Err()
	}

	return nil
}
