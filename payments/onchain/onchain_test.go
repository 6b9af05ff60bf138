package onchain

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lightwork-market/lightwork/payments"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, w *Wallet, want payments.NewInvoice) payments.Invoice {
	t.Helper()
	inv, err := w.CreateInvoice(t.Context(), want)
	must(t, err)
	return inv
}

func stands(t *testing.T, w *Wallet, inv payments.Invoice, state payments.InvoiceState, sats int64) payments.Invoice {
	t.Helper()
	got, err := w.LookupInvoice(t.Context(), inv.PaymentHash)
	if err != nil || got.State != state || got.PaidMsats != sats*1000 || got.BOLT11 != inv.BOLT11 {
		t.Errorf("%s with %d msats, %v; want %s with %d sat", got.State, got.PaidMsats, err, state, sats)
	}
	return got
}

func payOf(inv payments.Invoice) payments.Pay {
	return payments.Pay{BOLT11: inv.BOLT11, AmountMsats: inv.AmountMsats, FeeLimitMsats: 2_000_000}
}

// TestPaymentFromAddressToFinal follows one payment on both sides.
func TestPaymentFromAddressToFinal(t *testing.T) {
	chain := newFake(t)
	payee, payer := wallet(t, chain), wallet(t, chain.other(t))
	want := ask()
	inv := create(t, payee, want)
	stands(t, payee, inv, payments.InvoiceOpen, 0)
	if again := create(t, payee, want); again != inv {
		t.Errorf("again: %+v", again)
	}
	must(t, payer.SendPayment(t.Context(), payOf(inv)))
	must(t, payer.SendPayment(t.Context(), payOf(inv)))
	stands(t, payee, inv, payments.InvoicePending, 20_000)
	chain.mine(1)
	stands(t, payee, inv, payments.InvoicePending, 20_000)
	p, err := payer.LookupPayment(t.Context(), inv.PaymentHash)
	if err != nil || p.State != payments.PaymentInFlight || p.FeeMsats != fakeFee*1000 {
		t.Errorf("%+v, %v", p, err)
	}
	chain.mine(1)
	got := stands(t, payee, inv, payments.InvoiceSettled, 20_000)
	p, err = payer.TrackPayment(t.Context(), inv.PaymentHash)
	if err != nil || p.State != payments.PaymentSucceeded || p.Outpoints != got.Outpoints || !got.Final || !strings.HasSuffix(got.Outpoints, ":1") {
		t.Errorf("%+v, %v; the payee says %+v", p, err, got)
	}
	must(t, payee.SettleInvoice(t.Context(), want.Preimage))
	if err := payee.CancelInvoice(t.Context(), inv.PaymentHash); !errors.Is(err, payments.ErrInvoiceSettled) {
		t.Errorf("cancel: %v", err)
	}
	if b, err := payee.Balance(t.Context()); err != nil || b.ReceivedMsats != 20_000_000 {
		t.Errorf("%+v, %v", b, err)
	}
	for id, tx := range chain.txs {
		if tx.times != 1 || tx.label != "lightwork "+want.DescriptionHash.Hex() {
			t.Errorf("%s was published %d times as %q", id, tx.times, tx.label)
		}
	}
	if len(chain.txs) != 1 {
		t.Errorf("%d transactions", len(chain.txs))
	}
}

// TestMoneyThatIsNotAsAsked: less, more, too late, after a cancellation.
func TestMoneyThatIsNotAsAsked(t *testing.T) {
	chain := newFake(t)
	w := wallet(t, chain)
	less := create(t, w, ask())
	chain.pay(t, less.BOLT11, 5_000)
	chain.mine(2)
	stands(t, w, less, payments.InvoicePartial, 5_000)
	chain.pay(t, less.BOLT11, 15_000)
	stands(t, w, less, payments.InvoicePending, 20_000)
	chain.mine(2)
	if got := stands(t, w, less, payments.InvoiceSettled, 20_000); strings.Count(got.Outpoints, ",") != 1 {
		t.Errorf("paid by %q", got.Outpoints)
	}

	more := create(t, w, ask())
	chain.pay(t, more.BOLT11, 33_000)
	chain.mine(2)
	stands(t, w, more, payments.InvoiceSettled, 33_000)

	late := create(t, w, ask())
	must(t, w.CancelInvoice(t.Context(), late.PaymentHash))
	must(t, w.CancelInvoice(t.Context(), late.PaymentHash))
	stands(t, w, late, payments.InvoiceCanceled, 0)
	chain.pay(t, late.BOLT11, 5_000)
	stands(t, w, late, payments.InvoicePending, 5_000) // not a debt before it is there
	chain.mine(2)
	stands(t, w, late, payments.InvoiceCanceled, 5_000)
	chain.pay(t, late.BOLT11, 15_000)
	chain.mine(2)
	stands(t, w, late, payments.InvoiceSettled, 20_000)

	short := ask()
	short.Expiry = time.Second
	lapsed := create(t, w, short)
	for w.cfg.PollEvery = time.Millisecond; ; time.Sleep(10 * time.Millisecond) {
		if got, err := w.LookupInvoice(t.Context(), lapsed.PaymentHash); err != nil || got.State == payments.InvoiceCanceled {
			must(t, err)
			break
		}
	}
}

// TestReorganisations: what falls below the confirmations is not paid; what was
// final stays so for the job, and is a loss once the money is gone.
func TestReorganisations(t *testing.T) {
	chain := newFake(t)
	var log bytes.Buffer
	w, _ := at(t, chain, filepath.Join(t.TempDir(), "book.db"), slog.New(slog.NewTextHandler(&log, nil)))
	inv := create(t, w, ask())
	chain.pay(t, inv.BOLT11, 20_000)
	chain.mine(1)
	chain.reorganise(1, false)
	stands(t, w, inv, payments.InvoicePending, 20_000)
	chain.mine(1)
	chain.reorganise(1, true)
	stands(t, w, inv, payments.InvoiceOpen, 0)
	chain.pay(t, inv.BOLT11, 20_000)
	chain.mine(2)
	stands(t, w, inv, payments.InvoiceSettled, 20_000)

	look := func() { t.Helper(); must(t, w.watch(t.Context(), map[payments.Hash]string{}, func(payments.Hash) {})) }
	chain.reorganise(2, false)
	look()
	if !strings.Contains(log.String(), "waits for another") || strings.Contains(log.String(), "LOSS") {
		t.Errorf("in the mempool again: %s", &log)
	}
	stands(t, w, inv, payments.InvoiceSettled, 20_000)
	chain.mine(2)
	log.Reset()
	look()
	if log.Len() > 0 {
		t.Errorf("in a block again: %s", &log)
	}
	chain.reorganise(2, true)
	look()
	look()
	if strings.Count(log.String(), "LOSS") != 1 {
		t.Errorf("gone: %s", &log)
	}
	if r, err := w.cfg.Book.request(t.Context(), inv.PaymentHash); err != nil || !r.lost {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestWatchHintsAtClosedRequests: also late money is noticed.
func TestWatchHintsAtClosedRequests(t *testing.T) {
	chain := newFake(t)
	w := wallet(t, chain)
	inv := create(t, w, ask())
	must(t, w.CancelInvoice(t.Context(), inv.PaymentHash))
	ctx, stop := context.WithCancel(t.Context())
	hints, done := make(chan payments.Hash, 100), make(chan error, 1)
	go func() { done <- w.WatchInvoices(ctx, func(h payments.Hash) { hints <- h }) }()
	<-hints // canceled
	chain.pay(t, inv.BOLT11, 20_000)
	chain.mine(2)
	for got := payments.InvoiceState(""); got != payments.InvoiceSettled; {
		h := <-hints
		inv, err := w.LookupInvoice(t.Context(), h)
		must(t, err)
		got = inv.State
	}
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestPaidOnceWhateverBreaks breaks each call of a payment, closes the wallet
// and tries again: one transaction, and no inputs left leased for nothing.
func TestPaidOnceWhateverBreaks(t *testing.T) {
	for _, call := range []string{"FeeRate", "Release", "SignSend", "Publish, lost before", "Publish", "Transaction"} {
		t.Run(call, func(t *testing.T) {
			chain := newFake(t)
			payee := wallet(t, chain)
			inv := create(t, payee, ask())
			mine := chain.other(t)
			path := filepath.Join(t.TempDir(), "book.db")
			payer, closePayer := at(t, mine, path, nil)
			mine.down = call
			err := payer.SendPayment(t.Context(), payOf(inv))
			if err == nil && mine.down == "" {
				t.Error("no error")
			}
			if payments.NeverSent(err) {
				t.Errorf("%v says that nothing was sent", err)
			}
			if call == "SignSend" && len(mine.leases) != 0 {
				t.Error("what nobody publishes has coins leased")
			}
			closePayer()
			payer, _ = at(t, mine, path, nil)
			for err = payer.SendPayment(t.Context(), payOf(inv)); err != nil && mine.down == ""; {
				mine.down, err = "never", payer.SendPayment(t.Context(), payOf(inv)) // the call that broke came only now
			}
			must(t, err)
			chain.mine(2)
			p, err := payer.TrackPayment(t.Context(), inv.PaymentHash)
			if err != nil || p.State != payments.PaymentSucceeded || len(chain.txs) != 1 || len(mine.leases) != 1 {
				t.Errorf("%+v, %v; %d transactions, %d leases", p, err, len(chain.txs), len(mine.leases))
			}
			stands(t, payee, inv, payments.InvoiceSettled, 20_000)
		})
	}
}

// TestAddressIsKeptWhateverBreaks: the same text whatever reply was lost.
func TestAddressIsKeptWhateverBreaks(t *testing.T) {
	for _, call := range []string{"Received", "NewAddress", "SignRequest"} {
		chain := newFake(t)
		path := filepath.Join(t.TempDir(), "book.db")
		w, closeBook := at(t, chain, path, nil)
		want := ask()
		chain.down = call
		if _, err := w.CreateInvoice(t.Context(), want); !errors.Is(err, payments.ErrWalletUnavailable) {
			t.Errorf("%s: %v", call, err)
		}
		inv := create(t, w, want)
		closeBook()
		w, _ = at(t, chain, path, nil)
		if again := create(t, w, want); again != inv {
			t.Errorf("%s: %+v", call, again)
		}
	}
}

func TestRefusals(t *testing.T) {
	chain := newFake(t)
	payee := wallet(t, chain)
	mine := chain.other(t)
	payer := wallet(t, mine)
	for name, tt := range map[string]struct {
		change func(*payments.NewInvoice)
		want   error
	}{
		"hold":      {func(n *payments.NewInvoice) { n.Hold = true }, payments.ErrUnsupported},
		"dust":      {func(n *payments.NewInvoice) { n.AmountMsats = 545_000 }, ErrDust},
		"no amount": {func(n *payments.NewInvoice) { n.AmountMsats = 0 }, payments.ErrAmount},
	} {
		want := ask()
		tt.change(&want)
		if _, err := payee.CreateInvoice(t.Context(), want); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	want := ask()
	inv := create(t, payee, want)
	want.AmountMsats++
	if _, err := payee.CreateInvoice(t.Context(), want); !errors.Is(err, payments.ErrInvoiceMismatch) {
		t.Errorf("another amount: %v", err)
	}
	for name, tt := range map[string]struct {
		change func(*payments.Pay)
		payer  *Wallet
		want   error
	}{
		"more":         {func(p *payments.Pay) { p.AmountMsats++ }, payer, payments.ErrAmount},
		"no text":      {func(p *payments.Pay) { p.BOLT11 = "lnbc1" }, payer, payments.ErrBadRequest},
		"over the fee": {func(p *payments.Pay) { p.FeeLimitMsats = fakeFee*1000 - 1 }, payer, payments.ErrNoRoute},
		"our own":      {func(*payments.Pay) {}, payee, payments.ErrSelfPayment},
	} {
		pay := payOf(inv)
		tt.change(&pay)
		err := tt.payer.SendPayment(t.Context(), pay)
		if !errors.Is(err, tt.want) || !payments.NeverSent(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	payer.cfg.MaxSatPerVByte = 9
	if err := payer.SendPayment(t.Context(), payOf(inv)); !errors.Is(err, payments.ErrNoRoute) {
		t.Errorf("over the rate: %v", err)
	}
	if len(mine.leases) != 0 || len(chain.txs) != 0 {
		t.Errorf("%d leases, %d transactions", len(mine.leases), len(chain.txs))
	}
	if _, err := payer.LookupPayment(t.Context(), inv.PaymentHash); !errors.Is(err, payments.ErrNotFound) {
		t.Errorf("lookup: %v", err)
	}
	if _, err := payer.LookupInvoice(t.Context(), inv.PaymentHash); !errors.Is(err, payments.ErrNotFound) {
		t.Errorf("lookup: %v", err)
	}
}
