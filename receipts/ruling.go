package receipts

import (
	"errors"
	"fmt"
	"slices"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/schemas"
)

// Verdict is the outcome of a [Dispute].
type Verdict string

// The verdicts. [VerdictFalseBox] and [VerdictNoAnswer] are proved by what the provider
// signed. That nothing was delivered cannot be proved.
const (
	VerdictFalseBox  Verdict = "false box"          // paid; the boxes are not what the provider committed to
	VerdictNoAnswer  Verdict = "no answer"          // paid; what the provider committed to is no result for the request
	VerdictDelivered Verdict = "delivered"          // the boxes hold a result for the request
	VerdictNoResult  Verdict = "no result is shown" // paid; the dispute has no signed result
	VerdictOpen      Verdict = "not shown"          // something that a verdict needs is missing or wrong
)

// Finding is one step of a dispute.
type Finding struct {
	What   string `json:"what"`
	State  State  `json:"state"`
	Reason string `json:"reason"`
}

// Ruling is the result of [Dispute.Rule]: the findings and the verdict.
type Ruling struct {
	Verdict  Verdict   `json:"verdict"`
	Reason   string    `json:"reason"`
	Findings []Finding `json:"findings"`

	// Chain is the stated payment, if the job was paid on the chain.
	Chain *ChainPayment `json:"chain,omitempty"`

	// EngagementMsats is the engagement fee, if its payment is shown too.
	EngagementMsats int64 `json:"engagement_msats,omitzero"`

	ProviderID  string `json:"provider_id"`
	BuyerID     string `json:"buyer_id"`
	AmountMsats int64  `json:"amount_msats"`
}

// ExitCode is 0 if the provider is shown not to have delivered what was paid for, 1 if
// it delivered, and 3 if neither is shown.
func (r Ruling) ExitCode() int {
	switch r.Verdict {
	case VerdictFalseBox, VerdictNoAnswer:
		return ExitProved
	case VerdictDelivered:
		return ExitFailed
	}
	return ExitNotProvable
}

// judge makes the steps of a dispute; the first one that fails ends it.
type judge struct {
	d       *Dispute
	ruling  Ruling
	request Event
	quote   Quote
	hash    hashing.Digest
	preim   payments.Preimage
	result  Event
	boxes   [][]byte
}

// Rule judges a dispute. It needs no clock and no network. Pins, if set, must match the
// parties.
func (d *Dispute) Rule(pins Pins) Ruling {
	j := &judge{d: d, ruling: Ruling{Verdict: VerdictOpen, Findings: []Finding{}}}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"the buyer signed the request", j.checkRequest},
		{"the provider signed the quote" + j.sealedQuote() + " for it", j.checkQuote},
		{"an engagement fee was paid besides", j.checkFee},
		{"the parties are the pinned ones", func() error { return j.checkPins(pins) }},
		{j.paymentStep(), j.checkPayment},
		{"the provider signed a sealed result for the request and the quote", j.checkResult},
		{"the boxes are those that it signed for", j.checkBoxes},
	} {
		err := step.do()
		if errors.Is(err, errNoFee) {
			continue
		}
		j.find(step.what, err)
		if err != nil {
			j.ruling.Reason = err.Error()
			return j.ruling
		}
	}

	j.open()
	return j.ruling
}

func (j *judge) find(what string, err error) {
	f := Finding{What: what, State: Proved}
	if err != nil {
		f.State, f.Reason = Failed, err.Error()
		if errors.As(err, new(missing)) {
			f.State = NotProvable
		}
	}
	j.ruling.Findings = append(j.ruling.Findings, f)
}

func (j *judge) checkRequest() (err error) {
	if j.request, err = ParseEvent(j.d.Request, maxDocument); err != nil {
		return err
	}
	if err := j.request.Verify(); err != nil {
		return err
	}
	if err := allowDomain(domain.Request)(&j.request); err != nil {
		return err
	}
	if err := requestKindError(j.request.Kind); err != nil || !j.d.isDisclosed() {
		return err
	}

	return j.discloseRequest()
}

func (j *judge) checkQuote() error {
	if j.d.isDisclosed() {
		return j.disclosedQuote()
	}
	ev, err := ParseEvent(j.d.QuoteEvent, maxDocument)
	if err != nil {
		return err
	}
	if err := ev.Verify(); err != nil {
		return err
	}
	if err := requireDomain(domain.Quote)(&ev); err != nil {
		return err
	}
	if j.quote, err = ParseQuote([]byte(ev.Content)); err != nil {
		return err
	}
	if err := j.takeQuote(); err != nil {
		return err
	}
	if j.quote.Purpose == PurposeEngagement {
		j.ruling.Verdict = VerdictNoResult
		return missing("what was paid is an engagement fee, for an attempt; that none was made can be shown by nobody")
	}

	return firstMismatch(
		match("provider", ev.PubKey, j.quote.Provider),
		match("kind", ev.Kind, kinds.Feedback),
	)
}

// takeQuote compares the quote with the request.
func (j *judge) takeQuote() (err error) {
	if j.hash, err = j.quote.Hash(); err != nil {
		return err
	}
	if j.ruling.ProviderID, err = Npub(j.quote.Provider); err != nil {
		return err
	}
	if j.ruling.BuyerID, err = Npub(j.quote.Buyer); err != nil {
		return err
	}

	j.ruling.AmountMsats = j.quote.PriceMsats
	err = firstMismatch(
		match("request_id", j.quote.RequestID, j.request.ID),
		match("buyer", j.quote.Buyer, j.request.PubKey),
	)
	if err == nil && j.quote.Purpose != PurposeEngagement && j.d.Outputs == nil && j.quote.Delivery != DeliverySealed {
		return missing("delivery is plain: the result was to come in the clear, and only boxes can be ruled on")
	}
	return err
}

func (j *judge) checkPins(pins Pins) error {
	for _, p := range []struct{ name, pin, key string }{{"provider", pins.Provider, j.quote.Provider}, {"buyer", pins.Buyer, j.quote.Buyer}} {
		if p.pin == "" {
			continue
		}
		want, err := ParseKey(p.pin)
		if err != nil {
			return err
		}
		if err := match(p.name, p.key, want); err != nil {
			return err
		}
	}

	return nil
}

func (j *judge) checkPayment() (err error) {
	if j.d.Outputs != nil {
		return j.checkOutputs()
	}
	if j.d.Invoice == nil || j.d.Preimage == nil {
		return missing(FileInvoice + " or " + FilePreimage + " is not there")
	}
	j.preim, err = readPreimage(j.quote, j.d.Invoice, j.d.Preimage)
	return err
}

func (j *judge) checkResult() (err error) {
	if j.d.Result == nil {
		j.ruling.Verdict = VerdictNoResult
		return missing("no result event is here, and that none came can be shown by nobody")
	}
	if j.result, err = ParseEvent(j.d.Result, maxDocument); err != nil {
		return err
	}
	if err := j.result.Verify(); err != nil {
		return err
	}
	if err := checkResultKind(j.result.Kind, j.request.Kind); err != nil {
		return err
	}

	return answersQuote(j.result, j.quote.Provider, j.request.ID, j.hash)
}

func answersQuote(result Event, provider, requestID string, quote hashing.Digest) error {
	return firstMismatch(
		requireDomain(domain.Result)(&result),
		match("pubkey", result.PubKey, provider),
		onlyTag(result, "e", requestID),
		onlyTag(result, "quote_hash", quote.String()),
	)
}

// CheckSealedEvent checks that an event is a sealed result that a [Dispute] can judge. A
// buyer should pay for no other, because it could not prove a false box.
func CheckSealedEvent(raw []byte, provider, requestID string, quote hashing.Digest) error {
	ev, err := ParseEvent(raw, maxDocument)
	if err != nil {
		return err
	}
	if err := ev.Verify(); err != nil {
		return err
	}
	if err := answersQuote(ev, provider, requestID, quote); err != nil {
		return err
	}
	if len(ev.Values("commitment")) != 1 {
		_, err := CommitmentOf(ev)
		return err
	}

	boxes := 0
	for _, tag := range ev.Tags {
		if len(tag) < 2 || tag[0] != "blob" || tag[1] != RoleSealed {
			continue
		}
		if len(tag) < 5 { // the buyer reads the tag like this too
			return &MismatchError{"tag blob", fmt.Sprintf("%d items", len(tag)), "at least 5"}
		}
		boxes++
	}

	if boxes == 0 {
		return &MismatchError{"boxes", "none", "at least one"}
	}
	return nil
}

// CheckPlainEvent checks that an event is a plain result that a receipt for the quote
// can name; hash is the quote's and output the result's. A buyer should pay for no
// other, because no receipt could prove that it was delivered.
func CheckPlainEvent(raw []byte, q Quote, hash, output hashing.Digest) error {
	ev, err := ParseEvent(raw, maxDocument)
	if err != nil {
		return err
	}
	if err := ev.Verify(); err != nil {
		return err
	}

	if err := firstMismatch(
		answersQuote(ev, q.Provider, q.RequestID, hash),
		onlyTag(ev, "schema", q.SchemaID),
		onlyTag(ev, "job_hash", q.JobHash.String()),
		onlyTag(ev, "output_hash", output.String()),
		onlyTag(ev, "policy_bundle_id", q.PolicyBundleID.String()),
	); err != nil {
		return err
	}

	if !ev.has("p", q.Buyer) {
		return &MismatchError{"tag p", "another key", q.Buyer}
	}

	for _, name := range []string{"plan_hash", "trajectory_hash", "redacted_trajectory_hash", "replay_hash", "session_id"} {
		if n := len(ev.Values(name)); n != 1 {
			return &MismatchError{"tag " + name, fmt.Sprintf("%d times", n), "once"}
		}
	}

	return nil
}

func (j *judge) checkBoxes() error {
	for _, tag := range j.result.Tags {
		if len(tag) < 3 || tag[0] != "blob" || tag[1] != RoleSealed {
			continue
		}
		d, err := hashing.ParseDigest(tag[2])
		if err != nil {
			return fmt.Errorf("%w: a box of the event: %w", ErrInvalid, err)
		}
		box, ok := j.d.Boxes[d.Hex()]
		if !ok {
			return missing("box " + d.Hex() + " is not there")
		}
		if hashing.Bytes(box) != d {
			return &MismatchError{"box", hashing.Bytes(box).String(), d.String()}
		}

		j.boxes = append(j.boxes, box)
	}

	if len(j.boxes) == 0 {
		return missing("the result event lists no box")
	}
	return nil
}

// open is the last step: it opens the boxes and gives the verdict.
func (j *judge) open() {
	const what = "what is in them is what it committed to"
	seal, contents, err := j.unseal()
	j.find(what, err)
	if err != nil {
		j.ruling.Verdict, j.ruling.Reason = VerdictFalseBox, err.Error()
		return
	}
	err = j.answers(seal, contents)
	j.find("it is a result for the request", err)

	switch {
	case err == nil:
		j.ruling.Verdict, j.ruling.Reason = VerdictDelivered, "the boxes open with the payment's secret, and hold a result for the request"
	case errors.As(err, new(missing)):
		j.ruling.Reason = err.Error()
	default:
		j.ruling.Verdict, j.ruling.Reason = VerdictNoAnswer, err.Error()
	}
}

func (j *judge) unseal() (seal Seal, contents [][]byte, err error) {
	commitment, err := CommitmentOf(j.result)
	if err != nil {
		return Seal{}, nil, fmt.Errorf("%w: %w", ErrFalseBox, err)
	}
	key, err := NewSealKey(j.preim, j.hash, j.request.ID, commitment)
	if err != nil {
		return Seal{}, nil, err
	}
	seal, _, contents, err = key.OpenAll(j.boxes)
	return seal, contents, err
}

// answers compares the result with its schema, the seal and the request.
func (j *judge) answers(seal Seal, contents [][]byte) error {
	i := slices.IndexFunc(seal.Contents, func(c SealedContent) bool { return c.Role == RoleResult })
	typed, err := RequestOf(j.request.Tags)
	if err != nil {
		return missing(err.Error())
	}
	schema, known := schemas.Lookup(typed.SchemaID)
	if !known {
		return missing("the schema " + quoted(typed.SchemaID) + " is not known here")
	}
	asked, err := schema.ParseRequest(typed.Input)
	if err != nil {
		return missing("the request breaks its schema")
	}
	result, err := schema.ParseResult(contents[i])
	if err != nil {
		return escapeError(err)
	}
	if result.OutputHash != seal.OutputHash {
		return &MismatchError{"output_hash", result.OutputHash.String(), seal.OutputHash.String()}
	}

	if run, ok := result.Value.(*schemas.SandboxRunResult); ok {
		for _, a := range run.Artifacts {
			if !slices.ContainsFunc(seal.Contents, func(c SealedContent) bool { return c.Digest == a.SHA256 && c.Size == a.SizeBytes }) {
				return fmt.Errorf("%w: artifact %s is in no box", ErrMismatch, quoted(a.Path))
			}
		}
	}

	return escapeError(checkAnswer(asked, result))
}
