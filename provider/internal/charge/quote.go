package charge

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// cancellation is what a buyer gets back for cancelling: everything, until a
// result exists.
const cancellation = "refund_until_output"

// feeCancellation: a fee pays for an attempt, so it is the buyer's until one begins.
const feeCancellation = "refund_until_processing"

// Order is a request that is taken, with what it costs.
type Order struct {
	RequestID string
	Kind      int
	Buyer     string
	Typed     *schemas.Request
	Terms     receipts.RequestTerms
	Mode      receipts.Mode
	Inputs    []string      // ids of the events that are its inputs
	Ends      time.Time     // the request is good until then; zero: for ever
	TTL       time.Duration // the quote can be paid for so long

	PolicyID    hashing.Digest // that the prices are of
	PriceMsats  int64
	CreditMsats int64 // of the buyer's, that the price is lowered by
	FeeMsats    int64 // for the attempt
}

// Quote makes the job of an order with its quote. The nonce that the preimage derives
// from is part of the job, so it is durable before any invoice exists: the same invoice
// can then be asked for again.
func (c *Collector) Quote(o Order) (job.Job, error) {
	now := time.Now().UTC().Truncate(time.Second)
	j := job.Job{
		RequestID: o.RequestID, Kind: o.Kind, Buyer: o.Buyer,
		SchemaID: string(o.Typed.SchemaID), JobHash: o.Typed.JobHash,
		Input: o.Typed.Canonical, Relays: c.cfg.Relays(),
		Mode: o.Mode, CreditMsats: o.CreditMsats, PolicyID: o.PolicyID, AddedAt: now, State: job.StateQuoted,
	}

	expires := now.Add(o.TTL)
	if o.FeeMsats > 0 { // the result can be paid for as long after the fee as without one
		expires = expires.Add(o.TTL)
	}
	if !o.Ends.IsZero() {
		expires = earlier(expires, o.Ends)
	}
	if o.Mode == receipts.ModePostpay {
		expires = now.Add(c.cfg.Times.Postpay)
	}

	q := receipts.Quote{
		Version: receipts.Version, RequestID: o.RequestID, JobHash: o.Typed.JobHash, SchemaID: j.SchemaID,
		Buyer: o.Buyer, Provider: c.cfg.Key, PriceMsats: o.PriceMsats, Purpose: receipts.PurposeResult,
		Mode: o.Mode, Delivery: c.deliveryFor(o.Terms, o.Mode),
		Cancellation: cancellation, PolicyBundleID: o.PolicyID, Inputs: o.Inputs, Retention: c.cfg.Retention,
	}
	if o.Mode != receipts.ModeFree {
		node := c.cfg.Node().PubKey
		q.PayeeNode = &node
	}

	var err error
	if j.Charge, err = c.newCharge(q, expires); err != nil || o.FeeMsats == 0 {
		return j, err
	}

	q.PriceMsats, q.Purpose, q.Mode, q.Delivery = o.FeeMsats, receipts.PurposeEngagement, receipts.ModePrepay, receipts.DeliveryPlain
	q.Cancellation = feeCancellation
	engagement, err := c.newCharge(q, earlier(now.Add(o.TTL), expires))
	j.Engagement = &engagement
	return j, err
}

// newCharge completes a quote, and makes the charge that asks for its price.
func (c *Collector) newCharge(q receipts.Quote, expires time.Time) (job.Charge, error) {
	of := job.Charge{Purpose: q.Purpose, PriceMsats: q.PriceMsats, Nonce: make([]byte, 16), ExpiresAt: expires}
	var salt [16]byte
	_, _ = rand.Read(of.Nonce) // crypto/rand.Read never fails
	_, _ = rand.Read(salt[:])
	q.Nonce, q.ExpiresAt = hex.EncodeToString(salt[:]), receipts.Timestamp(expires)

	if q.Mode != receipts.ModeFree && (q.Purpose != receipts.PurposeResult || !c.ChoosesHash(q.Mode)) {
		of.PaymentHash = c.Preimage(q.RequestID, &of).Hash()
		hash := of.PaymentHash.String()
		q.PaymentHash = &hash
	}

	var err error
	of.Quote, err = q.Canonical()
	of.QuoteHash = hashing.Bytes(of.Quote)
	return of, err
}

// deliveryFor is sealed where the request asks for it and the payment gives the
// preimage away, which is the key. A preimage that the wallet chooses is ours only once
// it is paid, which is too late to seal with.
func (c *Collector) deliveryFor(terms receipts.RequestTerms, mode receipts.Mode) receipts.Delivery {
	opens := mode == receipts.ModeHold || mode == receipts.ModePostpay
	if terms.Delivery == receipts.DeliverySealed && opens && !c.ChoosesHash(mode) {
		return receipts.DeliverySealed
	}
	return receipts.DeliveryPlain
}

// leastPaid is what a quote asks for whatever the credit: a job without a
// payment would leave no receipt.
const leastPaid = 1000

// LessCredit lowers a price by what is owed to the buyer. Both together are the
// price; AddJob checks that the credit is still there.
func (c *Collector) LessCredit(ctx context.Context, buyer string, price int64) (lowered, credit int64) {
	free, err := c.cfg.Store.CreditOf(ctx, buyer)
	if err != nil {
		c.log.Error("read credit", "buyer", buyer, "err", err)
		return price, 0
	}
	credit = max(0, min(free, price-max(leastPaid, c.cfg.LeastMsats)))
	return price - credit, credit
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
