package charge

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider/internal/publish"
	"github.com/lightwork-market/lightwork/receipts"
)

// acceptanceGrace is how long a receipt waits for the buyer's acceptance: it
// travels by relay, the payment by Lightning, and the money can be here first.
const acceptanceGrace = 500 * time.Millisecond

// AwaitAcceptance waits for the buyer's acceptance for a moment, once for each charge. It
// reports whether the job is to be read again.
func (b *Bill) AwaitAcceptance(ctx context.Context, c *job.Charge) bool {
	if c.Acceptance != nil {
		return false
	}
	if _, waited := b.graceEnds[c.Purpose]; !waited {
		b.graceEnds[c.Purpose] = time.Now().Add(acceptanceGrace)
	}
	wait := time.Until(b.graceEnds[c.Purpose])
	if wait <= 0 {
		return false
	}

	select {
	case <-b.job.Wake:
	case <-time.After(wait):
	case <-ctx.Done():
	}

	return true
}

// Settle records the final payment of a charge and issues its receipt in one
// transaction, with the record of the job: from then on the receipt is the same bytes
// for ever (P12).
func (b *Bill) Settle(ctx context.Context, c *job.Charge, pay job.Payment, record []job.OutEvent) error {
	var issued job.Issued
	err := b.cfg.Store.Settle(ctx, b.job.RequestID, c.Purpose, pay, func(is job.Issue) (_ job.Issued, err error) {
		issued, err = b.issue(ctx, c, pay, is)
		issued.Out = append(issued.Out, record...)
		return issued, err
	})
	if err != nil {
		return fmt.Errorf("record settlement of the %s: %w", c.Purpose, err)
	}

	told := job.SettlementEvent{RequestID: b.job.RequestID, Purpose: c.Purpose, PaidMsats: pay.PaidMsats, ReceiptID: issued.ReceiptID}
	if issued.Excess != nil {
		told.ExcessMsats = issued.Excess.Msats
	}
	b.cfg.Tell(told)
	b.cfg.Publisher.Send(issued.Out...)
	b.log.Info("settled", "request", b.job.RequestID, "for", c.Purpose, "msats", pay.PaidMsats)
	return nil
}

// issue makes RECEIPT.json of a payment and the event that signs it; for a result also
// the final feedback. A receipt of a fee says nothing of work: there is none yet.
func (b *Bill) issue(ctx context.Context, c *job.Charge, pay job.Payment, is job.Issue) (job.Issued, error) {
	ev := receipts.Evidence{
		Verification: receipts.VerificationOf(b.job.Typed),
		Quote:        b.job.QuoteOf(c), Invoice: c.BOLT11, Preimage: b.preimageOf(c, pay),
		SettledAt: is.At, Sequence: is.Sequence, Previous: is.Previous,
	}
	if c.Acceptance != nil {
		ev.Acceptance = new(receipts.Event)
		if err := json.Unmarshal(c.Acceptance, ev.Acceptance); err != nil {
			return job.Issued{}, fmt.Errorf("stored acceptance: %w", err)
		}
	}

	if c.Purpose == receipts.PurposeEngagement {
		rec, signed, queued, err := b.signReceipt(ctx, ev)
		return job.Issued{ReceiptID: rec.ReceiptID, Receipt: []byte(signed.Content), Out: []job.OutEvent{queued}}, err
	}

	result, err := BoundResult(ctx, b.cfg.Publisher, b.job.Result)
	if err != nil {
		return job.Issued{}, err
	}
	ev.Outpoints, ev.Result, ev.ResultEventID = b.outpoints(), Terms(&b.job.Job, b.job.Result), result.ID
	rec, signed, queued, err := b.signReceipt(ctx, ev)
	if err != nil {
		return job.Issued{}, err
	}
	excess, text := b.cfg.Owe(b.job, b.excess(), "more came than the price")
	success, err := b.cfg.Publisher.Feedback(ctx, b.job.To, "success", text, "", nostr.Tag{"e", signed.ID}, nostr.Tag{"e", result.ID})
	if err != nil {
		return job.Issued{}, err
	}
	return job.Issued{ReceiptID: rec.ReceiptID, Receipt: []byte(signed.Content), Out: []job.OutEvent{queued, success}, Excess: excess}, nil
}

// preimageOf is the preimage of a charge's payment.
func (b *Bill) preimageOf(c *job.Charge, pay job.Payment) payments.Preimage {
	if b.walletChose(c) {
		return pay.Preimage
	}
	return b.Preimage(b.job.RequestID, c)
}

// outpoints are the outputs that paid for the job on the chain; "" on other rails.
func (b *Bill) outpoints() string {
	if b.job.Payment == nil {
		return ""
	}
	return b.job.Payment.Outpoints
}

// IsOnChain reports whether the result was paid on the chain, so that more may have come
// than the price.
func (b *Bill) IsOnChain() bool { return b.outpoints() != "" }

// excess is what came for the job on the chain beyond its price in whole satoshi.
func (b *Bill) excess() int64 {
	if !b.IsOnChain() {
		return 0
	}
	const sat = 1000
	price := (b.job.PriceMsats + sat - 1) / sat * sat
	return max(0, b.job.Payment.PaidMsats-price)
}

// signReceipt makes the receipt of a payment, the event that signs it, and the
// event that tells the buyer, which hides it if the job is hidden.
func (b *Bill) signReceipt(ctx context.Context, ev receipts.Evidence) (receipts.Receipt, nostr.Event, job.OutEvent, error) {
	rec, err := receipts.New(ev)
	if err != nil {
		return rec, nostr.Event{}, job.OutEvent{}, err
	}
	unsigned, err := receipts.ReceiptEvent(rec, 0)
	if err != nil {
		return rec, nostr.Event{}, job.OutEvent{}, err
	}

	tags := make(nostr.Tags, len(unsigned.Tags))
	for i, t := range unsigned.Tags {
		tags[i] = t
	}
	signed, err := b.cfg.Publisher.SignTags(ctx, b.cfg.ReceiptKind, tags, unsigned.Content)
	if err != nil {
		return rec, signed, job.OutEvent{}, err
	}

	told, err := b.cfg.Publisher.Wrap(ctx, b.job.To, signed)
	if err != nil {
		return rec, signed, job.OutEvent{}, err
	}
	queued, err := b.cfg.Publisher.Queue(told, b.job.RequestID)
	return rec, signed, queued, err
}

// Terms are what the result event and the receipt bind.
func Terms(j *job.Job, r *job.Result) receipts.ResultTerms {
	return receipts.ResultTerms{
		SchemaID: j.SchemaID, JobHash: j.JobHash, OutputHash: r.OutputHash, AgreementHash: r.AgreementHash,
		PlanHash: r.PlanHash, TrajectoryHash: r.Trajectory, RedactedTrajectoryHash: r.Redacted, ReplayHash: r.Replay,
		QuoteHash: j.QuoteHash, PolicyBundleID: j.PolicyID, SessionID: r.SessionID,
	}
}

// BoundResult is the event that names the terms of a result: the published one, or the
// one that is encrypted in it.
func BoundResult(ctx context.Context, pub *publish.Publisher, r *job.Result) (nostr.Event, error) {
	var ev nostr.Event
	if err := json.Unmarshal(r.Event, &ev); err != nil {
		return ev, fmt.Errorf("stored result: %w", err)
	}
	return pub.BoundResult(ctx, ev)
}
