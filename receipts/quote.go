package receipts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
)

// Version is the version of every document of this package.
const Version = 1

// Mode is when a job is paid.
type Mode string

// The modes. In ModePostpay and ModeFree the job runs before it is paid, or unpaid.
const (
	ModeHold    Mode = "hold"
	ModePrepay  Mode = "prepay"
	ModePostpay Mode = "postpay"
	ModeFree    Mode = "free"
)

// Delivery is how the result reaches the buyer.
type Delivery string

// The deliveries.
const (
	DeliveryPlain  Delivery = "plain"
	DeliverySealed Delivery = "sealed"
)

// Purpose is what a payment is for.
type Purpose string

// The purposes. An engagement fee pays for the attempt and not for a result.
const (
	PurposeResult     Purpose = "result"
	PurposeEngagement Purpose = "engagement"
)

// Quote is the provider's offer. Its hash is the description hash of the invoice, so
// that paying the invoice accepts exactly this offer.
type Quote struct {
	Version        int            `json:"version"`
	RequestID      string         `json:"request_id"` // event id, 64 hex digits
	JobHash        hashing.Digest `json:"job_hash"`
	SchemaID       string         `json:"schema_id"`
	Buyer          string         `json:"buyer"`    // x-only key, 64 hex digits
	Provider       string         `json:"provider"` // x-only key, 64 hex digits
	PriceMsats     int64          `json:"price_msats"`
	Purpose        Purpose        `json:"purpose"`
	ExpiresAt      string         `json:"expires_at"` // RFC 3339, UTC, whole seconds: see Timestamp
	Mode           Mode           `json:"mode"`
	Delivery       Delivery       `json:"delivery"`
	Cancellation   string         `json:"cancellation"` // such as "refund_until_output"
	PolicyBundleID hashing.Digest `json:"policy_bundle_id"`
	Nonce          string         `json:"nonce"` // 32 hex digits
	// Inputs are the ids of the events whose contents are the job's inputs, in the
	// request's order; empty if the request contains its inputs itself. A request may
	// reference "the result of job X", of which several events can exist, so the quote
	// fixes the ones that are used.
	Inputs []string `json:"inputs"`
	// PaymentHash is nil in free mode, and if the wallet chooses the preimage when it
	// makes the invoice. Such a payment cannot be held and its preimage cannot open
	// boxes, so this is only for plain delivery in modes prepay and postpay.
	PaymentHash *string `json:"payment_hash"`
	// PayeeNode is the compressed node key, 66 hex digits; nil in free mode, and if the
	// wallet does not know it.
	PayeeNode *string `json:"payee_node"`
	// Retention is what the provider promises to keep of this job, and for how long; nil
	// if it promises nothing.
	Retention *Retention `json:"retention,omitempty"`
}

// Canonical validates the quote and returns its canonical JSON.
func (q Quote) Canonical() ([]byte, error) {
	if q.Inputs == nil {
		q.Inputs = []string{}
	}
	if err := q.validate(keyring{}); err != nil {
		return nil, err
	}
	return hashing.CanonicalValue(q)
}

// Hash is the digest of Canonical: the quote_hash.
func (q Quote) Hash() (hashing.Digest, error) { return sumOf(q.Canonical()) }

// Expiry is ExpiresAt as a time; zero if the quote is invalid.
func (q Quote) Expiry() time.Time {
	t, err := parseTimestamp(q.ExpiresAt)
	if err != nil {
		return time.Time{}
	}
	return t
}

// ParseQuote reads a quote, which must be its own canonical form. Errors wrap
// ErrInvalid.
func ParseQuote(doc []byte) (Quote, error) {
	return readDocument[Quote]("quote", doc, keyring{})
}

func (q Quote) validate(keys keyring) error {
	c := checks{document: "quote", keys: keys}
	c.version(q.Version)
	c.id("request_id", q.RequestID)
	c.digest("job_hash", q.JobHash)
	c.schema("schema_id", q.SchemaID)
	c.err(c.keys.key("buyer", q.Buyer))
	c.err(c.keys.key("provider", q.Provider))
	c.timestamp("expires_at", q.ExpiresAt)
	c.digest("policy_bundle_id", q.PolicyBundleID)
	c.that(isHex(q.Nonce, 32), "nonce is not 32 lower-case hex digits")
	c.that(isToken(q.Cancellation), "cancellation is not a word")
	c.that(q.Inputs != nil && len(q.Inputs) <= MaxReferences, "inputs are no list, or too many")
	for _, id := range q.Inputs {
		c.id("an input", id)
	}
	c.that(q.Purpose == PurposeResult || q.Purpose == PurposeEngagement, "purpose is unknown")
	c.delivery(q.Delivery, q.Mode)
	c.engagement(q.Purpose, q.Mode, q.Delivery)
	c.optionalHash("payment_hash", q.PaymentHash)
	if q.PayeeNode != nil {
		c.err(c.keys.node("payee_node", *q.PayeeNode))
	}
	if q.Retention != nil {
		c.err(q.Retention.Validate())
	}

	switch q.Mode {
	case ModeHold, ModePrepay, ModePostpay:
		c.that(q.PriceMsats > 0 && q.PriceMsats <= payments.MaxMsats, "price_msats is out of range")
		c.that(q.PaymentHash != nil || q.Mode != ModeHold && q.Delivery != DeliverySealed, "payment_hash is null, which mode hold and delivery sealed do not allow")
	case ModeFree:
		c.that(q.PriceMsats == 0 && q.PaymentHash == nil && q.PayeeNode == nil, "a free quote has a price, a payment_hash or a payee_node")
	default:
		c.that(false, "mode is unknown")
	}

	return c.failed
}

// Terms are what a reader of a quote already knows; see [Quote.Matches].
type Terms struct {
	RequestID string
	JobHash   hashing.Digest
	SchemaID  string
	Buyer     string   // x-only key in hex
	Provider  string   // x-only key in hex
	MaxMsats  int64    // the most to be paid
	Inputs    []string // ids of the events that the request references as inputs
}

// Matches compares the quote with the terms. The error is a [*MismatchError] for the
// first field that differs.
func (q Quote) Matches(t Terms) error {
	if err := firstMismatch(
		match("request_id", q.RequestID, t.RequestID),
		match("job_hash", q.JobHash, t.JobHash),
		match("schema_id", q.SchemaID, t.SchemaID),
		match("buyer", q.Buyer, t.Buyer),
		match("provider", q.Provider, t.Provider),
		matchInputs(q.Inputs, t.Inputs),
	); err != nil {
		return err
	}

	if q.PriceMsats < 0 || q.PriceMsats > t.MaxMsats {
		return &MismatchError{"price_msats", fmt.Sprint(q.PriceMsats), fmt.Sprintf("at most %d", t.MaxMsats)}
	}
	return nil
}

// CheckInvoice decodes the invoice of a quote and compares its description hash, amount
// and network and, if the quote names them, payment hash and payee. network is that of
// the wallet that pays; if it pays on the chain, the invoice must name one address. An
// invoice that CheckInvoice refuses must not be paid. The caller must also compare the
// invoice's ExpiresAt and the quote's [Quote.Expiry] with its clock.
//
// Errors wrap [ErrMismatch], [ErrInvalid] or those of [bolt11.Decode].
func CheckInvoice(q Quote, invoice string, network payments.Network) (*bolt11.Invoice, error) {
	inv, err := bolt11.Decode(invoice)
	if err != nil {
		return nil, fmt.Errorf("check invoice: %w", err)
	}
	hash, err := q.Hash()
	if err != nil {
		return nil, fmt.Errorf("check invoice: %w", err)
	}
	if q.Mode == ModeFree {
		return nil, fmt.Errorf("check invoice: %w: a free quote has no invoice", ErrInvalid)
	}
	if inv.DescriptionHash == nil {
		return nil, fmt.Errorf("check invoice: %w", &MismatchError{"description_hash", "", hash.String()})
	}

	err = firstMismatch(
		match("description_hash", *inv.DescriptionHash, hash),
		checkNetwork(q, inv, network),
		match("amount", inv.AmountMsats, q.PriceMsats),
		matchOptional("payment_hash", inv.PaymentHash.String(), q.PaymentHash),
		matchOptional("payee_node", inv.Payee, q.PayeeNode),
	)
	if err != nil {
		return nil, fmt.Errorf("check invoice: %w", err)
	}
	return inv, nil
}

// checkNetwork compares an invoice with the paying wallet's network. To pay on the
// chain, the wallet needs the one address that the invoice names.
func checkNetwork(q Quote, inv *bolt11.Invoice, network payments.Network) error {
	of, onChain := network.Chain()
	if !onChain {
		return match("network", inv.Network, network)
	}
	if q.Mode != ModePrepay {
		return fmt.Errorf("%w: in mode %s it cannot be paid on the chain, only in prepay", ErrMismatch, q.Mode)
	}
	if _, err := inv.ChainAddress(); err != nil {
		return fmt.Errorf("%w: it cannot be paid on the chain: %w", ErrMismatch, err)
	}
	return match("network", inv.Network, of)
}

// CheckQuoteEvent compares a provider's event with the quote and the invoice that it
// should carry. A buyer needs such an event before it pays an engagement fee, because
// the receipt of a fee cannot be proved without it. Errors wrap [ErrInvalid] or
// [ErrMismatch].
func CheckQuoteEvent(ev Event, q Quote, bolt11 string) error {
	hash, err := q.Hash()
	if err != nil {
		return fmt.Errorf("quote event: %w", err)
	}
	if err := ev.Verify(); err != nil {
		return fmt.Errorf("quote event: %w", err)
	}
	if err := requireDomain(domain.Quote)(&ev); err != nil {
		return fmt.Errorf("quote event: %w", err)
	}

	asked := demand{provider: q.Provider, buyer: q.Buyer, request: q.RequestID, quote: hash, msats: q.PriceMsats, bolt11: bolt11}
	if err := asked.checkEvent(ev); err != nil {
		return fmt.Errorf("quote event: %w", err)
	}
	return nil
}

// demand is a provider's request for payment: quote, price and invoice.
type demand struct {
	provider, buyer string // x-only keys in hex
	request         string
	quote           hashing.Digest
	msats           int64
	bolt11          string
}

// checkEvent checks that an event, whose signature is known to be valid, makes this
// demand.
func (d demand) checkEvent(ev Event) error {
	if err := firstMismatch(
		match("pubkey", ev.PubKey, d.provider),
		match("the hash of its content", hashing.Bytes([]byte(ev.Content)), d.quote),
		onlyTag(ev, "e", d.request),
		onlyTag(ev, "p", d.buyer),
		onlyTag(ev, "status", "payment-required"),
		onlyTag(ev, "amount", strconv.FormatInt(d.msats, 10)),
	); err != nil {
		return err
	}

	if i := slices.IndexFunc(ev.Tags, func(t []string) bool { return len(t) == 3 && t[0] == "amount" }); i < 0 || ev.Tags[i][2] != d.bolt11 {
		return fmt.Errorf("%w: its tag amount names another invoice, or none", ErrMismatch)
	}
	return nil
}

// maxPlain bounds a canonical document.
const maxPlain = 64 << 10

// parseDocument decodes strictly and demands that encoding gives the same bytes: a
// document is identified by its hash, so it must have exactly one form.
func parseDocument[T interface{ Canonical() ([]byte, error) }](name string, doc []byte) (T, error) {
	if len(doc) > maxPlain {
		var none T
		return none, fmt.Errorf("%w: %s of more than %d bytes", ErrInvalid, name, maxPlain)
	}
	return parseCanonical[T](name, doc)
}

// parseCanonical is parseDocument without a bound on the size.
func parseCanonical[T interface{ Canonical() ([]byte, error) }](name string, doc []byte) (T, error) {
	var parsed, none T
	if err := hashing.Unmarshal(doc, &parsed); err != nil {
		return none, fmt.Errorf("%w: %s: %w", ErrInvalid, name, err)
	}
	again, err := parsed.Canonical()
	if err != nil {
		return none, err
	}
	if !bytes.Equal(again, doc) {
		return none, fmt.Errorf("%w: %s is not in canonical form%s", ErrInvalid, name, firstDifference(doc, again))
	}

	return parsed, nil
}

// firstDifference names the field in which a document differs from its canonical form:
// a missing one, or one that is written differently; "" if only order or spacing
// differ. It names only fields that we define, never a stranger's text.
func firstDifference(doc, canonical []byte) string {
	var is, want map[string]json.RawMessage
	if json.Unmarshal(doc, &is) != nil || json.Unmarshal(canonical, &want) != nil {
		return ""
	}

	for _, field := range slices.Sorted(maps.Keys(want)) {
		switch value, there := is[field]; {
		case !there:
			return ": " + field + " is missing"
		case !bytes.Equal(value, want[field]):
			return ": see " + field
		}
	}
	return ""
}

func sumOf(doc []byte, err error) (hashing.Digest, error) {
	if err != nil {
		return hashing.Digest{}, err
	}
	return hashing.Bytes(doc), nil
}
