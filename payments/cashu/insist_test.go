package cashu

import (
	"testing"

	"github.com/lightwork-market/lightwork/payments"
)

// A mint that refuses what it owes, and thinks better of it, costs nothing; one
// that has other keys meanwhile is asked for notes of these.
func TestRefusalDoesNotEndAClaim(t *testing.T) {
	t.Parallel()
	m := newFakeMint(t, 0)
	b := newBench(t, m.place())
	payee, _ := b.open("payee")
	payer, _ := b.open("payer")
	b.fill(payer, 100)
	preimage := b.secret()
	inv := b.order(payee, payer, ask(preimage, true, 50_000))
	b.awaitState(payee, inv.PaymentHash, payments.InvoiceHeld)
	refusals := make(chan struct{}, 100)
	m.meddleBefore("/v1/swap", func() (int, any) {
		refusals <- struct{}{}
		return no(10000, "database is locked")
	})
	settled := make(chan error, 1)
	go func() { settled <- payee.SettleInvoice(t.Context(), preimage) }()
	<-refusals
	<-refusals
	m.honest()
	if err := <-settled; err != nil {
		t.Fatal(err)
	}
	b.total(payee, payer, 100)
}

// meddleBefore answers a path without the mint's doing anything.
func (m *fakeMint) meddleBefore(path string, with func() (int, any)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.meddle = func(p string, answer func() (int, any)) (int, any) {
		if p == path {
			return with()
		}
		return answer()
	}
}

// A top-up is asked for in notes of the keys that the mint has when it is paid.
func TestKeysChangeBeforeTopup(t *testing.T) {
	t.Parallel()
	m := newFakeMint(t, 0)
	b := newBench(t, m.place())
	payer, _ := b.open("payer")
	refused := false
	m.meddleBefore("/v1/mint/bolt11", func() (int, any) {
		if !refused { // once, and from then on with other keys
			m.rotate()
			m.meddle = nil
		}
		refused = true
		return no(12002, "keyset is inactive")
	})
	b.fill(payer, 100)
	if got := b.spendable(payer); got != 100_000 || !refused {
		t.Errorf("%d msats", got)
	}
}
