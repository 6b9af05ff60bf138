package offer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/approval"
	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/receipts"
)

// RulePlain approves a payment that no quote binds to the job.
const RulePlain = "outside"

// Rule is the rule that decides about a payment; an [*approval.Error] if it cannot be
// made.
func (d *Desk) Rule(a approval.Payment) (approval.Rule, error) {
	return d.Rules.For(a, d.Ask != nil)
}

// PaymentOf is the payment for an offer in this mode, "" for one without a quote.
func (d *Desk) PaymentOf(p purchase.Purchase, mode receipts.Mode, priceMsats int64) approval.Payment {
	return approval.Payment{
		RequestID: p.RequestID, Provider: p.Provider, SchemaID: p.SchemaID, Mode: mode, Purpose: receipts.PurposeResult,
		PriceMsats: priceMsats, FeeLimitMsats: d.FeeLimit(p, priceMsats),
	}
}

// paymentFor is the payment that an offer asks for.
func (d *Desk) paymentFor(p purchase.View, o Offer) approval.Payment {
	a := d.PaymentOf(p.Purchase, o.Quote.Mode, o.PriceMsats)
	if o.IsFee() {
		a.Purpose = receipts.PurposeEngagement
		// What the result may cost by our own bid stays there for it.
		a.FeeLimitMsats = min(d.FeeLimit(p.Purchase, p.Terms.BidMsats), o.PriceMsats)
	}
	return a
}

// approve decides about a payment that can be made until expiry: the id of the rule that
// approves it, nil where a person did, and the fee limit within what the rule lets leave
// the wallet.
func (d *Desk) approve(ctx context.Context, a approval.Payment, expiry time.Time) (ruleID *string, feeLimitMsats int64, err error) {
	rule, err := d.Rule(a)
	if err != nil {
		return nil, 0, err
	}
	if rule.UpToMsats > 0 {
		a.FeeLimitMsats = min(a.FeeLimitMsats, rule.UpToMsats-a.PriceMsats)
	}
	if rule.Do == approval.Approve {
		return &rule.ID, a.FeeLimitMsats, nil
	}

	a.RuleID = rule.ID
	yes, err := d.Ask(ctx, a)
	switch {
	case err != nil:
		return nil, 0, fmt.Errorf("ask for approval: %w", err)
	case !yes:
		return nil, 0, &approval.Error{RuleID: rule.ID, Why: "asked, and the answer was no"}
	case !time.Now().Before(expiry):
		return nil, 0, &approval.Error{RuleID: rule.ID, Why: "asked, and the offer expired before the answer"}
	}

	return nil, a.FeeLimitMsats, nil
}

// feeFloorMsats is the fee limit of small payments, where a twentieth of the
// price would be below the base fees of a short route. It is never more than the
// price itself.
const feeFloorMsats = 10_000

// FeeLimit is the most that routing may cost, within what is left of the job's
// maximum: the configured limit, else a twentieth of the price with a floor. A
// provider can claim all of it, by a hint in its invoice that only its own channel
// serves, so it must not be all that is left. On the chain the miners are paid and
// our own node says how much, so there it may.
func (d *Desk) FeeLimit(p purchase.Purchase, priceMsats int64) int64 {
	left := p.MaxMsats - p.EngagementSpent() - priceMsats
	switch most := d.FeeMsats; {
	case most > 0:
		return min(left, most)
	case d.OnChain:
		return left
	}
	return min(left, max(priceMsats/20, min(priceMsats, feeFloorMsats)))
}

// NotApproved reports whether the rules stand against a payment.
func NotApproved(err error) bool { return errors.As(err, new(*approval.Error)) }

// ApprovedBy names for people who approved an attempt.
func ApprovedBy(a *purchase.Attempt) string {
	if a.RuleID == "" {
		return "a person"
	}
	return "rule " + a.RuleID
}

// Award decides whether an offer that was checked is paid, and signs that it is
// accepted; without a quote there is nothing to accept. Nothing is reserved yet.
// [*approval.Error] if the rules are against it.
func (d *Desk) Award(ctx context.Context, p purchase.View, o Offer) (purchase.Award, error) {
	rule, feeLimit, err := d.approve(ctx, d.paymentFor(p, o), o.Expiry)
	if err != nil {
		return purchase.Award{}, err
	}
	wallet, err := d.WalletName(ctx)
	if err != nil {
		return purchase.Award{}, err
	}

	attempt := &purchase.Attempt{
		PaymentHash: o.PaymentHash, Purpose: string(receipts.PurposeResult), AmountMsats: o.PriceMsats,
		FeeLimitMsats: feeLimit, Wallet: wallet, ReservedAt: time.Now().UTC(),
	}
	if rule != nil {
		attempt.RuleID = *rule
	}
	award := purchase.Award{RequestID: p.RequestID, Charge: purchase.Charge{Attempt: attempt, BOLT11: o.BOLT11}}
	if !o.Quoted() {
		if len(d.Rules) == 0 {
			attempt.RuleID = RulePlain
		}
		return award, nil
	}

	attempt.Purpose, award.Quote = string(o.Quote.Purpose), o.Raw
	award.Acceptance, err = d.accept(ctx, p, o, rule)
	return award, err
}

// accept signs that an offer is accepted.
func (d *Desk) accept(ctx context.Context, p purchase.View, o Offer, rule *string) ([]byte, error) {
	acceptance := receipts.Acceptance{
		Version: 1, RequestID: p.RequestID, QuoteHash: o.Hash, PaymentHash: o.PaymentHash.String(),
		PriceMsats: o.PriceMsats, ApprovalRuleID: rule,
	}
	content, err := acceptance.Canonical()
	if err != nil {
		return nil, err
	}

	_, raw, err := d.Author.SignEvent(ctx, nostr.Event{
		Kind: d.Author.Kinds.Acceptance, CreatedAt: o.acceptedAt(), Content: string(content),
		Tags: nostr.Tags{{"e", p.RequestID}, {"p", p.Provider}, domain.Acceptance.Tag()},
	})
	return raw, err
}

// acceptedAt dates an acceptance as its offer: whoever accepts the same offer again,
// restored from a backup, signs the same event, which is the one that the receipt
// names. It is also never in the future of the provider's clock.
func (o Offer) acceptedAt() nostr.Timestamp {
	if o.at.Time().After(o.Expiry) {
		return nostr.Now() // no provider dates its offer so
	}
	return o.at
}
