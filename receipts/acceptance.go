package receipts

import (
	"fmt"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
)

// Acceptance is the content of the event that a buyer signs before it pays. It names
// the payer: a preimage alone shows only that somebody paid.
type Acceptance struct {
	Version     int            `json:"version"`
	RequestID   string         `json:"request_id"`
	QuoteHash   hashing.Digest `json:"quote_hash"`
	PaymentHash string         `json:"payment_hash"` // 64 hex digits
	PriceMsats  int64          `json:"price_msats"`
	// ApprovalRuleID names the rule that approved the payment; nil when a
	// person did.
	ApprovalRuleID *string `json:"approval_rule_id"`
}

// Canonical validates the acceptance and returns its canonical JSON.
func (a Acceptance) Canonical() ([]byte, error) {
	if err := a.validate(keyring{}); err != nil {
		return nil, err
	}
	return hashing.CanonicalValue(a)
}

// Hash is the digest of Canonical.
func (a Acceptance) Hash() (hashing.Digest, error) { return sumOf(a.Canonical()) }

// ParseAcceptance reads an acceptance, which must be its own canonical form.
// Errors wrap ErrInvalid.
func ParseAcceptance(doc []byte) (Acceptance, error) {
	return readDocument[Acceptance]("acceptance", doc, keyring{})
}

func (a Acceptance) validate(keyring) error {
	c := checks{document: "acceptance"}
	c.version(a.Version)
	c.id("request_id", a.RequestID)
	c.digest("quote_hash", a.QuoteHash)
	c.hash("payment_hash", a.PaymentHash)
	c.that(a.PriceMsats > 0 && a.PriceMsats <= payments.MaxMsats, "price_msats is out of range")
	if a.ApprovalRuleID != nil {
		c.text("approval_rule_id", *a.ApprovalRuleID)
	}
	return c.failed
}

// Accept makes the acceptance of a quote. paymentHash comes from the invoice that
// [CheckInvoice] returned; rule is nil when a person approved.
func (q Quote) Accept(paymentHash payments.Hash, rule *string) (Acceptance, error) {
	hash, err := q.Hash()
	if err != nil {
		return Acceptance{}, err
	}
	a := Acceptance{
		Version: Version, RequestID: q.RequestID, QuoteHash: hash,
		PaymentHash: paymentHash.String(), PriceMsats: q.PriceMsats, ApprovalRuleID: rule,
	}
	return a, a.validate(keyring{})
}

// CheckAcceptance verifies a buyer's event and checks that it accepts this quote with
// this payment hash. Errors wrap [ErrInvalid] or [ErrMismatch].
func CheckAcceptance(ev Event, q Quote, paymentHash payments.Hash) (Acceptance, error) {
	if err := ev.Verify(); err != nil {
		return Acceptance{}, fmt.Errorf("check acceptance: %w", err)
	}
	if err := requireDomain(domain.Acceptance)(&ev); err != nil {
		return Acceptance{}, fmt.Errorf("check acceptance: %w", err)
	}

	a, err := ParseAcceptance([]byte(ev.Content))
	if err != nil {
		return Acceptance{}, fmt.Errorf("check acceptance: %w", err)
	}
	hash, err := q.Hash()
	if err != nil {
		return Acceptance{}, fmt.Errorf("check acceptance: %w", err)
	}
	err = firstMismatch(
		match("pubkey", ev.PubKey, q.Buyer),
		match("quote_hash", a.QuoteHash, hash),
		match("request_id", a.RequestID, q.RequestID),
		match("payment_hash", a.PaymentHash, paymentHash.String()),
		match("price_msats", a.PriceMsats, q.PriceMsats),
		onlyTag(ev, "e", q.RequestID),
		onlyTag(ev, "p", q.Provider),
	)
	if err != nil {
		return Acceptance{}, fmt.Errorf("check acceptance: %w", err)
	}
	return a, nil
}

// onlyTag checks that the event has exactly one tag of this name, with this value.
func onlyTag(ev Event, name, want string) error {
	times, value := 0, ""
	for _, tag := range ev.Tags {
		if len(tag) == 0 || tag[0] != name {
			continue
		}
		if times++; len(tag) > 1 {
			value = tag[1]
		}
	}

	switch {
	case times != 1:
		return &MismatchError{Field: "tag " + name, Got: fmt.Sprintf("%d times", times), Want: "once"}
	case value != want:
		return &MismatchError{Field: "tag " + name, Got: value, Want: want}
	}
	return nil
}
