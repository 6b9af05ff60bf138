// Package conformance tests the promises of every wallet backend (see package
// payments). The test of a backend calls Run with two wallets that can pay each
// other.
package conformance

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
)

// Pair is two wallets with their properties.
type Pair struct {
	Payee, Payer payments.Wallet
	// AmountMsats is the amount of payments; 0 means 200 000. Payer must be able to
	// spend 100 times as much.
	AmountMsats int64
	// FeeMsats is the lowest fee of a payment. With 0, the tests of fee limits are
	// skipped.
	FeeMsats int64
	// Timeout bounds each behaviour; 0 means two minutes.
	Timeout time.Duration
	// PrepayOnly: the wallets cannot hold payments or prove them with a preimage,
	// and a started payment cannot fail. The tests of these are skipped.
	PrepayOnly bool
}

// holds are the kinds of invoices that the wallets support.
func (p Pair) holds() []bool {
	if p.PrepayOnly {
		return []bool{false}
	}
	return []bool{false, true}
}

// Run tests every behaviour. newPair is called once for each and may return the
// same wallets again: behaviours leave nothing open or held.
func Run(t *testing.T, newPair func(t *testing.T) Pair) {
	for _, b := range behaviours {
		t.Run(b.name, func(t *testing.T) { b.run(t, newPair(t)) })
	}
}

// RunInBubbles is Run for wallets that live in this process and wait for nothing
// outside. Each behaviour runs in a synctest bubble, whose clock advances when all
// goroutines wait, so a busy machine does not end locks too early. newPair must
// make new wallets each time, which end with its t.
func RunInBubbles(t *testing.T, newPair func(t *testing.T) Pair) {
	for _, b := range behaviours {
		t.Run(b.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { b.run(t, newPair(t)) })
		})
	}
}

type behaviour struct {
	name  string
	check func(b *bench)
	holds bool // it needs payments that are held or fail
}

func (b behaviour) run(t *testing.T, pair Pair) {
	if pair.AmountMsats == 0 {
		pair.AmountMsats = 200_000
	}
	if pair.Timeout == 0 {
		pair.Timeout = 2 * time.Minute
	}
	ctx, cancel := context.WithTimeout(t.Context(), pair.Timeout)
	defer cancel()

	if pair.PrepayOnly && b.holds {
		t.Log("these wallets cannot hold payments")
		return
	}
	b.check(&bench{T: t, Pair: pair, ctx: ctx})
}

var behaviours = [...]behaviour{
	{"node", node, false},
	{"an invoice matches the request", invoiceSays, false},
	{"an invalid invoice is refused", invoiceRefused, false},
	{"creating is idempotent", createAgain, false},
	{"prepay is settled by paying", prepay, false},
	{"hold is held and settled", holdSettle, true},
	{"hold is held and canceled, and the payer gets everything back", holdCancel, true},
	{"settling and canceling are idempotent", repeatable, true},
	{"an open invoice is canceled and cannot be paid", cancelOpen, true},
	{"a canceled invoice cannot be settled, nor a settled one canceled", noWayBack, true},
	{"an unpaid invoice cannot be settled", settleUnpaid, true},
	{"an invoice expires unpaid", expiry, false},
	{"unknown hashes are not found", unknown, false},
	{"a payment is made once", payOnce, true},
	{"an invalid payment is not started", payRefused, false},
	{"insufficient funds move nothing", insufficient, false},
	{"a fee over the limit moves nothing", feeLimit, false},
	{"tracking waits for the end", trackWaits, true},
	{"tracking reports a payment that has ended", trackPast, true},
	{"watching gives hints", watch, false},
}

// bench is one behaviour's test with its wallets. Its methods fail the test.
type bench struct {
	*testing.T
	Pair
	// ctx is in a struct because it ends with the one test that bench is for.
	ctx context.Context
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) mustFail(err error, kinds ...error) {
	b.Helper()
	if err == nil {
		b.Fatal("no error")
	}

	for _, kind := range kinds {
		if errors.Is(err, kind) {
			return
		}
	}

	if len(kinds) > 0 {
		b.Fatalf("error %q is none of %q", err, kinds)
	}
}

// secret makes a preimage.
func secret() (p payments.Preimage) {
	rand.Read(p[:]) // never fails
	return p
}

// request asks for a prepaid invoice or, with hold, a hold invoice.
func (b *bench) request(preimage payments.Preimage, hold bool) payments.NewInvoice {
	n := payments.NewInvoice{
		PaymentHash:     preimage.Hash(),
		Hold:            hold,
		AmountMsats:     b.AmountMsats,
		DescriptionHash: hashing.Bytes(preimage[:]),
		Expiry:          10 * time.Minute,
	}
	if !hold {
		n.Preimage = preimage
	}
	return n
}

func (b *bench) create(n payments.NewInvoice) payments.Invoice {
	b.Helper()
	inv, err := b.Payee.CreateInvoice(b.ctx, n)
	b.must(err)
	return inv
}

func (b *bench) pay(inv payments.Invoice) payments.Pay {
	return payments.Pay{BOLT11: inv.BOLT11, AmountMsats: inv.AmountMsats, FeeLimitMsats: b.FeeMsats + b.AmountMsats/10, Timeout: time.Minute}
}

// hold makes a hold invoice and brings the payer's money into it.
func (b *bench) hold(preimage payments.Preimage) payments.Invoice {
	b.Helper()
	inv := b.create(b.request(preimage, true))
	b.must(b.Payer.SendPayment(b.ctx, b.pay(inv)))
	return b.awaitInvoice(inv.PaymentHash, payments.InvoiceHeld)
}

// awaitInvoice looks until the payee's invoice has the state.
func (b *bench) awaitInvoice(hash payments.Hash, state payments.InvoiceState) payments.Invoice {
	b.Helper()
	var inv payments.Invoice
	b.await(func() bool {
		var err error
		inv, err = b.Payee.LookupInvoice(b.ctx, hash)
		b.must(err)
		if inv.State != state && inv.State.Terminal() {
			b.Fatalf("the invoice is %s, want %s", inv.State, state)
		}
		return inv.State == state
	}, "invoice "+string(state))
	return inv
}

// await asks again and again: a daemon behind a wallet takes its time. It
// fails the test when the behaviour's time is over.
func (b *bench) await(done func() bool, what string) {
	b.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-b.ctx.Done():
			b.Fatalf("%s: %v", what, b.ctx.Err())
		}
	}
}

func (b *bench) track(hash payments.Hash) payments.Payment {
	b.Helper()
	p, err := b.Payer.TrackPayment(b.ctx, hash)
	b.must(err)
	if !p.State.Terminal() || p.Hash != hash {
		b.Fatalf("tracked %+v", p)
	}
	return p
}

func (b *bench) balance(w payments.Wallet) payments.Balance {
	b.Helper()
	balance, err := w.Balance(b.ctx)
	b.must(err)
	return balance
}

// awaitSpendable waits until the wallet can spend exactly that much.
func (b *bench) awaitSpendable(w payments.Wallet, msats int64) {
	b.Helper()
	b.await(func() bool { return b.balance(w).SpendableMsats == msats }, "balance")
}

// expectFailure checks that the attempt moves nothing: SendPayment says so, or
// the payment it began fails.
func (b *bench) expectFailure(p payments.Pay, hash payments.Hash) {
	b.Helper()
	before := b.balance(b.Payer).SpendableMsats
	if err := b.Payer.SendPayment(b.ctx, p); err == nil {
		if got := b.track(hash); got.State != payments.PaymentFailed {
			b.Fatalf("the payment %s", got.State)
		}
	}
	b.awaitSpendable(b.Payer, before)
}
