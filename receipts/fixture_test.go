package receipts_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"
	"github.com/btcsuite/btcd/btcec/v2/schnorr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/replay"
	"github.com/lightwork-market/lightwork/schemas"
)

// person derives a key from a name, so that bundles are the same every time.
func person(name string) *btcec.PrivateKey {
	seed := sha256.Sum256([]byte("lightwork test key " + name))
	key, _ := btcec.PrivKeyFromBytes(seed[:])
	return key
}

func xOnly(key *btcec.PrivateKey) string {
	return hex.EncodeToString(schnorr.SerializePubKey(key.PubKey()))
}

func compressed(key *btcec.PrivateKey) string {
	return hex.EncodeToString(key.PubKey().SerializeCompressed())
}

func signInvoice(key *btcec.PrivateKey) func([32]byte) ([65]byte, error) {
	return func(hash [32]byte) ([65]byte, error) {
		return [65]byte(ecdsa.SignCompact(key, hash[:], true)), nil
	}
}

const (
	price     = 21_000
	requested = 1_767_225_600 // 2026-01-01T00:00:00Z
	quoted    = requested + 2
	accepted  = requested + 4
	delivered = requested + 30
	settled   = requested + 32
	expires   = requested + 600
)

// recipe makes a bundle. Its hooks let a test play an attacker who holds every
// key: each changes one document, and what comes later is made to fit.
type recipe struct {
	document string   // the order; requestDoc
	inputs   []string // ids of the events that the request names as inputs
	network  payments.Network
	mode     receipts.Mode
	first    bool // the provider's first receipt
	seal     bool // sealed delivery
	fee      bool // for an engagement fee, not for a result
	asked    bool // of a result: with the event that asks for its price, as of a fee

	request      func(*receipts.Event)
	quote        func(*receipts.Quote)
	invoice      func(*bolt11.Invoice)
	quoteEvent   func(*receipts.Event)
	acceptance   func(*receipts.Acceptance)
	acceptEvent  func(*receipts.Event)
	noAcceptance bool
	session      func([]replay.Line) []replay.Line
	replay       func([]byte) []byte         // the file, once written
	delivered    func(*receipts.ResultTerms) // before the session is written
	recorded     func(*receipts.ResultTerms) // after
	output       func(map[string]any)
	sealed       func(*receipts.Seal)
	resultEvent  func(*receipts.Event)
	receipt      func(*receipts.Receipt)
	receiptEvent func(*receipts.Event)
	finished     func(*receipts.Bundle)

	// The text itself, for documents that no code of ours would write.
	quoteDoc, sealDoc, receiptDoc func([]byte) []byte

	buyer, provider, node *btcec.PrivateKey
	signRequest           *btcec.PrivateKey
	signAcceptance        *btcec.PrivateKey
	signQuote             *btcec.PrivateKey
	signReceipt           *btcec.PrivateKey
}

func (r recipe) orDefault() recipe {
	if r.network == "" {
		r.network = payments.Play
	}
	if r.mode == "" {
		r.mode = receipts.ModeHold
	}
	if r.fee {
		r.mode = receipts.ModePrepay
	}
	if r.document == "" {
		r.document = requestDoc
	}
	if r.buyer == nil {
		r.buyer = person("buyer")
	}
	if r.provider == nil {
		r.provider = person("provider")
	}
	if r.node == nil {
		r.node = person("node")
	}
	if r.signRequest == nil {
		r.signRequest = r.buyer
	}
	if r.signAcceptance == nil {
		r.signAcceptance = r.buyer
	}
	if r.signQuote == nil {
		r.signQuote = r.provider
	}
	if r.signReceipt == nil {
		r.signReceipt = r.provider
	}
	return r
}

// pins fix everything about the default recipe.
func pins() receipts.Pins {
	return receipts.Pins{
		Provider: xOnly(person("provider")), Buyer: xOnly(person("buyer")),
		Payee: compressed(person("node")), Network: payments.Play, Required: receipts.ClaimNames(),
	}
}

const requestDoc = `{"sandbox":{"provider":"host","image_digest":"sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},` +
	`"commands":[{"cmd":"make check"},{"cmd":"cat <notes> & exit"}]}`

const policyDoc = `{"images":{"host":"sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","registered":[]},` +
	`"jobs":{"oa.sandbox_run.v1":{"document_hash":"sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",` +
	`"hash_rules":{"algorithm":"sha256","canonicalization":"rfc8785","scope":"output"},"verification_mode":"objective"}},` +
	`"limits":{"concurrent":2,"context_tokens":0,"free_pow_bits":0,"queue":8,"quote_ttl_ms":60000},"models":{"embed":"","name":""},` +
	`"prices":[{"modes":["hold","postpay"],"price":{"base_msats":0,"input_tokens_per_1k_msats":0,"max_output_tokens":0,` +
	`"output_tokens_per_1k_msats":0,"per_minute_msats":21000},"schema_id":"oa.sandbox_run.v1"}],"producer":"lightwork@1",` +
	`"tables":{"jobs":[{"handler":"sandbox","tag":"run"}]},"tools":{"oa.sandbox_run.v1":{"manifest_hash":"","tool":"sandbox/run","version":"1"}},"version":1}`

var summaryText = []byte("# Fix the parser\n\nVerification: make check PASS\n")

var buildLog = []byte("ok  \tparser\t0.4s\n")

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func digest(b []byte) string { return hashing.Bytes(b).String() }

// made is a bundle with what went into it.
type made struct {
	bundle   *receipts.Bundle
	request  receipts.Event
	quote    receipts.Quote
	bolt11   string
	accept   *receipts.Event
	rule     *string
	terms    receipts.ResultTerms
	result   receipts.Event
	receipt  receipts.Receipt
	evidence receipts.Evidence
}

func preimage() payments.Preimage {
	return payments.Preimage(sha256.Sum256([]byte("lightwork test preimage")))
}

func (r recipe) make() made {
	r = r.orDefault()
	var m made
	m.bundle = &receipts.Bundle{Policy: []byte(policyDoc), Artifacts: map[string][]byte{}}
	job := r.makeRequest(&m)
	r.makeQuote(&m, job)
	r.makeInvoice(&m)
	r.makeQuoteEvent(&m)
	r.makeAcceptance(&m)
	r.makeResult(&m, job)
	r.makeReceipt(&m)
	if r.finished != nil {
		r.finished(m.bundle)
	}
	return m
}

func apply[T any](hook func(T), v T) {
	if hook != nil {
		hook(v)
	}
}

func rewritten(hook func([]byte) []byte, doc []byte) []byte {
	if hook == nil {
		return doc
	}
	return hook(doc)
}

func sign(ev *receipts.Event, key *btcec.PrivateKey) {
	if err := ev.Sign(key); err != nil {
		panic(err)
	}
}

func (r recipe) makeRequest(m *made) *schemas.Request {
	m.request = receipts.Event{Kind: 5050, CreatedAt: requested, Tags: [][]string{
		{"param", "schema", string(schemas.SandboxRun)},
		{"i", r.document, "text"},
		{"output", "application/json"},
		{"bid", "50000"},
		{"p", xOnly(r.provider)},
		domain.Request.Tag(),
	}}
	apply(r.request, &m.request)
	sign(&m.request, r.signRequest)
	m.bundle.Request = m.request.JSON()
	schema, _ := schemas.Lookup(string(schemas.SandboxRun))
	return must(schema.ParseRequest([]byte(r.document)))
}

func (r recipe) makeQuote(m *made, job *schemas.Request) {
	hash, node := preimage().Hash().String(), compressed(r.node)
	m.quote = receipts.Quote{
		Version: 1, RequestID: m.request.ID, JobHash: job.JobHash, SchemaID: string(job.SchemaID),
		Buyer: xOnly(r.buyer), Provider: xOnly(r.provider), PriceMsats: price, Purpose: receipts.PurposeResult,
		ExpiresAt: receipts.Timestamp(time.Unix(expires, 0)), Mode: r.mode, Delivery: r.delivery(),
		Cancellation: "refund_until_processing", PolicyBundleID: hashing.Bytes([]byte(policyDoc)),
		Nonce: "00112233445566778899aabbccddeeff", Inputs: r.inputs, PaymentHash: &hash, PayeeNode: &node,
	}
	if r.fee {
		m.quote.Purpose = receipts.PurposeEngagement
	}
	apply(r.quote, &m.quote)
	m.bundle.Quote = rewritten(r.quoteDoc, must(m.quote.Canonical()))
}

func (r recipe) delivery() receipts.Delivery {
	if r.seal {
		return receipts.DeliverySealed
	}
	return receipts.DeliveryPlain
}

func (r recipe) makeInvoice(m *made) {
	quoteHash := hashing.Bytes(m.bundle.Quote)
	inv := &bolt11.Invoice{
		Network: r.invoiceNetwork(), AmountMsats: price, CreatedAt: time.Unix(quoted, 0).UTC(),
		PaymentHash: preimage().Hash(), PaymentSecret: sha256.Sum256([]byte("payment secret")),
		DescriptionHash: &quoteHash, Expiry: 10 * time.Minute, MinFinalCLTV: 80, Features: []int{8, 14},
	}
	if mint, ok := r.network.CashuMint(); ok {
		inv.Ecash = &bolt11.Ecash{Mint: mint, LockSeconds: 3600, Relays: []string{"wss://relay.example"}}
	}
	if _, ok := r.network.Chain(); ok {
		inv.Fallbacks = []bolt11.Fallback{{Version: 0, Program: bytes.Repeat([]byte{7}, 20)}}
	}
	apply(r.invoice, inv)
	m.bolt11 = must(bolt11.Encode(inv, signInvoice(r.node)))
}

// makeQuoteEvent asks for the price, as a provider does: of a result its own event
// names the quote, and a bundle need not have this one.
func (r recipe) makeQuoteEvent(m *made) {
	if !r.fee && !r.asked {
		return
	}
	ev := receipts.Event{Kind: 7000, CreatedAt: quoted, Content: string(m.bundle.Quote), Tags: [][]string{
		{"status", "payment-required"}, {"e", m.request.ID}, {"p", xOnly(r.buyer)}, {"amount", fmt.Sprint(price), m.bolt11}, domain.Quote.Tag(),
	}}
	apply(r.quoteEvent, &ev)
	sign(&ev, r.signQuote)
	m.bundle.QuoteEvent = ev.JSON()
}

func (r recipe) invoiceNetwork() payments.Network {
	if of, ok := r.network.Chain(); ok {
		return of
	}
	return r.network
}

// proof is the value of the receipt's payment_proof.
func (r recipe) proof() (value, outpoints string) {
	if _, ok := r.network.Chain(); ok {
		return someOutput, someOutput
	}
	return preimage().String(), ""
}

// someOutput is an output of some transaction.
var someOutput = strings.Repeat("ab", 32) + ":1"

func (r recipe) makeAcceptance(m *made) {
	if r.noAcceptance {
		return
	}
	rule := "auto_below_50_sats"
	a := must(m.quote.Accept(preimage().Hash(), &rule))
	apply(r.acceptance, &a)
	m.rule = a.ApprovalRuleID
	ev := receipts.Event{
		Kind: kinds.Acceptance, CreatedAt: accepted, Content: string(must(a.Canonical())),
		Tags: [][]string{{"e", a.RequestID}, {"p", xOnly(r.provider)}, domain.Acceptance.Tag()},
	}
	apply(r.acceptEvent, &ev)
	sign(&ev, r.signAcceptance)
	m.accept = &ev
	m.bundle.Acceptance = ev.JSON()
}

// wantStates compares a report with the claims that are not proved.
func wantStates(t *testing.T, report receipts.Report, want map[string]receipts.State) {
	t.Helper()
	for _, c := range report.Claims {
		expected, ok := want[c.Name]
		if !ok {
			expected = receipts.Proved
		}
		if c.State != expected {
			t.Errorf("%s is %q, want %q: %s", c.Name, c.State, expected, c.Reason)
		}
	}
}
