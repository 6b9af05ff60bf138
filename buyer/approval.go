package buyer

import (
	"github.com/lightwork-market/lightwork/buyer/approval"
	"github.com/lightwork-market/lightwork/buyer/internal/offer"
	"github.com/lightwork-market/lightwork/buyer/purchase"
)

// The rules by which payments are approved: package approval says more.
type (
	// ApprovalAction is what an approval rule says.
	ApprovalAction = approval.Action
	// ApprovalRule decides about payments. The first rule that fits one decides about
	// it; a payment that none fits is refused.
	ApprovalRule = approval.Rule
	// Approval is a payment that a rule lets a person decide about.
	Approval = approval.Payment
	// ApprovalError: the rules do not let a payment be made. Nothing was paid.
	ApprovalError = approval.Error
)

// The decisions of a rule.
const (
	Approve = approval.Approve
	Ask     = approval.Ask // a person decides, each time
	Refuse  = approval.Refuse
)

// RulePlain approves a payment that no quote binds to the job.
const RulePlain = offer.RulePlain

// ApprovalRuleFor is the rule that decides about a payment, and an [*ApprovalError] if it
// cannot be made: no rule fits, the rule refuses, or it asks a person and nobody
// is there to be asked.
func (c *Client) ApprovalRuleFor(a Approval) (ApprovalRule, error) { return c.offers.Rule(a) }

// Award is the decision to pay one charge of a purchase. All of it becomes durable
// together.
type Award = purchase.Award
