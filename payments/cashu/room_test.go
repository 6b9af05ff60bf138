package cashu

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/payments"
)

// capped opens the payee with room for 100 sats, and tells when a payment waits.
func (b *bench) capped(name string) (w *Wallet, waits <-chan struct{}) {
	b.Helper()
	heard := make(chan struct{}, 100)
	w, _ = b.open(name, func(c *Config) {
		c.MaxMsats = 100_000
		c.Log = slog.New(ear{c.Log.Handler(), "waits for room", heard})
	})
	return w, heard
}

// ear hears one message of a log.
type ear struct {
	slog.Handler
	message string
	heard   chan<- struct{}
}

func (e ear) Handle(ctx context.Context, r slog.Record) error {
	if strings.Contains(r.Message, e.message) {
		e.heard <- struct{}{}
	}
	return e.Handler.Handle(ctx, r)
}

// More than the bound does not get to the mint, and an invoice that could never
// be paid is not made.
func TestCap(t *testing.T) {
	t.Parallel()
	b := newBench(t, newFakeMint(t, 0).place())
	w, _ := b.capped("payee")
	b.fill(w, 60)
	if _, err := w.Topup(t.Context(), 41); !errors.Is(err, ErrCap) {
		t.Errorf("top-up: %v", err)
	}
	if _, err := w.CreateInvoice(t.Context(), ask(b.secret(), true, 40_001)); !errors.Is(err, ErrCap) {
		t.Errorf("invoice: %v", err)
	}
	must[payments.Invoice](b)(w.CreateInvoice(t.Context(), ask(b.secret(), true, 40_000)))
}

// Whoever asks for invoices and pays none keeps nobody out; nor do the refunds
// that a buyer may get within a week.
func TestUnpaidInvoicesTakeNoRoom(t *testing.T) {
	t.Parallel()
	b, payee, payer, _ := crowded(t)
	for range 100 {
		stranger := ask(b.secret(), true, 100_000)
		stranger.Expiry = 7 * 24 * time.Hour
		must[payments.Invoice](b)(payee.CreateInvoice(t.Context(), stranger))
	}
	b.fill(payee, 10)
	inv := b.order(payee, payer, ask(b.secret(), false, 90_000))
	b.awaitState(payee, inv.PaymentHash, payments.InvoiceSettled)
	b.total(payee, payer, 210)
}

// crowded is a payee with room for 100 sats, and a payer who has 200.
func crowded(t *testing.T) (b *bench, payee, payer *Wallet, waits <-chan struct{}) {
	b = newBench(t, newFakeMint(t, 0).place())
	payee, waits = b.capped("payee")
	payer, _ = b.open("payer")
	b.fill(payer, 200)
	return b, payee, payer, waits
}

// A payment that there is no room for is not taken: what is at the mint stays
// below the bound. It waits, and nothing is lost when there is room again.
func TestPaymentWaitsForRoom(t *testing.T) {
	t.Parallel()
	b, payee, payer, waits := crowded(t)
	first := b.order(payee, payer, ask(b.secret(), false, 60_000))
	second := b.order(payee, payer, ask(b.secret(), false, 60_000))
	<-waits
	// Which of the two came first is open; the one that waits is untouched.
	state := func(inv payments.Invoice) string {
		return must[invoiceRow](b)(payee.invoice(t.Context(), inv.PaymentHash)).state
	}
	if state(first) == "open" {
		first, second = second, first
	}
	b.awaitState(payee, first.PaymentHash, payments.InvoiceSettled)
	if got := state(second); got != "open" {
		t.Fatalf("the second is %s", got)
	}
	if got := b.spendable(payee); got != 60_000 {
		t.Errorf("%d msats are there", got)
	}
	must[Token](b)(payee.Export(t.Context(), 20))
	b.awaitState(payee, second.PaymentHash, payments.InvoiceSettled)
	b.total(payee, payer, 180)
}

// What is held counts, and so does what a payer sends too much of: neither
// brings more to the mint than may be there.
func TestHeldAndTooMuchTakeRoom(t *testing.T) {
	t.Parallel()
	b, payee, payer, waits := crowded(t)
	held := b.order(payee, payer, ask(b.secret(), true, 70_000))
	b.awaitState(payee, held.PaymentHash, payments.InvoiceHeld)
	if _, err := payee.CreateInvoice(t.Context(), ask(b.secret(), true, 30_001)); !errors.Is(err, ErrCap) {
		t.Errorf("beside what is held: %v", err)
	}
	small := must[payments.Invoice](b)(payee.CreateInvoice(t.Context(), ask(b.secret(), true, 1000)))
	notes := b.lockedNotes(payer, lock{
		hash: small.PaymentHash, payee: payee.node, refund: payer.node, until: time.Now().Add(b.cfg.Lock).Unix(),
	}, 64)
	message := must[[]byte](b)(formatMessage(small.PaymentHash, b.cfg.Mint, notes))
	if err := (desk{b.room, ""}).Send(t.Context(), payee.node[2:], message); err != nil {
		t.Fatal(err)
	}
	<-waits
	if err := payee.CancelInvoice(t.Context(), held.PaymentHash); err != nil {
		t.Fatal(err)
	}
	b.awaitState(payee, small.PaymentHash, payments.InvoiceHeld)
}
