package buyer_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/internal/store"
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
				markettest.WithinADay(t)
				w := markettest.New(t)
				c := w.NewCustomer(t, nil)
				backup := filepath.Join(t.TempDir(), "backup.db")
				if at == "working" { // it is paid for by then, but in postpay
					w.Runner.Do = func(ctx context.Context, _ provider.Run) (provider.Outcome, error) {
						if err := c.DB.Backup(ctx, backup); err != nil {
							return provider.Outcome{}, err
						}
						return w.Runner.Good(nil)
					}
				}
				w.Serve(t, nil)
				p := w.Place(t, c, mode, markettest.SandboxInput(""))
				if at == "requested" {
					markettest.Check(t, c.DB.Backup(w.Ctx, backup))
				}
				w.Sold(t, c, w.Follow(t, c, p.RequestID, nil), mode)
				for then := time.Now().Unix(); time.Now().Unix() == then; { // what is signed now has another date
					time.Sleep(10 * time.Millisecond)
				}

				dir := t.TempDir()
				_, err := store.Restore(w.Ctx, dir, backup, store.Buyer)
				markettest.Check(t, err)
				k, err := store.Open(w.Ctx, dir, store.Options{})
				markettest.Check(t, err)
				t.Cleanup(func() { markettest.Check(t, k.Close()) })
				c.Store = k.Purchases()
				c.Client = c.Open(t, nil)
				w.Sold(t, c, w.Follow(t, c, p.RequestID, nil), mode)
				b, err := c.Store.BudgetOf(w.Ctx, p.AddedAt)
				markettest.Check(t, err)
				if b.SpentMsats != markettest.RateMsats+markettest.FeeMsats || b.ReservedMsats != 0 {
					t.Errorf("budget %+v", b)
				}
			})
		}
	}
}
