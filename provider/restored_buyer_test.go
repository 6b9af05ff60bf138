package provider_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/internal/kernel"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
)

// TestBackupOfAnOpenPurchase: the buyer's backup has a purchase as requested, or as
// being paid; it was paid and delivered since. It is found so, and paid once.
func TestBackupOfAnOpenPurchase(t *testing.T) {
	for _, mode := range []receipts.Mode{receipts.ModeHold, receipts.ModePrepay, receipts.ModePostpay} {
		for _, at := range []string{"requested", "working"} {
			t.Run(string(mode)+", "+at, func(t *testing.T) {
				t.Parallel()
				withinADay(t)
				w := newWorld(t)
				c := w.customer(t, nil)
				backup := filepath.Join(t.TempDir(), "backup.db")
				if at == "working" { // it is paid for by then, but in postpay
					w.runner.do = func(ctx context.Context, _ provider.Run) (provider.Outcome, error) {
						if err := c.kernel.Backup(ctx, backup); err != nil {
							return provider.Outcome{}, err
						}
						return w.runner.good(nil)
					}
				}
				w.serve(t, nil)
				p := w.place(t, c, mode, order(""))
				if at == "requested" {
					check(t, c.kernel.Backup(w.ctx, backup))
				}
				w.sold(t, c, w.follow(t, c, p.RequestID, nil), mode)
				for then := time.Now().Unix(); time.Now().Unix() == then; { // what is signed now has another date
					time.Sleep(10 * time.Millisecond)
				}

				dir := t.TempDir()
				_, err := kernel.Restore(w.ctx, dir, backup, kernel.Buyer)
				check(t, err)
				k, err := kernel.Open(w.ctx, dir, kernel.Options{})
				check(t, err)
				t.Cleanup(func() { check(t, k.Close()) })
				c.store = k.BuyerStore()
				c.client = c.open(t, nil)
				w.sold(t, c, w.follow(t, c, p.RequestID, nil), mode)
				b, err := c.store.BudgetOf(w.ctx, p.AddedAt)
				check(t, err)
				if b.SpentMsats != rateMsats+feeMsats || b.ReservedMsats != 0 {
					t.Errorf("budget %+v", b)
				}
			})
		}
	}
}
