package nwc

import (
	"context"
	"crypto/rand"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/playnet"
)

// wantUsed checks what an app has used.
func wantUsed(t *testing.T, b *Book, a App, want Usage) {
	t.Helper()
	if u, err := b.Used(t.Context(), a.Client, time.Time{}); err != nil || u != want {
		t.Errorf("used %+v, want %+v, %v", u, want, err)
	}
}

// TestServiceWithAnotherWallet: what was begun with one wallet is not called failed
// by another, is not paid again by it, and goes on once the first is back.
func TestServiceWithAnotherWallet(t *testing.T) {
	l := openLedger(t, playnet.Config{})
	first, second, payee := openWallet(t, l, "first"), openWallet(t, l, "second"), openWallet(t, l, "payee")
	a, _ := newApp(t, "ws://127.0.0.1:1")
	path := filepath.Join(t.TempDir(), "book.db")
	var secret payments.Preimage
	rand.Read(secret[:])
	held, err := payee.CreateInvoice(t.Context(), payments.NewInvoice{Hold: true, PaymentHash: secret.Hash(), AmountMsats: 9000, Expiry: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	done, under := newBill(t, payee), Spend{App: a.Client, Hash: held.PaymentHash, BOLT11: held.BOLT11, Msats: 9050}

	o := offer(t, first, path, a)
	if under.Wallet, err = o.payingWallet(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := o.cfg.Book.Reserve(t.Context(), under, a.BudgetMsats, time.Time{}); err != nil {
		t.Fatal(err)
	}
	if err := first.SendPayment(t.Context(), payments.Pay{BOLT11: held.BOLT11, AmountMsats: 9000, FeeLimitMsats: 50}); err != nil {
		t.Fatal(err)
	}
	if _, err := o.ask(0, PayInvoice, payParams{Invoice: done.BOLT11}); err != nil {
		t.Fatal(err)
	}
	o.cfg.Book.Close()

	o = offer(t, second, path, a)
	open, err := o.cfg.Book.Open(t.Context())
	if err != nil || len(open) != 1 {
		t.Fatalf("open %+v, %v", open, err)
	}
	o.resume(t.Context(), open[0])
	wantUsed(t, o.cfg.Book, a, Usage{SpentMsats: 20_000, ReservedMsats: 9050})
	for _, bolt11 := range []string{held.BOLT11, done.BOLT11} {
		if _, err := o.ask(0, PayInvoice, payParams{Invoice: bolt11}); !errors.Is(err, errOtherWallet) || isDefinite(asError(PayInvoice, refusal(err))) {
			t.Errorf("paid from the other: %v", err)
		}
	}
	for bolt11, state := range map[string]string{held.BOLT11: statePending, done.BOLT11: stateSettled} {
		if r, err := o.ask(0, LookupInvoice, lookupParams{Invoice: bolt11}); err != nil || r.(transaction).State != state {
			t.Errorf("looked up %+v, want %s, %v", r, state, err)
		}
	}
	if r, err := o.ask(0, ListTransactions, listParams{Unpaid: true}); err != nil || len(r.(listResult).Transactions) != 2 {
		t.Errorf("list %+v, %v", r, err)
	}
	if b, err := second.Balance(t.Context()); err != nil || b.SpendableMsats != 1_000_000_000 || b.ReservedMsats != 0 {
		t.Errorf("balance of the other %+v, %v", b, err)
	}
	o.cfg.Book.Close()

	o = offer(t, first, path, a)
	if err := payee.SettleInvoice(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	o.resume(t.Context(), open[0])
	wantUsed(t, o.cfg.Book, a, Usage{SpentMsats: 29_000})
}

// mint is a wallet that keeps a fee of what comes back, and pays nothing.
type mint struct{ payments.Wallet }

func (mint) SendPayment(context.Context, payments.Pay) error { return nil }

func (mint) TrackPayment(_ context.Context, h payments.Hash) (payments.Payment, error) {
	return payments.Payment{Hash: h, State: payments.PaymentFailed, FeeMsats: 3000, FailureReason: "it came back"}, nil
}

// TestFailureThatCost: the fees that a mint keeps are of the app's budget, once an
// invoice however often it is asked for, and the app is told.
func TestFailureThatCost(t *testing.T) {
	l := openLedger(t, playnet.Config{})
	a, _ := newApp(t, "ws://127.0.0.1:1")
	o := offer(t, mint{openWallet(t, l, "w")}, filepath.Join(t.TempDir(), "book.db"), a)
	b := newBill(t, openWallet(t, l, "payee"))
	for range 2 {
		_, err := o.ask(0, PayInvoice, payParams{Invoice: b.BOLT11})
		wantCode(t, "a payment that came back", err, CodePaymentFailed)
		wantUsed(t, o.cfg.Book, a, Usage{SpentMsats: 3000})
	}
	r, err := o.ask(0, LookupInvoice, lookupParams{Invoice: b.BOLT11})
	if err != nil {
		t.Fatal(err)
	}
	if p := payment(r.(transaction), b.PaymentHash); p.State != payments.PaymentFailed || p.FeeMsats != 3000 {
		t.Errorf("told %+v", p)
	}
}
