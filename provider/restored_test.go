package provider_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
)

// TestBackupOfAnOpenJob (P16): the backup has the job as running; it was
// delivered and paid since. It is neither done again nor receipted again, and
// nothing is owed.
func TestBackupOfAnOpenJob(t *testing.T) {
	for _, mode := range []receipts.Mode{receipts.ModeHold, receipts.ModePrepay, receipts.ModePostpay} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			w := markettest.New(t)
			backup := filepath.Join(t.TempDir(), "backup.db")
			w.Runner.Do = func(ctx context.Context, _ provider.Run) (provider.Outcome, error) {
				if err := w.Seller.DB.Backup(ctx, backup); err != nil {
					return provider.Outcome{}, err
				}
				return w.Runner.Good(nil)
			}
			stop := w.Serve(t, nil)
			c := w.NewCustomer(t, nil)
			p := w.Place(t, c, mode, markettest.SandboxInput(""))
			_, err := w.Follow(t, c, p.RequestID, nil).Wait()
			markettest.Check(t, err)
			stop()
			paid := w.Balance(t, w.Seller)

			dir := t.TempDir()
			_, err = store.Restore(w.Ctx, dir, backup, store.Provider)
			markettest.Check(t, err)
			k, err := store.Open(w.Ctx, dir, store.Options{})
			markettest.Check(t, err)
			t.Cleanup(func() { markettest.Check(t, k.Close()) })
			w.Store.Store = k.Sales("paid-job")
			chain := newOnChain(w) // which goes on showing the payment
			chain.comes(nil, payments.InvoiceSettled, markettest.RateMsats)
			w.Serve(t, func(cfg *provider.Config) {
				if mode == receipts.ModePrepay {
					cfg.Wallet = chain
				}
			})
			job := w.Await(t, p.RequestID, provider.StateFailed, provider.StateSucceeded)
			if mode == receipts.ModePrepay {
				for range 2 { // as the second is heard, the first has been looked into
					chain.hint <- job.PaymentHash
				}
			}
			if job.State != provider.StateFailed || job.Reason.Code != provider.CodeRestored || job.ReceiptID != "" {
				t.Errorf("job %s (%s), receipt %q", job.State, job.Reason, job.ReceiptID)
			}
			if n := w.Runner.Count(); n != 1 {
				t.Errorf("%d runs", n)
			}
			debts, err := k.Sales("paid-job").Debts(w.Ctx)
			markettest.Check(t, err)
			if len(debts) != 0 {
				t.Errorf("%d debts", len(debts))
			}
			if now := w.Balance(t, w.Seller); now != paid {
				t.Errorf("the provider has %d msats, had %d", now, paid)
			}
		})
	}
}
