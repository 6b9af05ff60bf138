package buyer_test

import (
	"context"
	"errors"
	"strconv"
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
		"approved":     {rule: buyer.ApprovalRule{ID: "small", UpToMsats: price + 7, Do: buyer.Approve}},
		"too much":     {rule: buyer.ApprovalRule{ID: "small", UpToMsats: price - 1, Do: buyer.Approve}, refused: "no rule fits"},
		"modes named":  {rule: buyer.ApprovalRule{ID: "held", Modes: []receipts.Mode{receipts.ModeHold}, Do: buyer.Approve}, refused: "no rule fits"},
		"refused":      {rule: buyer.ApprovalRule{ID: "no", Do: buyer.Refuse}, refused: `rule "no" refuses`},
		"nobody there": {rule: buyer.ApprovalRule{ID: "ask", Do: buyer.Ask}, refused: "no terminal"},
	} {
		t.Run(name, func(t *testing.T) {
			c, p, err := buyPlain(t, func(c *cheat, req nostr.Event) []nostr.Event {
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

// TestFeesAreBounded: a provider can claim the whole fee limit by a private route
// that is its own channel, so price and fee limit together stay within the rule, the
// order's maximum and what is usual on Lightning.
func TestFeesAreBounded(t *testing.T) {
	rule := func(upTo int64) []buyer.ApprovalRule {
		return []buyer.ApprovalRule{{ID: "small", UpToMsats: upTo, Do: buyer.Approve}, {ID: "more", Do: buyer.Refuse}}
	}
	for name, tt := range map[string]struct {
		msats, configured int64
		rules             []buyer.ApprovalRule
		want              int64
	}{
		"a small price":                  {msats: 1_000, want: 1_000},
		"the floor":                      {msats: 15_000, want: 10_000},
		"what is left of the maximum":    {msats: 49_000, want: 1_000},
		"a configured limit":             {msats: 1_000, configured: 4_000, want: 4_000},
		"nothing left by the rule":       {msats: 1_000, rules: rule(1_000), want: 0},
		"something left by the rule":     {msats: 1_000, rules: rule(1_300), want: 300},
		"a rule below a configured one":  {msats: 1_000, configured: 4_000, rules: rule(3_000), want: 2_000},
		"a rule with more than is usual": {msats: 1_000, rules: rule(9_000), want: 1_000},
		"a rule without an amount":       {msats: 1_000, rules: rule(0), want: 1_000},
	} {
		t.Run(name, func(t *testing.T) {
			c, p, _ := playWith(t, func(c *cheat, req nostr.Event) []nostr.Event {
				return []nostr.Event{c.offer(req, func(d *deal) {
					d.quote.PriceMsats, d.invoice.AmountMsats, d.amount = tt.msats, tt.msats, strconv.FormatInt(tt.msats, 10)
					d.invoice.MinFinalCLTV = 288 // which is not too long for a held payment
				})}
			}, nil, nil, func(cfg *buyer.Config) { cfg.Approvals, cfg.Limits.FeeMsats = tt.rules, tt.configured })
			if len(c.sent) != 1 || c.sent[0].FeeLimitMsats != tt.want {
				t.Errorf("reason %q, sent %+v, want a fee limit of %d", p.Reason, c.sent, tt.want)
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
