package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider/internal/publish"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// settlePoll is how often a hold that the wallet was told to settle is looked up.
const settlePoll = 250 * time.Millisecond

// deliverFor is how long a result that waits for no held payment is offered.
const deliverFor = 24 * time.Hour

// publishedWait bounds the question whether a relay has a result that it did not
// say it took.
const publishedWait = 5 * time.Second

// placeTTL is how long a result that no relay takes keeps its job's place
// among those that count for admission.
const placeTTL = 10 * time.Minute

// acceptanceGrace is how long a receipt waits for the buyer's acceptance: it
// travels by relay, the payment by Lightning, and the money can be here first.
const acceptanceGrace = 500 * time.Millisecond

// deliver brings a durable result to the buyer and the money home, in this
// order: blobs on a server, the 6050 on a relay (the outbox does both), then
// settling. What could not be published was not served: then the money goes back.
func (p *Provider) deliver(ctx context.Context, job Job, sig *jobSignal) error {
	end, err := p.deliverBy(ctx, job)
	if err != nil || end.IsZero() {
		return err
	}
	enough, err := p.confirmed(ctx, job, sig)
	if err != nil {
		return err
	}
	if !enough {
		return p.undelivered(ctx, job, sig, end)
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
		return p.settled(ctx, job, &job.Charge, sig, *job.Payment)
	case receipts.ModePostpay:
		return p.awaitPostpay(ctx, job, sig)
	}

	return p.settleHold(ctx, job, sig)
}

// deliverBy is until when a relay must have taken the result. It ends the job, and
// is zero, if its held payment is gone.
func (p *Provider) deliverBy(ctx context.Context, job Job) (time.Time, error) {
	switch job.Mode {
	case receipts.ModePostpay:
		return job.ExpiresAt, nil
	case receipts.ModeHold:
	default:
		return job.StateAt.Add(deliverFor), nil
	}

	inv, err := p.jobInvoice(ctx, job, job.PaymentHash)
	if err != nil {
		return time.Time{}, fmt.Errorf("look up held invoice: %w", err)
	}

	switch {
	case underpaid(inv, job.PriceMsats):
		err = p.lost(ctx, job, inv)
	case inv.State == payments.InvoiceCanceled:
		err = p.close(ctx, job, StateFailed, because(CodePaymentLost, "the held payment lapsed before the result was delivered"))
	case inv.State == payments.InvoiceHeld:
		return inv.SettleBy.Add(-p.limits.HoldMargin / 2), nil
	default:
		return job.StateAt.Add(deliverFor), nil
	}

	if err == nil {
		err = p.pub.Withdraw(ctx, job.Result.EventID)
	}
	return time.Time{}, err
}

// undelivered waits for a relay to take the result, makes it shorter where they
// refuse it, or ends the job.
func (p *Provider) undelivered(ctx context.Context, job Job, sig *jobSignal, end time.Time) error {
	given := sig.cancel
	if paysFirst(job.Mode) {
		given = nil // the deal stands
	}

	select {
	case <-given:
		return p.withhold(ctx, job, sig, StateCanceled, because(CodeCanceled, "by the buyer, before the result was delivered"))
	default:
	}

	if !time.Now().Before(end) {
		return p.withhold(ctx, job, sig, StateFailed, because(CodeDeadline, "the result could not be delivered in time"))
	}

	no, err := p.refusalOf(ctx, job, sig)
	switch {
	case err != nil:
		return err
	case no == refusedAtAll:
		return p.withhold(ctx, job, sig, StateFailed, because(CodeInternal, "the signer, all relays or the blob servers refuse the result"))
	case no == refusedAsIs:
		return p.reword(ctx, job, sig)
	}

	if time.Since(job.StateAt) > placeTTL {
		p.gate.Leave(job.RequestID) // it goes on, but in nobody's way
	}

	select {
	case <-given:
	case <-sig.wake: // an answer came, or the invoice changed
	case <-time.After(min(p.limits.LookupEvery, time.Until(end))):
	case <-ctx.Done():
	}

	sig.stay(job)
	return ctx.Err()
}

// refusal is how a result that no relay took was refused.
type refusal int

const (
	notRefused   refusal = iota
	refusedAsIs          // a shorter form of it might be taken
	refusedAtAll         // by all who are asked
)

// refusalOf reads what was said of a result that no relay took.
func (p *Provider) refusalOf(ctx context.Context, job Job, sig *jobSignal) (refusal, error) {
	if p.unanswered(job, sig) {
		return notRefused, nil
	}
	acks, err := p.cfg.Store.Acks(ctx, job.RequestID)
	if err != nil {
		return notRefused, err
	}

	tries, refused := 0, map[string]bool{}
	for _, a := range acks {
		switch {
		case a.EventID != job.Result.EventID:
		case a.Relay == publish.BlobServers:
			return refusedAtAll, nil
		case a.Relay == publish.SignerName:
			tries++
		case strings.HasPrefix(a.Message, "invalid:"), strings.HasPrefix(a.Message, "blocked:"):
			refused[a.Relay] = true
		}
	}

	asked := p.cfg.Market.Relays()
	switch {
	case tries >= publish.SignTries:
		return refusedAtAll, nil
	case len(refused) == 0:
		return notRefused, nil
	}

	if _, _, _, shorter, err := p.shorterResult(job); err != nil || shorter {
		return refusedAsIs, err
	}
	if slices.ContainsFunc(asked, func(url string) bool { return !refused[url] }) {
		return notRefused, nil // one that was not heard yet may take it
	}

	return refusedAtAll, nil
}

func (p *Provider) shorterResult(job Job) (d domain.Domain, tags nostr.Tags, content string, shorter bool, err error) {
	var ev nostr.Event
	if err := json.Unmarshal(job.Result.Event, &ev); err != nil {
		return "", nil, "", false, fmt.Errorf("stored result: %w", err)
	}
	if d, err = domain.Of(ev.Tags); err != nil {
		return "", nil, "", false, fmt.Errorf("stored result: %w", err)
	}
	tags = slices.DeleteFunc(ev.Tags, func(t nostr.Tag) bool { return len(t) > 0 && t[0] == domain.TagName })
	tags, content, shorter = p.shorten(*job.Result, tags, ev.Content)
	return d, tags, content, shorter, nil
}

// reword offers a result in a shorter form. The former one is withdrawn first: of
// two that relays have, the buyer would not know which one the receipt names.
func (p *Provider) reword(ctx context.Context, job Job, sig *jobSignal) error {
	if has, err := p.retract(ctx, job, sig); err != nil || has {
		return err
	}
	d, tags, content, _, err := p.shorterResult(job)
	if err != nil {
		return err
	}
	was, r := job.Result.EventID, *job.Result
	out, err := p.fit(ctx, job, &r, d, tags, content)
	if err != nil {
		return err
	}
	p.expect(sig, r.EventID)
	if err := p.cfg.Store.SetResultEvent(ctx, job.RequestID, was, r.EventID, out); err != nil {
		return fmt.Errorf("record the result's event: %w", err)
	}
	p.pub.Send(out)
	p.log.Warn("relays refuse the result: it is offered in a shorter form", "request", job.RequestID, "bytes", len(out.Event))
	job.Result = &r
	sig.stay(job)
	return nil
}

// withhold ends a job whose result no relay took, unless one took it after all.
func (p *Provider) withhold(ctx context.Context, job Job, sig *jobSignal, to State, reason Reason) error {
	if has, err := p.retract(ctx, job, sig); err != nil || has {
		return err
	}
	return p.giveBack(ctx, job, to, reason)
}

// retract has the result offered no more, and reports whether a relay has it all
// the same: its answer came meanwhile, or was lost. Then it goes on as delivered.
func (p *Provider) retract(ctx context.Context, job Job, sig *jobSignal) (has bool, err error) {
	id := job.Result.EventID
	if err := p.pub.Withdraw(ctx, id); err != nil {
		return false, err
	}
	if has, err = p.confirmed(ctx, job, sig); err == nil && !has {
		asking, stop := context.WithTimeout(ctx, publishedWait)
		found, _ := p.cfg.Market.Query(asking, nostr.Filter{IDs: []string{id}})
		stop()
		has = slices.ContainsFunc(found, func(ev nostr.Event) bool { return ev.ID == id })
	}

	if has {
		p.taken(sig, id)
		p.pub.Restore(id)
		sig.stay(job)
	}

	return has, err
}

// settleHold claims the held payment and waits until it is ours for good.
// Settling may be repeated; only the lookup decides.
func (p *Provider) settleHold(ctx context.Context, job Job, sig *jobSignal) error {
	inv, err := p.finalInvoice(ctx, job, job.PaymentHash)
	if err != nil {
		return fmt.Errorf("look up held invoice: %w", err)
	}
	if inv.State == payments.InvoiceHeld && !time.Now().Before(inv.SettleBy) {
		// The wallet may be giving it back already, and where it closes the channel
		// meanwhile both would have it.
		return p.giveBack(ctx, job, StateFailed, because(CodeDeadline, "the result was delivered, and the held payment not settled in time"))
	}

	if inv.State == payments.InvoiceHeld {
		if err := p.cfg.Wallet.SettleInvoice(ctx, p.preimage(job.RequestID, &job.Charge)); err != nil {
			return fmt.Errorf("settle: %w", err)
		}
		if inv, err = p.finalInvoice(ctx, job, job.PaymentHash); err != nil {
			return fmt.Errorf("look up settled invoice: %w", err)
		}
	}

	switch {
	case underpaid(inv, job.PriceMsats):
		return p.lost(ctx, job, inv)
	case inv.State == payments.InvoiceCanceled:
		return p.close(ctx, job, StateFailed, because(CodePaymentLost, "the held payment lapsed before it was settled"))
	case inv.State == payments.InvoiceSettled:
		return p.settled(ctx, job, &job.Charge, sig, payment(inv))
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
	case underpaid(inv, job.PriceMsats):
		return p.lost(ctx, job, inv)
	case unshown(&job.Charge, inv):
		return p.noPreimage(ctx, job)
	case arrived(inv, job.Mode, &job.Charge) && inv.State == payments.InvoiceSettled:
		return p.settled(ctx, job, &job.Charge, sig, payment(inv))
	case inv.State == payments.InvoiceCanceled:
		return p.close(ctx, job, StateFailed, because(CodeUnpaid, "the result was delivered and never paid"))
	case inv.State == payments.InvoicePending && !time.Now().Before(job.ExpiresAt):
		if p.unconfirmed(job, job.ExpiresAt) {
			return p.giveBack(ctx, job, StateFailed, because(CodeUnpaid, notConfirmed))
		}
	case !time.Now().Before(job.ExpiresAt):
		return p.lapse(ctx, job, &job.Charge, sig)
	}

	wait := p.limits.LookupEvery
	if left := time.Until(job.ExpiresAt); left > 0 {
		wait = min(wait, left)
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
	case <-time.After(wait):
	case <-ctx.Done():
		return ctx.Err()
	}

	return nil
}

// settled records the final payment of a charge and issues its receipt in one
// transaction: from then on the receipt is the same bytes for ever (P12).
func (p *Provider) settled(ctx context.Context, job Job, c *Charge, sig *jobSignal, pay Payment) error {
	if c.Acceptance == nil && sig.awaitAcceptance(ctx, c.Purpose) {
		return ctx.Err() // look again: it may be here
	}
	delivered, err := p.restored.IsReceipted(ctx, job.RequestID, c.Purpose) // the chain is known before it goes on
	if err != nil {
		return err
	}
	if delivered {
		return p.closeDelivered(ctx, job)
	}

	var record []OutEvent
	if c.Purpose == receipts.PurposeResult {
		record = p.trajectoryEvents(ctx, job)
	}
	var issued Issued
	err = p.cfg.Store.Settle(ctx, job.RequestID, c.Purpose, pay, func(is Issue) (Issued, error) {
		issued, err = p.issue(ctx, job, c, pay, is)
		issued.Out = append(issued.Out, record...)
		return issued, err
	})
	if err != nil {
		return fmt.Errorf("record settlement of the %s: %w", c.Purpose, err)
	}

	p.tell(settlement(job, c.Purpose, pay, issued))
	p.pub.Send(issued.Out...)
	p.log.Info("settled", "request", job.RequestID, "for", c.Purpose, "msats", pay.PaidMsats)

	switch {
	case c.Purpose == receipts.PurposeEngagement:
		if !paysFirst(job.Mode) {
			p.gate.Activate(job.RequestID)
		}
	case outpoints(job) != "": // more may have come than the price
		p.refunds.Begin(ctx, job.RequestID)
	}

	return nil
}

// awaitAcceptance waits for the buyer's acceptance for a moment, once for each charge. It
// reports whether the job is to be read again.
func (s *jobSignal) awaitAcceptance(ctx context.Context, purpose receipts.Purpose) bool {
	if _, waited := s.graceEnds[purpose]; !waited {
		s.graceEnds[purpose] = time.Now().Add(acceptanceGrace)
	}
	wait := time.Until(s.graceEnds[purpose])
	if wait <= 0 {
		return false
	}

	select {
	case <-s.wake:
	case <-time.After(wait):
	case <-ctx.Done():
	}

	return true
}

// issue makes RECEIPT.json of a payment and the event that signs it; for a result also
// the final feedback. A receipt of a fee says nothing of work: there is none yet.
func (p *Provider) issue(ctx context.Context, job Job, c *Charge, pay Payment, is Issue) (Issued, error) {
	quote, err := receipts.ParseQuote(c.Quote)
	if err != nil {
		return Issued{}, fmt.Errorf("stored quote: %w", err)
	}
	judged, err := verificationOf(job)
	if err != nil {
		return Issued{}, err
	}
	ev := receipts.Evidence{
		Verification: judged,
		Quote:        quote, Invoice: c.BOLT11, Preimage: p.preimageOf(job, c, pay),
		SettledAt: is.At, Sequence: is.Sequence, Previous: is.Previous,
	}
	if c.Acceptance != nil {
		ev.Acceptance = new(receipts.Event)
		if err := json.Unmarshal(c.Acceptance, ev.Acceptance); err != nil {
			return Issued{}, fmt.Errorf("stored acceptance: %w", err)
		}
	}

	if c.Purpose == receipts.PurposeEngagement {
		rec, signed, queued, err := p.signReceipt(ctx, job, ev)
		return Issued{ReceiptID: rec.ReceiptID, Receipt: []byte(signed.Content), Out: []OutEvent{queued}}, err
	}

	result, err := p.boundResult(ctx, job)
	if err != nil {
		return Issued{}, err
	}
	ev.Outpoints, ev.Result, ev.ResultEventID = outpoints(job), terms(job, *job.Result), result.ID
	rec, signed, queued, err := p.signReceipt(ctx, job, ev)
	if err != nil {
		return Issued{}, err
	}
	excess, text := p.excess(ctx, job)
	success, err := p.pub.Feedback(ctx, publish.BuyerOf(job), "success", text, "", nostr.Tag{"e", signed.ID}, nostr.Tag{"e", result.ID})
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
func (p *Provider) signReceipt(ctx context.Context, job Job, ev receipts.Evidence) (receipts.Receipt, nostr.Event, OutEvent, error) {
	rec, err := receipts.New(ev)
	if err != nil {
		return rec, nostr.Event{}, OutEvent{}, err
	}
	unsigned, err := receipts.ReceiptEvent(rec, 0)
	if err != nil {
		return rec, nostr.Event{}, OutEvent{}, err
	}
	tags := make(nostr.Tags, len(unsigned.Tags))
	for i, t := range unsigned.Tags {
		tags[i] = t
	}
	signed, err := p.pub.SignTags(ctx, p.kinds.Receipt, tags, unsigned.Content)
	if err != nil {
		return rec, signed, OutEvent{}, err
	}
	told, err := p.pub.Wrap(ctx, publish.BuyerOf(job), signed)
	if err != nil {
		return rec, signed, OutEvent{}, err
	}
	queued, err := p.pub.Queue(told, job.RequestID)
	return rec, signed, queued, err
}
