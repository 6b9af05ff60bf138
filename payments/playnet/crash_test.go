package playnet

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/payments"
)

// crashed copies the ledger's files while it is open, as a kill would leave
// them, and opens the copy.
func crashed(t *testing.T, l *Ledger) *Ledger {
	t.Helper()
	dir := t.TempDir()
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(l.db.Path() + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "play.db"+suffix), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	copied, err := Open(t.Context(), filepath.Join(dir, "play.db"), l.cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := copied.Close(); err != nil {
			t.Error(err)
		}
	})
	return copied
}

// holdStory is a hold payment, step by step. Every step may be repeated.
type holdStory struct {
	ledger       *Ledger
	payeeToken   string
	payerToken   string
	ask          payments.NewInvoice
	preimage     payments.Preimage
	payee, payer *Wallet
}

func (s *holdStory) steps(t *testing.T) []func() error {
	ctx := t.Context()
	return []func() error{
		func() (err error) {
			s.payee, err = s.ledger.OpenWallet(ctx, "payee", s.payeeToken)
			return err
		},
		func() (err error) {
			s.payer, err = s.ledger.OpenWallet(ctx, "payer", s.payerToken)
			return err
		},
		func() error {
			_, err := s.payee.CreateInvoice(ctx, s.ask)
			return err
		},
		func() error {
			inv, err := s.payee.CreateInvoice(ctx, s.ask)
			return errors.Join(err, s.payer.SendPayment(ctx, payments.Pay{BOLT11: inv.BOLT11, AmountMsats: inv.AmountMsats, FeeLimitMsats: 10}))
		},
		func() error { return s.payee.SettleInvoice(ctx, s.preimage) },
	}
}

// TestKilledAfterEachStep kills the ledger after each step of a hold payment,
// and once more after the next, and then tells the whole story again from its
// beginning: it must end paid once, the same invoice, the books in order.
func TestKilledAfterEachStep(t *testing.T) {
	for killAfter := range 5 {
		var preimage payments.Preimage
		preimage[0] = byte(killAfter + 1)
		s := &holdStory{
			ledger: openLedger(t, Config{FeeMsats: 3}), payeeToken: NewToken(), payerToken: NewToken(), preimage: preimage,
			ask: payments.NewInvoice{PaymentHash: preimage.Hash(), Hold: true, AmountMsats: 1000, Expiry: time.Hour},
		}
		for i, step := range s.steps(t) {
			if err := step(); err != nil {
				t.Fatal(err)
			}
			if i >= killAfter {
				s.ledger = crashed(t, s.ledger)
				audit(t, s.ledger)
				for j, step := range s.steps(t)[:i+1] {
					if err := step(); err != nil {
						t.Fatalf("killed after step %d: step %d again: %v", i, j, err)
					}
				}
				audit(t, s.ledger)
			}
		}
		checkPaidOnce(t, s)
	}
}

func checkPaidOnce(t *testing.T, s *holdStory) {
	t.Helper()
	p, err := s.payer.TrackPayment(t.Context(), s.preimage.Hash())
	if err != nil || p.State != payments.PaymentSucceeded || p.Preimage != s.preimage || p.FeeMsats != 3 {
		t.Errorf("payment %+v, %v", p, err)
	}
	for _, c := range []struct {
		wallet *Wallet
		want   int64
	}{{s.payer, defaultFaucetMsats - 1003}, {s.payee, defaultFaucetMsats + 1000}} {
		if b, err := c.wallet.Balance(t.Context()); err != nil || b.SpendableMsats != c.want || b.ReservedMsats != 0 {
			t.Errorf("%s has %+v (%v), want %d msats", c.wallet.name, b, err, c.want)
		}
	}
}

// TestKilledWhileHeld: what was held is held after the kill, and goes back whole.
func TestKilledWhileHeld(t *testing.T) {
	l := openLedger(t, Config{FeeMsats: 3})
	payeeToken, payerToken := NewToken(), NewToken()
	open := func(l *Ledger) (payee, payer *Wallet) {
		var errs [2]error
		payee, errs[0] = l.OpenWallet(t.Context(), "payee", payeeToken)
		payer, errs[1] = l.OpenWallet(t.Context(), "payer", payerToken)
		if err := errors.Join(errs[:]...); err != nil {
			t.Fatal(err)
		}
		return payee, payer
	}
	payee, payer := open(l)
	inv := holdOne(t, payee, payer, 1000)
	for name, end := range map[string]func(*Wallet) error{
		"cancel": func(payee *Wallet) error { return payee.CancelInvoice(t.Context(), inv.PaymentHash) },
		"settle": func(payee *Wallet) error { return payee.SettleInvoice(t.Context(), payments.Preimage{1}) },
	} {
		t.Run(name, func(t *testing.T) {
			// Both from the same moment.
			dead := crashed(t, l)
			payee, _ := open(dead)
			if got, err := payee.LookupInvoice(t.Context(), inv.PaymentHash); err != nil || got.State != payments.InvoiceHeld {
				t.Fatalf("invoice %+v, %v", got, err)
			}
			if err := end(payee); err != nil {
				t.Fatal(err)
			}
			dead = crashed(t, dead)
			_, payer := open(dead)
			want := map[string]payments.PaymentState{"cancel": payments.PaymentFailed, "settle": payments.PaymentSucceeded}[name]
			if p, err := payer.LookupPayment(t.Context(), inv.PaymentHash); err != nil || p.State != want {
				t.Errorf("payment %+v, %v", p, err)
			}
			if held := audit(t, dead).HeldMsats; held != 0 {
				t.Errorf("%d msats are still held", held)
			}
		})
	}
}

// holdOne brings the payer's money into a hold invoice with preimage {1}.
func holdOne(t *testing.T, payee, payer *Wallet, msats int64) payments.Invoice {
	t.Helper()
	inv, err := payee.CreateInvoice(t.Context(), payments.NewInvoice{
		PaymentHash: payments.Preimage{1}.Hash(), Hold: true, AmountMsats: msats, Expiry: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := payer.SendPayment(t.Context(), payments.Pay{BOLT11: inv.BOLT11, AmountMsats: msats, FeeLimitMsats: 1000}); err != nil {
		t.Fatal(err)
	}
	return inv
}
