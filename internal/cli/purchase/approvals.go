package purchase

import (
	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/advice"
)

// RefusedByRule is a refusal of the approval rules with the next step.
func RefusedByRule(rule buyer.ApprovalRule, err error) error {
	hint := "buyer.approvals in the configuration says what may be paid"
	if rule.Do == buyer.Ask {
		hint = "run it on a terminal, or let a rule of buyer.approvals approve it"
	}
	return advice.Hint(err, hint)
}
