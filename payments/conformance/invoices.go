package conformance

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
)

func node(b *bench) {
	payee, err := b.Payee.Node(b.ctx)
	b.must(err)
	payer, err := b.Payer.Node(b.ctx)
	b.must(err)

	for _, n := range []payments.Node{payee, payer} {
		if key, err := hex.DecodeString(n.PubKey); err != nil || len(key) != 33 {
			b.Errorf("public key %q", n.PubKey)
		}
		_, err := payments.ParseNetwork(string(n.Network))
		b.must(err)
	}

	if payee.PubKey == payer.PubKey || payee.Network != payer.Network {
		b.Errorf("%+v and %+v are no two nodes of one network", payee, payer)
	}
}

func invoiceSays(b *bench) {
	n, err := b.Payee.Node(b.ctx)
	b.must(err)

	for _, hold := range b.holds() {
		preimage := secret()
		ask := b.request(preimage, hold)
		inv := b.create(ask)
		if inv.PaymentHash != preimage.Hash() || inv.AmountMsats != ask.AmountMsats || inv.State != payments.InvoiceOpen || inv.PaidMsats != 0 || inv.Final {
			b.Errorf("hold %v: created %+v", hold, inv)
		}
		got, err := bolt11.Decode(inv.BOLT11)
		b.must(err)
		if got.Payee != n.PubKey || got.Network != n.Network && got.Network.OnChain() != n.Network {
			b.Errorf("hold %v: payee %s on %s, the node is %+v", hold, got.Payee, got.Network, n)
		}
		if got.PaymentHash != ask.PaymentHash || got.AmountMsats != ask.AmountMsats || got.Expiry != ask.Expiry {
			b.Errorf("hold %v: BOLT 11 says %+v", hold, got)
		}
		if got.DescriptionHash == nil || *got.DescriptionHash != ask.DescriptionHash {
			b.Errorf("hold %v: description hash %v, want %v", hold, got.DescriptionHash, ask.DescriptionHash)
		}
		looked, err := b.Payee.LookupInvoice(b.ctx, inv.PaymentHash)
		b.must(err)
		if looked != inv {
			b.Errorf("hold %v: looked up %+v, created %+v", hold, looked, inv)
		}
		b.must(b.Payee.CancelInvoice(b.ctx, inv.PaymentHash))
	}
}

func invoiceRefused(b *bench) {
	cases := map[string]func(n *payments.NewInvoice){
		"no amount":          func(n *payments.NewInvoice) { n.AmountMsats = 0 },
		"negative amount":    func(n *payments.NewInvoice) { n.AmountMsats = -1 },
		"amount over 2^53":   func(n *payments.NewInvoice) { n.AmountMsats = payments.MaxMsats + 1 },
		"no preimage":        func(n *payments.NewInvoice) { n.Preimage = payments.Preimage{} },
		"another's preimage": func(n *payments.NewInvoice) { n.Preimage = secret() },
		"hold without hash":  func(n *payments.NewInvoice) { *n = b.request(secret(), true); n.PaymentHash = payments.Hash{} },
		"no expiry":          func(n *payments.NewInvoice) { n.Expiry = 0 },
		"half a second":      func(n *payments.NewInvoice) { n.Expiry = time.Second / 2 },
	}

	for name, change := range cases {
		n := b.request(secret(), false)
		change(&n)
		if _, err := b.Payee.CreateInvoice(b.ctx, n); err == nil {
			b.Errorf("%s: accepted", name)
		}
	}
}

func createAgain(b *bench) {
	for _, hold := range b.holds() {
		preimage := secret()
		ask := b.request(preimage, hold)
		first := b.create(ask)
		if again := b.create(ask); again != first {
			b.Errorf("hold %v: again %+v, first %+v", hold, again, first)
		}

		for name, change := range map[string]func(n *payments.NewInvoice){
			"amount":      func(n *payments.NewInvoice) { n.AmountMsats++ },
			"description": func(n *payments.NewInvoice) { n.DescriptionHash = hashing.Bytes([]byte("another")) },
			"expiry":      func(n *payments.NewInvoice) { n.Expiry += time.Second },
			"hold":        func(n *payments.NewInvoice) { n.Hold, n.Preimage = !n.Hold, preimage },
		} {
			other := ask
			change(&other)
			_, err := b.Payee.CreateInvoice(b.ctx, other)
			b.Logf("hold %v, another %s: %v", hold, name, err)
			if other.Hold && b.PrepayOnly {
				b.mustFail(err, payments.ErrUnsupported)
				continue
			}
			b.mustFail(err, payments.ErrInvoiceMismatch)
		}

		b.must(b.Payee.CancelInvoice(b.ctx, first.PaymentHash))
		if again := b.create(ask); again.BOLT11 != first.BOLT11 || again.State != payments.InvoiceCanceled {
			b.Errorf("hold %v: again after cancel %+v", hold, again)
		}
	}
}

func prepay(b *bench) {
	preimage := secret()
	inv := b.create(b.request(preimage, false))
	payer, payee := b.balance(b.Payer), b.balance(b.Payee)
	b.must(b.Payer.SendPayment(b.ctx, b.pay(inv)))
	p := b.track(inv.PaymentHash)
	if p.State != payments.PaymentSucceeded || !b.PrepayOnly && p.Preimage != preimage || p.AmountMsats != inv.AmountMsats || p.FailureReason != "" {
		b.Errorf("payment %+v", p)
	}
	if p.FeeMsats < b.FeeMsats || p.FeeMsats > b.pay(inv).FeeLimitMsats {
		b.Errorf("fee of %d msats", p.FeeMsats)
	}
	b.settled(inv)
	b.awaitSpendable(b.Payer, payer.SpendableMsats-inv.AmountMsats-p.FeeMsats)
	b.awaitSpendable(b.Payee, payee.SpendableMsats+inv.AmountMsats)
}

// settled checks an invoice that was paid.
func (b *bench) settled(inv payments.Invoice) {
	b.Helper()
	b.awaitInvoice(inv.PaymentHash, payments.InvoiceSettled)
	var got payments.Invoice
	b.await(func() bool {
		var err error
		got, err = b.Payee.LookupInvoice(b.ctx, inv.PaymentHash)
		b.must(err)
		return got.Final
	}, "settlement is final")
	if got.State != payments.InvoiceSettled || got.PaidMsats != inv.AmountMsats || got.BOLT11 != inv.BOLT11 || !got.SettleBy.IsZero() {
		b.Errorf("settled invoice %+v", got)
	}
	if age := time.Since(got.SettledAt); age < -time.Minute || age > 10*time.Minute {
		b.Errorf("settled at %v", got.SettledAt)
	}
}

func expiry(b *bench) {
	for _, hold := range b.holds() {
		ask := b.request(secret(), hold)
		ask.Expiry = 2 * time.Second
		inv := b.create(ask)
		b.awaitInvoice(inv.PaymentHash, payments.InvoiceCanceled)
		b.expectFailure(b.pay(inv), inv.PaymentHash)
		b.awaitInvoice(inv.PaymentHash, payments.InvoiceCanceled)
	}
}

func watch(b *bench) {
	hints := make(chan payments.Hash, 1000)
	watching := start(b, func(ctx context.Context) error {
		return b.Payee.WatchInvoices(ctx, func(h payments.Hash) {
			select {
			case hints <- h:
			default: // the test has seen enough
			}
		})
	})

	// When the watch begins cannot be seen from outside, so there must be
	// something new to hint at until it has.
	seen := map[payments.Hash]bool{}
	var inv payments.Invoice
	b.await(func() bool {
		preimage := secret()
		inv = b.create(b.request(preimage, false))
		b.must(b.Payer.SendPayment(b.ctx, b.pay(inv)))
		b.track(inv.PaymentHash)
		for len(hints) > 0 {
			seen[<-hints] = true
		}
		return len(seen) > 0
	}, "a hint")
	for hash := range seen {
		_, err := b.Payee.LookupInvoice(b.ctx, hash)
		b.must(err)
	}

	if b.PrepayOnly {
		b.mustFail(watching.stop())
		return
	}

	// From then on none is missed.
	inv = b.hold(secret())
	b.hint(hints, inv.PaymentHash)
	b.must(b.Payee.CancelInvoice(b.ctx, inv.PaymentHash))
	b.track(inv.PaymentHash)
	b.mustFail(watching.stop())
}

func (b *bench) hint(hints <-chan payments.Hash, want payments.Hash) {
	b.Helper()
	for {
		select {
		case h := <-hints:
			if h == want {
				return
			}
		case <-b.ctx.Done():
			b.Fatal("no hint of a payment that is held")
		}
	}
}
