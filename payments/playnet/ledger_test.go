package playnet

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/payments"
)

func TestHoldDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openLedger(t, Config{HoldTime: time.Minute})
		payee, payer := openWallet(t, l, "payee"), openWallet(t, l, "payer")
		inv := holdOne(t, payee, payer, 1000)
		held, err := payee.LookupInvoice(t.Context(), inv.PaymentHash)
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if want := begun.Add(time.Minute).UTC(); !held.SettleBy.Equal(want) {
			t.Errorf("settle by %v, want %v", held.SettleBy, want)
		}
		// The payer waits and nobody else does anything: the wait itself must
		// see the deadline.
		p, err := payer.TrackPayment(t.Context(), inv.PaymentHash)
		if err != nil || p.State != payments.PaymentFailed || p.FailureReason != whyOverdue {
			t.Errorf("payment %+v, %v", p, err)
		}
		if waited := time.Since(begun); waited != time.Minute {
			t.Errorf("ended after %v", waited)
		}
		if err := payee.SettleInvoice(t.Context(), payments.Preimage{1}); !errors.Is(err, payments.ErrInvoiceCanceled) {
			t.Errorf("settle: %v", err)
		}
		if b, err := payer.Balance(t.Context()); err != nil || b.SpendableMsats != defaultFaucetMsats {
			t.Errorf("payer has %+v, %v", b, err)
		}
	})
}

// TestLateSettle: a settlement in the very moment of the deadline is too late,
// one just before it is not, whether or not anybody looked between.
func TestLateSettle(t *testing.T) {
	for after, want := range map[time.Duration]error{
		time.Minute - time.Millisecond: nil,
		time.Minute:                    payments.ErrInvoiceCanceled,
	} {
		synctest.Test(t, func(t *testing.T) {
			l := openLedger(t, Config{HoldTime: time.Minute})
			payee, payer := openWallet(t, l, "payee"), openWallet(t, l, "payer")
			holdOne(t, payee, payer, 1000)
			time.Sleep(after)
			if err := payee.SettleInvoice(t.Context(), payments.Preimage{1}); !errors.Is(err, want) {
				t.Errorf("after %v: %v, want %v", after, err, want)
			}
			audit(t, l)
		})
	}
}

// TestExpiryIsHinted: nothing happens but time, and the watcher is told.
func TestExpiryIsHinted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openLedger(t, Config{})
		payee := openWallet(t, l, "payee")
		ctx, cancel := context.WithCancel(t.Context())
		hints := make(chan payments.Hash)
		ended := make(chan error)
		go func() { ended <- payee.WatchInvoices(ctx, func(h payments.Hash) { hints <- h }) }()
		synctest.Wait()
		ask := payments.NewInvoice{PaymentHash: payments.Hash{9}, Hold: true, AmountMsats: 1, Expiry: time.Minute}
		if _, err := payee.CreateInvoice(t.Context(), ask); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if h := <-hints; h != ask.PaymentHash || time.Since(begun) != time.Minute {
			t.Errorf("hint of %s after %v", h, time.Since(begun))
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("watch ended with %v", err)
		}
	})
}

func TestOpenWallet(t *testing.T) {
	l := openLedger(t, Config{FaucetMsats: 70})
	token := NewToken()
	w, err := l.OpenWallet(t.Context(), "ann", token)
	if err != nil {
		t.Fatal(err)
	}
	again, err := l.OpenWallet(t.Context(), "whoever", token)
	if err != nil || again.pubKey != w.pubKey {
		t.Errorf("opened again: %v", err)
	}
	if b, err := again.Balance(t.Context()); err != nil || b.SpendableMsats != 70 {
		t.Errorf("balance %+v, %v: the faucet gives once", b, err)
	}
	if found, err := l.Wallet(t.Context(), token); err != nil || found.name != "ann" {
		t.Errorf("found %+v, %v", found, err)
	}
	if _, err := l.Wallet(t.Context(), NewToken()); !errors.Is(err, payments.ErrUnauthorized) {
		t.Errorf("a strange token: %v", err)
	}
	if _, err := l.OpenWallet(t.Context(), "ann", NewToken()); !errors.Is(err, ErrWalletExists) {
		t.Errorf("another's name: %v", err)
	}
	for _, name := range []string{"", "@held", "Ann", "a b", "-a", strings.Repeat("a", 33)} {
		if _, err := l.OpenWallet(t.Context(), name, NewToken()); !errors.Is(err, payments.ErrBadRequest) {
			t.Errorf("name %q: %v", name, err)
		}
	}
	for _, token := range []string{"", "secret", strings.Repeat("A", 64)} {
		if _, err := l.OpenWallet(t.Context(), "bob", token); !errors.Is(err, payments.ErrBadRequest) {
			t.Errorf("a token that is no token: %v", err)
		}
	}
	audit(t, l)
}

// TestTokenIsNotKept: the file holds the hash of a token only.
func TestTokenIsNotKept(t *testing.T) {
	l := openLedger(t, Config{})
	token := NewToken()
	if _, err := l.OpenWallet(t.Context(), "ann", token); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(l.db.Path() + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), token) {
			t.Errorf("the token is in play.db%s", suffix)
		}
		info, err := os.Stat(l.db.Path() + suffix)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode of play.db%s: %v, %v", suffix, info.Mode(), err)
		}
	}
}

func TestFaucet(t *testing.T) {
	l := openLedger(t, Config{FaucetMsats: payments.MaxMsats})
	openWallet(t, l, "ann")
	if _, err := l.OpenWallet(t.Context(), "bob", NewToken()); !errors.Is(err, payments.ErrWalletUnavailable) {
		t.Errorf("more money than amounts can say: %v", err)
	}
	if got := audit(t, l).IssuedMsats; got != payments.MaxMsats {
		t.Errorf("issued %d", got)
	}
	l = openLedger(t, Config{FaucetMsats: -1})
	if b, err := openWallet(t, l, "ann").Balance(t.Context()); err != nil || b != (payments.Balance{}) {
		t.Errorf("without a faucet: %+v, %v", b, err)
	}
}

func TestConfig(t *testing.T) {
	for name, cfg := range map[string]Config{
		"negative hold time": {HoldTime: -1},
		"negative fee":       {FeeMsats: -1},
		"large faucet":       {FaucetMsats: payments.MaxMsats + 1},
	} {
		if l, err := Open(t.Context(), t.TempDir()+"/play.db", cfg); err == nil {
			t.Errorf("%s: accepted", name)
			_ = l.Close()
		}
	}
}

func TestOneProcess(t *testing.T) {
	l := openLedger(t, Config{})
	var locked *sqlite.LockedError
	if _, err := Open(t.Context(), l.db.Path(), Config{}); !errors.As(err, &locked) {
		t.Errorf("opened twice: %v", err)
	}
}

// TestTwoPayers: of two who pay one invoice at the same time one does.
func TestTwoPayers(t *testing.T) {
	l := openLedger(t, Config{FeeMsats: 1})
	payee := openWallet(t, l, "payee")
	payers := []*Wallet{openWallet(t, l, "ann"), openWallet(t, l, "bob")}
	for i := range 20 {
		preimage := payments.Preimage{byte(i + 1)}
		inv, err := payee.CreateInvoice(t.Context(), payments.NewInvoice{Preimage: preimage, AmountMsats: 100, Expiry: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		errs := make([]error, len(payers))
		for j, payer := range payers {
			wg.Go(func() {
				errs[j] = payer.SendPayment(t.Context(), payments.Pay{BOLT11: inv.BOLT11, AmountMsats: 100, FeeLimitMsats: 1})
			})
		}
		wg.Wait()
		if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(errors.Join(errs...), payments.ErrAlreadyPaid) {
			t.Fatalf("errors %v", errs)
		}
	}
	if got, want := audit(t, l).FeesMsats, int64(20); got != want {
		t.Errorf("fees %d, want %d", got, want)
	}
}

// TestForgedInvoice: another text with a known hash is not that invoice.
func TestForgedInvoice(t *testing.T) {
	l := openLedger(t, Config{})
	payee, payer, mallory := openWallet(t, l, "payee"), openWallet(t, l, "payer"), openWallet(t, l, "mallory")
	ask := payments.NewInvoice{Preimage: payments.Preimage{5}, AmountMsats: 100, Expiry: time.Hour}
	if _, err := payee.CreateInvoice(t.Context(), ask); err != nil {
		t.Fatal(err)
	}
	forged, err := mallory.newInvoice(ask, ask.Preimage.Hash())
	if err != nil {
		t.Fatal(err)
	}
	err = payer.SendPayment(t.Context(), payments.Pay{BOLT11: forged.bolt11, AmountMsats: 100})
	if !errors.Is(err, payments.ErrInvoiceMismatch) {
		t.Errorf("forged: %v", err)
	}
	ask.Preimage = payments.Preimage{6}
	stranger, err := mallory.newInvoice(ask, ask.Preimage.Hash())
	if err != nil {
		t.Fatal(err)
	}
	err = payer.SendPayment(t.Context(), payments.Pay{BOLT11: stranger.bolt11, AmountMsats: 100})
	if !errors.Is(err, payments.ErrNoRoute) {
		t.Errorf("an invoice that the ledger does not have: %v", err)
	}
	if b, err := payer.Balance(t.Context()); err != nil || b.SpendableMsats != defaultFaucetMsats {
		t.Errorf("payer has %+v, %v", b, err)
	}
}

// TestOnlyTheOwner: another wallet can neither see, settle nor cancel.
func TestOnlyTheOwner(t *testing.T) {
	l := openLedger(t, Config{})
	payee, payer, mallory := openWallet(t, l, "payee"), openWallet(t, l, "payer"), openWallet(t, l, "mallory")
	inv := holdOne(t, payee, payer, 100)
	_, lookup := mallory.LookupInvoice(t.Context(), inv.PaymentHash)
	for what, err := range map[string]error{
		"look up":      lookup,
		"settle":       mallory.SettleInvoice(t.Context(), payments.Preimage{1}),
		"cancel":       mallory.CancelInvoice(t.Context(), inv.PaymentHash),
		"cancel by me": payer.CancelInvoice(t.Context(), inv.PaymentHash),
	} {
		if !errors.Is(err, payments.ErrNotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if got, err := payee.LookupInvoice(t.Context(), inv.PaymentHash); err != nil || got.State != payments.InvoiceHeld {
		t.Errorf("invoice %+v, %v", got, err)
	}
}

// TestAuditFinds: the audit is no formality.
func TestAuditFinds(t *testing.T) {
	for _, harm := range []string{
		`UPDATE accounts SET balance_msats = balance_msats + 1 WHERE name = 'payer'`,
		`UPDATE payments SET state = 'succeeded'`,
		`UPDATE payments SET amount_msats = amount_msats - 1`,
		`INSERT INTO moves (at_ms, src, dst, msats, why) VALUES (0, 'payer', '@fees', 1, 'fee')`,
		`INSERT INTO moves (at_ms, src, dst, msats, why) VALUES (0, '@held', 'payer', 100, 'refund')`,
	} {
		l := openLedger(t, Config{})
		holdOne(t, openWallet(t, l, "payee"), openWallet(t, l, "payer"), 100)
		audit(t, l)
		err := l.db.Update(t.Context(), func(tx *sqlite.Tx) error {
			_, err := tx.Exec(harm)
			return err
		})
		if err != nil {
			t.Fatalf("%s: %v", harm, err)
		}
		if _, err := l.Audit(t.Context()); !errors.Is(err, ErrAudit) {
			t.Errorf("after %s: %v", harm, err)
		}
	}
}

// TestSchemaForbids: what the code does not do, the file does not allow.
func TestSchemaForbids(t *testing.T) {
	l := openLedger(t, Config{})
	payee, payer := openWallet(t, l, "payee"), openWallet(t, l, "payer")
	holdOne(t, payee, payer, 100)
	for _, harm := range []string{
		`UPDATE moves SET msats = 1`,
		`DELETE FROM moves`,
		`UPDATE accounts SET balance_msats = -1 WHERE name = 'payer'`,
		`INSERT INTO moves (at_ms, src, dst, msats, why) VALUES (0, 'payer', 'payee', 1000000001, 'settle')`,
		`INSERT INTO moves (at_ms, src, dst, msats, why) VALUES (0, 'payer', 'nobody', 1, 'settle')`,
		`INSERT INTO payments SELECT payment_hash, 'payee', state, amount_msats, fee_msats, failure FROM payments`,
		`UPDATE invoices SET state = 'settled', deadline_ms = NULL, settled_ms = 1`,
	} {
		err := l.db.Update(t.Context(), func(tx *sqlite.Tx) error {
			_, err := tx.Exec(harm)
			return err
		})
		if err == nil {
			t.Errorf("allowed: %s", harm)
		}
	}
	audit(t, l)
}
