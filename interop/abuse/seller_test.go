package abuse_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"
	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/interop/outside"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// seller is an attacker who is announced as a provider.
type seller struct {
	*attacker
	node string // of its wallet
}

func newSeller(t *testing.T, w *world) *seller {
	t.Helper()
	return newOutsider(t, w, fmt.Sprintf(`{"name":%q,"capabilities":{"supported_jobs":[%q]},"lightwork":{"version":1,`+
		`"modes":{%q:["prepay","hold","postpay","free"]},"base_msats":{%q:%d},"network":"play"}}`, attackerName, rerank, rerank, rerank, price))
}

// newOutsider is a seller who announces anything.
func newOutsider(t *testing.T, w *world, announcement string) *seller {
	t.Helper()
	s := &seller{attacker: newAttacker(t, w)}
	node, err := s.wallet.Node(t.Context())
	s.must(err)
	s.node = node.PubKey
	s.put(s.sign(31990, announcement, nostr.Tag{"d", "lightwork"}, nostr.Tag{"k", "5050"}, nostr.Tag{"t", rerank}, domain.Announcement.Tag()))
	return s
}

// asked waits for the buyer's next request to this seller.
func (s *seller) asked(known ...string) nostr.Event {
	s.t.Helper()
	return s.await("a request", func(ev nostr.Event) bool {
		for _, id := range known {
			if ev.ID == id {
				return false
			}
		}
		return ev.Kind == 5050 && ev.Tags.ContainsAny("p", []string{s.key})
	})
}

// deal is what an honest provider would ask for; a case changes something.
type deal struct {
	quote   receipts.Quote
	invoice bolt11.Invoice
	amount  string
	node    *btcec.PrivateKey // signs the invoice
	ready   string            // an invoice that is there already
	spoil   func(bolt11 string) string
}

// deal makes terms for a request, payable to a node that nobody reaches.
func (s *seller) deal(req nostr.Event, mode receipts.Mode) *deal {
	s.t.Helper()
	typed, err := receipts.RequestOf(req.Tags)
	s.must(err)
	schema, _ := schemas.Lookup(typed.SchemaID)
	job, err := schema.ParseRequest(typed.Input)
	s.must(err)
	key, err := btcec.NewPrivateKey()
	s.must(err)
	var preimage payments.Preimage
	copy(preimage[:], key.Serialize())
	hash, node := preimage.Hash().String(), hex.EncodeToString(key.PubKey().SerializeCompressed())
	return &deal{
		quote: receipts.Quote{
			Version: 1, RequestID: req.ID, JobHash: job.JobHash, SchemaID: typed.SchemaID, Buyer: req.PubKey, Provider: s.key,
			PriceMsats: price, Purpose: receipts.PurposeResult, ExpiresAt: receipts.Timestamp(time.Now().Add(time.Hour)), Mode: mode,
			Delivery: receipts.DeliveryPlain, Cancellation: "none", PolicyBundleID: hashing.Bytes(nil), Nonce: strings.Repeat("0", 32),
			PaymentHash: &hash, PayeeNode: &node,
		},
		invoice: bolt11.Invoice{
			Network: payments.Play, AmountMsats: price, CreatedAt: time.Now(), PaymentHash: preimage.Hash(),
			PaymentSecret: [32]byte{9}, Expiry: time.Hour, Features: []int{8, 14},
		},
		amount: strconv.Itoa(price), node: key,
	}
}

// payable makes an invoice of the seller's own wallet for a deal.
func (s *seller) payable(d *deal) {
	s.t.Helper()
	d.quote.PayeeNode = &s.node
	doc, err := d.quote.Canonical()
	s.must(err)
	var preimage payments.Preimage
	copy(preimage[:], d.node.Serialize())
	inv, err := s.wallet.CreateInvoice(s.t.Context(), payments.NewInvoice{
		Preimage: preimage, AmountMsats: d.quote.PriceMsats, DescriptionHash: hashing.Bytes(doc), Expiry: time.Hour,
	})
	s.must(err)
	d.ready = inv.BOLT11
}

// demand publishes the payment-required of a deal and returns its invoice.
func (s *seller) demand(req nostr.Event, d *deal) string {
	s.t.Helper()
	content, err := d.quote.Canonical()
	s.must(err)
	text := d.ready
	if text == "" {
		if d.invoice.DescriptionHash == nil && d.invoice.Description == "" {
			h := hashing.Bytes(content)
			d.invoice.DescriptionHash = &h
		}
		text, err = bolt11.Encode(&d.invoice, func(h [32]byte) (sig [65]byte, err error) {
			copy(sig[:], ecdsa.SignCompact(d.node, h[:], true))
			return sig, nil
		})
		s.must(err)
	}
	if d.spoil != nil {
		text = d.spoil(text)
	}
	s.put(s.sign(7000, string(content), nostr.Tag{"status", "payment-required"}, nostr.Tag{"e", req.ID}, nostr.Tag{"p", req.PubKey}, nostr.Tag{"amount", d.amount, text}, domain.Quote.Tag()))
	return text
}

// earned waits until an invoice of the seller's wallet is paid.
func (s *seller) earned(hash payments.Hash) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), outside.Patience)
	defer cancel()
	for {
		inv, err := s.wallet.LookupInvoice(ctx, hash)
		s.must(err)
		if inv.State == payments.InvoiceSettled {
			return
		}
	}
}

// outcome is what the buyer prints of a purchase.
type outcome struct {
	State     string
	Provider  string
	Reason    string
	PaidMsats int64           `json:"paid_msats"`
	Output    json.RawMessage `json:"output"`
}

func outcomeOf(t *testing.T, p *outside.Process) (o outcome) {
	t.Helper()
	p.Ended(t)
	if err := json.Unmarshal([]byte(p.Out.Text()), &o); err != nil {
		t.Fatalf("the buyer says %q: %v", p.Out.Text(), err)
	}
	return o
}

// result is the seller's honest result for a request, said to rank id first.
func (s *seller) result(req nostr.Event, id string) (content string, tags nostr.Tags) {
	s.t.Helper()
	content = fmt.Sprintf(`{"provenance":{"model_id":"none","provider_pubkey":%q},"topk":[{"id":%q,"rank":1,"score":1}]}`, s.key, id)
	quote := s.deal(req, receipts.ModeFree).quote
	return content, nostr.Tags{
		{"e", req.ID},
		{"p", req.PubKey},
		{"amount", "0"},
		{"schema", rerank},
		{"job_hash", quote.JobHash.String()},
		{"output_hash", hashing.Bytes([]byte(content)).String()},
		domain.Result.Tag(),
	}
}
