package cli

import (
	"context"
	"fmt"
	"os"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/receipts"
)

// asker lets the person at the terminal decide about payments; nil where there
// is no terminal to ask on.
func asker(s *app.Streams) func(context.Context, buyer.Approval) (bool, error) {
	in, ok := s.In.(*os.File)
	if !ok || !app.IsTerminal(in) {
		return nil
	}

	return func(ctx context.Context, a buyer.Approval) (bool, error) {
		npub, err := receipts.Npub(a.Provider)
		if err != nil {
			return false, err
		}
		fmt.Fprintf(s.Err, "\nRule %s asks: pay %s, and at most %s of routing fees, to\n%s\nfor %s in mode %s? [y/N] ",
			display.Printable(a.RuleID), display.Msats(a.PriceMsats), display.Msats(a.FeeLimitMsats), npub, display.Printable(a.SchemaID), a.Mode)
		answer, err := app.ReadLine(ctx, in)
		return answer == "y" || answer == "yes", err
	}
}

// refusedByRule is a refusal of the approval rules with the next step.
func refusedByRule(rule buyer.ApprovalRule, err error) error {
	hint := "buyer.approvals in the configuration says what may be paid"
	if rule.Do == buyer.Ask {
		hint = "run it on a terminal, or let a rule of buyer.approvals approve it"
	}
	return advice.Hint(err, hint)
}
