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

// The modes. ModePostpay and ModeFree deviate from the order "paid, then run".
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

// The purposes. An engagement fee pays for the attempt, not for a result; see
// engagement.go.
const (
	PurposeResult     Purpose = "result"
	PurposeEngagement Purpose = "engagement"
)

// Quote is the provider's offer. Its canonical hash is the description hash of
// the invoice, so that paying the invoice takes up exactly this offer.
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
	// Inputs are the ids of the events whose contents the job takes as inputs, in the
	// order in which the request names them: of two results of one request only one is
	// what was run. Empty where the request has its inputs in itself.
	Inputs []string `json:"inputs"`
	// PaymentHash is nil in free mode, and where the wallet chooses the
	// preimage when it makes the invoice. Such an invoice is held for nobody and
	// seals nothing, so it is for modes prepay and postpay, delivered plain.
	PaymentHash *string `json:"payment_hash"`
	// PayeeNode is the compressed node key, 66 hex digits; nil in free mode or
	// where the wallet does not tell it.
	PayeeNode *string `json:"payee_node"`
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

// Terms are what one side already knows when it meets a quote.
type Terms struct {
	RequestID string
	JobHash   hashing.Digest
	SchemaID  string
	Buyer     string   // x-only key in hex
	Provider  string   // x-only key in hex
	MaxMsats  int64    // the most to be paid
	Inputs    []string // ids of the events that the request names as inputs
}

// Matches compares the quote with what was asked for and of whom. The error is
// a *MismatchError for the first field that disagrees.
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

// CheckInvoice decodes the invoice and compares it with the quote that it is
// said to be for: its description hash, amount and, where the quote names
// them, payment hash and payee. network is the wallet's own; of one on the chain
// the invoice must name one address. Nobody should pay
// an invoice that this refuses. It knows no time: the caller compares the
// invoice's ExpiresAt and the quote's Expiry with its clock.
//
// Errors wrap ErrMismatch, ErrInvalid or what bolt11.Decode returns.
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

// checkNetwork compares an invoice with a wallet's network. A wallet on the chain
// needs the one address that the invoice's signer names.
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

// CheckQuoteEvent holds the event in which a provider asks for the price of a quote
// against the quote and the invoice that is to be paid. A buyer that pays an
// engagement fee must have such an event: no receipt of a fee is proved without it.
// Errors wrap ErrInvalid or ErrMismatch.
func CheckQuoteEvent(ev Event, q Quote, bolt11 string) error {
	hash, err := q.Hash()
	if err != nil {
		return fmt.Errorf("quote event: %w", err)
	}
	if err := ev.Verify(); err != nil {
		return fmt.Errorf("quote event: %w", err)
	}
	if err := demands(domain.Quote)(&ev); err != nil {
		return fmt.Errorf("quote event: %w", err)
	}

	asked := demand{provider: q.Provider, buyer: q.Buyer, request: q.RequestID, quote: hash, msats: q.PriceMsats, bolt11: bolt11}
	if err := asked.madeIn(ev); err != nil {
		return fmt.Errorf("quote event: %w", err)
	}
	return nil
}

// demand is what a provider asks for: a price, for a quote, by an invoice.
type demand struct {
	provider, buyer string // x-only keys in hex
	request         string
	quote           hashing.Digest
	msats           int64
	bolt11          string
}

// madeIn wants the demand in an event whose signature is checked already.
func (d demand) madeIn(ev Event) error {
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

// maxPlain bounds a document that has one form.
const maxPlain = 64 << 10

// parseDocument decodes strictly and then demands that encoding gives the same
// bytes: a document has one form, and every byte of it counts.
func parseDocument[T interface{ Canonical() ([]byte, error) }](name string, doc []byte) (T, error) {
	if len(doc) > maxPlain {
		var none T
		return none, fmt.Errorf("%w: %s of more than %d bytes", ErrInvalid, name, maxPlain)
	}
	return parseCanonical[T](name, doc)
}

// parseCanonical reads a document that is its own canonical form. Its size is bounded
// before.
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
		return none, fmt.Errorf("%w: %s is not in canonical form%s", ErrInvalid, name, unlike(doc, again))
	}

	return parsed, nil
}

// unlike says where a document that was read differs from its canonical form: at a
// field that is missing, or at one that is written otherwise; "" if the fields are
// the same and stand otherwise. It names fields of ours alone.
func unlike(doc, canonical []byte) string {
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
