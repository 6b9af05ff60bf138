package receipts

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/schnorr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
)

const (
	maxTags     = 2000
	maxTagItems = 1000
	maxKind     = 65535
	maxInteger  = 1<<53 - 1
)

// Event is a Nostr event (NIP-01). ID, PubKey and Sig are lower-case hex,
// CreatedAt is unix seconds.
type Event struct {
	ID        string
	PubKey    string
	CreatedAt int64
	Kind      int
	Tags      [][]string
	Content   string
	Sig       string
}

// eventDoc tells an absent or null field from an empty one.
type eventDoc struct {
	ID        *string      `json:"id"`
	PubKey    *string      `json:"pubkey"`
	CreatedAt *int64       `json:"created_at"`
	Kind      *int         `json:"kind"`
	Tags      *[][]*string `json:"tags"`
	Content   *string      `json:"content"`
	Sig       *string      `json:"sig"`
}

// ParseEvent reads one event of at most maxBytes bytes. It must have exactly the seven
// fields of NIP-01, lower-case hex, and numbers in range. ParseEvent does not check id
// and signature; [Event.Verify] does. Errors wrap [ErrInvalid].
func ParseEvent(doc []byte, maxBytes int) (Event, error) {
	if len(doc) > maxBytes {
		return Event{}, fmt.Errorf("%w: event of more than %d bytes", ErrInvalid, maxBytes)
	}
	var d eventDoc
	if err := hashing.Unmarshal(doc, &d); err != nil {
		return Event{}, fmt.Errorf("%w: event: %w", ErrInvalid, err)
	}
	if d.ID == nil || d.PubKey == nil || d.CreatedAt == nil || d.Kind == nil || d.Tags == nil || d.Content == nil || d.Sig == nil {
		return Event{}, fmt.Errorf("%w: event: a field is missing or null", ErrInvalid)
	}

	e := Event{ID: *d.ID, PubKey: *d.PubKey, CreatedAt: *d.CreatedAt, Kind: *d.Kind, Content: *d.Content, Sig: *d.Sig}
	e.Tags = make([][]string, 0, len(*d.Tags))

	for _, tag := range *d.Tags {
		items, err := tagItems(tag)
		if err != nil {
			return Event{}, err
		}
		e.Tags = append(e.Tags, items)
	}

	if err := checkTags(e.Tags); err != nil {
		return Event{}, err
	}
	return e, e.checkShape()
}

func tagItems(tag []*string) ([]string, error) {
	if tag == nil {
		return nil, fmt.Errorf("%w: event: a tag is null", ErrInvalid)
	}
	items := make([]string, 0, len(tag))
	for _, item := range tag {
		if item == nil {
			return nil, fmt.Errorf("%w: event: a tag holds null", ErrInvalid)
		}
		items = append(items, *item)
	}
	return items, nil
}

func (e *Event) checkShape() error {
	switch {
	case !isHex(e.ID, 64):
		return fmt.Errorf("%w: event: id is not 64 lower-case hex digits", ErrInvalid)
	case !isHex(e.PubKey, 64):
		return fmt.Errorf("%w: event: pubkey is not 64 lower-case hex digits", ErrInvalid)
	case !isHex(e.Sig, 128):
		return fmt.Errorf("%w: event: sig is not 128 lower-case hex digits", ErrInvalid)
	case e.CreatedAt < 0 || e.CreatedAt > maxInteger:
		return fmt.Errorf("%w: event: created_at out of range", ErrInvalid)
	case e.Kind < 0 || e.Kind > maxKind:
		return fmt.Errorf("%w: event: kind out of range", ErrInvalid)
	}

	return nil
}

// ComputeID is the SHA-256 of the NIP-01 serialization, in hex. It ignores the ID
// field.
func (e *Event) ComputeID() string { return e.computeID(false) }

func (e *Event) computeID(escapeControls bool) string {
	tags := appendTags(make([]byte, 0, 80*len(e.Tags)), e.Tags, escapeControls)
	return e.hash(tags, appendString(make([]byte, 0, 16+len(e.Content)), e.Content, escapeControls))
}

// hash is the id of the event, with tags and content already serialized: the hash of
// [0,pubkey,created_at,kind,tags,content] without whitespace.
func (e *Event) hash(tags, content []byte) string {
	b := make([]byte, 0, 128)
	b = append(b, `[0,"`...)
	b = append(b, e.PubKey...)
	b = append(b, `",`...)
	b = strconv.AppendInt(b, e.CreatedAt, 10)
	b = append(b, ',')
	b = strconv.AppendInt(b, int64(e.Kind), 10)
	b = append(b, ',')
	h := sha256.New()
	h.Write(b)
	h.Write(tags)
	h.Write([]byte{','})
	h.Write(content)
	h.Write([]byte{']'})
	return hex.EncodeToString(h.Sum(b[:0]))
}

// Verify recomputes the id and checks the BIP-340 signature over it. It accepts the id
// of NIP-01 and also one made with control characters escaped, as most clients do;
// both determine the event. Errors wrap [ErrInvalid].
func (e *Event) Verify() error {
	if err := e.checkID(); err != nil {
		return err
	}
	return e.checkSignature()
}

func (e *Event) checkID() error {
	if err := e.checkShape(); err != nil {
		return err
	}
	if e.ID != e.computeID(false) && e.ID != e.computeID(true) {
		return fmt.Errorf("%w: event: the id is not that of its fields", ErrInvalid)
	}
	return nil
}

func (e *Event) checkSignature() error {
	key, id, rawSig := mustHex(e.PubKey), mustHex(e.ID), mustHex(e.Sig)
	pub, err := schnorr.ParsePubKey(key)
	if err != nil {
		return fmt.Errorf("%w: event: pubkey is not on the curve", ErrInvalid)
	}

	// The library reduces s modulo the group's order; BIP-340 refuses such an s.
	if new(btcec.ModNScalar).SetByteSlice(rawSig[32:]) {
		return fmt.Errorf("%w: event: bad signature", ErrInvalid)
	}

	sig, err := schnorr.ParseSignature(rawSig)
	if err != nil || !sig.Verify(id, pub) {
		return fmt.Errorf("%w: event: bad signature", ErrInvalid)
	}
	return nil
}

// Sign sets PubKey, ID and Sig. The signature is deterministic. A node with a remote
// signer sets these fields itself; ID is [Event.ComputeID].
func (e *Event) Sign(key *btcec.PrivateKey) error {
	e.PubKey = hex.EncodeToString(schnorr.SerializePubKey(key.PubKey()))
	e.ID = e.ComputeID()
	sig, err := schnorr.Sign(key, mustHex(e.ID))
	if err != nil {
		return fmt.Errorf("sign event: %w", err)
	}
	e.Sig = hex.EncodeToString(sig.Serialize())
	return nil
}

// requireDomain checks that an event has the domain d; every document of ours has one.
// allowDomain accepts an event without any domain too, because requests may come from
// programs that do not know domains. Errors wrap ErrInvalid.

func requireDomain(d domain.Domain) func(*Event) error {
	return func(ev *Event) error { return invalid(domain.Demand(d, ev.Tags)) }
}

func allowDomain(d domain.Domain) func(*Event) error {
	return func(ev *Event) error { return invalid(domain.Allow(d, ev.Tags)) }
}

func invalid(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrInvalid, err)
}

// Values returns the second item of every tag with this name, in order; "" for a tag
// without one.
func (e *Event) Values(name string) []string {
	var values []string
	for _, tag := range e.Tags {
		if len(tag) == 0 || tag[0] != name {
			continue
		}
		value := ""
		if len(tag) > 1 {
			value = tag[1]
		}
		values = append(values, value)
	}

	return values
}

// has reports whether a tag with this name has this value.
func (e *Event) has(name, value string) bool {
	for _, v := range e.Values(name) {
		if v == value {
			return true
		}
	}
	return false
}

func appendTags(b []byte, tags [][]string, escapeControls bool) []byte {
	b = append(b, '[')
	for i, tag := range tags {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '[')
		for j, item := range tag {
			if j > 0 {
				b = append(b, ',')
			}
			b = appendString(b, item, escapeControls)
		}
		b = append(b, ']')
	}

	return append(b, ']')
}

// appendString escapes the seven characters that NIP-01 names. With escapeControls it
// also writes the other control characters as \u00xx, as JSON demands and
// JSON.stringify does.
func appendString(b []byte, s string, escapeControls bool) []byte {
	const digits = "0123456789abcdef"
	b = append(b, '"')
	for i := 0; i < len(s); i++ {
		run := i
		for i < len(s) && s[i] >= 0x20 && s[i] != '"' && s[i] != '\\' {
			i++
		}
		b = append(b, s[run:i]...)
		if i == len(s) {
			break
		}

		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\r':
			b = append(b, `\r`...)
		case c == '\t':
			b = append(b, `\t`...)
		case c == '\b':
			b = append(b, `\b`...)
		case c == '\f':
			b = append(b, `\f`...)
		case escapeControls:
			b = append(b, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		default:
			b = append(b, c)
		}
	}

	return append(b, '"')
}

// JSON is the one form of the event in a bundle: the fields in the order of NIP-01
// without whitespace. json.Marshal must not be used for it, because it escapes <, >
// and &.
func (e *Event) JSON() []byte {
	b := make([]byte, 0, 512+len(e.Content)+80*len(e.Tags))
	b = append(b, `{"id":"`...)
	b = append(b, e.ID...)
	b = append(b, `","pubkey":"`...)
	b = append(b, e.PubKey...)
	b = append(b, `","created_at":`...)
	b = strconv.AppendInt(b, e.CreatedAt, 10)
	b = append(b, `,"kind":`...)
	b = strconv.AppendInt(b, int64(e.Kind), 10)
	b = append(b, `,"tags":`...)
	b = appendTags(b, e.Tags, true)
	b = append(b, `,"content":`...)
	b = appendString(b, e.Content, true)
	b = append(b, `,"sig":"`...)
	b = append(b, e.Sig...)
	return append(b, `"}`...)
}

// MarshalJSON is [Event.JSON].
func (e Event) MarshalJSON() ([]byte, error) { return e.JSON(), nil }

// UnmarshalJSON is [ParseEvent] without a limit.
func (e *Event) UnmarshalJSON(doc []byte) error {
	parsed, err := ParseEvent(doc, len(doc))
	if err != nil {
		return err
	}
	*e = parsed
	return nil
}
