package receipts

import (
	"fmt"
	"slices"
	"time"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
	"github.com/lightwork-market/lightwork/schemas"
)

// verifier holds the parsed parts that several claims use.
type verifier struct {
	bundle   *Bundle
	pins     Pins
	receipt  Receipt
	provider string // hex
	buyer    string // hex
	keys     keyring

	invoice    *bolt11.Invoice
	invoiceErr error
	offer      Quote // from QUOTE.json, even if the receipt names another quote
	offerErr   error

	// The result is compared with these two. requestKind is set once the request is
	// known to be the one that the receipt names, request once its document is valid.
	requestKind int
	untyped     bool // the request has no schema: its result event carries only the text
	request     *schemas.Request

	gone map[string]string // why, by part, of what the provider says that it has pruned
}

// Verify grades what the bundle proves, following the numbered steps of
// docs/protocol/receipt.md. It does not panic on hostile input, and it does not change
// the bundle.
func Verify(b *Bundle, pins Pins) Report {
	var batch Batch
	batch.Add(b, pins)
	return batch.Verify()[0]
}

// verify is Verify. If deferred is not nil, the signatures are only collected there.
func verify(b *Bundle, pins Pins, deferred *signatureBatch) Report {
	report := newReport(pins)
	v, err := newVerifier(b, pins, deferred)
	if err != nil {
		return report.unusable(err)
	}
	v.describe(&report)

	for i, grade := range []func(grader){
		v.signature, v.job, v.result, v.trajectory, v.preimage, v.amount, v.invoiceCommits,
		v.buyerAccepted, v.payeePinned, v.policy, v.chain,
	} {
		grade(grader{&report.Claims[i], deferred})
	}

	return report
}

// newVerifier makes steps 0.1 to 0.3. If one fails, the bundle is unusable.
func newVerifier(b *Bundle, pins Pins, deferred *signatureBatch) (*verifier, error) {
	v := &verifier{bundle: b, pins: pins, keys: newKeyring(deferred)}

	// 0.1 The pins are well-formed, and every required claim exists.
	if err := v.readPins(); err != nil {
		return nil, err
	}

	// 0.2 RECEIPT.json is there, is a receipt, and is its own canonical form.
	if b == nil || b.Receipt == nil {
		return nil, fmt.Errorf("%w: no %s", ErrBundle, FileReceipt)
	}

	var err error
	if v.receipt, err = readDocument[Receipt]("receipt", b.Receipt, v.keys); err != nil {
		return nil, err
	}
	if v.provider, err = v.keys.npub(v.receipt.ProviderID); err != nil {
		return nil, err
	}
	if v.buyer, err = v.keys.npub(v.receipt.BuyerID); err != nil {
		return nil, err
	}

	// 0.3 The invoice is decoded once, its signature included.
	v.invoice, v.invoiceErr = deferred.decode(v.receipt.BOLT11, v.receipt.PayeeNode)
	v.offer, v.offerErr = readDocument[Quote]("quote", b.Quote, v.keys)
	return v, nil
}

func (v *verifier) readPins() error {
	for _, name := range v.pins.Required {
		if !slices.Contains(ClaimNames(), name) {
			return fmt.Errorf("%w: there is no claim %s", ErrInvalid, quoted(name))
		}
	}

	for _, key := range []*string{&v.pins.Provider, &v.pins.Buyer} {
		if *key == "" {
			continue
		}
		hexKey, err := v.keys.parse(*key)
		if err != nil {
			return fmt.Errorf("pin: %w", err)
		}
		*key = hexKey
	}

	also := make([]string, 0, len(v.pins.Also))
	for _, key := range v.pins.Also {
		hexKey, err := v.keys.parse(key)
		if err != nil {
			return fmt.Errorf("pin also: %w", err)
		}
		also = append(also, hexKey)
	}
	v.pins.Also = also

	if v.pins.Payee != "" {
		if err := v.keys.node("pin payee", v.pins.Payee); err != nil {
			return err
		}
	}

	if v.pins.Network != "" {
		if _, err := payments.ParseNetwork(string(v.pins.Network)); err != nil {
			return fmt.Errorf("pin: %w", err)
		}
	}

	return nil
}

// describe sets the fields of the report before the claims.
func (v *verifier) describe(r *Report) {
	rec := v.receipt
	r.ReceiptID, r.ProviderID, r.BuyerID = rec.ReceiptID, rec.ProviderID, rec.BuyerID
	r.AmountMsats, r.AssetID, r.Mode, r.Purpose = rec.AmountMsats, rec.AssetID, rec.Mode, rec.PaidFor()
	hash := hashing.Bytes(v.bundle.Receipt)
	r.Sequence, r.ReceiptHash, r.PreviousReceiptHash = rec.Sequence, &hash, rec.PreviousReceiptHash

	for _, p := range []struct{ name, value string }{
		{"provider", v.pins.Provider},
		{"buyer", v.pins.Buyer},
		{"payee", v.pins.Payee},
		{"network", string(v.pins.Network)},
	} {
		if p.value == "" {
			r.SelfAsserted = append(r.SelfAsserted, p.name)
		}
	}

	if rec.Mode == ModePostpay {
		r.Notes = append(r.Notes, postpayNote)
	}

	switch rec.AssetID {
	case payments.AssetID(payments.Mainnet), payments.AssetID(payments.Mainnet.OnChain()):
	case payments.AssetID(payments.Play):
		r.Notes = append(r.Notes, "play money: the invoice is of the play-money ledger and worth nothing")
	default:
		r.Notes = append(r.Notes, "the asset "+quoted(rec.AssetID)+" is not bitcoin on the main network")
	}

	if rec.Rail == payments.RailCashu {
		r.Notes = append(r.Notes, "cashu: the money is the promise of a mint, and only the mint's word says that its notes were good and are spent")
	}
	if rec.Rail == payments.RailOnChain {
		r.Notes = append(r.Notes, "onchain: nothing offline shows whether the outputs were paid, when, and that they still are; the chain does")
	}
	if rec.isEngagement() {
		r.Notes = append(r.Notes, "engagement fee: the payment was for the attempt, not for a result")
		for i, c := range r.Claims {
			if c.Name == ClaimResult || c.Name == ClaimTrajectory {
				r.Claims[i].Required = slices.Contains(v.pins.Required, c.Name)
			}
		}
	}

	if len(r.SelfAsserted) > 0 {
		r.Notes = append(r.Notes, "what is self-asserted is fixed by nothing outside the bundle: one person can hold all its keys")
	}
	r.Notes = append(r.Notes, "a preimage shows that the invoice's secret is out, not who paid; parties in collusion can make a receipt for nothing")
}

const postpayNote = "postpay: the job ran before it was paid, which deviates from the order paid, then run"

// quote returns the quote that the receipt names. Its error is always missing; the claim
// invoice_commits_to_quote finds out whether it is a contradiction.
func (v *verifier) quote() (Quote, error) {
	switch {
	case v.bundle.Quote == nil:
		return Quote{}, missing(FileQuote + " is not in the bundle")
	case v.offerErr != nil || hashing.Bytes(v.bundle.Quote) != v.receipt.QuoteHash:
		return Quote{}, missing(FileQuote + " is not the quote that the receipt names")
	}
	return v.offer, nil
}

// signature: 1. The receipt is the provider's.
func (v *verifier) signature(g grader) {
	// 1.1, 1.2
	signed, _ := parseTimestamp(v.receipt.Timestamp) // as the receipt's reader has checked
	if ev := g.event("1.1", "1.2", FileReceiptEvent, v.bundle.ReceiptEvent, requireDomain(domain.Receipt)); ev != nil {
		// 1.3
		var err error
		if ev.Content != string(v.bundle.Receipt) {
			err = fmt.Errorf("%w: they differ", ErrMismatch)
		}
		g.step("1.3", "its content is RECEIPT.json, byte for byte", err)
		// 1.4, 1.5
		g.step("1.4", "its author is provider_id", match("pubkey", ev.PubKey, v.provider))
		g.step("1.5", "its tags name the request, the result if it is for one, and the buyer", v.receipt.checkEventTags(*ev))
		if at := time.Unix(ev.CreatedAt, 0); at.After(signed) {
			signed = at
		}
	}

	// 1.6, 1.7
	g.pin("1.6", "provider", v.pinnedAs(v.provider, v.pins.Provider), v.pins.Provider)
	g.alive("1.7", "provider", v.pins.Keys, v.provider, signed)
	// 1.8 to 1.10
	v.pruning(g)
	g.prove("signed by " + v.receipt.ProviderID)
}

// pinnedAs is a key as the pin has it: another one of the same holder counts as the pinned
// one, if it was asked for.
func (v *verifier) pinnedAs(key, pin string) string {
	asked := slices.ContainsFunc(v.pins.Also, func(also string) bool { return v.pins.Keys.Joins(also, key) })
	if asked && pin != "" && v.pins.Keys.Joins(key, pin) {
		return pin
	}
	return key
}

// escapeError makes the errors of other packages, which may quote the bundle, short and
// printable.
func escapeError(err error) error {
	if err == nil {
		return nil
	}
	text := quoted(err.Error())
	return fmt.Errorf("%w: %s", ErrInvalid, text[1:len(text)-1])
}

// job: 2. The job is the one that the buyer signed.
func (v *verifier) job(g grader) {
	// 2.1, 2.2
	if ev := g.event("2.1", "2.2", FileRequest, v.bundle.Request, allowDomain(domain.Request)); ev != nil {
		v.order(g, *ev)
		// 2.13
		g.alive("2.13", "buyer", v.pins.Keys, v.buyer, time.Unix(ev.CreatedAt, 0))
	}
	// 2.12
	g.pin("2.12", "buyer", v.pinnedAs(v.buyer, v.pins.Buyer), v.pins.Buyer)
	g.prove(fmt.Sprintf("%s, as the buyer signed it", v.receipt.SchemaID))
}

// order makes steps 2.3 to 2.11 on the request event.
func (v *verifier) order(g grader, ev Event) {
	// 2.3 to 2.5
	g.step("2.3", "its id is request_event_id", match("id", ev.ID, v.receipt.RequestEventID))
	g.step("2.4", "its author is buyer_id", match("pubkey", ev.PubKey, v.buyer))
	if g.step("2.5", "its kind is one of a job request", requestKindError(ev.Kind)) {
		v.requestKind = ev.Kind
	}

	// 2.6 to 2.8
	request := v.typedRequest(g, ev)

	// 2.9 to 2.11
	g.step("2.9", "it names this provider, or nobody", v.checkAddressee(ev))
	g.step("2.10", "price and mode are those that it allows", v.checkOrderTerms(ev))
	g.step("2.11", "it was signed before the quote expired and before the settlement", v.checkQuoteExpiry(ev))
	if g.claim.State == "" {
		v.request = request
	}
}

// checkAddressee checks that this provider was asked: a request that names providers is
// an order to them only.
func (v *verifier) checkAddressee(ev Event) error {
	named := ev.Values("p")
	if len(named) > 0 && !slices.Contains(named, v.provider) {
		return fmt.Errorf("%w: it is addressed to another provider", ErrMismatch)
	}
	return nil
}

// checkOrderTerms checks that the price is at most the bid and that the mode is the one
// that the request names. An engagement fee is always prepaid, so its mode may differ.
func (v *verifier) checkOrderTerms(ev Event) error {
	terms, err := TermsOf(ev.Tags)
	switch {
	case err != nil:
		return err
	case terms.HasBid && v.receipt.AmountMsats > terms.Bid:
		return fmt.Errorf("%w: %d msats, and the bid is %d", ErrMismatch, v.receipt.AmountMsats, terms.Bid)
	case !v.receipt.isEngagement() && terms.Mode != "" && terms.Mode != v.receipt.Mode:
		return fmt.Errorf("%w: mode %s, and it asks for %s", ErrMismatch, v.receipt.Mode, quoted(string(terms.Mode)))
	}
	return nil
}

// clockSkew is how far the clocks of two parties may differ.
const clockSkew = 5 * time.Minute

func (v *verifier) checkQuoteExpiry(ev Event) error {
	signed := time.Unix(ev.CreatedAt, 0)
	if q, err := v.quote(); err == nil && signed.After(q.Expiry().Add(clockSkew)) {
		return fmt.Errorf("%w: the quote expired before the request was signed", ErrMismatch)
	}
	return v.checkBeforeSettlement(signed)
}

// checkBeforeSettlement checks that at is not after the receipt's timestamp, the time of
// the settlement: in every mode the settlement comes last.
func (v *verifier) checkBeforeSettlement(at time.Time) error {
	settled, err := parseTimestamp(v.receipt.Timestamp)
	if err != nil {
		return err
	}
	if at.After(settled.Add(clockSkew)) {
		return fmt.Errorf("%w: it is dated after the settlement", ErrMismatch)
	}
	return nil
}

func requestKindError(kind int) error {
	if kind < kinds.FirstRequest || kind > kinds.LastRequest {
		return fmt.Errorf("%w: kind %d is not from 5000 to 5999", ErrMismatch, kind)
	}
	return nil
}

func (v *verifier) typedRequest(g grader, ev Event) *schemas.Request {
	// 2.6
	if len(ev.Values("encrypted")) > 0 {
		g.step("2.6", "the request is typed and in the clear", missing("it is encrypted"))
		return nil
	}
	tags, err := v.inlineTags(ev, g.deferred)
	var typed TypedRequest
	if err == nil {
		typed, err = RequestOf(tags)
		if untyped, plain := UntypedOf(tags); plain == nil && v.receipt.SchemaID == untyped.SchemaID {
			typed, err, v.untyped = untyped, nil, true
		}
	}

	if !g.step("2.6", "the request is typed and in the clear", err) {
		return nil
	}
	schema, known := schemas.Lookup(typed.SchemaID)
	if !known {
		g.step("2.7", "it is valid under its schema", missing("this verifier does not know the schema "+quoted(typed.SchemaID)))
		return nil
	}

	// 2.7
	request, err := schema.ParseRequest(typed.Input)
	if !g.step("2.7", "it is valid under its schema", escapeError(err)) {
		return nil
	}

	// 2.8
	asked := VerificationOf(request)
	g.step("2.8", "its schema_id, job_hash and verification are the receipt's", firstMismatch(
		match("schema_id", string(request.SchemaID), v.receipt.SchemaID),
		match("the hash of the request", request.JobHash, v.receipt.JobHash),
		match("verification.adjudication", asked.Adjudication, v.receipt.Verification.Adjudication),
		match("verification.redundancy", asked.Redundancy, v.receipt.Verification.Redundancy),
		match("verification.tier", asked.Tier, v.receipt.Verification.Tier),
	))
	return request
}

// inputsOfQuote checks that the events are those that the quote names as inputs. The
// request alone is not enough: several events can match its references, and a buyer
// could show another one than the job was run with.
func (v *verifier) inputsOfQuote(events []Event) error {
	q, err := v.quote()
	switch {
	case err == nil:
		return matchInputs(q.Inputs, IDs(events))
	case len(events) > 0:
		return missing("its inputs are in other events, and " + err.Error())
	}
	return nil
}

// inlineTags returns the request's tags with each reference replaced by its text from
// INPUTS.jsonl.
func (v *verifier) inlineTags(ev Event, deferred *signatureBatch) ([][]string, error) {
	refs, err := ReferencesOf(ev.Tags)
	switch {
	case err != nil:
		return nil, err
	case len(refs) > 0 && v.bundle.Inputs == nil:
		return nil, missing("its inputs are in other events, and " + FileInputs + " is not in the bundle")
	}

	var events []Event
	if v.bundle.Inputs != nil {
		if events, err = parseInputs(v.bundle.Inputs, deferred); err != nil {
			return nil, err
		}
	}

	tags, err := Inline(ev.Tags, v.provider, events)
	if err != nil {
		return nil, err
	}
	return tags, v.inputsOfQuote(events)
}
