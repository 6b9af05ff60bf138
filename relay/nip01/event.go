// Package nip01 is the wire form of Nostr: events, filters and the messages
// between client and relay. It is pure: no network, no clock, no state.
//
// Everything it parses comes from a stranger. A caller bounds the length of a
// document before it hands it over; the parsers bound depth and counts, accept
// only the forms that NIP-01 gives, and never panic.
package nip01

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"github.com/nbd-wtf/go-nostr"
)

// The errors of this package say nothing that the other side wrote, so that
// their text can go back over the wire and into a log.
var (
	ErrSyntax      = errors.New("not valid JSON")
	ErrDepth       = errors.New("nested too deeply")
	ErrShape       = errors.New("not a message of the protocol")
	ErrUnsupported = errors.New("message type is not supported")
	ErrTooMany     = errors.New("too many elements")
	ErrID          = errors.New("event id does not match")
	ErrSignature   = errors.New("bad signature")
)

// maxKind and maxTime bound the integers of an event. A time beyond 2^53-1
// would not survive a reader that keeps numbers as doubles.
const (
	maxKind = 65535
	maxTime = 1<<53 - 1
)

// Verify checks that the id is the hash of the event and that the signature is
// the author's. It returns ErrID or ErrSignature, wrapped.
func Verify(ev *nostr.Event) error {
	if err := VerifyID(ev); err != nil {
		return err
	}
	return VerifySignature(ev)
}

// VerifyID checks the id alone; it costs a hash.
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
	// With the libsecp256k1 build tag go-nostr decodes into arrays of fixed
	// size: a longer string would panic there.
	if !isHex(ev.PubKey, 64) || !isHex(ev.Sig, 128) {
		return ErrSignature
	}
	ok, err := ev.CheckSignature()
	if err != nil || !ok {
		return ErrSignature
	}
	return nil
}

// ID is the event's id: SHA-256 of its serialization, in lower-case hex.
func ID(ev *nostr.Event) string {
	sum := sha256.Sum256(AppendSerialization(make([]byte, 0, sizeHint(ev)), ev))
	return hex.EncodeToString(sum[:])
}

// AppendSerialization appends the form that the id is the hash of (NIP-01):
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

// Marshal is AppendEvent into a slice of the right size.
func Marshal(ev *nostr.Event) []byte {
	return AppendEvent(make([]byte, 0, sizeHint(ev)+300), ev)
}

// Expiration returns the NIP-40 expiration in unix seconds. A tag that is no
// number counts as absent.
func Expiration(ev *nostr.Event) (unix int64, ok bool) {
	tag := ev.Tags.Find("expiration")
	if tag == nil {
		return 0, false
	}
	unix, err := strconv.ParseInt(tag[1], 10, 64)
	return unix, err == nil
}

// Address is the name under which a replaceable or addressable event replaces
// its older versions, "kind:pubkey:d", and false for all other kinds.
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
	return n + n/8 // what is escaped
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

// appendString escapes what NIP-01 names. It is silent about the other control
// characters; every implementation writes them as JSON.stringify does, \u00xx.
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
