package provider_test

import (
	"context"
	"errors"
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
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
			p, err := c.Client.PlacePanel(w.Ctx, buyer.PanelOrder{
				SchemaID: string(schemas.SandboxRun), Input: markettest.SandboxInput(""), Seats: seatsOf(seats...), Rule: buyer.RuleFirst,
				MaxMsats: markettest.RateMsats + 10, Mode: mode,
			})
			markettest.Check(t, err)
			p, err = c.Client.FollowPanel(w.Ctx, p.ID, nil)
			markettest.Check(t, err)
			if p.Decision.Outcome != buyer.OutcomeFirst || p.Tier() != "reputation_only" {
				t.Errorf("decision %+v", p.Decision)
			}
			taken, earned := 0, int64(0)
			for i, r := range seats {
				if p.Seats[i].Ruling.Taken {
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
			if result, err := c.Client.PanelResult(w.Ctx, p); err != nil || result.Output == nil {
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
	p, err := c.Client.PlacePanel(w.Ctx, buyer.PanelOrder{
		SchemaID: string(schemas.SandboxRun), Input: markettest.SandboxInput(""), Rule: buyer.RuleFirst, MaxMsats: markettest.RateMsats - 1,
		Seats: []buyer.Listing{{Provider: liar.Key.PublicKey()}, {Provider: w.NewRival(t, "absent").Key.PublicKey()}}, CommitTimeout: markettest.Slow / 2,
	})
	markettest.Check(t, err)
	p, err = c.Client.FollowPanel(w.Ctx, p.ID, nil)
	if !errors.Is(err, buyer.ErrNoConsensus) || p.Decision.Outcome != buyer.OutcomeNobody {
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
	p := panel(t, w, c, buyer.RuleMajority, rivals...)
	markettest.Check(t, c.Client.CancelPanel(w.Ctx, p.ID))
	if p, err := c.Client.FollowPanel(w.Ctx, p.ID, nil); !errors.Is(err, buyer.ErrNoConsensus) || p.Decision.Outcome != buyer.OutcomeCanceled {
		t.Errorf("decision %+v, %v", p.Decision, err)
	}
	if err := c.Client.CancelPanel(w.Ctx, p.ID); !errors.Is(err, buyer.ErrConflict) {
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
	good := buyer.PanelOrder{
		SchemaID: string(schemas.SandboxRun), Input: markettest.SandboxInput(""), Seats: seatsOf(a, b), Rule: buyer.RuleMajority, MaxMsats: 2 * markettest.RateMsats,
	}
	for name, change := range map[string]func(*buyer.PanelOrder){
		"one seat":          func(o *buyer.PanelOrder) { o.Seats = o.Seats[:1] },
		"one key twice":     func(o *buyer.PanelOrder) { o.Seats = seatsOf(a, a) },
		"no rule":           func(o *buyer.PanelOrder) { o.Rule = "" },
		"a vote in hold":    func(o *buyer.PanelOrder) { o.Mode = receipts.ModeHold },
		"a vote in plain":   func(o *buyer.PanelOrder) { o.Delivery = receipts.DeliveryPlain },
		"prices above it":   func(o *buyer.PanelOrder) { o.MaxMsats-- },
		"no such schema":    func(o *buyer.PanelOrder) { o.SchemaID = "oa.nothing.v1" },
		"no such agreement": func(o *buyer.PanelOrder) { o.SchemaID = string(schemas.CodeChunkAnalysis); o.Input = chunk },
		"bad input":         func(o *buyer.PanelOrder) { o.Input = []byte(`{}`) },
	} {
		o := good
		change(&o)
		if _, err := c.Client.PlacePanel(w.Ctx, o); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if _, err := c.Client.PlacePanel(w.Ctx, good); err != nil {
		t.Errorf("the good one: %v", err)
	}
}

var chunk = []byte(`{"task":"review","chunk":{"path":"a.go","start_line":1,"end_line":1,"content":"package a"}}`)
