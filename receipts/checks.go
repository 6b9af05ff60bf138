package receipts

import (
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/schemas"
)

// timestampLayout is RFC 3339 in UTC with whole seconds, so that each time has exactly
// one spelling.
const timestampLayout = "2006-01-02T15:04:05Z"

// Timestamp formats a time as quotes and receipts do, cut to seconds.
func Timestamp(t time.Time) string { return t.UTC().Format(timestampLayout) }

func parseTimestamp(s string) (time.Time, error) {
	t, err := time.Parse(timestampLayout, s)
	if err != nil || Timestamp(t) != s || t.Year() < 1970 {
		return time.Time{}, fmt.Errorf("%w: %s is not a time like %s", ErrInvalid, quoted(s), timestampLayout)
	}
	return t, nil
}

// checks keeps the first error in a document's fields.
type checks struct {
	document string
	keys     keyring
	failed   error
}

func (c *checks) that(ok bool, complaint string) {
	if !ok && c.failed == nil {
		c.failed = fmt.Errorf("%w: %s: %s", ErrInvalid, c.document, complaint)
	}
}

func (c *checks) err(err error) {
	if err != nil && c.failed == nil {
		c.failed = fmt.Errorf("%s: %w", c.document, err)
	}
}

func (c *checks) version(v int) { c.that(v == Version, "version is not 1") }

func (c *checks) id(field, s string) {
	if !isHex(s, 64) {
		c.that(false, field+" is not 64 lower-case hex digits")
	}
}

func (c *checks) digest(field string, d hashing.Digest) {
	if d.IsZero() {
		c.that(false, field+" is zero")
	}
}

func (c *checks) schema(field, s string) {
	if _, known := schemas.Lookup(s); known {
		return
	}
	_, err := schemas.ParseID(s)
	c.that(err == nil, field+" is not a schema id")
}

func (c *checks) timestamp(field, s string) {
	_, err := parseTimestamp(s)
	c.that(err == nil, field+" is not RFC 3339 in UTC with whole seconds")
}

// delivery refuses sealed delivery in modes where the buyer learns the preimage, which
// opens the boxes, before the result is there.
func (c *checks) delivery(d Delivery, m Mode) {
	switch d {
	case DeliveryPlain:
	case DeliverySealed:
		c.that(m == ModeHold || m == ModePostpay, "sealed delivery needs mode hold or postpay")
	default:
		c.that(false, "delivery is unknown")
	}
}

func (c *checks) hash(field, s string) {
	h, err := payments.ParseHash(s)
	c.that(err == nil && !h.IsZero(), field+" is not a payment hash")
}

func (c *checks) optionalHash(field string, s *string) {
	if s != nil {
		c.hash(field, *s)
	}
}

// text is a short, printable, non-empty string.
func (c *checks) text(field, s string) {
	ok := s != "" && len(s) <= 256
	for _, r := range s {
		ok = ok && r >= 0x20 && r != 0x7f
	}
	c.that(ok, field+" is empty, too long or has control characters")
}

// isToken reports whether s has only lower-case letters, digits and underscores.
func isToken(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return true
}

// match compares two values of a field. It formats them only if they differ, because
// this is called for every receipt.
func match[T ~string | ~int | ~int64 | hashing.Digest | payments.Hash](field string, got, want T) error {
	if got == want {
		return nil
	}
	return &MismatchError{Field: field, Got: fmt.Sprint(got), Want: fmt.Sprint(want)}
}

// matchOptional compares with an optional value; nil matches everything.
func matchOptional(field, got string, want *string) error {
	if want == nil {
		return nil
	}
	return match(field, got, *want)
}

func firstMismatch(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// orNull formats an optional string.
func orNull(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

func samePointer(a, b *string) bool {
	return (a == nil) == (b == nil) && (a == nil || *a == *b)
}
