package buyer_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/receipts"
)

// TestRulesHoldForBareInvoices: a payment that no quote binds is one, too. A rule
// that names modes does not fit it, for it has none.
func TestRulesHoldForBareInvoices(t *testing.T) {
	for name, tt := range map[string]struct {
		rule    buyer.ApprovalRule
		refused string
	}{
		"approved":     {rule: buyer.ApprovalRule{ID: "small", UpToMsats: price, Do: buyer.Approve}},
		"too much":     {rule: buyer.ApprovalRule{ID: "small", UpToMsats: price - 1, Do: buyer.Approve}, refused: "no rule fits"},
		"modes named":  {rule: buyer.ApprovalRule{ID: "held", Modes: []receipts.Mode{receipts.ModeHold}, Do: buyer.Approve}, refused: "no rule fits"},
		"refused":      {rule: buyer.ApprovalRule{ID: "no", Do: buyer.Refuse}, refused: `rule "no" refuses`},
		"nobody there": {rule: buyer.ApprovalRule{ID: "ask", Do: buyer.Ask}, refused: "no terminal"},
	} {
		t.Run(name, func(t *testing.T) {
			c, p, err := buyOutside(t, func(c *cheat, req nostr.Event) []nostr.Event {
				c.pays = true
				return []nostr.Event{c.asks(req, func(*bare) {}), c.plain(req, "words")}
			}, nil, func(cfg *buyer.Config) { cfg.Approvals, cfg.Limits.FeeMsats = []buyer.ApprovalRule{tt.rule}, 7 })
			if tt.refused != "" {
				if !errors.Is(err, buyer.ErrFailed) || !strings.Contains(p.Reason, tt.refused) || len(c.sent) != 0 {
					t.Errorf("reason %q, %v, sent %d", p.Reason, err, len(c.sent))
				}
				return
			}
			if err != nil || p.Attempt.RuleID != "small" || len(c.sent) != 1 || c.sent[0].FeeLimitMsats != 7 {
				t.Errorf("%v, attempt %+v, sent %+v", err, p.Attempt, c.sent)
			}
		})
	}
}

// TestRulesThatCannotBeMeant are refused before anything is built on them.
func TestRulesThatCannotBeMeant(t *testing.T) {
	for name, rules := range map[string][]buyer.ApprovalRule{
		"no id":       {{Do: buyer.Approve}},
		"a long id":   {{ID: strings.Repeat("x", 65), Do: buyer.Approve}},
		"twice":       {{ID: "a", Do: buyer.Approve}, {ID: "a", Do: buyer.Refuse}},
		"no decision": {{ID: "a"}},
		"negative":    {{ID: "a", UpToMsats: -1, Do: buyer.Approve}},
	} {
		var c cheat
		_, err := buyer.New(buyer.Config{Signer: signer{}, Store: noStore{}, Market: &c, Approvals: rules})
		if err == nil || !strings.Contains(err.Error(), "approval rule") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type signer struct{}

func (signer) PublicKey() string                        { return strings.Repeat("a", 64) }
func (signer) Sign(context.Context, *nostr.Event) error { return errors.New("never signs") }
