//go:build lnd

package lnd

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/payments"
)

// middleAway (B5): a third node holds the payment at the far end, and the one
// between dies. The payer's node has it in flight, and says of what and until
// when; once all are back it ends as the payee wants.
func (r *realNetwork) middleAway(t *testing.T) {
	ctx := t.Context()
	carol, err := r.AddNode(ctx, "far-end")
	must(t, err)
	must(t, r.Fund(ctx, r.Alice))
	must(t, r.OpenChannel(ctx, r.Alice, carol, 1_000_000, 0))
	must(t, r.Bob.WaitGossip(ctx, carol))
	far := r.wallet(t, carol, Payee)
	before := r.spendable(t, r.payer)
	preimage, pay := r.invoice(t, far, true)
	must(t, r.payer.SendPayment(ctx, pay))
	r.await(t, "held at the far end", func() bool {
		inv, err := far.LookupInvoice(ctx, preimage.Hash())
		return err == nil && inv.State == payments.InvoiceHeld
	})
	if said := r.stuckFor(t, preimage.Hash(), time.Hour); !strings.Contains(said, "held on the route or by the payee: it ends at block") {
		t.Errorf("while it is held: %q", said)
	}
	r.Alice.Kill()
	must(t, far.SettleInvoice(ctx, preimage))
	r.await(t, "the middle is missed", func() bool {
		return strings.Contains(r.stuckFor(t, preimage.Hash(), time.Hour), "is not connected: the payment ends when it returns, or at block")
	})
	p, err := r.payer.LookupPayment(ctx, preimage.Hash())
	if err != nil || p.State != payments.PaymentInFlight || p.Warning != "" {
		t.Errorf("%+v, %v", p, err)
	}
	must(t, r.Alice.Start(ctx))
	must(t, r.Alice.WaitChannel(ctx, carol))
	r.channelIsBack(t)
	long, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	p, err = r.payer.TrackPayment(long, preimage.Hash())
	if err != nil || p.State != payments.PaymentSucceeded || p.Preimage != preimage {
		t.Errorf("%+v, %v", p, err)
	}
	r.await(t, "the payer has paid amount and fee", func() bool { return r.spendable(t, r.payer) == before-testMsats-p.FeeMsats })
}

// stuckFor is the warning of a payment that began so long ago.
func (r *realNetwork) stuckFor(t *testing.T, hash payments.Hash, age time.Duration) string {
	t.Helper()
	raw, err := r.payer.track(t.Context(), hash)
	must(t, err)
	raw.CreationTimeNs = time.Now().Add(-age).UnixNano()
	return r.payer.warning(t.Context(), raw, hash)
}
