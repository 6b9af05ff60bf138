package provider

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// cancellation is what a buyer gets back for cancelling: everything, until a
// result exists.
const cancellation = "refund_until_output"

// feeCancellation: a fee pays for an attempt, so it is the buyer's until one begins.
const feeCancellation = "refund_until_processing"

// paysFirst reports whether a mode waits for money before it runs.
func paysFirst(m receipts.Mode) bool {
	return m == receipts.ModeHold || m == receipts.ModePrepay
}

// asked is what a request says besides its document.
type asked struct {
	terms  receipts.RequestTerms
	mode   receipts.Mode
	inputs []string // ids of the events that are its inputs
}

// quote makes the job with its quote, which can be paid for ttl. The nonce that the preimage derives from
// is part of the job, so it is durable before any invoice exists: the same
// invoice can then be asked for again.
func (p *Provider) quote(ev nostr.Event, req *schemas.Request, by asked, price, credit, fee int64, ttl time.Duration) (Job, error) {
	now := time.Now().UTC().Truncate(time.Second)
	job := Job{
		RequestID: ev.ID, Kind: ev.Kind, Buyer: ev.PubKey,
		SchemaID: string(req.SchemaID), JobHash: req.JobHash,
		Input: req.Canonical, Relays: p.cfg.Market.Relays(),
		Mode: by.mode, CreditMsats: credit, PolicyID: p.policyID, AddedAt: now, State: StateQuoted,
	}
	expires := now.Add(ttl)
	if fee > 0 { // the result can be paid for as long after the fee as without one
		expires = expires.Add(ttl)
	}
	if end, err := expiration(ev); err == nil && !end.IsZero() {
		expires = earlier(expires, end)
	}
	if by.mode == receipts.ModePostpay {
		expires = now.Add(p.limits.PostpayTTL)
	}

	q := receipts.Quote{
		Version: receipts.Version, RequestID: ev.ID, JobHash: req.JobHash, SchemaID: job.SchemaID,
		Buyer: ev.PubKey, Provider: p.key, PriceMsats: price, Purpose: receipts.PurposeResult,
		Mode: by.mode, Delivery: deliveryFor(by.terms, by.mode),
		Cancellation: cancellation, PolicyBundleID: p.policyID, Inputs: by.inputs,
	}
	if by.mode != receipts.ModeFree {
		node := p.node.PubKey
		q.PayeeNode = &node
	}

	if p.walletChooses(by.mode) {
		q.Delivery = receipts.DeliveryPlain // the key of boxes would be a preimage that we have once it is paid
	}
	var err error
	if job.Charge, err = p.newCharge(q, expires); err != nil || fee == 0 {
		return job, err
	}

	q.PriceMsats, q.Purpose, q.Mode, q.Delivery = fee, receipts.PurposeEngagement, receipts.ModePrepay, receipts.DeliveryPlain
	q.Cancellation = feeCancellation
	engagement, err := p.newCharge(q, earlier(now.Add(ttl), expires))
	job.Engagement = &engagement
	return job, err
}

// newCharge completes a quote, and makes what has to be paid of it.
func (p *Provider) newCharge(q receipts.Quote, expires time.Time) (Charge, error) {
	c := Charge{Purpose: q.Purpose, PriceMsats: q.PriceMsats, Nonce: make([]byte, 16), ExpiresAt: expires}
	var salt [16]byte
	_, _ = rand.Read(c.Nonce) // crypto/rand.Read never fails
	_, _ = rand.Read(salt[:])
	q.Nonce, q.ExpiresAt = hex.EncodeToString(salt[:]), receipts.Timestamp(expires)
	if q.Mode != receipts.ModeFree && (q.Purpose != receipts.PurposeResult || !p.walletChooses(q.Mode)) {
		c.PaymentHash = p.preimage(q.RequestID, &c).Hash()
		hash := c.PaymentHash.String()
		q.PaymentHash = &hash
	}

	var err error
	c.Quote, err = q.Canonical()
	c.QuoteHash = hashing.Bytes(c.Quote)
	return c, err
}

// preimage = HMAC(root secret, label || request id || nonce).
func (p *Provider) preimage(requestID string, c *Charge) payments.Preimage {
	label := "lightwork/preimage/v1"
	if c.Purpose == receipts.PurposeEngagement {
		label = "lightwork/preimage/engagement/v1"
	}
	mac := hmac.New(sha256.New, p.cfg.RootSecret)
	mac.Write([]byte(label))
	mac.Write([]byte(requestID))
	mac.Write(c.Nonce)
	return payments.Preimage(mac.Sum(nil))
}

// invoiceWait is how long a wallet is asked for an invoice that it fails to make.
const invoiceWait = time.Minute

// newInvoice asks the wallet for the invoice of a charge; the same one however often
// it asks, but for a wallet that chooses its payment hashes and
// lists no transactions. It gives none where it ended the job: because that was
// canceled, its time is over, or the wallet makes no such invoice.
func (p *Provider) newInvoice(ctx context.Context, job Job, c *Charge, sig *jobSignal) (*payments.Invoice, error) {
	if sig.invoiceBy.IsZero() {
		sig.invoiceBy = time.Now().Add(invoiceWait)
	}

	select {
	case <-sig.cancel:
		return nil, p.giveBack(ctx, job, StateCanceled, because(CodeCanceled, "by the buyer, before payment"))
	default:
	}

	if !time.Now().Before(c.ExpiresAt) {
		return nil, p.giveBack(ctx, job, StateExpired, because(CodePaymentExpired, "the quote ended before there was an invoice"))
	}

	in := p.invoiceFor(job, c)
	inv, err := p.createInvoice(ctx, job, in)
	switch {
	case err == nil:
		sig.invoiceBy = time.Time{} // the next invoice has its own time
		return &inv, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, payments.ErrAmount): // it holds as much as it may
		p.log.Warn("the wallet takes no payment for a job", "request", job.RequestID, "err", err)
		return nil, p.giveBack(ctx, job, StateFailed, because(CodeOverCapacity, "the provider's wallet can take no such payment now; retry later"))
	case errors.Is(err, payments.ErrUnauthorized), errors.Is(err, payments.ErrUnsupported), !time.Now().Before(sig.invoiceBy):
		p.log.Error("the wallet makes no invoice; lightwork doctor shows what is wrong with it", "request", job.RequestID, "err", err)
		if !in.PaymentHash.IsZero() {
			// It may have made one and not told us. Nobody has it, so this is only to tidy up.
			_ = p.cfg.Wallet.CancelInvoice(ctx, in.PaymentHash)
		}
		return nil, p.giveBack(ctx, job, StateFailed, because(CodeInternal, "the provider's wallet makes no invoice; "+retryLater))
	}

	return nil, fmt.Errorf("create invoice: %w", err)
}

// invoiceFor is what the wallet is asked for.
func (p *Provider) invoiceFor(job Job, c *Charge) payments.NewInvoice {
	in := payments.NewInvoice{
		PaymentHash: c.PaymentHash, Hold: c.Purpose == receipts.PurposeResult && job.Mode == receipts.ModeHold,
		AmountMsats: c.PriceMsats, DescriptionHash: c.QuoteHash, Expiry: c.ExpiresAt.Sub(job.AddedAt),
	}
	if !in.Hold && !in.PaymentHash.IsZero() {
		in.Preimage = p.preimage(job.RequestID, c)
	}
	return in
}

// leastPaid is what a quote asks for whatever the credit: a job without a
// payment would leave no receipt.
const leastPaid = 1000

func (p *Provider) leastPaid() int64 { return max(leastPaid, p.cfg.LeastMsats) }

// lessCredit lowers a price by what is owed to the buyer. Both together are the
// price; AddJob checks that the credit is still there.
func (p *Provider) lessCredit(ctx context.Context, buyer string, price int64) (lowered, credit int64) {
	free, err := p.cfg.Store.CreditOf(ctx, buyer)
	if err != nil {
		p.log.Error("read credit", "buyer", buyer, "err", err)
		return price, 0
	}
	credit = max(0, min(free, price-p.leastPaid()))
	return price - credit, credit
}
