package provider_test

import (
	"context"
	"errors"
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// TestFirstValidAnswerIsTaken: one of several is paid, once, in every mode; the
// others are told to stop and get nothing.
func TestFirstValidAnswerIsTaken(t *testing.T) {
	for _, mode := range allModes {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			rivals := w.honest(t, 2)
			never := w.rival(t, "never")
			stopped := make(chan struct{})
			never.runner.do = func(ctx context.Context, r provider.Run) (provider.Outcome, error) {
				defer close(stopped)
				return hang(ctx, r)
			}
			w.open(t, never, nil)
			c := w.customer(t, unhurried)
			// Who is paid or held first runs first: there the one that hangs has no seat.
			seats := rivals
			hangs := mode == receipts.ModePostpay || mode == receipts.ModeFree
			if hangs {
				seats = append(seats, never)
			}
			p, err := c.client.PlacePanel(w.ctx, buyer.PanelOrder{
				SchemaID: string(schemas.SandboxRun), Input: order(""), Seats: seatsOf(seats...), Rule: buyer.RuleFirst,
				MaxMsats: rateMsats + 10, Mode: mode,
			})
			check(t, err)
			p, err = c.client.FollowPanel(w.ctx, p.ID, nil)
			check(t, err)
			if p.Decision.Outcome != buyer.OutcomeFirst || p.Tier() != "reputation_only" {
				t.Errorf("decision %+v", p.Decision)
			}
			taken, earned := 0, int64(0)
			for i, r := range seats {
				if p.Seats[i].Ruling.Taken {
					taken++
				}
				earned += w.earned(t, r)
			}
			price, fee := int64(rateMsats), int64(feeMsats)
			if mode == receipts.ModeFree {
				price, fee = 0, 0
			}
			if taken != 1 || earned != price {
				t.Errorf("%d seats are taken, %d msats earned", taken, earned)
			}
			if result, err := c.client.PanelResult(w.ctx, p); err != nil || result.Output == nil {
				t.Errorf("result %s, %v", result.Output, err)
			}
			w.settledUp(t, c, price+fee)
			if hangs {
				<-stopped // patience bounds it
			}
		})
	}
}

// TestNobodyAnswersPanel: it ends with nothing paid.
func TestNobodyAnswersPanel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	liar := w.rival(t, "refuses")
	w.open(t, liar, nil)
	c := w.customer(t, unhurried)
	p, err := c.client.PlacePanel(w.ctx, buyer.PanelOrder{
		SchemaID: string(schemas.SandboxRun), Input: order(""), Rule: buyer.RuleFirst, MaxMsats: rateMsats - 1,
		Seats: []buyer.Listing{{Provider: liar.key.PublicKey()}, {Provider: w.rival(t, "absent").key.PublicKey()}}, CommitTimeout: slow / 2,
	})
	check(t, err)
	p, err = c.client.FollowPanel(w.ctx, p.ID, nil)
	if !errors.Is(err, buyer.ErrNoConsensus) || p.Decision.Outcome != buyer.OutcomeNobody {
		t.Errorf("decision %+v, %v", p.Decision, err)
	}
	w.settledUp(t, c, 0)
}

// TestCancelPanel: an open panel pays nobody; a decided one cannot be canceled.
func TestCancelPanel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rivals := w.honest(t, 2)
	c := w.customer(t, unhurried)
	p := w.panel(t, c, buyer.RuleMajority, rivals...)
	check(t, c.client.CancelPanel(w.ctx, p.ID))
	if p, err := c.client.FollowPanel(w.ctx, p.ID, nil); !errors.Is(err, buyer.ErrNoConsensus) || p.Decision.Outcome != buyer.OutcomeCanceled {
		t.Errorf("decision %+v, %v", p.Decision, err)
	}
	if err := c.client.CancelPanel(w.ctx, p.ID); !errors.Is(err, buyer.ErrConflict) {
		t.Errorf("canceled twice: %v", err)
	}
	w.settledUp(t, c, 0)
}

// TestPanelOrderIsChecked: what cannot be meant is refused before anything is signed.
func TestPanelOrderIsChecked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.rival(t, "a"), w.rival(t, "b")
	c := w.customer(t, nil)
	good := buyer.PanelOrder{
		SchemaID: string(schemas.SandboxRun), Input: order(""), Seats: seatsOf(a, b), Rule: buyer.RuleMajority, MaxMsats: 2 * rateMsats,
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
		if _, err := c.client.PlacePanel(w.ctx, o); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if _, err := c.client.PlacePanel(w.ctx, good); err != nil {
		t.Errorf("the good one: %v", err)
	}
}

var chunk = []byte(`{"task":"review","chunk":{"path":"a.go","start_line":1,"end_line":1,"content":"package a"}}`)
