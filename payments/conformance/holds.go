package conformance

import (
	"time"

	"github.com/lightwork-market/lightwork/payments"
)

func holdSettle(b *bench) {
	preimage := secret()
	payer, payee := b.balance(b.Payer), b.balance(b.Payee)
	inv := b.hold(preimage)
	if inv.PaidMsats != inv.AmountMsats || inv.Final || !inv.SettledAt.IsZero() || !inv.SettleBy.After(time.Now()) {
		b.Errorf("held invoice %+v", inv)
	}

	p, err := b.Payer.LookupPayment(b.ctx, inv.PaymentHash)
	b.must(err)
	if p.State != payments.PaymentInFlight || !p.Preimage.IsZero() || p.AmountMsats != inv.AmountMsats {
		b.Errorf("payment %+v", p)
	}
	held := b.balance(b.Payer)
	if held.SpendableMsats > payer.SpendableMsats-inv.AmountMsats-b.FeeMsats || held.ReservedMsats < payer.ReservedMsats+inv.AmountMsats {
		b.Errorf("while held the balance is %+v, before %+v", held, payer)
	}
	if got := b.balance(b.Payee).SpendableMsats; got != payee.SpendableMsats {
		b.Errorf("the payee has %d msats before settling, had %d", got, payee.SpendableMsats)
	}
	b.must(b.Payee.SettleInvoice(b.ctx, preimage))
	p = b.track(inv.PaymentHash)
	if p.State != payments.PaymentSucceeded || p.Preimage != preimage {
		b.Errorf("payment %+v", p)
	}
	b.settled(inv)
	b.awaitSpendable(b.Payee, payee.SpendableMsats+inv.AmountMsats)
	b.awaitSpendable(b.Payer, payer.SpendableMsats-inv.AmountMsats-p.FeeMsats)
}

func holdCancel(b *bench) {
	payer, payee := b.balance(b.Payer), b.balance(b.Payee)
	inv := b.hold(secret())
	b.must(b.Payee.CancelInvoice(b.ctx, inv.PaymentHash))
	p := b.track(inv.PaymentHash)
	if p.State != payments.PaymentFailed || p.FailureReason == "" || p.FeeMsats != 0 || !p.Preimage.IsZero() {
		b.Errorf("payment %+v", p)
	}
	got := b.awaitInvoice(inv.PaymentHash, payments.InvoiceCanceled)
	if got.PaidMsats != 0 || got.Final || !got.SettledAt.IsZero() {
		b.Errorf("canceled invoice %+v", got)
	}
	b.awaitSpendable(b.Payer, payer.SpendableMsats)
	b.awaitSpendable(b.Payee, payee.SpendableMsats)
	b.await(func() bool { return b.balance(b.Payer).ReservedMsats == payer.ReservedMsats }, "nothing is reserved")

	// The money is not to be had by trying again.
	b.expectFailure(b.pay(inv), inv.PaymentHash)
}

func repeatable(b *bench) {
	preimage := secret()
	inv := b.hold(preimage)
	b.must(b.Payee.SettleInvoice(b.ctx, preimage))
	b.must(b.Payee.SettleInvoice(b.ctx, preimage))
	b.track(inv.PaymentHash)
	b.settled(inv)
	payer, payee := b.balance(b.Payer), b.balance(b.Payee)
	b.must(b.Payee.SettleInvoice(b.ctx, preimage))
	if b.balance(b.Payer) != payer || b.balance(b.Payee) != payee {
		b.Error("settling again moved money")
	}

	inv = b.hold(secret())
	b.must(b.Payee.CancelInvoice(b.ctx, inv.PaymentHash))
	b.must(b.Payee.CancelInvoice(b.ctx, inv.PaymentHash))
	b.track(inv.PaymentHash)
	b.awaitSpendable(b.Payer, payer.SpendableMsats)
	b.must(b.Payee.CancelInvoice(b.ctx, inv.PaymentHash))
	b.awaitSpendable(b.Payer, payer.SpendableMsats)
}

func cancelOpen(b *bench) {
	for _, hold := range b.holds() {
		inv := b.create(b.request(secret(), hold))
		b.must(b.Payee.CancelInvoice(b.ctx, inv.PaymentHash))
		b.awaitInvoice(inv.PaymentHash, payments.InvoiceCanceled)
		b.expectFailure(b.pay(inv), inv.PaymentHash)
		b.awaitInvoice(inv.PaymentHash, payments.InvoiceCanceled)
	}
}

func noWayBack(b *bench) {
	preimage := secret()
	inv := b.hold(preimage)
	b.must(b.Payee.CancelInvoice(b.ctx, inv.PaymentHash))
	b.mustFail(b.Payee.SettleInvoice(b.ctx, preimage))
	if p := b.track(inv.PaymentHash); p.State != payments.PaymentFailed {
		b.Errorf("payment %+v", p)
	}
	b.awaitInvoice(inv.PaymentHash, payments.InvoiceCanceled)

	preimage = secret()
	inv = b.hold(preimage)
	b.must(b.Payee.SettleInvoice(b.ctx, preimage))
	b.mustFail(b.Payee.CancelInvoice(b.ctx, inv.PaymentHash))
	if p := b.track(inv.PaymentHash); p.State != payments.PaymentSucceeded {
		b.Errorf("payment %+v", p)
	}
	b.settled(inv)
}

func settleUnpaid(b *bench) {
	preimage := secret()
	inv := b.create(b.request(preimage, true))
	b.mustFail(b.Payee.SettleInvoice(b.ctx, preimage))
	b.awaitInvoice(inv.PaymentHash, payments.InvoiceOpen)
	b.must(b.Payee.CancelInvoice(b.ctx, inv.PaymentHash))
}
