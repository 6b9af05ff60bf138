package provider_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"
	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
	"github.com/lightwork-market/lightwork/provider"
)

// slowInvoice is one whose payee may take two weeks.
func slowInvoice(t *testing.T) string {
	t.Helper()
	key, err := btcec.NewPrivateKey()
	markettest.Check(t, err)
	text, err := bolt11.Encode(&bolt11.Invoice{
		Network: payments.Play, AmountMsats: markettest.RateMsats, CreatedAt: time.Now(), Expiry: time.Hour, MinFinalCLTV: 2016,
		PaymentHash: payments.Hash{1}, PaymentSecret: [32]byte{1}, Description: "later",
	}, func(hash [32]byte) ([65]byte, error) { return [65]byte(ecdsa.SignCompact(key, hash[:], true)), nil })
	markettest.Check(t, err)
	return text
}

// TestHeldRefundsHoldUpNoOther: who takes its refunds and does not let them end
// keeps nobody else from theirs.
func TestHeldRefundsHoldUpNoOther(t *testing.T) {
	const held = 20
	w := markettest.New(t)
	w.Failing()
	w.Serve(t, func(cfg *provider.Config) {
		w.Refunding(cfg)
		cfg.Limits.Concurrent, cfg.Limits.QueuePerBuyer = held+1, held+1
	})
	c := w.NewCustomer(t, nil)
	paid := func(n int, refund string) string {
		req := w.Request(t, c.Key, markettest.SandboxInput(""), nostr.Tag{"param", "payment_mode", "prepay"},
			nostr.Tag{"param", "refund", refund}, nostr.Tag{"t", strconv.Itoa(n)})
		payByHand(t, w, c, req)
		return req.ID
	}
	var hashes []payments.Hash
	var ids []string
	for n := range held {
		hash := payments.Preimage{byte(n), 1}.Hash()
		inv, err := c.Wallet.CreateInvoice(w.Ctx, payments.NewInvoice{
			PaymentHash: hash, Hold: true, AmountMsats: markettest.RateMsats, Expiry: time.Hour, DescriptionHash: hashing.Bytes(nil),
		})
		markettest.Check(t, err)
		hashes = append(hashes, hash)
		ids = append(ids, paid(n, inv.BOLT11))
	}
	for _, id := range ids {
		w.Ended(t, id)
	}
	last := paid(held, invoice(t, w, c.Party, markettest.RateMsats, time.Hour))
	w.Ended(t, last)
	if d := w.Debt(t, last); d.Refund.End.State != payments.PaymentSucceeded {
		t.Errorf("refund %+v", d.Refund.End)
	}
	for _, hash := range hashes {
		markettest.Check(t, c.Wallet.CancelInvoice(w.Ctx, hash))
	}
}
