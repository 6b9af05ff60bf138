package provider_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// TestRulesDecide: the first rule that fits decides, and the receipt names it; a
// person's approval has no rule, and what is not approved is not paid, which the
// provider is told.
func TestRulesDecide(t *testing.T) {
	requirements.Covers(t, "OA-4.4")
	says := func(yes bool) func(context.Context, buyer.Approval) (bool, error) {
		return func(_ context.Context, a buyer.Approval) (bool, error) {
			if a.PriceMsats != rateMsats || a.RuleID == "" || a.FeeLimitMsats != feeMsats {
				return false, fmt.Errorf("asked about %+v", a)
			}
			return yes, nil
		}
	}
	small := buyer.ApprovalRule{ID: "small", UpToMsats: rateMsats - 1, Do: buyer.Approve}
	for name, tt := range map[string]struct {
		rules   []buyer.ApprovalRule
		ask     func(context.Context, buyer.Approval) (bool, error)
		rule    string // of the receipt; "" is a person
		refused string
	}{
		"by amount":        {rules: []buyer.ApprovalRule{small, {ID: "large", UpToMsats: rateMsats + feeMsats, Do: buyer.Approve}}, rule: "large"},
		"by job type":      {rules: []buyer.ApprovalRule{{ID: "texts", Schemas: []string{"oa.embedding.v1"}, Do: buyer.Refuse}, {ID: "runs", Schemas: []string{string(schemas.SandboxRun)}, Do: buyer.Approve}}, rule: "runs"},
		"by provider":      {rules: []buyer.ApprovalRule{{ID: "other", Providers: []string{strings.Repeat("a", 64)}, Do: buyer.Approve}, {ID: "rest", Do: buyer.Refuse}}, refused: `rule "rest" refuses it`},
		"by mode":          {rules: []buyer.ApprovalRule{{ID: "held", Modes: []receipts.Mode{receipts.ModeHold}, Do: buyer.Approve}}, rule: "held"},
		"none fits":        {rules: []buyer.ApprovalRule{small}, refused: "no rule fits 21000 msats"},
		"a person":         {rules: []buyer.ApprovalRule{small, {ID: "large", Do: buyer.Ask}}, ask: says(true)},
		"a person says no": {rules: []buyer.ApprovalRule{{ID: "all", Do: buyer.Ask}}, ask: says(false), refused: "the answer was no"},
		"nobody to ask":    {rules: []buyer.ApprovalRule{{ID: "all", Do: buyer.Ask}}, refused: "no terminal to ask on"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.serve(t, nil)
			c := w.customer(t, func(cfg *buyer.Config) {
				cfg.Approvals, cfg.Ask, cfg.Limits.FeeMsats = tt.rules, tt.ask, feeMsats
			})
			placed := w.place(t, c, receipts.ModeHold, order(""))
			f := w.follow(t, c, placed.RequestID, nil)
			if tt.refused != "" {
				f.failed(t, provider.Code(tt.refused))
				w.moved(t, c.party, 0, 0)
				w.await(t, placed.RequestID, provider.StateCanceled) // long before its quote lapses
				return
			}
			p := w.sold(t, c, f, receipts.ModeHold)
			if got := ruleOf(t, p); got != tt.rule || p.Attempt.RuleID != tt.rule || p.Attempt.FeeLimitMsats != feeMsats {
				t.Errorf("the receipt names rule %q, the attempt %+v", got, p.Attempt)
			}
		})
	}
}

// ruleOf is the approval rule of a purchase's receipt.
func ruleOf(t *testing.T, p buyer.Purchase) string {
	t.Helper()
	var ev struct{ Content string }
	check(t, json.Unmarshal(p.ReceiptEvent, &ev))
	var doc struct {
		Rule *string `json:"approval_rule_id"`
	}
	check(t, json.Unmarshal([]byte(ev.Content), &doc))
	if doc.Rule == nil {
		return ""
	}
	return *doc.Rule
}

// TestManyPayersOneBudget: of 64 purchases at the same time no more is paid for
// than the day's budget covers with fees, to the msat.
func TestManyPayersOneBudget(t *testing.T) {
	withinADay(t)
	w := newWorld(t)
	const payers, fit, most = 64, 5, rateMsats + feeMsats
	w.serve(t, func(cfg *provider.Config) {
		cfg.Limits = provider.Limits{Concurrent: 8, QueuePerBuyer: payers, UnpaidPerBuyer: payers, HeldPerBuyer: payers}
	})
	c := w.customer(t, func(cfg *buyer.Config) { cfg.Limits = buyer.Limits{DayMsats: fit*most + most - 1, FeeMsats: feeMsats} })
	var wg sync.WaitGroup
	var done atomic.Int32
	for i := range payers {
		p := w.place(t, c, receipts.ModeHold, order(fmt.Sprintf(`,"env":{"N":"%d"}`, i)))
		wg.Go(func() {
			p, err := c.client.Follow(w.ctx, p.RequestID, nil)
			switch {
			case err == nil:
				done.Add(1)
			case !strings.Contains(p.Reason, "day budget"):
				t.Errorf("purchase %s (%s): %v", p.State, p.Reason, err)
			}
		})
	}
	wg.Wait()
	budget := w.budget(t, c.store)
	if done.Load() != fit || budget.SpentMsats != fit*most || budget.ReservedMsats != 0 {
		t.Errorf("%d jobs for %d msats, %d still reserved", done.Load(), budget.SpentMsats, budget.ReservedMsats)
	}
	w.moved(t, c.party, fit*rateMsats, fit*most)
}
