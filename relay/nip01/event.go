// Package nip01 implements the wire format of Nostr: events, filters and the
// messages between client and relay. It uses no network, no clock and no state.
//
// All input is untrusted. Callers must bound the length of a document; the parsers
// bound depth and counts, accept only the forms of NIP-01, and never panic.
package nip01

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"github.com/nbd-wtf/go-nostr"
)

// The errors of this package repeat nothing of the input, so that they can be sent
// to the other side and logged.
var (
	ErrSyntax      = errors.New("not valid JSON")
	ErrDepth       = errors.New("nested too deeply")
	ErrShape       = errors.New("not a message of the protocol")
	ErrUnsupported = errors.New("message type is not supported")
	ErrTooMany     = errors.New("too many elements")
	ErrID          = errors.New("event id does not match")
	ErrSignature   = errors.New("bad signature")
)

// maxKind and maxTime bound the integers of an event. A time above 2^53-1 would be
// inexact in programs that read numbers as doubles.
const (
	maxKind = 65535
	maxTime = 1<<53 - 1
)

// Verify checks that the id is the hash of the event and that the signature is the
// author's. It returns ErrID or ErrSignature, wrapped.
func Verify(ev *nostr.Event) error {
	if err := VerifyID(ev); err != nil {
		return err
	}
	return VerifySignature(ev)
}

// VerifyID checks only the id, which costs one hash.
func VerifyID(ev *nostr.Event) error {
	want := ID(ev)
	if !isHex(ev.ID, 64) || ev.ID != want {
		return ErrID
	}
	return nil
}

// VerifySignature checks the signature over the hash of the event, not over
// its id field.
func VerifySignature(ev *nostr.Event) error {
	// With the build tag libsecp256k1, go-nostr decodes into arrays of fixed size
	// and would panic on longer strings.
	if !isHex(ev.PubKey, 64) || !isHex(ev.Sig, 128) {
		return ErrSignature
	}
	ok, err := ev.CheckSignature()
	if err != nil || !ok {
		return ErrSignature
	}
	return nil
}

// ID computes the event's id: SHA-256 of its serialization, in lower-case hex.
func ID(ev *nostr.Event) string {
	sum := sha256.Sum256(AppendSerialization(make([]byte, 0, sizeHint(ev)), ev))
	return hex.EncodeToString(sum[:])
}

// AppendSerialization appends the serialization whose hash is the id (NIP-01):
// [0,pubkey,created_at,kind,tags,content].
func AppendSerialization(dst []byte, ev *nostr.Event) []byte {
	dst = append(dst, `[0,"`...)
	dst = append(dst, ev.PubKey...)
	dst = append(dst, `",`...)
	dst = strconv.AppendInt(dst, int64(ev.CreatedAt), 10)
	dst = append(dst, ',')
	dst = strconv.AppendInt(dst, int64(ev.Kind), 10)
	dst = append(dst, ',')
	dst = appendTags(dst, ev.Tags)
	dst = append(dst, ',')
	dst = appendString(dst, ev.Content)
	return append(dst, ']')
}

// AppendEvent appends the event as a JSON object in its shortest form. The
// limits on the size of an event are limits on this form.
func AppendEvent(dst []byte, ev *nostr.Event) []byte {
	dst = append(dst, `{"id":`...)
	dst = appendString(dst, ev.ID)
	dst = append(dst, `,"pubkey":`...)
	dst = appendString(dst, ev.PubKey)
	dst = append(dst, `,"created_at":`...)
	dst = strconv.AppendInt(dst, int64(ev.CreatedAt), 10)
	dst = append(dst, `,"kind":`...)
	dst = strconv.AppendInt(dst, int64(ev.Kind), 10)
	dst = append(dst, `,"tags":`...)
	dst = appendTags(dst, ev.Tags)
	dst = append(dst, `,"content":`...)
	dst = appendString(dst, ev.Content)
	dst = append(dst, `,"sig":`...)
	dst = appendString(dst, ev.Sig)
	return append(dst, '}')
}

// Marshal is AppendEvent into a new slice of suitable size.
func Marshal(ev *nostr.Event) []byte {
	return AppendEvent(make([]byte, 0, sizeHint(ev)+300), ev)
}

// Expiration returns the NIP-40 expiration in unix seconds. A tag that is not a
// number counts as absent.
func Expiration(ev *nostr.Event) (unix int64, ok bool) {
	tag := ev.Tags.Find("expiration")
	if tag == nil {
		return 0, false
	}
	unix, err := strconv.ParseInt(tag[1], 10, 64)
	return unix, err == nil
}

// Address returns the address under which a replaceable or addressable event
// replaces older versions, "kind:pubkey:d"; false for other kinds.
func Address(ev *nostr.Event) (string, bool) {
	switch {
	case nostr.IsReplaceableKind(ev.Kind):
		return fmt.Sprintf("%d:%s:", ev.Kind, ev.PubKey), true
	case nostr.IsAddressableKind(ev.Kind):
		return fmt.Sprintf("%d:%s:%s", ev.Kind, ev.PubKey, ev.Tags.GetD()), true
	}
	return "", false
}

func sizeHint(ev *nostr.Event) int {
	n := 120 + len(ev.Content)
	for _, tag := range ev.Tags {
		n += 2
		for _, s := range tag {
			n += len(s) + 3
		}
	}
	return n + n/8 // room for escapes
}

func appendTags(dst []byte, tags nostr.Tags) []byte {
	dst = append(dst, '[')
	for i, tag := range tags {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '[')
		for j, s := range tag {
			if j > 0 {
				dst = append(dst, ',')
			}
			dst = appendString(dst, s)
		}
		dst = append(dst, ']')
	}

	return append(dst, ']')
}

// appendString escapes the characters listed in NIP-01. For other control
// characters, which NIP-01 does not mention, it writes \u00xx as JSON.stringify and
// all implementations do.
func appendString(dst []byte, s string) []byte {
	const hexDigits = "0123456789abcdef"
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[start:i]...)
		start = i + 1

		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}

	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// isHex reports whether s is n lower-case hex digits.
func isHex(s string, n int) bool {
	if len(s) != n {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
