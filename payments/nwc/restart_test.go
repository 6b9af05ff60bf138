package nwc

import (
	"context"
	"crypto/rand"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/playnet"
)

// TestServiceRestart: a payment that is held when the service ends stays
// reserved, and the next one books its end.
func TestServiceRestart(t *testing.T) {
	url := startRelay(t)
	l := openLedger(t, playnet.Config{})
	w, payee := openWallet(t, l, "w"), openWallet(t, l, "payee")
	a, conn := newApp(t, url)
	path := filepath.Join(t.TempDir(), "book.db")
	begin := func() (*Book, func()) {
		b := openBook(t, path)
		s, err := NewService(ServiceConfig{Wallet: w, Book: b, Apps: []App{a}, Relays: []string{url}})
		if err != nil {
			t.Fatal(err)
		}
		return b, run(t, s.Serve)
	}
	book, stop := begin()
	client := startClient(t, Config{Connection: conn, CallTimeout: 5 * time.Second})
	var secret payments.Preimage
	rand.Read(secret[:])
	inv, err := payee.CreateInvoice(t.Context(), payments.NewInvoice{Hold: true, PaymentHash: secret.Hash(), AmountMsats: 9000, Expiry: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.SendPayment(t.Context(), payments.Pay{BOLT11: inv.BOLT11, AmountMsats: 9000, FeeLimitMsats: 50}); err != nil {
		t.Fatal(err)
	}
	stop()
	if u, err := book.Used(t.Context(), a.Client, time.Time{}); err != nil || u != (Usage{ReservedMsats: 9050}) {
		t.Errorf("used %+v, %v", u, err)
	}
	if err := book.Close(); err != nil {
		t.Fatal(err)
	}
	book, _ = begin()
	if err := payee.SettleInvoice(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the booking", func() bool {
		u, err := book.Used(t.Context(), a.Client, time.Time{})
		return err == nil && u == (Usage{SpentMsats: 9000})
	})
	// What is asked before the service has subscribed again reaches nobody.
	waitFor(t, "the wallet's answer", func() bool {
		p, err := client.TrackPayment(t.Context(), inv.PaymentHash)
		if errors.Is(err, payments.ErrWalletUnavailable) {
			return false
		}
		if err != nil || p.Preimage != secret {
			t.Errorf("payment %+v, %v", p, err)
		}
		return true
	})
}

// TestUnknownEncryption is answered by the scheme that everybody should know.
func TestUnknownEncryption(t *testing.T) {
	url := startRelay(t)
	a, conn := newApp(t, url)
	startService(t, url, openWallet(t, openLedger(t, playnet.Config{}), "w"), a)
	client := startClient(t, Config{Connection: conn})
	if _, err := client.Info(t.Context()); err != nil {
		t.Fatal(err)
	}
	p, err := client.prepare(t.Context(), GetBalance, struct{}{}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	p.event.Tags = nostr.Tags{{"p", conn.Wallet}, {"encryption", "rot13"}}
	if err := conn.Secret.sign(&p.event); err != nil {
		t.Fatal(err)
	}
	answers := make(chan error, 1)
	if err := client.expect(p, GetBalance, time.Minute, func(_ jsontext.Value, err error) { answers <- err }); err != nil {
		t.Fatal(err)
	}
	if err := client.publish(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	var e *Error
	if err := <-answers; !errors.As(err, &e) || e.Code != CodeUnsupportedEncryption {
		t.Errorf("%v", err)
	}
}

// stubborn is a wallet that does not answer for a while after it was asked to
// pay, and has paid.
type stubborn struct {
	payments.Wallet
	mu     sync.Mutex
	silent int
}

func (w *stubborn) SendPayment(ctx context.Context, p payments.Pay) error {
	if err := w.Wallet.SendPayment(ctx, p); err != nil {
		return err
	}
	return payments.ErrUnknownOutcome
}

func (w *stubborn) TrackPayment(ctx context.Context, h payments.Hash) (payments.Payment, error) {
	w.mu.Lock()
	w.silent--
	silent := w.silent >= 0
	w.mu.Unlock()
	if silent {
		return payments.Payment{}, payments.ErrWalletUnavailable
	}
	return w.Wallet.TrackPayment(ctx, h)
}

// TestUnknownIsNotFailed: a backend that went away is asked until it tells.
func TestUnknownIsNotFailed(t *testing.T) {
	l := openLedger(t, playnet.Config{})
	w := &stubborn{Wallet: openWallet(t, l, "w"), silent: 1}
	a, _ := newApp(t, "ws://127.0.0.1:1")
	o := offer(t, w, filepath.Join(t.TempDir(), "book.db"), a)
	b := newBill(t, openWallet(t, l, "payee"))
	if r, err := o.ask(0, PayInvoice, payParams{Invoice: b.BOLT11}); err != nil || r.(payResult).Preimage != b.preimage.String() {
		t.Errorf("%+v, %v", r, err)
	}
	if u, err := o.cfg.Book.Used(t.Context(), a.Client, time.Time{}); err != nil || u != (Usage{SpentMsats: 20_000}) {
		t.Errorf("used %+v, %v", u, err)
	}
}

// waitFor waits until ok holds.
func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waiting for %s", what)
		}
		time.Sleep(time.Millisecond) // only the pace of looking
	}
}
