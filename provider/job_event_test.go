package provider_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
)

// diary has what a provider tells of its jobs, a line each.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) event(e provider.JobEvent) {
	line := ""
	switch e := e.(type) {
	case provider.AdmissionEvent:
		line = "quoted " + string(e.Job.Mode)
	case provider.RefusalEvent:
		line = "refused " + string(e.Reason.Code)
	case provider.PaymentEvent:
		line = fmt.Sprintf("paid %s %d", e.Payment.State, e.Payment.PaidMsats)
	case provider.StateEvent:
		line = string(e.State)
	case provider.RunEvent:
		line = "run ok"
		if e.Err != nil {
			line = "run failed"
		}
	case provider.SettlementEvent:
		line = fmt.Sprintf("settled %s %d", e.Purpose, e.PaidMsats)
		if !strings.HasPrefix(e.ReceiptID, "rcpt_") {
			line += " without a receipt"
		}
	case provider.EndEvent:
		line = fmt.Sprintf("ended %s %s", e.State, e.Reason.Code)
		if e.Owed != nil {
			line += fmt.Sprintf(" owing %d", e.Owed.Msats)
		}
	case provider.RefundEvent:
		line = "refund " + string(e.End.State)
	case provider.PublicationEvent:
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

// TestEventsFollowTheStore: whoever watches is told every step of a job once, in
// order, and only what the store has.
func TestEventsFollowTheStore(t *testing.T) {
	price := fmt.Sprint(markettest.RateMsats)
	for name, tt := range map[string]struct {
		mode receipts.Mode
		set  func(*markettest.World, *provider.Config)
		want []string
	}{
		"hold": {receipts.ModeHold, nil, []string{"quoted hold", "paid held " + price, "running", "run ok", "delivering", "settled result " + price}},
		"free": {receipts.ModeFree, nil, []string{"quoted free", "running", "run ok", "delivering", "ended succeeded "}},
		"an agent that fails": {
			receipts.ModePrepay, func(w *markettest.World, _ *provider.Config) { w.Failing() },
			[]string{"quoted prepay", "paid settled " + price, "running", "run failed", "ended failed agent_failed owing " + price},
		},
		"a disk that fails twice": {
			receipts.ModeFree, func(_ *markettest.World, cfg *provider.Config) { cfg.Store = &badStore{Store: cfg.Store, closes: 2} },
			[]string{"quoted free", "running", "run ok", "delivering", "ended succeeded "},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, d := markettest.New(t), &diary{}
			stop := w.Serve(t, func(cfg *provider.Config) {
				cfg.Events = d.event
				if tt.set != nil {
					tt.set(w, cfg)
				}
			})
			c := w.NewCustomer(t, nil)
			p := w.Place(t, c, tt.mode, markettest.SandboxInput(""))
			f := w.Follow(t, c, p.RequestID, nil)
			w.Ended(t, p.RequestID)
			f.Stop()
			<-f.Done
			stop()
			if !slices.Equal(d.lines, tt.want) {
				t.Errorf("told\n%s\nwant\n%s", strings.Join(d.lines, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}
