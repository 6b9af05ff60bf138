package receipts

import (
	"fmt"
	"slices"
	"time"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/schemas"
)

// job: 2. The job is the one that the buyer signed.
func (v *verifier) job(g grader) {
	// 2.1, 2.2
	if ev := g.event("2.1", "2.2", FileRequest, v.bundle.Request, allowDomain(domain.Request)); ev != nil {
		v.order(g, *ev)
	}
	// 2.12
	g.pin("2.12", "buyer", v.buyer, v.pins.Buyer)
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
