package provider_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"
	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
	"github.com/lightwork-market/lightwork/provider"
)

// slowInvoice is one whose payee may take two weeks.
func slowInvoice(t *testing.T) string {
	t.Helper()
	key, err := btcec.NewPrivateKey()
	check(t, err)
	text, err := bolt11.Encode(&bolt11.Invoice{
		Network: payments.Play, AmountMsats: rateMsats, CreatedAt: time.Now(), Expiry: time.Hour, MinFinalCLTV: 2016,
		PaymentHash: payments.Hash{1}, PaymentSecret: [32]byte{1}, Description: "later",
	}, func(hash [32]byte) ([65]byte, error) { return [65]byte(ecdsa.SignCompact(key, hash[:], true)), nil })
	check(t, err)
	return text
}

// TestHeldRefundsHoldUpNoOther: who takes its refunds and does not let them end
// keeps nobody else from theirs.
func TestHeldRefundsHoldUpNoOther(t *testing.T) {
	const held = 20
	w := newWorld(t)
	w.failing()
	w.serve(t, func(cfg *provider.Config) {
		w.refunding(cfg)
		cfg.Limits.Concurrent, cfg.Limits.QueuePerBuyer = held+1, held+1
	})
	c := w.customer(t, nil)
	paid := func(n int, refund string) string {
		req := w.request(t, c.key, order(""), nostr.Tag{"param", "payment_mode", "prepay"},
			nostr.Tag{"param", "refund", refund}, nostr.Tag{"t", strconv.Itoa(n)})
		w.payByHand(t, c, req)
		return req.ID
	}
	var hashes []payments.Hash
	var ids []string
	for n := range held {
		hash := payments.Preimage{byte(n), 1}.Hash()
		inv, err := c.wallet.CreateInvoice(w.ctx, payments.NewInvoice{
			PaymentHash: hash, Hold: true, AmountMsats: rateMsats, Expiry: time.Hour, DescriptionHash: hashing.Bytes(nil),
		})
		check(t, err)
		hashes = append(hashes, hash)
		ids = append(ids, paid(n, inv.BOLT11))
	}
	for _, id := range ids {
		w.ended(t, id)
	}
	last := paid(held, w.invoice(t, c.party, rateMsats, time.Hour))
	w.ended(t, last)
	if d := w.debt(t, last); d.Refund.End.State != payments.PaymentSucceeded {
		t.Errorf("refund %+v", d.Refund.End)
	}
	for _, hash := range hashes {
		check(t, c.wallet.CancelInvoice(w.ctx, hash))
	}
}
