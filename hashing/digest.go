// Package hashing makes canonical JSON (RFC 8785) and the SHA-256 digests
// of it, written "sha256:<hex>".
//
// Every document passes one strict decoder before it is hashed: duplicate
// keys, invalid UTF-8, lone surrogates and integers beyond ±(2^53-1) are
// refused, because two readers of such a document may see different values
// under one digest. A single document goes through [Canonical]; the lines of a
// trajectory go through an [ArrayHasher].
//
// [LegacyCanonical] writes another form, which only checks bundles that OpenAgents
// made.
package hashing

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// digestPrefix names the algorithm in the text form.
const digestPrefix = "sha256:"

// ErrDigest is wrapped by every error about the text form of a digest.
var ErrDigest = errors.New("not a sha256 digest")

// A Digest is a SHA-256 digest. Its text and JSON form is "sha256:" and 64
// lower-case hex digits.
type Digest [sha256.Size]byte

// Bytes returns the digest of exactly these bytes.
func Bytes(b []byte) Digest { return sha256.Sum256(b) }

// ParseDigest reads "sha256:<64 hex>", or the 64 hex digits alone, which is
// how OpenAgents writes a job_hash. Upper-case digits are refused, so that a
// digest has one spelling. The error wraps [ErrDigest].
func ParseDigest(s string) (Digest, error) {
	return parseHex(strings.TrimPrefix(s, digestPrefix))
}

func parseHex[T string | []byte](s T) (d Digest, err error) {
	if len(s) != hex.EncodedLen(len(d)) {
		return Digest{}, fmt.Errorf("%w: %d characters where 64 hex digits belong", ErrDigest, len(s))
	}
	for i := range d {
		high, low := nibbles[s[2*i]], nibbles[s[2*i+1]]
		if high|low > 0xf {
			return Digest{}, notHex(string(s))
		}
		d[i] = high<<4 | low
	}
	return d, nil
}

// nibbles maps lower-case hex digits to their values, and other characters to 0xff.
var nibbles = func() (table [256]byte) {
	for c := range table {
		table[c] = 0xff
	}
	for value, c := range []byte(hexDigits) {
		table[c] = byte(value)
	}
	return table
}()

func notHex(s string) error {
	if strings.ContainsAny(s, "ABCDEF") {
		return fmt.Errorf("%w: upper-case hex", ErrDigest)
	}
	return fmt.Errorf("%w: not hex", ErrDigest)
}

// String returns "sha256:<hex>".
func (d Digest) String() string {
	var text [len(digestPrefix) + 2*sha256.Size]byte
	hex.Encode(text[copy(text[:], digestPrefix):], d[:])
	return string(text[:])
}

// Hex returns the 64 hex digits alone, as Nostr tags and file names use them.
func (d Digest) Hex() string { return hex.EncodeToString(d[:]) }

// IsZero reports whether d is the zero value, which no document hashes to.
func (d Digest) IsZero() bool { return d == Digest{} }

// MarshalText implements [encoding.TextMarshaler]; it never fails.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads only the "sha256:<hex>" form. A second spelling of a digest
// would give one document two canonical forms. The error wraps [ErrDigest].
func (d *Digest) UnmarshalText(text []byte) error {
	rest, ok := bytes.CutPrefix(text, []byte(digestPrefix))
	if !ok {
		return fmt.Errorf("%w: %q prefix missing", ErrDigest, digestPrefix)
	}
	parsed, err := parseHex(rest)
	if err != nil {
		return err
	}
	*d = parsed
	return nil
}
