package provider_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
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

// TestBackupBeforeARefund: the backup has a prepaid job as running, or what is owed for it as
// credit; the job failed since, and its buyer has its money back in one way or another. The
// job is not run again, and nothing is sent or owed again.
func TestBackupBeforeARefund(t *testing.T) {
	for name, c := range map[string]struct {
		owed      bool   // the backup was made after the job's end
		by        string // what gives the money back: its refund, a retry, a note; "" if nothing has
		encrypted bool
	}{
		"running, sent back":            {by: "refund"},
		"running, sent back, encrypted": {by: "refund", encrypted: true},
		"running, sent later":           {by: "retry"},
		"running, settled":              {by: "note"},
		"running, still owed":           {},
		"owed, sent later":              {owed: true, by: "retry"},
		"owed, settled":                 {owed: true, by: "note"},
		"owed, settled, encrypted":      {owed: true, by: "note", encrypted: true},
		"owed, still":                   {owed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := markettest.New(t)
			backup := filepath.Join(t.TempDir(), "backup.db")
			save := func() error { return w.Seller.DB.Backup(w.Ctx, backup) }
			w.Runner.Do = func(context.Context, provider.Run) (provider.Outcome, error) {
				if !c.owed {
					if err := save(); err != nil {
						return provider.Outcome{}, err
					}
				}
				return provider.Outcome{}, &provider.RunError{Reason: provider.Reason{Code: provider.CodeAgentFailed, Detail: "as told"}}
			}
			sells := func(cfg *provider.Config) {
				w.Refunding(cfg)
				w.ReadsHidden(cfg)
			}
			stop := w.Serve(t, sells)
			customer := w.NewCustomer(t, nil)
			customer.Client = customer.Open(t, func(cfg *buyer.Config) { cfg.Cipher = customer.Key })
			order := buyer.Order{
				Provider: w.Seller.Key.PublicKey(), SchemaID: string(schemas.SandboxRun), Input: markettest.SandboxInput(""),
				MaxMsats: markettest.MaxMsats, Mode: receipts.ModePrepay, Encrypt: c.encrypted,
			}
			if c.by == "refund" {
				order.Refund = invoice(t, w, customer.Party, markettest.RateMsats, 24*time.Hour)
			}
			p, err := customer.Client.Place(w.Ctx, order)
			markettest.Check(t, err)
			id := p.RequestID
			w.Follow(t, customer, id, nil).Failed(t, provider.CodeAgentFailed)
			w.Debt(t, id)
			if c.owed {
				markettest.Check(t, save())
			}

			var left int64
			switch c.by {
			case "retry":
				_, err := w.Selling.RetryRefund(w.Ctx, id, invoice(t, w, customer.Party, markettest.RateMsats, time.Hour))
				markettest.Check(t, err)
				attempt(t, w, id, 1)
			case "note":
				_, err := w.Selling.WriteOff(w.Ctx, id, "in cash")
				markettest.Check(t, err)
			case "":
				left = markettest.RateMsats
			}
			allPublished(t, w)
			stop()
			had := w.Balance(t, w.Seller)

			dir := t.TempDir()
			_, err = store.Restore(w.Ctx, dir, backup, store.Provider)
			markettest.Check(t, err)
			k, err := store.Open(w.Ctx, dir, store.Options{})
			markettest.Check(t, err)
			t.Cleanup(func() { markettest.Check(t, k.Close()) })
			w.Store.Store = k.Sales("paid-job")
			w.Runner.Do = nil
			w.Serve(t, sells)
			w.Await(t, id, provider.StateFailed)
			other := w.NewCustomer(t, nil) // is sold nothing before the debts were looked at
			_, err = w.Follow(t, other, w.Place(t, other, receipts.ModeHold, markettest.SandboxInput("")).RequestID, nil).Wait()
			markettest.Check(t, err)

			if n := w.Runner.Count(); n != 2 {
				t.Errorf("%d runs", n)
			}
			debts, err := k.Sales("paid-job").Debts(w.Ctx)
			markettest.Check(t, err)
			var owed int64
			for _, d := range debts {
				if d.WriteOff == nil {
					owed += min(d.LeftMsats(), d.CreditMsats)
				}
			}
			if owed != left {
				t.Errorf("%d msats are owed, not %d", owed, left)
			}
			if now := w.Balance(t, w.Seller); now != had+markettest.RateMsats {
				t.Errorf("the provider has %d msats, had %d", now, had)
			}
		})
	}
}

// allPublished waits until a relay has all that the provider has said.
func allPublished(t *testing.T, w *markettest.World) {
	t.Helper()
	for {
		change := w.Store.Changed()
		pending, err := w.Store.PendingEvents(w.Ctx, time.Hour, 100)
		markettest.Check(t, err)
		if len(pending) == 0 {
			return
		}
		select {
		case <-change:
		case <-w.Ctx.Done():
			t.Fatalf("%d events wait", len(pending))
		}
	}
}
