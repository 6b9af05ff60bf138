package onchain

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
)

// replace takes what is in no block out of the mempool, as a transaction with a
// higher fee that pays somebody else does.
func (s *shared) replace() {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.outputs[:0]
	for _, o := range s.outputs {
		if s.txs[o.TxID].at != 0 {
			kept = append(kept, o)
		}
	}
	s.outputs = kept
	for id, tx := range s.txs {
		if tx.at == 0 {
			delete(s.txs, id)
		}
	}
}

func (w *Wallet) look(t *testing.T) {
	t.Helper()
	must(t, w.watch(t.Context(), map[payments.Hash]string{}, func(payments.Hash) {}))
}

// TestReplacedPayments: what is only in the mempool is never paid, however often
// it is replaced, and a part that is confirmed stays a part.
func TestReplacedPayments(t *testing.T) {
	chain := newFake(t)
	w := wallet(t, chain)
	inv := create(t, w, ask())
	for range 3 {
		chain.pay(t, inv.BOLT11, 20_000)
		stands(t, w, inv, payments.InvoicePending, 20_000)
		chain.replace()
		stands(t, w, inv, payments.InvoiceOpen, 0)
	}
	chain.pay(t, inv.BOLT11, 5_000)
	chain.mine(2)
	chain.pay(t, inv.BOLT11, 15_000)
	stands(t, w, inv, payments.InvoicePending, 20_000)
	chain.replace()
	stands(t, w, inv, payments.InvoicePartial, 5_000)
	must(t, w.CancelInvoice(t.Context(), inv.PaymentHash))
	chain.pay(t, inv.BOLT11, 15_000)
	stands(t, w, inv, payments.InvoicePending, 20_000) // nothing of it is owed yet
	chain.replace()
	stands(t, w, inv, payments.InvoiceCanceled, 5_000)
}

// TestDoubleSpendAfterOneConfirmation: with one confirmation a payment is final
// for the job; that it was taken back is a loss on record, told once.
func TestDoubleSpendAfterOneConfirmation(t *testing.T) {
	chain := newFake(t)
	var log bytes.Buffer
	w, _ := at(t, chain, filepath.Join(t.TempDir(), "book.db"), slog.New(slog.NewTextHandler(&log, nil)))
	w.cfg.Confirmations = 1
	inv := create(t, w, ask())
	chain.pay(t, inv.BOLT11, 20_000)
	chain.mine(1)
	stands(t, w, inv, payments.InvoiceSettled, 20_000)
	chain.reorganise(1, true)
	chain.mine(2)
	w.look(t)
	w.look(t)
	stands(t, w, inv, payments.InvoiceSettled, 20_000)
	if r, err := w.cfg.Book.request(t.Context(), inv.PaymentHash); err != nil || !r.lost || strings.Count(log.String(), "LOSS") != 1 {
		t.Errorf("%+v, %v; the log says %s", r, err, &log)
	}
}

// TestDustFlood: thousands of outputs to one address, a chain of unconfirmed
// transactions, add up, are named as far as a receipt can, and settle nothing
// before they are confirmed.
func TestDustFlood(t *testing.T) {
	const outputs = 2_000
	chain := newFake(t)
	w := wallet(t, chain)
	inv, other := create(t, w, ask()), create(t, w, ask())
	for range outputs {
		chain.pay(t, inv.BOLT11, 9) // 18,000 sat in all
	}
	stands(t, w, inv, payments.InvoicePartial, 9*outputs)
	chain.mine(2)
	stands(t, w, inv, payments.InvoicePartial, 9*outputs)
	chain.pay(t, inv.BOLT11, 2_000)
	stands(t, w, inv, payments.InvoicePending, 20_000)
	chain.mine(2)
	if got := stands(t, w, inv, payments.InvoiceSettled, 20_000); strings.Count(got.Outpoints, ",") != payments.MaxOutpoints-1 {
		t.Errorf("%d outputs are named", strings.Count(got.Outpoints, ",")+1)
	}
	stands(t, w, other, payments.InvoiceOpen, 0)
}

// TestManyAddresses: whoever asks for many quotes makes the wallet look at the
// chain no more often; each request has an address of its own.
func TestManyAddresses(t *testing.T) {
	chain := newFake(t)
	w := wallet(t, chain)
	seen := map[string]bool{}
	for range 300 {
		inv, err := bolt11.Decode(create(t, w, ask()).BOLT11)
		must(t, err)
		address, err := inv.ChainAddress()
		must(t, err)
		if seen[address] {
			t.Fatalf("%s was given twice", address)
		}
		seen[address] = true
	}
	chain.looked = 0
	w.look(t)
	if chain.looked != 2 {
		t.Errorf("the chain was asked %d times", chain.looked)
	}
	if len(chain.leases) != 0 {
		t.Errorf("%d leases for requests", len(chain.leases))
	}
}

// TestOneAddressForTwoJobs: an lnd that gives an address twice would have one
// output pay for two jobs; the second gets no request.
func TestOneAddressForTwoJobs(t *testing.T) {
	chain := newFake(t)
	w := wallet(t, chain)
	inv := create(t, w, ask())
	r, err := w.cfg.Book.request(t.Context(), inv.PaymentHash)
	must(t, err)
	chain.reuse = r.address
	if got, err := w.CreateInvoice(t.Context(), ask()); err == nil {
		t.Errorf("a second request for %s: %+v", r.address, got)
	}
	if _, err := w.RefundAddress(t.Context()); err == nil {
		t.Error("the address of a request is to take a refund")
	}
	chain.pay(t, inv.BOLT11, 20_000)
	chain.mine(2)
	stands(t, w, inv, payments.InvoiceSettled, 20_000)
}
