//go:build lnd

package lnd

import (
	"errors"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/payments"
)

// answers holds the real lnd to the list that the fake is held to.
func (r *realNetwork) answers(t *testing.T) {
	open, _ := r.invoice(t, r.payee, true)
	canceled, _ := r.invoice(t, r.payee, true)
	if err := r.payee.CancelInvoice(t.Context(), canceled.Hash()); err != nil {
		t.Fatal(err)
	}
	checkQuirks(t, r.payee, open, canceled)
	if err := r.payee.CancelInvoice(t.Context(), open.Hash()); err != nil {
		t.Fatal(err)
	}
}

// locked: a node that waits for its password says so, with what to do; opened,
// it has no channel, and says that too. Neither costs or begins anything.
func (r *realNetwork) locked(t *testing.T) {
	node, err := r.AddLockedNode(t.Context(), "erin")
	if err != nil {
		t.Fatal(err)
	}
	w, err := Open(Config{Address: node.Address(), TLSCertFile: node.TLSCertFile(), MacaroonFile: node.MacaroonFile(), Log: r.log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	preimage, pay := r.invoice(t, r.payee, false)
	_, nodeErr := w.Node(t.Context())
	for what, err := range map[string]error{"asked who it is": nodeErr, "told to pay": w.SendPayment(t.Context(), pay)} {
		if !errors.Is(err, ErrWalletLocked) || !errors.Is(err, payments.ErrWalletUnavailable) || !strings.Contains(err.Error(), "lncli unlock") {
			t.Errorf("a locked lnd, %s: %v", what, err)
		}
	}
	if err := node.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.await(t, "it answers", func() bool { _, err := w.Node(t.Context()); return err == nil })

	err = w.SendPayment(t.Context(), pay)
	if !errors.Is(err, payments.ErrInsufficientFunds) && !errors.Is(err, payments.ErrNoRoute) {
		t.Errorf("paying without a channel: %v", err)
	}
	if err == nil || !strings.Contains(err.Error(), "channel") {
		t.Errorf("no hint at the channel: %v", err)
	}
	p, err := w.LookupPayment(t.Context(), preimage.Hash())
	if err != nil || p.State != payments.PaymentFailed || !strings.Contains(p.FailureReason, "channel") {
		t.Errorf("the payment is %+v, %v", p, err)
	}
}
