package provider

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// Engagements is the part of a Store that keeps engagement fees. Each step is
// ErrConflict for a job that is not quoted, asks no fee or has it.
type Engagements interface {
	// SetEngagementInvoice records the invoice of a fee that has none; the same
	// again is fine and queues nothing.
	SetEngagementInvoice(ctx context.Context, requestID, bolt11 string, out ...OutEvent) error
	// SetEngagementAcceptance records the buyer's acceptance; the first stays.
	SetEngagementAcceptance(ctx context.Context, requestID string, event []byte) error
	// SettleEngagement records the settled fee and issues its receipt, as Settle
	// does; the job stays quoted.
	SettleEngagement(ctx context.Context, requestID string, p Payment, issue func(Issue) (Issued, error)) error
}

// owesFee reports whether a job waits for its engagement fee.
func owesFee(job Job) bool { return job.Engagement != nil && job.Engagement.Receipt == nil }

// askFee adds the engagement fee to a job that was quoted; it can be paid for ttl.
func (p *Provider) askFee(job *Job, result receipts.Quote, msats int64, ttl time.Duration) error {
	e := &Engagement{PriceMsats: msats, Nonce: make([]byte, 16), ExpiresAt: earlier(job.AddedAt.Add(ttl), job.ExpiresAt)}
	var salt [16]byte
	_, _ = rand.Read(e.Nonce) // crypto/rand.Read never fails
	_, _ = rand.Read(salt[:])
	e.PaymentHash = p.feePreimage(job.RequestID, e.Nonce).Hash()
	q, hash := result, e.PaymentHash.String()
	q.PriceMsats, q.Purpose, q.Mode, q.Delivery = msats, receipts.PurposeEngagement, receipts.ModePrepay, receipts.DeliveryPlain
	q.Nonce, q.PaymentHash, q.ExpiresAt = hex.EncodeToString(salt[:]), &hash, receipts.Timestamp(e.ExpiresAt)
	q.Cancellation = feeCancellation
	var err error
	if e.Quote, err = q.Canonical(); err != nil {
		return err
	}
	e.QuoteHash = hashing.Bytes(e.Quote)
	job.Engagement = e
	return nil
}

// feeCancellation: a fee pays for an attempt, so it is the buyer's until one begins.
const feeCancellation = "refund_until_processing"

// feePreimage = HMAC(root secret, "lightwork/preimage/engagement/v1" || request id || nonce).
func (p *Provider) feePreimage(requestID string, nonce []byte) payments.Preimage {
	mac := hmac.New(sha256.New, p.cfg.RootSecret)
	mac.Write([]byte("lightwork/preimage/engagement/v1"))
	mac.Write([]byte(requestID))
	mac.Write(nonce)
	return payments.Preimage(mac.Sum(nil))
}

// engage does the next step towards the fee: its invoice, then its payment.
func (p *Provider) engage(ctx context.Context, job Job, sig *jobSignal) error {
	if job.Engagement.BOLT11 == "" {
		return p.feeInvoice(ctx, job, sig)
	}
	return p.awaitFee(ctx, job, sig)
}

// feeInvoice asks the wallet for the fee's invoice, the same one however often it
// asks, and queues what the buyer needs to pay it.
func (p *Provider) feeInvoice(ctx context.Context, job Job, sig *jobSignal) error {
	e := job.Engagement
	inv, err := p.newInvoice(ctx, job, sig, e.ExpiresAt, payments.NewInvoice{
		PaymentHash: e.PaymentHash, Preimage: p.feePreimage(job.RequestID, e.Nonce),
		AmountMsats: e.PriceMsats, DescriptionHash: e.QuoteHash, Expiry: e.ExpiresAt.Sub(job.AddedAt),
	})
	if err != nil || inv == nil {
		return err
	}
	ev, err := p.feedback(ctx, buyerOf(job), "payment-required", "", string(e.Quote),
		nostr.Tag{"amount", strconv.FormatInt(e.PriceMsats, 10), inv.BOLT11})
	if err != nil {
		return err
	}
	if err := p.cfg.Store.SetEngagementInvoice(ctx, job.RequestID, inv.BOLT11, ev); err != nil {
		return fmt.Errorf("record invoice of the engagement fee: %w", err)
	}
	p.outbox.send(ev)
	return nil
}

// awaitFee waits until the wallet itself says that the fee is settled. As with
// any invoice, money that arrives before the cancellation counts.
func (p *Provider) awaitFee(ctx context.Context, job Job, sig *jobSignal) error {
	e := job.Engagement
	for {
		inv, err := p.finalInvoice(ctx, job, e.PaymentHash)
		if err != nil {
			return fmt.Errorf("look up invoice of the engagement fee: %w", err)
		}
		wait := p.limits.LookupEvery
		switch {
		case fellShort(inv, e.PriceMsats):
			return p.lost(ctx, job, inv)
		case inv.State == payments.InvoiceCanceled:
			return p.close(ctx, job, StateExpired, because(CodePaymentExpired, "the invoice of the engagement fee lapsed unpaid"))
		case inv.State == payments.InvoicePending:
			if p.unconfirmed(job, e.ExpiresAt) {
				return p.giveBack(ctx, job, StateExpired, because(CodePaymentExpired, notConfirmed))
			}
		case inv.State == payments.InvoiceSettled && inv.PaidMsats >= e.PriceMsats:
			return p.settleFee(ctx, job, sig, payment(inv))
		case !time.Now().Before(e.ExpiresAt):
			if err := p.cfg.Wallet.CancelInvoice(ctx, e.PaymentHash); err != nil {
				return fmt.Errorf("cancel expired invoice: %w", err)
			}
			continue
		default:
			wait = min(wait, time.Until(e.ExpiresAt))
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

// settleFee records the fee and issues its receipt in one transaction.
func (p *Provider) settleFee(ctx context.Context, job Job, sig *jobSignal, pay Payment) error {
	if job.Engagement.Acceptance == nil && sig.feeGrace.IsZero() {
		sig.feeGrace = time.Now().Add(acceptanceGrace)
	}
	if wait := time.Until(sig.feeGrace); job.Engagement.Acceptance == nil && wait > 0 {
		select {
		case <-sig.wake:
		case <-time.After(wait):
		case <-ctx.Done():
		}
		return ctx.Err() // look again: it may be here
	}
	if _, err := p.known(ctx, job); err != nil { // the chain is known before it goes on
		return err
	}
	if _, receipted := p.engaged[job.RequestID]; receipted {
		return p.closeDelivered(ctx, job) // by a life after our backup: what became of it is not known here
	}
	var issued Issued
	err := p.cfg.Store.SettleEngagement(ctx, job.RequestID, pay, func(is Issue) (_ Issued, err error) {
		issued, err = p.issueFee(ctx, job, is)
		return issued, err
	})
	if err != nil {
		return fmt.Errorf("record engagement fee: %w", err)
	}
	p.tell(settlement(job, receipts.PurposeEngagement, pay, issued))
	p.outbox.send(issued.Out...)
	if !paysFirst(job.Mode) {
		p.load.activate(job.RequestID)
	}
	p.log.Info("engagement fee settled", "request", job.RequestID, "msats", pay.PaidMsats)
	return nil
}

// issueFee makes the receipt of the fee and the event that signs it. It says
// nothing of work: there is none yet.
func (p *Provider) issueFee(ctx context.Context, job Job, is Issue) (Issued, error) {
	e := job.Engagement
	quote, err := receipts.ParseQuote(e.Quote)
	if err != nil {
		return Issued{}, fmt.Errorf("stored quote: %w", err)
	}
	judged, err := verificationOf(job)
	if err != nil {
		return Issued{}, err
	}
	ev := receipts.Evidence{
		Verification: judged,
		Quote:        quote, Invoice: e.BOLT11, Preimage: p.feePreimage(job.RequestID, e.Nonce),
		SettledAt: is.At, Sequence: is.Sequence, Previous: is.Previous,
	}
	if e.Acceptance != nil {
		ev.Acceptance = new(receipts.Event)
		if err := json.Unmarshal(e.Acceptance, ev.Acceptance); err != nil {
			return Issued{}, fmt.Errorf("stored acceptance: %w", err)
		}
	}
	rec, signed, queued, err := p.signReceipt(ctx, job, ev)
	return Issued{ReceiptID: rec.ReceiptID, Receipt: []byte(signed.Content), Out: []OutEvent{queued}}, err
}

// feeStays reports whether a fee that was paid pays for something: an attempt
// that was begun, and that the buyer, its request or its payment ended.
func feeStays(job Job, ended Code) bool {
	switch ended {
	case CodeCanceled, CodeStopped, CodeExpectationNotMet, CodeUnpaid, CodePaymentLost:
		return job.Run > 0
	}
	return false
}

// feeOwed is the settled fee of a job that ends so, if it is the buyer's again.
func feeOwed(job Job, ended Code) int64 {
	if job.Engagement == nil || job.Engagement.Receipt == nil || feeStays(job, ended) {
		return 0
	}
	return job.Engagement.PaidMsats
}

// feeBack cancels the invoice of a fee that is not settled, or says how much came
// for it and is owed.
func (p *Provider) feeBack(ctx context.Context, job Job, ended Code) (int64, error) {
	e := job.Engagement
	if e == nil || e.Receipt != nil || e.BOLT11 == "" {
		return feeOwed(job, ended), nil
	}
	return p.moneyBack(ctx, job, e.PaymentHash)
}

// feeText says what becomes of a fee that stays with us.
func feeText(job Job, ended Code) string {
	if job.Engagement == nil || job.Engagement.Receipt == nil || !feeStays(job, ended) {
		return ""
	}
	return fmt.Sprintf("; the engagement fee of %d msats stays paid: the attempt was made", job.Engagement.PaidMsats)
}
