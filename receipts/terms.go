package receipts

import (
	"fmt"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/payments"
)

// RequestTerms are the terms in a request's tags: for whom the job is, and how it is
// paid and delivered.
type RequestTerms struct {
	Providers []string // x-only keys in hex; empty if the request is open to all
	// Bid is the most that the buyer pays, in msats; HasBid is false if there is none.
	Bid      int64
	HasBid   bool
	Mode     Mode // "" leaves it to the provider
	Delivery Delivery
	// Agreement is how the panel to which the request belongs comes to one result:
	// commit, judge or merge; "" for a request outside a panel.
	Agreement string
	Refund    string // where a failed prepayment goes
}

// TermsOf reads the terms of a request. Admission, placement, payment and verification
// all use it, so that they never read a request differently. Each term may occur once,
// and a number has one spelling. Errors name the tag and wrap [ErrInvalid].
func TermsOf[Tag ~[]string](tags []Tag) (RequestTerms, error) {
	var r RequestTerms
	if err := checkTags(tags); err != nil {
		return r, err
	}
	if err := invalid(domain.Allow(domain.Request, tags)); err != nil {
		return r, err
	}

	seen := map[string]bool{}
	once := func(name string) error {
		if seen[name] {
			return fmt.Errorf("%w: request: tag %s: it is there twice", ErrInvalid, name)
		}
		seen[name] = true
		return nil
	}

	for _, tag := range tags {
		if len(tag) == 0 {
			continue
		}
		value := ""
		if len(tag) > 1 {
			value = tag[1]
		}

		switch tag[0] {
		case "p":
			if !isHex(value, 64) {
				return r, fmt.Errorf("%w: request: tag p: %s is no key of 64 lower-case hex digits", ErrInvalid, quoted(value))
			}
			r.Providers = append(r.Providers, value)
		case "bid":
			if err := once("bid"); err != nil {
				return r, err
			}
			var ok bool
			if r.Bid, ok = msatsOf(value); !ok {
				return r, fmt.Errorf("%w: request: tag bid: %s is no whole number from 0 to %d, written without sign and leading zeros",
					ErrInvalid, quoted(value), payments.MaxMsats)
			}
			r.HasBid = true
		case "param":
			if err := r.param(tag, value, once); err != nil {
				return r, err
			}
		}
	}

	return r, nil
}

// param reads a term in a param tag.
func (r *RequestTerms) param(tag []string, name string, once func(string) error) error {
	if !isOneOf(name, "payment_mode", "delivery", "agreement", "refund") {
		return nil
	}
	if err := once("param " + name); err != nil {
		return err
	}
	if len(tag) < 3 || tag[2] == "" {
		return fmt.Errorf("%w: request: tag param %s: it has no value", ErrInvalid, name)
	}

	switch value := tag[2]; name {
	case "payment_mode":
		r.Mode = Mode(value)
	case "delivery":
		r.Delivery = Delivery(value)
	case "agreement":
		r.Agreement = value
	case "refund":
		r.Refund = value
	}

	return nil
}

// Judged reports whether a judge or a merge decides how much a panel's results are
// worth.
func (r RequestTerms) Judged() bool { return isOneOf(r.Agreement, "judge", "merge") }

// msatsOf reads an amount, which has exactly one spelling.
func msatsOf(s string) (n int64, ok bool) {
	if s == "" || len(s) > 16 || s[0] == '0' && s != "0" {
		return 0, false
	}
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, payments.CheckMsats(n) == nil
}

// checkTags checks the bounds of an event's tags.
func checkTags[Tag ~[]string](tags []Tag) error {
	if len(tags) > maxTags {
		return fmt.Errorf("%w: event of more than %d tags", ErrInvalid, maxTags)
	}
	for _, tag := range tags {
		if len(tag) > maxTagItems {
			return fmt.Errorf("%w: event: tag %s has %d items, at most %d are read", ErrInvalid, quoted(tag[0]), len(tag), maxTagItems)
		}
	}
	return nil
}
