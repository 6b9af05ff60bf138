package payments

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
)

// Hash is the SHA-256 of a preimage: it names an invoice and its payment.
// Its text form is 64 lower-case hex digits.
type Hash [32]byte

// ParseHash reads 64 lower-case hex digits.
func ParseHash(s string) (Hash, error) {
	b, err := parse32(s)
	if err != nil {
		return Hash{}, fmt.Errorf("payment hash: %w", err)
	}
	return b, nil
}

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// IsZero reports whether the hash is all zero, which stands for none.
func (h Hash) IsZero() bool { return h == Hash{} }

// MarshalText gives the hex form.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText reads what ParseHash reads.
func (h *Hash) UnmarshalText(text []byte) (err error) {
	*h, err = ParseHash(string(text))
	return err
}

// Preimage is the secret that settles an invoice and proves its payment. Its
// text form is 64 lower-case hex digits; a log shows a placeholder instead.
type Preimage [32]byte

// ParsePreimage reads 64 lower-case hex digits. Its errors never repeat them.
func ParsePreimage(s string) (Preimage, error) {
	b, err := parse32(s)
	if err != nil {
		return Preimage{}, fmt.Errorf("preimage: %w", err)
	}
	return b, nil
}

// Hash returns the payment hash of the preimage.
func (p Preimage) Hash() Hash { return sha256.Sum256(p[:]) }

func (p Preimage) String() string { return hex.EncodeToString(p[:]) }

// LogValue keeps the secret out of logs.
func (p Preimage) LogValue() slog.Value { return slog.StringValue("[preimage]") }

// IsZero reports whether the preimage is all zero: never a proof of payment.
func (p Preimage) IsZero() bool { return p == Preimage{} }

// MarshalText gives the hex form.
func (p Preimage) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads what ParsePreimage reads.
func (p *Preimage) UnmarshalText(text []byte) (err error) {
	*p, err = ParsePreimage(string(text))
	return err
}

// parse32 reads 32 bytes from lower-case hex only, so that a value has one
// text form and may be compared as text.
func parse32(s string) ([32]byte, error) {
	var out [32]byte
	if len(s) != hex.EncodedLen(len(out)) {
		return out, fmt.Errorf("%w: want 64 hex digits, got %d characters", ErrBadRequest, len(s))
	}

	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return out, fmt.Errorf("%w: not lower-case hex", ErrBadRequest)
		}
	}

	if _, err := hex.Decode(out[:], []byte(s)); err != nil {
		return out, fmt.Errorf("%w: not hex", ErrBadRequest)
	}
	return out, nil
}
