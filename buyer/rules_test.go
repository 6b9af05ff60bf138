package buyer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/markettest"
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
			if a.PriceMsats != markettest.RateMsats || a.RuleID == "" || a.FeeLimitMsats != markettest.FeeMsats {
				return false, fmt.Errorf("asked about %+v", a)
			}
			return yes, nil
		}
	}
	small := buyer.ApprovalRule{ID: "small", UpToMsats: markettest.RateMsats - 1, Do: buyer.Approve}
	for name, tt := range map[string]struct {
		rules   []buyer.ApprovalRule
		ask     func(context.Context, buyer.Approval) (bool, error)
		rule    string // of the receipt; "" is a person
		refused string
	}{
		"by amount":        {rules: []buyer.ApprovalRule{small, {ID: "large", UpToMsats: markettest.RateMsats + markettest.FeeMsats, Do: buyer.Approve}}, rule: "large"},
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
			w := markettest.New(t)
			w.Serve(t, nil)
			c := w.NewCustomer(t, func(cfg *buyer.Config) {
				cfg.Approvals, cfg.Ask, cfg.Limits.FeeMsats = tt.rules, tt.ask, markettest.FeeMsats
			})
			placed := w.Place(t, c, receipts.ModeHold, markettest.SandboxInput(""))
			f := w.Follow(t, c, placed.RequestID, nil)
			if tt.refused != "" {
				f.Failed(t, provider.Code(tt.refused))
				w.Moved(t, c.Party, 0, 0)
				w.Await(t, placed.RequestID, provider.StateCanceled) // long before its quote lapses
				return
			}
			p := w.Sold(t, c, f, receipts.ModeHold)
			if got := ruleOf(t, p); got != tt.rule || p.Attempt.RuleID != tt.rule || p.Attempt.FeeLimitMsats != markettest.FeeMsats {
				t.Errorf("the receipt names rule %q, the attempt %+v", got, p.Attempt)
			}
		})
	}
}

// ruleOf is the approval rule of a purchase's receipt.
func ruleOf(t *testing.T, p buyer.Purchase) string {
	t.Helper()
	var ev struct{ Content string }
	markettest.Check(t, json.Unmarshal(p.ReceiptEvent, &ev))
	var doc struct {
		Rule *string `json:"approval_rule_id"`
	}
	markettest.Check(t, json.Unmarshal([]byte(ev.Content), &doc))
	if doc.Rule == nil {
		return ""
	}
	return *doc.Rule
}

// TestManyPayersOneBudget: of 64 purchases at the same time no more is paid for
// than the day's budget covers with fees, to the msat.
func TestManyPayersOneBudget(t *testing.T) {
	markettest.WithinADay(t)
	w := markettest.New(t)
	const payers, fit, most = 64, 5, markettest.RateMsats + markettest.FeeMsats
	w.Serve(t, func(cfg *provider.Config) {
		cfg.Limits = provider.Limits{Concurrent: 8, QueuePerBuyer: payers, UnpaidPerBuyer: payers, HeldPerBuyer: payers}
	})
	c := w.NewCustomer(t, func(cfg *buyer.Config) {
		cfg.Limits = buyer.Limits{DayMsats: fit*most + most - 1, FeeMsats: markettest.FeeMsats}
	})
	var wg sync.WaitGroup
	var done atomic.Int32
	for i := range payers {
		p := w.Place(t, c, receipts.ModeHold, markettest.SandboxInput(fmt.Sprintf(`,"env":{"N":"%d"}`, i)))
		wg.Go(func() {
			p, err := c.Client.Follow(w.Ctx, p.RequestID, nil)
			switch {
			case err == nil:
				done.Add(1)
			case !strings.Contains(p.Reason, "day budget"):
				t.Errorf("purchase %s (%s): %v", p.State, p.Reason, err)
			}
		})
	}
	wg.Wait()
	budget := w.Budget(t, c.Store)
	if done.Load() != fit || budget.SpentMsats != fit*most || budget.ReservedMsats != 0 {
		t.Errorf("%d jobs for %d msats, %d still reserved", done.Load(), budget.SpentMsats, budget.ReservedMsats)
	}
	w.Moved(t, c.Party, fit*markettest.RateMsats, fit*most)
}
