package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// settlePoll is how often a hold that the wallet was told to settle is looked up.
const settlePoll = 250 * time.Millisecond

// placeTTL is how long a result that no relay takes keeps its job's place
// among those that count for admission.
const placeTTL = 10 * time.Minute

// acceptanceGrace is how long a receipt waits for the buyer's acceptance: it
// travels by relay, the payment by Lightning, and the money can be here first.
const acceptanceGrace = 500 * time.Millisecond

// deliver brings a durable result to the buyer and the money home, in this
// order: blobs on a server, the 6050 on enough relays (the outbox does both),
// then settling. A hold is given back rather than settled for a result that
// could not be published.
func (p *Provider) deliver(ctx context.Context, job Job, sig *jobSignal) error {
	if job.Mode == receipts.ModeHold {
		gone, err := p.holdGone(ctx, job)
		if err != nil || gone {
			return err
		}
	}
	enough, err := p.confirmed(ctx, job, sig)
	if err != nil {
		return err
	}
	if !enough {
		refused, err := p.signerRefused(ctx, job)
		if err != nil {
			return err
		}
		if refused {
			return p.giveBack(ctx, job, StateFailed, Reason{CodeInternal, "the result could not be signed"})
		}
		if time.Since(job.StateAt) > placeTTL {
			p.load.leave(job.RequestID) // it goes on, but in nobody's way
		}
		select {
		case <-sig.wake: // an answer came, or the invoice changed
		case <-time.After(p.limits.LookupEvery):
		case <-ctx.Done():
		}
		sig.stay(job)
		return ctx.Err()
	}
	switch job.Mode {
	case receipts.ModeFree:
		err := p.close(ctx, job, StateSucceeded, Reason{})
		if err == nil {
			job.State = StateSucceeded
			sig.stay(job)
		}
		return err
	case receipts.ModePrepay:
		return p.settled(ctx, job, sig, *job.Payment)
	case receipts.ModePostpay:
		return p.awaitPostpay(ctx, job, sig)
	}
	return p.settleHold(ctx, job, sig)
}

// holdGone looks up the held payment before anything depends on it. It ends
// the job if the payment was lost, or is about to be.
func (p *Provider) holdGone(ctx context.Context, job Job) (bool, error) {
	inv, err := p.jobInvoice(ctx, job, job.PaymentHash)
	if err != nil {
		return false, fmt.Errorf("look up held invoice: %w", err)
	}
	switch {
	case fellShort(inv, job.PriceMsats):
		return true, p.lost(ctx, job, inv)
	case inv.State == payments.InvoiceCanceled:
		return true, p.close(ctx, job, StateFailed, Reason{CodePaymentLost, "the held payment lapsed before the result was delivered"})
	case inv.State == payments.InvoiceHeld && time.Until(inv.SettleBy) < p.limits.HoldMargin/2:
		return true, p.giveBack(ctx, job, StateFailed, Reason{CodeDeadline, "the result could not be delivered in time"})
	}
	return false, nil
}

// settleHold claims the held payment and waits until it is ours for good.
// Settling may be repeated; only the lookup decides.
func (p *Provider) settleHold(ctx context.Context, job Job, sig *jobSignal) error {
	inv, err := p.finalInvoice(ctx, job, job.PaymentHash)
	if err != nil {
		return fmt.Errorf("look up held invoice: %w", err)
	}
	if inv.State == payments.InvoiceHeld {
		if err := p.cfg.Wallet.SettleInvoice(ctx, p.preimage(job)); err != nil {
			return fmt.Errorf("settle: %w", err)
		}
		if inv, err = p.finalInvoice(ctx, job, job.PaymentHash); err != nil {
			return fmt.Errorf("look up settled invoice: %w", err)
		}
	}
	switch {
	case fellShort(inv, job.PriceMsats):
		return p.lost(ctx, job, inv)
	case inv.State == payments.InvoiceCanceled:
		return p.close(ctx, job, StateFailed, Reason{CodePaymentLost, "the held payment lapsed before it was settled"})
	case inv.State == payments.InvoiceSettled:
		return p.settled(ctx, job, sig, payment(inv))
	}
	select { // told to settle, and does not show it yet
	case <-sig.wake:
	case <-time.After(settlePoll):
	case <-ctx.Done():
	}
	return ctx.Err()
}

// awaitPostpay waits for the payment of a result that was delivered.
func (p *Provider) awaitPostpay(ctx context.Context, job Job, sig *jobSignal) error {
	inv, err := p.finalInvoice(ctx, job, job.PaymentHash)
	switch {
	case err != nil:
		return fmt.Errorf("look up invoice: %w", err)
	case fellShort(inv, job.PriceMsats):
		return p.lost(ctx, job, inv)
	case arrived(inv, job) && inv.State == payments.InvoiceSettled:
		return p.settled(ctx, job, sig, payment(inv))
	case inv.State == payments.InvoiceCanceled:
		return p.close(ctx, job, StateFailed, Reason{CodeUnpaid, "the result was delivered and never paid"})
	case !time.Now().Before(job.ExpiresAt):
		return p.cfg.Wallet.CancelInvoice(ctx, job.PaymentHash)
	}
	// A buyer that cancels now has nothing but boxes, and says that it will not
	// open them: a panel did not take them. In the clear it has the result.
	given := sig.cancel
	if !isSealed(job) {
		given = nil
	}
	select {
	case <-given:
		return p.cfg.Wallet.CancelInvoice(ctx, job.PaymentHash)
	case <-sig.wake:
	case <-time.After(min(p.limits.LookupEvery, time.Until(job.ExpiresAt))):
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// settled records the final payment and issues the receipt in one
// transaction: from then on the receipt is the same bytes for ever (P12).
func (p *Provider) settled(ctx context.Context, job Job, sig *jobSignal, pay Payment) error {
	if job.Acceptance == nil && sig.graceEnd.IsZero() {
		sig.graceEnd = time.Now().Add(acceptanceGrace)
	}
	if wait := time.Until(sig.graceEnd); job.Acceptance == nil && wait > 0 {
		select {
		case <-sig.wake:
		case <-time.After(wait):
		case <-ctx.Done():
		}
		return ctx.Err() // look again: it may be here
	}
	delivered, err := p.known(ctx, job)
	if err != nil {
		return err
	}
	if delivered {
		return p.closeDelivered(ctx, job)
	}
	var out []OutEvent
	record := p.trajectoryEvents(ctx, job)
	err = p.cfg.Store.Settle(ctx, job.RequestID, pay, func(is Issue) (Issued, error) {
		issued, err := p.issue(ctx, job, is)
		issued.Out = append(issued.Out, record...)
		out = issued.Out
		return issued, err
	})
	if err != nil {
		return fmt.Errorf("record settlement: %w", err)
	}
	p.outbox.send(out...)
	p.log.Info("settled", "request", job.RequestID, "msats", pay.PaidMsats)
	if outpoints(job) != "" { // more may have come than the price
		p.refundCredit(ctx, job.RequestID)
	}
	return nil
}

// issue makes RECEIPT.json, the event that signs it, and the final feedback.
func (p *Provider) issue(ctx context.Context, job Job, is Issue) (Issued, error) {
	quote, err := receipts.ParseQuote(job.Quote)
	if err != nil {
		return Issued{}, fmt.Errorf("stored quote: %w", err)
	}
	result, err := p.boundResult(ctx, job)
	if err != nil {
		return Issued{}, err
	}
	judged, err := verificationOf(job)
	if err != nil {
		return Issued{}, err
	}
	ev := receipts.Evidence{
		Verification: judged,
		Quote:        quote, Invoice: job.BOLT11, Preimage: p.preimage(job), Outpoints: outpoints(job), Result: terms(job, *job.Result),
		ResultEventID: result.ID, SettledAt: is.At, Sequence: is.Sequence, Previous: is.Previous,
	}
	if job.Acceptance != nil {
		ev.Acceptance = new(receipts.Event)
		if err := json.Unmarshal(job.Acceptance, ev.Acceptance); err != nil {
			return Issued{}, fmt.Errorf("stored acceptance: %w", err)
		}
	}
	rec, signed, queued, err := p.signReceipt(ctx, job, ev)
	if err != nil {
		return Issued{}, err
	}
	excess, text := p.excess(ctx, job)
	success, err := p.feedback(ctx, buyerOf(job), "success", text, "", nostr.Tag{"e", signed.ID}, nostr.Tag{"e", result.ID})
	if err != nil {
		return Issued{}, err
	}
	return Issued{ReceiptID: rec.ReceiptID, Receipt: []byte(signed.Content), Out: []OutEvent{queued, success}, Excess: excess}, nil
}

// verificationOf is what the job's request says of how its result is judged.
func verificationOf(job Job) (receipts.Verification, error) {
	s, ok := schemas.Lookup(job.SchemaID)
	if !ok {
		return receipts.Verification{}, fmt.Errorf("stored job: unknown job type %q", job.SchemaID)
	}
	req, err := s.ParseRequest(job.Input)
	if err != nil {
		return receipts.Verification{}, fmt.Errorf("stored job: %w", err)
	}
	return receipts.VerificationOf(req), nil
}

// signReceipt makes the receipt of a payment, the event that signs it, and the
// event that tells the buyer, which hides it if the job is hidden.
func (p *Provider) signReceipt(ctx context.Context, job Job, ev receipts.Evidence) (receipts.Receipt, nostrEvent, OutEvent, error) {
	rec, err := receipts.New(ev)
	if err != nil {
		return rec, nostrEvent{}, OutEvent{}, err
	}
	unsigned, err := receipts.ReceiptEvent(rec, 0)
	if err != nil {
		return rec, nostrEvent{}, OutEvent{}, err
	}
	tags := make(nostr.Tags, len(unsigned.Tags))
	for i, t := range unsigned.Tags {
		tags[i] = t
	}
	signed, err := p.signTags(ctx, p.kinds.Receipt, tags, unsigned.Content)
	if err != nil {
		return rec, signed, OutEvent{}, err
	}
	told, err := p.wrap(ctx, buyerOf(job), signed)
	if err != nil {
		return rec, signed, OutEvent{}, err
	}
	queued, err := p.queued(told, job.RequestID)
	return rec, signed, queued, err
}
