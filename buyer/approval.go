package buyer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// ApprovalAction is what an approval rule says.
type ApprovalAction string

// The decisions of a rule.
const (
	Approve ApprovalAction = "approve"
	Ask     ApprovalAction = "ask" // a person decides, each time
	Refuse  ApprovalAction = "refuse"
)

// ApprovalRule decides about payments. The first rule that fits one decides about it; a
// payment that none fits is refused. What is left empty fits everything.
type ApprovalRule struct {
	ID        string // goes into the acceptance and the receipt
	UpToMsats int64  // the most that may leave the wallet: the price, and within the rest the fee limit; 0 is no limit
	Schemas   []string
	Providers []string // x-only hex
	Modes     []receipts.Mode
	Do        ApprovalAction
}

// ruleMaxMsats is the rule where none are configured: who placed the order named
// the most that may be paid for it.
const ruleMaxMsats = "max-msats"

// Approval is a payment that a rule lets a person decide about.
type Approval struct {
	RuleID        string
	RequestID     string
	Provider      string // x-only hex
	SchemaID      string
	Mode          receipts.Mode
	Purpose       receipts.Purpose // engagement: a fee for the attempt
	PriceMsats    int64
	FeeLimitMsats int64 // routing fees, at most
}

// ApprovalError: the rules do not let a payment be made. Nothing was paid.
type ApprovalError struct {
	RuleID string // "" if no rule fits
	Why    string
}

func (e *ApprovalError) Error() string {
	if e.RuleID == "" {
		return "not approved: " + e.Why
	}
	return fmt.Sprintf("not approved: rule %q %s", e.RuleID, e.Why)
}

func checkRules(rules []ApprovalRule) error {
	seen := map[string]bool{}
	for _, r := range rules {
		switch {
		case r.ID == "" || len(r.ID) > 64 || seen[r.ID]:
			return fmt.Errorf("approval rule %q: an id of 1 to 64 bytes, once, is needed", r.ID)
		case r.Do != Approve && r.Do != Ask && r.Do != Refuse:
			return fmt.Errorf("approval rule %q: unknown decision %q", r.ID, r.Do)
		case payments.CheckMsats(r.UpToMsats) != nil:
			return fmt.Errorf("approval rule %q: bad amount", r.ID)
		}
		seen[r.ID] = true
	}

	return nil
}

func (r ApprovalRule) fits(a Approval) bool {
	return (r.UpToMsats == 0 || a.PriceMsats <= r.UpToMsats) &&
		(len(r.Schemas) == 0 || slices.Contains(r.Schemas, a.SchemaID)) &&
		(len(r.Providers) == 0 || slices.Contains(r.Providers, a.Provider)) &&
		(len(r.Modes) == 0 || slices.Contains(r.Modes, a.Mode))
}

// ApprovalRuleFor is the rule that decides about a payment, and an *ApprovalError if it
// cannot be made: no rule fits, the rule refuses, or it asks a person and nobody
// is there to be asked.
func (c *Client) ApprovalRuleFor(a Approval) (ApprovalRule, error) {
	if len(c.cfg.Approvals) == 0 {
		return ApprovalRule{ID: ruleMaxMsats, Do: Approve}, nil
	}
	i := slices.IndexFunc(c.cfg.Approvals, func(r ApprovalRule) bool { return r.fits(a) })
	if i < 0 {
		return ApprovalRule{}, &ApprovalError{"", fmt.Sprintf("no rule fits %d msats for %s in mode %s (buyer.approvals)", a.PriceMsats, a.SchemaID, a.Mode)}
	}

	switch r := c.cfg.Approvals[i]; {
	case r.Do == Refuse:
		return r, &ApprovalError{r.ID, "refuses it"}
	case r.Do == Ask && c.cfg.Ask == nil:
		return r, &ApprovalError{r.ID, "asks a person, and there is no terminal to ask on"}
	default:
		return r, nil
	}
}

// approvalOf is the payment for an offer in this mode, "" for one without a quote.
func (c *Client) approvalOf(p Purchase, mode receipts.Mode, priceMsats int64) Approval {
	return Approval{
		RequestID: p.RequestID, Provider: p.Provider, SchemaID: p.SchemaID, Mode: mode, Purpose: receipts.PurposeResult,
		PriceMsats: priceMsats, FeeLimitMsats: c.feeLimit(p, priceMsats),
	}
}

// approvalFor is the payment of a quote.
func (c *Client) approvalFor(p view, q receipts.Quote) Approval {
	a := c.approvalOf(p.Purchase, q.Mode, q.PriceMsats)
	if a.Purpose = q.Purpose; a.Purpose == receipts.PurposeEngagement {
		// What the result may cost by our own bid stays there for it.
		a.FeeLimitMsats = min(c.feeLimit(p.Purchase, p.Terms.BidMsats), q.PriceMsats)
	}
	return a
}

// approved decides about an offer that was checked and can be paid until expiry:
// the id of the rule that approves it, nil where a person did, and the fee limit
// within what the rule lets leave the wallet.
func (c *Client) approved(ctx context.Context, a Approval, expiry time.Time) (ruleID *string, feeLimitMsats int64, err error) {
	rule, err := c.ApprovalRuleFor(a)
	if err != nil {
		return nil, 0, err
	}
	if rule.UpToMsats > 0 {
		a.FeeLimitMsats = min(a.FeeLimitMsats, rule.UpToMsats-a.PriceMsats)
	}
	if rule.Do == Approve {
		return &rule.ID, a.FeeLimitMsats, nil
	}

	a.RuleID = rule.ID

	yes, err := c.cfg.Ask(ctx, a)
	switch {
	case err != nil:
		return nil, 0, fmt.Errorf("ask for approval: %w", err)
	case !yes:
		return nil, 0, &ApprovalError{rule.ID, "asked, and the answer was no"}
	case !time.Now().Before(expiry):
		return nil, 0, &ApprovalError{rule.ID, "asked, and the offer expired before the answer"}
	}

	return nil, a.FeeLimitMsats, nil
}

// feeFloorMsats is the fee limit of small payments, where a twentieth of the
// price would be below the base fees of a short route. It is never more than the
// price itself.
const feeFloorMsats = 10_000

// feeLimit is the most that routing may cost, within what is left of the job's
// maximum: the configured limit, else a twentieth of the price with a floor. A
// provider can claim all of it, by a hint in its invoice that only its own channel
// serves, so it must not be all that is left. On the chain the miners are paid and
// our own node says how much, so there it may.
func (c *Client) feeLimit(p Purchase, priceMsats int64) int64 {
	left := p.MaxMsats - p.EngagementSpent() - priceMsats
	switch most := c.cfg.Limits.FeeMsats; {
	case most > 0:
		return min(left, most)
	case c.cfg.Chain != nil:
		return left
	}
	return min(left, max(priceMsats/20, min(priceMsats, feeFloorMsats)))
}

// notApproved reports whether the rules stand against a payment.
func notApproved(err error) bool { return errors.As(err, new(*ApprovalError)) }

func ruleName(rule *string) string {
	if rule == nil {
		return ""
	}
	return *rule
}

// approvedBy names for people who approved.
func approvedBy(rule *string) string {
	if rule == nil {
		return "a person"
	}
	return "rule " + *rule
}

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
func (c *Client) award(ctx context.Context, p view, o offer) (Award, error) {
	rule, feeLimit, err := c.approved(ctx, c.approvalFor(p, o.quote), o.quote.Expiry())
	if err != nil {
		return Award{}, err
	}
	acceptance := receipts.Acceptance{
		Version: 1, RequestID: p.RequestID, QuoteHash: o.hash, PaymentHash: o.pay.String(),
		PriceMsats: o.quote.PriceMsats, ApprovalRuleID: rule,
	}
	wallet, err := c.payer.Name(ctx)
	if err != nil {
		return Award{}, err
	}
	content, err := acceptance.Canonical()
	if err != nil {
		return Award{}, err
	}
	signed, raw, err := c.author.SignEvent(ctx, nostr.Event{
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
	ev, err := c.author.Wrap(ctx, p, a.event)
	if err != nil {
		return err
	}
	return c.cfg.Market.Send(ctx, ev)
}
