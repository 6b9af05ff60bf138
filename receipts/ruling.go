package receipts

import (
	"errors"
	"fmt"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/payments"
)

// Verdict is what a dispute comes to.
type Verdict string

// The verdicts. VerdictFalseBox and VerdictNoAnswer are proved by what the
// provider signed; that nothing came cannot be proved by anybody.
const (
	VerdictFalseBox  Verdict = "false box"          // paid for, and not what was committed to
	VerdictNoAnswer  Verdict = "no answer"          // what was committed to is no result for the request
	VerdictDelivered Verdict = "delivered"          // the boxes hold a result for the request
	VerdictNoResult  Verdict = "no result is shown" // paid for, and no signed result is here
	VerdictOpen      Verdict = "not shown"          // something that a verdict needs is missing or wrong
)

// Finding is one step of a dispute.
type Finding struct {
	What   string `json:"what"`
	State  State  `json:"state"`
	Reason string `json:"reason"`
}

// Ruling is a dispute's findings and what they come to.
type Ruling struct {
	Verdict  Verdict   `json:"verdict"`
	Reason   string    `json:"reason"`
	Findings []Finding `json:"findings"`

	// Chain is what is said to have paid, where the chain carried the payment.
	Chain *ChainPayment `json:"chain,omitempty"`

	// EngagementMsats is a fee for the attempt that is shown to be paid besides.
	EngagementMsats int64 `json:"engagement_msats,omitzero"`

	ProviderID  string `json:"provider_id"`
	BuyerID     string `json:"buyer_id"`
	AmountMsats int64  `json:"amount_msats"`
}

// ExitCode is 0 where the provider is shown to have delivered nothing that was
// paid for, 1 where it delivered, and 3 where nothing is shown.
func (r Ruling) ExitCode() int {
	switch r.Verdict {
	case VerdictFalseBox, VerdictNoAnswer:
		return ExitProved
	case VerdictDelivered:
		return ExitFailed
	}
	return ExitNotProvable
}

// judge goes through a dispute step by step; the first that fails ends it.
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

// Rule judges a dispute. It knows no clock and no network; pins say who the
// parties must be.
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
		if errors.As(err, new(lacking)) {
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
	if err := allows(domain.Request)(&j.request); err != nil {
		return err
	}
	if err := requestKindError(j.request.Kind); err != nil || !j.d.disclosed() {
		return err
	}

	return j.discloseRequest()
}

func (j *judge) checkQuote() error {
	if j.d.disclosed() {
		return j.disclosedQuote()
	}
	ev, err := ParseEvent(j.d.QuoteEvent, maxDocument)
	if err != nil {
		return err
	}
	if err := ev.Verify(); err != nil {
		return err
	}
	if err := demands(domain.Quote)(&ev); err != nil {
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
		return lacking("what was paid is an engagement fee, for an attempt; that none was made can be shown by nobody")
	}

	return firstMismatch(
		match("provider", ev.PubKey, j.quote.Provider),
		match("kind", ev.Kind, kinds.Feedback),
	)
}

// takeQuote holds the quote against the request.
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
		return lacking("delivery is plain: the result was to come in the clear, and only boxes can be ruled on")
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
		return lacking(FileInvoice + " or " + FilePreimage + " is not there")
	}
	j.preim, err = paidFor(j.quote, j.d.Invoice, j.d.Preimage)
	return err
}

func (j *judge) checkResult() (err error) {
	if j.d.Result == nil {
		j.ruling.Verdict = VerdictNoResult
		return lacking("no result event is here, and that none came can be shown by nobody")
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
		demands(domain.Result)(&result),
		match("pubkey", result.PubKey, provider),
		onlyTag(result, "e", requestID),
		onlyTag(result, "quote_hash", quote.String()),
	)
}

// CheckSealedEvent says why an event is not a sealed result that a dispute
// could judge. A buyer who pays for another one pays for what nobody can be
// shown.
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
		if len(tag) < 5 { // as the buyer's own reading of the tag
			return &MismatchError{"tag blob", fmt.Sprintf("%d items", len(tag)), "at least 5"}
		}
		boxes++
	}

	if boxes == 0 {
		return &MismatchError{"boxes", "none", "at least one"}
	}
	return nil
}

// CheckPlainEvent says why an event is not a result in the clear that a receipt for
// the quote, whose hash is here too, could name. A buyer who pays for another one has
// a result that was paid for with nothing to show for it.
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
