// Package approval has the rules by which a buyer decides what is paid: without asking,
// after asking a person, or not at all.
package approval

import (
	"fmt"
	"slices"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// Action is what a rule says.
type Action string

// The decisions of a rule.
const (
	Approve Action = "approve"
	Ask     Action = "ask" // a person decides, each time
	Refuse  Action = "refuse"
)

// Rule decides about payments. What is left empty fits everything.
type Rule struct {
	ID        string // goes into the acceptance and the receipt
	UpToMsats int64  // the most that may leave the wallet: the price, and within the rest the fee limit; 0 is no limit
	Schemas   []string
	Providers []string // x-only hex
	Modes     []receipts.Mode
	Do        Action
}

// MaxMsats is the rule where none are configured: who placed the order named the most
// that may be paid for it.
const MaxMsats = "max-msats"

// Payment is what a rule decides about.
type Payment struct {
	RuleID        string
	RequestID     string
	Provider      string // x-only hex
	SchemaID      string
	Mode          receipts.Mode
	Purpose       receipts.Purpose // engagement: a fee for the attempt
	PriceMsats    int64
	FeeLimitMsats int64 // routing fees, at most
}

// Error says why the rules do not let a payment be made. Nothing was paid.
type Error struct {
	RuleID string // "" if no rule fits
	Why    string
}

func (e *Error) Error() string {
	if e.RuleID == "" {
		return "not approved: " + e.Why
	}
	return fmt.Sprintf("not approved: rule %q %s", e.RuleID, e.Why)
}

// Rules are asked in their order: the first that fits a payment decides about it. A
// payment that none fits is refused; without rules the order's own maximum decides.
type Rules []Rule

// Check wants each rule to have an id of its own, a decision and an amount that can be.
func (rules Rules) Check() error {
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

// For is the rule that decides about a payment, and an [*Error] if it cannot be made: no
// rule fits, the rule refuses, or it asks a person and nobody is there to be asked.
func (rules Rules) For(p Payment, canAsk bool) (Rule, error) {
	if len(rules) == 0 {
		return Rule{ID: MaxMsats, Do: Approve}, nil
	}
	i := slices.IndexFunc(rules, func(r Rule) bool { return r.fits(p) })
	if i < 0 {
		return Rule{}, &Error{"", fmt.Sprintf("no rule fits %d msats for %s in mode %s (buyer.approvals)", p.PriceMsats, p.SchemaID, p.Mode)}
	}

	switch r := rules[i]; {
	case r.Do == Refuse:
		return r, &Error{r.ID, "refuses it"}
	case r.Do == Ask && !canAsk:
		return r, &Error{r.ID, "asks a person, and there is no terminal to ask on"}
	default:
		return r, nil
	}
}

func (r Rule) fits(p Payment) bool {
	return (r.UpToMsats == 0 || p.PriceMsats <= r.UpToMsats) &&
		(len(r.Schemas) == 0 || slices.Contains(r.Schemas, p.SchemaID)) &&
		(len(r.Providers) == 0 || slices.Contains(r.Providers, p.Provider)) &&
		(len(r.Modes) == 0 || slices.Contains(r.Modes, p.Mode))
}
