package provider_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/lightwork-market/lightwork/internal/kernel"
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
			w := newWorld(t)
			backup := filepath.Join(t.TempDir(), "backup.db")
			w.runner.do = func(ctx context.Context, _ provider.Run) (provider.Outcome, error) {
				if err := w.seller.kernel.Backup(ctx, backup); err != nil {
					return provider.Outcome{}, err
				}
				return w.runner.good(nil)
			}
			stop := w.serve(t, nil)
			c := w.customer(t, nil)
			p := w.place(t, c, mode, order(""))
			_, err := w.follow(t, c, p.RequestID, nil).wait()
			check(t, err)
			stop()
			paid := w.balance(t, w.seller)

			dir := t.TempDir()
			_, err = kernel.Restore(w.ctx, dir, backup, kernel.Provider)
			check(t, err)
			k, err := kernel.Open(w.ctx, dir, kernel.Options{})
			check(t, err)
			t.Cleanup(func() { check(t, k.Close()) })
			w.store.Store = k.ProviderStore("paid-job")
			chain := newOnChain(w) // which goes on showing the payment
			chain.comes(nil, payments.InvoiceSettled, rateMsats)
			w.serve(t, func(cfg *provider.Config) {
				if mode == receipts.ModePrepay {
					cfg.Wallet = chain
				}
			})
			job := w.await(t, p.RequestID, provider.StateFailed, provider.StateSucceeded)
			if mode == receipts.ModePrepay {
				for range 2 { // as the second is heard, the first has been looked into
					chain.hint <- job.PaymentHash
				}
			}
			if job.State != provider.StateFailed || job.Reason.Code != provider.CodeRestored || job.ReceiptID != "" {
				t.Errorf("job %s (%s), receipt %q", job.State, job.Reason, job.ReceiptID)
			}
			if n := w.runner.count(); n != 1 {
				t.Errorf("%d runs", n)
			}
			debts, err := k.ProviderStore("paid-job").Debts(w.ctx)
			check(t, err)
			if len(debts) != 0 {
				t.Errorf("%d debts", len(debts))
			}
			if now := w.balance(t, w.seller); now != paid {
				t.Errorf("the provider has %d msats, had %d", now, paid)
			}
		})
	}
}
