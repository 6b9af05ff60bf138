package receipts

import (
	"fmt"
	"slices"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
)

// State is the grade of a [Claim].
type State string

// The grades. [NotProvable] means that the bundle lacks a document that the proof needs.
// A contradiction is always [Failed], never NotProvable.
const (
	Proved      State = "proved"
	Failed      State = "failed"
	NotProvable State = "not provable"
)

// The claims, in the order in which Verify grades them.
const (
	ClaimSignature      = "signature"
	ClaimJob            = "job"
	ClaimResult         = "result"
	ClaimTrajectory     = "trajectory"
	ClaimPreimage       = "preimage_matches_invoice"
	ClaimAmount         = "amount"
	ClaimInvoiceCommits = "invoice_commits_to_quote"
	ClaimBuyerAccepted  = "buyer_accepted"
	ClaimPayeePinned    = "payee_pinned"
	ClaimPolicy         = "policy"
	ClaimChain          = "chain"
)

// requiredByDefault is how many of the claims, from the first, every bundle must prove.
const requiredByDefault = 7

// ClaimNames lists every claim in order.
func ClaimNames() []string {
	return []string{
		ClaimSignature, ClaimJob, ClaimResult, ClaimTrajectory, ClaimPreimage, ClaimAmount, ClaimInvoiceCommits,
		ClaimBuyerAccepted, ClaimPayeePinned, ClaimPolicy, ClaimChain,
	}
}

// Exit codes of a report.
const (
	ExitProved      = 0 // every required claim is proved and none failed
	ExitFailed      = 1 // a claim failed, required or not
	ExitUnusable    = 2 // there is no receipt to judge, or the pins are malformed
	ExitNotProvable = 3 // a required claim is not provable
)

// Pins are facts that the reader of a bundle knows from another source. Without a pin,
// the report relies on what the bundle says of itself and lists that in
// [Report].SelfAsserted.
type Pins struct {
	Provider string           // npub or x-only key in hex
	Buyer    string           // npub or x-only key in hex
	Payee    string           // compressed node key in hex
	Network  payments.Network // where the money moved
	// Required names further claims that must be proved, beside the first seven.
	Required []string
	// Also asks that keys which Keys joins with one of these, npub or hex, be taken for one
	// holder's: a pinned provider's or buyer's, and a provider's in its chain.
	Also []string
	// Keys is what is known of keys that ended; may be nil.
	Keys *KeyHistory
}

// Claim is one graded statement.
type Claim struct {
	Name     string `json:"name"`
	State    State  `json:"state"`
	Reason   string `json:"reason"`
	Required bool   `json:"required"`
	Steps    []Step `json:"steps"`
}

// Step is one check, numbered as in docs/protocol/receipt.md.
type Step struct {
	Number string `json:"number"`
	Check  string `json:"check"`
	State  State  `json:"state"`
	// Detail says what is wrong or missing. It may quote the bundle, escaped to
	// printable ASCII.
	Detail string `json:"detail,omitempty"`
}

// Report is the result of [Verify]. It lists every claim; if the bundle is unusable,
// none is proved.
type Report struct {
	ReceiptID   string `json:"receipt_id"`
	ProviderID  string `json:"provider_id"`
	BuyerID     string `json:"buyer_id"`
	AmountMsats int64  `json:"amount_msats"`
	AssetID     string `json:"asset_id"`
	Mode        Mode   `json:"mode"`
	// Purpose is what the payment was for; empty if the bundle is unusable.
	Purpose Purpose `json:"purpose"`
	// The receipt's position in the provider's chain; see [Chains].
	Sequence            int64           `json:"sequence"`
	ReceiptHash         *hashing.Digest `json:"receipt_hash"`
	PreviousReceiptHash *hashing.Digest `json:"previous_receipt_hash"`
	// Unusable says why the bundle cannot be judged; empty otherwise.
	Unusable string  `json:"unusable,omitempty"`
	Claims   []Claim `json:"claims"`
	// SelfAsserted lists what no pin confirms: provider, buyer, payee, network.
	SelfAsserted []string `json:"self_asserted"`
	// Notes are limits of the proof, in plain words.
	Notes []string `json:"notes"`
}

// ExitCode is one of the Exit constants.
func (r Report) ExitCode() int {
	if r.Unusable != "" {
		return ExitUnusable
	}

	code := ExitProved
	for _, c := range r.Claims {
		switch {
		case c.State == Failed:
			return ExitFailed
		case c.Required && c.State != Proved:
			code = ExitNotProvable
		}
	}
	return code
}

// Claim returns the claim of this name; the zero Claim if there is none.
func (r Report) Claim(name string) Claim {
	for _, c := range r.Claims {
		if c.Name == name {
			return c
		}
	}
	return Claim{}
}

// usualSteps are those of most claims.
const usualSteps = 6

// newReport lists every claim, ungraded.
func newReport(pins Pins) Report {
	names := ClaimNames()
	r := Report{Claims: make([]Claim, 0, len(names)), SelfAsserted: []string{}, Notes: []string{}}
	for i, name := range names {
		required := i < requiredByDefault || slices.Contains(pins.Required, name)
		r.Claims = append(r.Claims, Claim{Name: name, Required: required, Steps: make([]Step, 0, usualSteps)})
	}
	return r
}

// unusable grades everything as not provable.
func (r Report) unusable(why error) Report {
	r.Unusable = why.Error()
	for i := range r.Claims {
		r.Claims[i].State, r.Claims[i].Reason = NotProvable, "the bundle is unusable"
	}
	return r
}

// missing is the error of a step that cannot be made because something is missing. Any
// other error of a step is a contradiction.
type missing string

func (l missing) Error() string { return string(l) }

// grader records the steps of one claim. The first contradiction makes it Failed and
// ends it. Something missing makes it NotProvable, unless a contradiction follows.
type grader struct {
	claim    *Claim
	deferred *signatureBatch
}

func (g grader) isOver() bool { return g.claim.State == Failed }

// step records a check. It reports whether the check passed.
func (g grader) step(number, check string, err error) bool {
	if g.isOver() {
		return false
	}
	s := Step{Number: number, Check: check, State: Proved}
	if err != nil {
		s.State, s.Detail = Failed, err.Error()
		if _, ok := err.(missing); ok {
			s.State = NotProvable
		}
		if s.State == Failed || g.claim.State == "" {
			g.claim.State = s.State
			g.claim.Reason = fmt.Sprintf("%s: %s", check, s.Detail)
		}
	}

	g.claim.Steps = append(g.claim.Steps, s)
	return err == nil
}

// prove ends a claim that no step has decided.
func (g grader) prove(reason string) {
	if g.claim.State == "" {
		g.claim.State, g.claim.Reason = Proved, reason
	}
}

// event reads an event of the bundle and records two steps: it is present, and it has
// the form of Event.JSON, the right domain, and a valid id and signature. It returns nil
// if one of them did not pass.
func (g grader) event(presence, validity, file string, doc []byte, inDomain func(*Event) error) *Event {
	if doc == nil {
		g.step(presence, file+" is in the bundle", missing("it is not"))
		return nil
	}
	ev, err := readEvent(doc)
	if err == nil && !ev.exact {
		err = fmt.Errorf("%w: not in the form that a bundle has", ErrInvalid)
	}
	if !g.step(presence, file+" is in the bundle", err) {
		return nil
	}
	if err = inDomain(&ev.Event); err == nil {
		err = g.deferred.verify(&ev)
	}
	if !g.step(validity, "its domain is that of the document, and its id and signature are valid", err) {
		return nil
	}
	return &ev.Event
}

// pin compares a value with a pin; without a pin there is no step.
func (g grader) pin(number, name, got, want string) {
	if want != "" {
		g.step(number, "the "+name+" is the pinned one", match(name, got, want))
	}
}

// alive refuses what a key signed after its end; without a known end there is no step.
func (g grader) alive(number, name string, keys *KeyHistory, key string, at time.Time) {
	if _, ended := keys.End(key); ended {
		g.step(number, "the "+name+"'s key had not ended when it signed", keys.CheckSigned(key, at))
	}
}
