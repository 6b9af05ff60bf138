package buyer

import (
	"context"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/receipts"
)

// Award is the decision to pay one charge of a purchase. All of it becomes durable
// together.
type Award struct {
	RequestID string
	Charge

	event nostr.Event // Acceptance, to be published
	rule  *string     // that approved it; nil: a person did
}

// award decides whether an offer that was checked is paid, and signs that it is
// accepted. Nothing is reserved yet. *ApprovalError if the rules are against it.
func (c *Client) award(ctx context.Context, p Purchase, o offer) (Award, error) {
	rule, feeLimit, err := c.approved(ctx, c.approvalFor(p, o.quote), o.quote.Expiry())
	if err != nil {
		return Award{}, err
	}
	acceptance := receipts.Acceptance{
		Version: 1, RequestID: p.RequestID, QuoteHash: o.hash, PaymentHash: o.pay.String(),
		PriceMsats: o.quote.PriceMsats, ApprovalRuleID: rule,
	}
	wallet, err := c.paysFrom(ctx)
	if err != nil {
		return Award{}, err
	}
	content, err := acceptance.Canonical()
	if err != nil {
		return Award{}, err
	}
	signed, raw, err := c.signed(ctx, nostr.Event{
		Kind: c.cfg.Kinds.Acceptance, CreatedAt: o.acceptedAt(), Content: string(content),
		Tags: nostr.Tags{{"e", p.RequestID}, {"p", p.Provider}, domain.Acceptance.Tag()},
	})
	if err != nil {
		return Award{}, err
	}
	return Award{
		RequestID: p.RequestID,
		Charge: Charge{Attempt: &Attempt{
			PaymentHash: o.pay, Purpose: string(o.quote.Purpose), AmountMsats: o.quote.PriceMsats,
			FeeLimitMsats: feeLimit, RuleID: ruleName(rule), Wallet: wallet, ReservedAt: time.Now().UTC(),
		}, Quote: o.raw, BOLT11: o.bolt11, Acceptance: raw},
		event: signed, rule: rule,
	}, nil
}

// acceptedAt dates an acceptance as its offer: whoever accepts the same offer again,
// restored from a backup, signs the same event, which is the one that the receipt
// names. It is also never in the future of the provider's clock.
func (o offer) acceptedAt() nostr.Timestamp {
	if o.at.Time().After(o.quote.Expiry()) {
		return nostr.Now() // no provider dates its offer so
	}
	return o.at
}

// sendAcceptance publishes the acceptance, hidden if the job is. Follow
// publishes it again, so that it does not arrive now is no loss.
func (c *Client) sendAcceptance(ctx context.Context, p Purchase, a Award) error {
	ev, err := c.wrap(ctx, p, a.event)
	if err != nil {
		return err
	}
	return c.cfg.Market.Send(ctx, ev)
}
