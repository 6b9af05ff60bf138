package conformance

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
)

func unknown(b *bench) {
	hash := secret().Hash()
	_, err := b.Payee.LookupInvoice(b.ctx, hash)
	b.mustFail(err, payments.ErrNotFound)
	_, err = b.Payer.LookupPayment(b.ctx, hash)
	b.mustFail(err, payments.ErrNotFound)
	_, err = b.Payer.TrackPayment(b.ctx, hash)
	b.mustFail(err, payments.ErrNotFound)
	b.mustFail(b.Payee.SettleInvoice(b.ctx, secret()))
	b.mustFail(b.Payee.CancelInvoice(b.ctx, hash))
	if b.PrepayOnly {
		return
	}

	// An invoice is the payee's and a payment the payer's, and of nobody else.
	inv := b.hold(secret())
	_, err = b.Payer.LookupInvoice(b.ctx, inv.PaymentHash)
	b.mustFail(err, payments.ErrNotFound)
	_, err = b.Payee.LookupPayment(b.ctx, inv.PaymentHash)
	b.mustFail(err, payments.ErrNotFound)
	b.must(b.Payee.CancelInvoice(b.ctx, inv.PaymentHash))
	b.track(inv.PaymentHash)
}

func payOnce(b *bench) {
	before := b.balance(b.Payer).SpendableMsats
	preimage := secret()
	inv := b.create(b.request(preimage, true))

	// At once, again while held, and again when all is over.
	var tries sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		tries.Go(func() { errs[i] = b.Payer.SendPayment(b.ctx, b.pay(inv)) })
	}
	tries.Wait()
	b.must(errors.Join(errs...))
	b.awaitInvoice(inv.PaymentHash, payments.InvoiceHeld)
	b.must(b.Payer.SendPayment(b.ctx, b.pay(inv)))
	b.must(b.Payee.SettleInvoice(b.ctx, preimage))
	p := b.track(inv.PaymentHash)
	b.must(b.Payer.SendPayment(b.ctx, b.pay(inv)))
	b.settled(inv)
	b.awaitSpendable(b.Payer, before-inv.AmountMsats-p.FeeMsats)
	if again := b.track(inv.PaymentHash); again != p {
		b.Errorf("payment %+v became %+v", p, again)
	}
}

func payRefused(b *bench) {
	inv := b.create(b.request(secret(), !b.PrepayOnly))
	before := b.balance(b.Payer)
	cases := []struct {
		name   string
		change func(p *payments.Pay)
		kind   error
	}{
		{"more than the invoice", func(p *payments.Pay) { p.AmountMsats++ }, payments.ErrAmount},
		{"less than the invoice", func(p *payments.Pay) { p.AmountMsats-- }, payments.ErrAmount},
		{"no amount", func(p *payments.Pay) { p.AmountMsats = 0 }, payments.ErrAmount},
		{"negative fee limit", func(p *payments.Pay) { p.FeeLimitMsats = -1 }, payments.ErrAmount},
		{"not an invoice", func(p *payments.Pay) { p.BOLT11 = "lnbc1" }, payments.ErrBadRequest},
		{"one letter changed", func(p *payments.Pay) { p.BOLT11 = p.BOLT11[:len(p.BOLT11)-1] + "b" }, payments.ErrBadRequest},
		{"another network", func(p *payments.Pay) { p.BOLT11 = foreign(b) }, payments.ErrWrongNetwork},
	}

	for _, c := range cases {
		p := b.pay(inv)
		c.change(&p)
		err := b.Payer.SendPayment(b.ctx, p)
		b.Logf("%s: %v", c.name, err)
		b.mustFail(err, c.kind)
	}

	b.mustFail(b.Payee.SendPayment(b.ctx, b.pay(inv)), payments.ErrSelfPayment)
	_, err := b.Payer.LookupPayment(b.ctx, inv.PaymentHash)
	b.mustFail(err, payments.ErrNotFound)
	b.awaitInvoice(inv.PaymentHash, payments.InvoiceOpen)
	if after := b.balance(b.Payer); after != before {
		b.Errorf("the balance was %+v and is %+v", before, after)
	}
	b.must(b.Payee.CancelInvoice(b.ctx, inv.PaymentHash))
}

// foreign is a good invoice of a network that the wallets are not on.
func foreign(b *bench) string {
	n, err := b.Payer.Node(b.ctx)
	b.must(err)
	network := payments.Mainnet
	if n.Network == network {
		network = payments.Testnet
	}
	key, err := btcec.NewPrivateKey()
	b.must(err)
	s, err := bolt11.Encode(&bolt11.Invoice{
		Network: network, AmountMsats: b.AmountMsats, CreatedAt: time.Now(),
		PaymentHash: secret().Hash(), PaymentSecret: secret(), Description: "elsewhere",
	}, func(hash [32]byte) ([65]byte, error) { return [65]byte(ecdsa.SignCompact(key, hash[:], true)), nil })
	b.must(err)
	return s
}

func insufficient(b *bench) {
	before := b.balance(b.Payer).SpendableMsats
	amounts := []int64{before + 1}
	if b.FeeMsats > 0 {
		amounts = append(amounts, before-b.FeeMsats+1) // enough, but for the fee
	}

	for _, amount := range amounts {
		ask := b.request(secret(), !b.PrepayOnly)
		ask.AmountMsats = amount
		inv := b.create(ask)
		b.mustFail(b.Payer.SendPayment(b.ctx, b.pay(inv)), payments.ErrInsufficientFunds, payments.ErrNoRoute)
		b.notPaid(inv)
		b.awaitSpendable(b.Payer, before)
		b.must(b.Payee.CancelInvoice(b.ctx, inv.PaymentHash))
	}
}

func feeLimit(b *bench) {
	if b.FeeMsats == 0 {
		b.Log("payments between these wallets are free")
		return
	}
	before := b.balance(b.Payer).SpendableMsats
	preimage := secret()
	inv := b.create(b.request(preimage, false))
	p := b.pay(inv)
	p.FeeLimitMsats = b.FeeMsats - 1
	b.mustFail(b.Payer.SendPayment(b.ctx, p), payments.ErrNoRoute)
	b.notPaid(inv)
	b.awaitSpendable(b.Payer, before)

	// What failed may be tried again, and then the limit is just enough.
	p.FeeLimitMsats = b.FeeMsats
	b.must(b.Payer.SendPayment(b.ctx, p))
	if got := b.track(inv.PaymentHash); got.State != payments.PaymentSucceeded || got.FeeMsats != b.FeeMsats {
		b.Errorf("payment %+v", got)
	}
}

// notPaid: the payment failed or never was, and the invoice waits.
func (b *bench) notPaid(inv payments.Invoice) {
	b.Helper()
	b.awaitInvoice(inv.PaymentHash, payments.InvoiceOpen)
	p, err := b.Payer.LookupPayment(b.ctx, inv.PaymentHash)
	if errors.Is(err, payments.ErrNotFound) {
		return
	}
	b.must(err)
	if p.State != payments.PaymentFailed || p.FailureReason == "" {
		b.Errorf("payment %+v", p)
	}
}

func trackWaits(b *bench) {
	preimage := secret()
	inv := b.hold(preimage)

	// A wait that is given up says nothing about the payment.
	ctx, cancel := context.WithTimeout(b.ctx, 50*time.Millisecond)
	defer cancel()

	if p, err := b.Payer.TrackPayment(ctx, inv.PaymentHash); err == nil {
		b.Errorf("a payment that is held ended: %+v", p)
	} else if errors.Is(err, payments.ErrNotFound) {
		b.Errorf("a payment that is held: %v", err)
	}

	var got payments.Payment
	tracking := start(b, func(ctx context.Context) (err error) {
		got, err = b.Payer.TrackPayment(ctx, inv.PaymentHash)
		return err
	})
	b.must(b.Payee.SettleInvoice(b.ctx, preimage))
	b.must(tracking.wait())
	if got.State != payments.PaymentSucceeded || got.Preimage != preimage {
		b.Errorf("payment %+v", got)
	}
}

func trackPast(b *bench) {
	preimage := secret()
	good := b.create(b.request(preimage, false))
	b.must(b.Payer.SendPayment(b.ctx, b.pay(good)))
	bad := b.hold(secret())
	b.must(b.Payee.CancelInvoice(b.ctx, bad.PaymentHash))

	for range 2 {
		if p := b.track(good.PaymentHash); p.State != payments.PaymentSucceeded || p.Preimage != preimage {
			b.Errorf("payment %+v", p)
		}
		if p := b.track(bad.PaymentHash); p.State != payments.PaymentFailed {
			b.Errorf("payment %+v", p)
		}
	}

	p, err := b.Payer.LookupPayment(b.ctx, good.PaymentHash)
	b.must(err)
	if p != b.track(good.PaymentHash) {
		b.Errorf("looked up %+v", p)
	}
}

// task is a goroutine that a behaviour started; it ends before the behaviour.
type task struct {
	cancel context.CancelFunc
	done   chan error
}

func start(b *bench, fn func(ctx context.Context) error) task {
	ctx, cancel := context.WithCancel(b.ctx)
	t := task{cancel: cancel, done: make(chan error, 1)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		t.done <- fn(ctx)
	}()
	b.Cleanup(func() {
		cancel()
		<-ended
	})
	return t
}

// wait returns what the goroutine returned.
func (t task) wait() error { return <-t.done }

// stop ends the goroutine's context first.
func (t task) stop() error {
	t.cancel()
	return t.wait()
}
