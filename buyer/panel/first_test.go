package panel_test

import (
	"context"
	"errors"
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/buyer/panel"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// TestFirstValidAnswerIsTaken: one of several is paid, once, in every mode; the
// others are told to stop and get nothing.
func TestFirstValidAnswerIsTaken(t *testing.T) {
	for _, mode := range markettest.AllModes {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			w := markettest.New(t)
			rivals := w.Honest(t, 2)
			never := w.NewRival(t, "never")
			stopped := make(chan struct{})
			never.Runner.Do = func(ctx context.Context, r provider.Run) (provider.Outcome, error) {
				defer close(stopped)
				return markettest.Hang(ctx, r)
			}
			w.Open(t, never, nil)
			c := w.NewCustomer(t, markettest.Unhurried)
			// Who is paid or held first runs first: there the one that hangs has no seat.
			seats := rivals
			hangs := mode == receipts.ModePostpay || mode == receipts.ModeFree
			if hangs {
				seats = append(seats, never)
			}
			p, err := c.Panels(t).Place(w.Ctx, panel.Order{
				SchemaID: string(schemas.SandboxRun), Input: markettest.SandboxInput(""), Members: membersOf(seats...), Rule: panel.RuleFirst,
				MaxMsats: markettest.RateMsats + 10, Mode: mode,
			})
			markettest.Check(t, err)
			p, err = c.Panels(t).Follow(w.Ctx, p.ID, nil)
			markettest.Check(t, err)
			if p.Decision.Outcome != panel.OutcomeFirst || p.Tier() != "reputation_only" {
				t.Errorf("decision %+v", p.Decision)
			}
			taken, earned := 0, int64(0)
			for i, r := range seats {
				if p.Members[i].Ruling.Taken {
					taken++
				}
				earned += w.Earned(t, r)
			}
			price, fee := int64(markettest.RateMsats), int64(markettest.FeeMsats)
			if mode == receipts.ModeFree {
				price, fee = 0, 0
			}
			if taken != 1 || earned != price {
				t.Errorf("%d seats are taken, %d msats earned", taken, earned)
			}
			if result, err := c.Panels(t).Result(w.Ctx, p); err != nil || result.Output == nil {
				t.Errorf("result %s, %v", result.Output, err)
			}
			w.SettledUp(t, c, price+fee)
			if hangs {
				<-stopped // patience bounds it
			}
		})
	}
}

// TestNobodyAnswersPanel: it ends with nothing paid.
func TestNobodyAnswersPanel(t *testing.T) {
	t.Parallel()
	w := markettest.New(t)
	liar := w.NewRival(t, "refuses")
	w.Open(t, liar, nil)
	c := w.NewCustomer(t, markettest.Unhurried)
	p, err := c.Panels(t).Place(w.Ctx, panel.Order{
		SchemaID: string(schemas.SandboxRun), Input: markettest.SandboxInput(""), Rule: panel.RuleFirst, MaxMsats: markettest.RateMsats - 1,
		Members: []buyer.Listing{{Provider: liar.Key.PublicKey()}, {Provider: w.NewRival(t, "absent").Key.PublicKey()}}, CommitTimeout: markettest.Slow / 2,
	})
	markettest.Check(t, err)
	p, err = c.Panels(t).Follow(w.Ctx, p.ID, nil)
	if !errors.Is(err, panel.ErrNoConsensus) || p.Decision.Outcome != panel.OutcomeNobody {
		t.Errorf("decision %+v, %v", p.Decision, err)
	}
	w.SettledUp(t, c, 0)
}

// TestCancelPanel: an open panel pays nobody; a decided one cannot be canceled.
func TestCancelPanel(t *testing.T) {
	t.Parallel()
	w := markettest.New(t)
	rivals := w.Honest(t, 2)
	c := w.NewCustomer(t, markettest.Unhurried)
	p := placePanel(t, w, c, panel.RuleMajority, rivals...)
	markettest.Check(t, c.Panels(t).Cancel(w.Ctx, p.ID))
	if p, err := c.Panels(t).Follow(w.Ctx, p.ID, nil); !errors.Is(err, panel.ErrNoConsensus) || p.Decision.Outcome != panel.OutcomeCanceled {
		t.Errorf("decision %+v, %v", p.Decision, err)
	}
	if err := c.Panels(t).Cancel(w.Ctx, p.ID); !errors.Is(err, buyer.ErrConflict) {
		t.Errorf("canceled twice: %v", err)
	}
	w.SettledUp(t, c, 0)
}

// TestPanelOrderIsChecked: what cannot be meant is refused before anything is signed.
func TestPanelOrderIsChecked(t *testing.T) {
	t.Parallel()
	w := markettest.New(t)
	a, b := w.NewRival(t, "a"), w.NewRival(t, "b")
	c := w.NewCustomer(t, nil)
	good := panel.Order{
		SchemaID: string(schemas.SandboxRun), Input: markettest.SandboxInput(""), Members: membersOf(a, b), Rule: panel.RuleMajority, MaxMsats: 2 * markettest.RateMsats,
	}
	for name, change := range map[string]func(*panel.Order){
		"one seat":          func(o *panel.Order) { o.Members = o.Members[:1] },
		"one key twice":     func(o *panel.Order) { o.Members = membersOf(a, a) },
		"no rule":           func(o *panel.Order) { o.Rule = "" },
		"a vote in hold":    func(o *panel.Order) { o.Mode = receipts.ModeHold },
		"a vote in plain":   func(o *panel.Order) { o.Delivery = receipts.DeliveryPlain },
		"prices above it":   func(o *panel.Order) { o.MaxMsats-- },
		"no such schema":    func(o *panel.Order) { o.SchemaID = "oa.nothing.v1" },
		"no such agreement": func(o *panel.Order) { o.SchemaID = string(schemas.CodeChunkAnalysis); o.Input = chunk },
		"bad input":         func(o *panel.Order) { o.Input = []byte(`{}`) },
	} {
		o := good
		change(&o)
		if _, err := c.Panels(t).Place(w.Ctx, o); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if _, err := c.Panels(t).Place(w.Ctx, good); err != nil {
		t.Errorf("the good one: %v", err)
	}
}

var chunk = []byte(`{"task":"review","chunk":{"path":"a.go","start_line":1,"end_line":1,"content":"package a"}}`)

// TestNoPanelWithoutAWallet: what costs something is refused before anything is
// stored or sent where nothing can pay it.
func TestNoPanelWithoutAWallet(t *testing.T) {
	t.Parallel()
	w := markettest.New(t)
	a, b := w.NewRival(t, "a"), w.NewRival(t, "b")
	c := w.NewCustomer(t, func(cfg *buyer.Config) { cfg.Wallet = nil })
	_, err := c.Panels(t).Place(w.Ctx, panel.Order{
		SchemaID: string(schemas.SandboxRun), Input: markettest.SandboxInput(""), Members: membersOf(a, b), Rule: panel.RuleMajority, MaxMsats: 100_000,
	})
	if !errors.Is(err, buyer.ErrNoWallet) {
		t.Error(err)
	}
}
