package lnd

import (
	"context"
	"strings"
	"testing"

	"github.com/lightningnetwork/lnd/lnrpc"
	"github.com/lightningnetwork/lnd/lnrpc/invoicesrpc"
	"github.com/lightningnetwork/lnd/lnrpc/routerrpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lightwork-market/lightwork/payments"
)

// quirk is an answer of lnd's that this package must read right. The fake and
// the real lnd are held to the same list, so that what is tested on the one is
// true of the other. (Where versions of lnd differ the fake is the stricter one.)
type quirk struct {
	name  string
	ask   func(ctx context.Context, w *Wallet, open, canceled payments.Preimage) error
	code  codes.Code
	words string
}

var quirks = [...]quirk{
	{"a hash that has an invoice", func(ctx context.Context, w *Wallet, open, _ payments.Preimage) error {
		hash := open.Hash()
		_, err := w.invoices.AddHoldInvoice(ctx, &invoicesrpc.AddHoldInvoiceRequest{
			Hash: hash[:], ValueMsat: 200_000, DescriptionHash: hash[:], Expiry: 600,
		})
		return err
	}, codes.Unknown, "invoice with payment hash already exists"},
	{"an invoice that never was", func(ctx context.Context, w *Wallet, _, _ payments.Preimage) error {
		_, err := w.ln.LookupInvoice(ctx, &lnrpc.PaymentHash{RHash: make([]byte, 32)})
		return err
	}, codes.NotFound, "unable to locate invoice"},
	{"a payment that never was", func(ctx context.Context, w *Wallet, _, _ payments.Preimage) error {
		stream, err := w.router.TrackPaymentV2(ctx, &routerrpc.TrackPaymentRequest{PaymentHash: make([]byte, 32)})
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	}, codes.NotFound, "payment isn't initiated"},
	{"settling what nobody paid", func(ctx context.Context, w *Wallet, open, _ payments.Preimage) error {
		_, err := w.invoices.SettleInvoice(ctx, &invoicesrpc.SettleInvoiceMsg{Preimage: open[:]})
		return err
	}, codes.Unknown, "invoice still open"},
	{"settling what was canceled", func(ctx context.Context, w *Wallet, _, canceled payments.Preimage) error {
		_, err := w.invoices.SettleInvoice(ctx, &invoicesrpc.SettleInvoiceMsg{Preimage: canceled[:]})
		return err
	}, codes.Unknown, "invoice already canceled"},
	{"settling what never was", func(ctx context.Context, w *Wallet, _, _ payments.Preimage) error {
		_, err := w.invoices.SettleInvoice(ctx, &invoicesrpc.SettleInvoiceMsg{Preimage: []byte(strings.Repeat("?", 32))})
		return err
	}, codes.Unknown, "unable to locate invoice"},
}

// checkQuirks asks a wallet's lnd everything on the list. open and canceled are
// the preimages of two hold invoices in these states.
func checkQuirks(t *testing.T, w *Wallet, open, canceled payments.Preimage) {
	for _, q := range quirks {
		t.Run(q.name, func(t *testing.T) {
			err := q.ask(t.Context(), w, open, canceled)
			if got := status.Convert(err); status.Code(err) != q.code || !strings.Contains(got.Message(), q.words) {
				t.Errorf("got %v %q, want %v %q", status.Code(err), got.Message(), q.code, q.words)
			}
		})
	}
}

// TestFakeSpeaksAsLND holds the fake to the list.
func TestFakeSpeaksAsLND(t *testing.T) {
	fake := &fakeLND{}
	w := fake.start(t, Config{})
	open, canceled := payments.Preimage{1}, payments.Preimage{2}
	for _, p := range []payments.Preimage{open, canceled} {
		hash := p.Hash()
		if _, err := w.invoices.AddHoldInvoice(t.Context(), &invoicesrpc.AddHoldInvoiceRequest{
			Hash: hash[:], ValueMsat: 200_000, DescriptionHash: hash[:], Expiry: 600,
		}); err != nil {
			t.Fatal(err)
		}
	}
	hash := canceled.Hash()
	if _, err := w.invoices.CancelInvoice(t.Context(), &invoicesrpc.CancelInvoiceMsg{PaymentHash: hash[:]}); err != nil {
		t.Fatal(err)
	}
	checkQuirks(t, w, open, canceled)
}
