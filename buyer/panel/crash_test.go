package panel_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/buyer/panel"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// mortal is a buyer's store: right after the n-th of a step has become durable,
// the buyer is gone.
type mortal struct {
	markettest.PurchaseStore
	step string
	die  context.CancelFunc

	mu   sync.Mutex
	left int
	dead bool
}

// write is one step of a life: none is under way as another is its last.
func (m *mortal) write(step string, do func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return context.Canceled // nothing it does any more is stored
	}
	err := do()
	if err == nil && step == m.step {
		if m.left--; m.left == 0 {
			m.dead = true
			m.die()
		}
	}
	return err
}

func (m *mortal) SetSealed(ctx context.Context, id string, event []byte, contents [][]byte) error {
	return m.write("sealed", func() error { return m.PurchaseStore.SetSealed(ctx, id, event, contents) })
}

func (m *mortal) SetClosing(ctx context.Context, id string, event []byte) error {
	return m.write("closing", func() error { return m.PurchaseStore.SetClosing(ctx, id, event) })
}

func (m *mortal) SetReveal(ctx context.Context, id string, hash hashing.Digest, event []byte) error {
	return m.write("reveal", func() error { return m.PurchaseStore.SetReveal(ctx, id, hash, event) })
}

func (m *mortal) Decide(ctx context.Context, id string, d panel.Decision, pay []buyer.Award, drop []panel.Drop, l buyer.Limits) error {
	return m.write("decision", func() error { return m.PurchaseStore.Decide(ctx, id, d, pay, drop, l) })
}

func (m *mortal) Paid(ctx context.Context, id string, p payments.Payment) error {
	return m.write("paid", func() error { return m.PurchaseStore.Paid(ctx, id, p) })
}

func (m *mortal) SetResult(ctx context.Context, id string, event, output []byte, contents [][]byte, early bool) error {
	return m.write("result", func() error { return m.PurchaseStore.SetResult(ctx, id, event, output, contents, early) })
}

func (m *mortal) SetReceipt(ctx context.Context, id string, purpose receipts.Purpose, receipt string, event []byte) error {
	return m.write("receipt", func() error { return m.PurchaseStore.SetReceipt(ctx, id, purpose, receipt, event) })
}

func (m *mortal) Close(ctx context.Context, id string, to buyer.State, reason string) error {
	return m.write("close", func() error { return m.PurchaseStore.Close(ctx, id, to, reason) })
}

// TestPanelSurvivesEveryCrash: the buyer dies right after each step; its next
// life comes to the same end, and no money moves twice.
func TestPanelSurvivesEveryCrash(t *testing.T) {
	for _, tt := range []struct {
		step string
		nth  int
	}{
		{"sealed", 1},
		{"sealed", 3},
		{"closing", 1},
		{"reveal", 1},
		{"reveal", 3},
		{"decision", 1},
		{"paid", 1},
		{"paid", 2},
		{"result", 2},
		{"receipt", 1},
		{"close", 1},
		{"close", 3},
	} {
		t.Run(tt.step+"-"+string(rune('0'+tt.nth)), func(t *testing.T) {
			t.Parallel()
			w := markettest.New(t)
			rivals := w.Honest(t, 3)
			ctx, die := context.WithCancel(w.Ctx)
			defer die()
			var store markettest.PurchaseStore
			c := w.NewCustomer(t, func(cfg *buyer.Config) {
				markettest.Unhurried(cfg)
				store = cfg.Store.(markettest.PurchaseStore)
				cfg.Store = &mortal{PurchaseStore: store, step: tt.step, left: tt.nth, die: die}
			})
			p := placePanel(t, w, c, panel.RuleMajority, rivals...)
			_, err := c.Panels(t).Follow(ctx, p.ID, nil)
			if tt.step != "close" && !errors.Is(err, context.Canceled) {
				t.Errorf("the first life ended with %v", err)
			}
			b := w.Budget(t, store)
			if b.ReservedMsats+b.SpentMsats > p.MaxMsats {
				t.Errorf("%d reserved and %d spent are above the panel's %d msats", b.ReservedMsats, b.SpentMsats, p.MaxMsats)
			}
			open, err := store.OpenPanels(w.Ctx)
			markettest.Check(t, err)
			if ended := tt.step == "close" && tt.nth == 3; !ended && (len(open) != 1 || open[0] != p.ID) {
				t.Errorf("open panels %v", open)
			}
			c.Client = c.Open(t, markettest.Unhurried)
			p, err = c.Panels(t).Follow(w.Ctx, p.ID, nil)
			markettest.Check(t, err)
			for i, r := range rivals {
				if got := w.Earned(t, r); got != markettest.RateMsats {
					t.Errorf("provider %d earned %d msats", i, got)
				}
				proved(t, w, c, p.Members[i])
			}
			w.SettledUp(t, c, 3*(markettest.RateMsats+markettest.FeeMsats))
		})
	}
}

// TestPanelBudget: the worst case of all seats is reserved at once, or nothing.
func TestPanelBudget(t *testing.T) {
	t.Parallel()
	markettest.WithinADay(t)
	w := markettest.New(t)
	rivals := w.Honest(t, 3)
	worst := int64(3 * (markettest.RateMsats + 10))
	c := w.NewCustomer(t, func(cfg *buyer.Config) {
		markettest.Unhurried(cfg)
		cfg.Limits = buyer.Limits{DayMsats: 2*worst - 1}
	})
	// Both are placed while the day holds either; it does not hold both.
	first, second := placePanel(t, w, c, panel.RuleMajority, rivals...), placePanel(t, w, c, panel.RuleMajority, rivals...)
	var reserved int64
	_, err := c.Panels(t).Follow(w.Ctx, first.ID, func(seat string, p buyer.Progress) {
		if seat == "" && p.What == string(panel.OutcomeAgreed) {
			b := w.Budget(t, c.Store)
			reserved = b.ReservedMsats + b.SpentMsats
		}
	})
	markettest.Check(t, err)
	if reserved != worst {
		t.Errorf("%d msats were reserved when it was decided, want %d", reserved, worst)
	}
	// What it did not spend is free again, so the day holds the second but for a few msats.
	spend := int64(3 * (markettest.RateMsats + markettest.FeeMsats))
	c.Client = c.Open(t, func(cfg *buyer.Config) {
		markettest.Unhurried(cfg)
		cfg.Limits = buyer.Limits{DayMsats: spend + worst - 1}
	})
	second, err = c.Panels(t).Follow(w.Ctx, second.ID, nil)
	if !errors.Is(err, panel.ErrNoConsensus) || second.Decision.Outcome != panel.OutcomeOverBudget {
		t.Errorf("decision %+v, %v", second.Decision, err)
	}
	w.SettledUp(t, c, spend)
	var over *buyer.BudgetError
	if _, err := c.Panels(t).Place(w.Ctx, panel.Order{
		SchemaID: first.SchemaID, Input: markettest.SandboxInput(""), Members: membersOf(rivals...), Rule: panel.RuleMajority, MaxMsats: worst,
	}); !errors.As(err, &over) || over.Limit != "day" || over.WantMsats != worst || over.FreeMsats != worst-1 {
		t.Errorf("placed although the day does not hold it: %v", err)
	}
}
