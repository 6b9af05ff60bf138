package receipts

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/market/kinds"
)

// KeyReason is why a key is used no more.
type KeyReason string

// The reasons: its owner chose to, or others may hold it. Either way nothing is believed
// of a key that is dated after its statement.
const (
	KeyRotated KeyReason = "rotated"
	KeyRetired KeyReason = "retired"
)

// KeyChange is the content of a key statement: its author, the key, is used no more. A
// rotated key names the next one. Only the event in which the next key holds the whole
// statement shows that the next key agrees; see [KeyStatement].
type KeyChange struct {
	Version int       `json:"version"`
	Key     string    `json:"key"`      // npub
	NextKey *string   `json:"next_key"` // npub, null if none follows
	Reason  KeyReason `json:"reason"`
}

// Canonical validates the change and returns its canonical JSON. Errors wrap
// [ErrInvalid].
func (k KeyChange) Canonical() ([]byte, error) {
	c := checks{document: "key change"}
	c.version(k.Version)
	c.npub("key", k.Key)
	if k.NextKey != nil {
		c.npub("next_key", *k.NextKey)
		c.that(*k.NextKey != k.Key, "next_key is the key itself")
	}
	c.that(k.Reason == KeyRotated || k.Reason == KeyRetired, "reason is neither rotated nor retired")
	c.that(k.Reason != KeyRotated || k.NextKey != nil, "a rotated key names no next_key")
	if c.failed != nil {
		return nil, c.failed
	}
	return hashing.CanonicalValue(k)
}

// Event makes the unsigned event of the change, for the key that it is about.
func (k KeyChange) Event(createdAt int64) (Event, error) {
	doc, err := k.Canonical()
	if err != nil {
		return Event{}, err
	}
	tags := [][]string{domain.KeyChange.Tag()}
	if k.NextKey != nil {
		next, err := ParseNpub(*k.NextKey)
		if err != nil {
			return Event{}, err
		}
		tags = append(tags, []string{"p", next})
	}
	return Event{Kind: kinds.KeyChange, CreatedAt: createdAt, Content: string(doc), Tags: tags}, nil
}

// AcceptKeyChange makes the unsigned event by which the next key agrees to a change. It
// holds the statement, so that it proves the change alone. It is the next key's own: the
// key that was given up cannot have relays delete it.
func AcceptKeyChange(statement Event, createdAt int64) (Event, error) {
	s, err := ParseKeyStatement(statement)
	if err != nil {
		return Event{}, err
	}
	if s.Accepted || s.Next == "" {
		return Event{}, fmt.Errorf("%w: key statement: it asks no next key to agree", ErrInvalid)
	}
	return Event{
		Kind: kinds.KeyChange, CreatedAt: createdAt, Content: string(statement.JSON()),
		Tags: [][]string{domain.KeyAcceptance.Tag(), {"e", statement.ID}, {"p", statement.PubKey}},
	}, nil
}

// MaxKeyStatementBytes bounds an event that holds a statement, or its acceptance.
const MaxKeyStatementBytes = 8 << 10

// KeyStatement is what an event says of a key, with its signatures checked.
type KeyStatement struct {
	Key, Next string // hex; Next is "" if no key follows
	Reason    KeyReason
	// At is when the key said so, by its own clock: who holds a leaked key may date a
	// statement back.
	At time.Time
	// Accepted tells that the next key has signed too.
	Accepted bool
}

// ParseKeyStatement reads and verifies a key's statement or the next key's acceptance of
// one. Errors wrap [ErrInvalid] or [ErrMismatch].
func ParseKeyStatement(ev Event) (KeyStatement, error) {
	fail := func(err error) (KeyStatement, error) { return KeyStatement{}, fmt.Errorf("key statement: %w", err) }
	if size := len(ev.JSON()); size > MaxKeyStatementBytes {
		return fail(fmt.Errorf("%w: %d bytes, at most %d", ErrInvalid, size, MaxKeyStatementBytes))
	}
	if ev.Kind != kinds.KeyChange {
		return fail(fmt.Errorf("%w: kind %d, not %d", ErrInvalid, ev.Kind, kinds.KeyChange))
	}
	if d, err := domain.Of(ev.Tags); err == nil && d == domain.KeyAcceptance {
		s, err := parseAccepted(ev)
		if err != nil {
			return fail(err)
		}
		return s, nil
	}

	if err := firstMismatch(requireDomain(domain.KeyChange)(&ev), ev.Verify()); err != nil {
		return fail(err)
	}
	k, err := parseDocument[KeyChange]("key change", []byte(ev.Content))
	if err != nil {
		return fail(err)
	}
	s := KeyStatement{Key: ev.PubKey, Reason: k.Reason, At: time.Unix(ev.CreatedAt, 0).UTC()}
	npub, err := Npub(ev.PubKey)
	if err != nil {
		return fail(err)
	}
	var named []string
	if k.NextKey != nil {
		if s.Next, err = ParseNpub(*k.NextKey); err != nil {
			return fail(err)
		}
		named = []string{s.Next}
	}
	if err := firstMismatch(match("key", k.Key, npub), sameTags(ev, "p", named)); err != nil {
		return fail(err)
	}

	return s, nil
}

// parseAccepted reads the event of the next key, which holds the statement.
func parseAccepted(ev Event) (KeyStatement, error) {
	if err := ev.Verify(); err != nil {
		return KeyStatement{}, err
	}
	inner, err := parseExactEvent([]byte(ev.Content))
	if err != nil {
		return KeyStatement{}, err
	}
	if err := requireDomain(domain.KeyChange)(&inner); err != nil {
		return KeyStatement{}, err // before it is read, so that none holds another acceptance
	}
	s, err := ParseKeyStatement(inner)
	if err != nil {
		return KeyStatement{}, err
	}
	if err := firstMismatch(
		match("next_key", ev.PubKey, s.Next),
		sameTags(ev, "e", []string{inner.ID}),
		sameTags(ev, "p", []string{inner.PubKey}),
	); err != nil {
		return KeyStatement{}, err
	}

	s.Accepted = true
	return s, nil
}

// parseExactEvent reads an event in the form of [Event.JSON], the only one that two
// readers cannot take for different events.
func parseExactEvent(doc []byte) (Event, error) {
	ev, err := ParseEvent(doc, MaxKeyStatementBytes)
	if err == nil && !bytes.Equal(ev.JSON(), doc) {
		err = fmt.Errorf("%w: event: not in the form that a bundle has", ErrInvalid)
	}
	return ev, err
}

// sameTags checks that an event has exactly these values of a tag.
func sameTags(ev Event, name string, want []string) error {
	if got := ev.Values(name); !slices.Equal(got, want) {
		return &MismatchError{Field: "tag " + name, Got: quoted(fmt.Sprint(got)), Want: fmt.Sprint(want)}
	}
	return nil
}

// KeyHistory is what statements say of keys. The zero value knows nothing. It is not
// safe for concurrent use with Add.
type KeyHistory struct{ ends map[string]KeyEnd }

// KeyEnd is how a key ended.
type KeyEnd struct {
	Next   string // hex; "" if none follows, or if the key named several
	Reason KeyReason
	At     time.Time // the earliest that it said
}

// maxKeyChanges bounds the statements of one file.
const maxKeyChanges = 512

// ReadKeyHistory reads the events of a file, one a line. Errors wrap [ErrInvalid] or
// [ErrMismatch] and name the line.
func ReadKeyHistory(file []byte) (*KeyHistory, error) {
	h := &KeyHistory{}
	number := 0
	for line := range bytes.Lines(file) {
		number++
		if number > maxKeyChanges {
			return nil, fmt.Errorf("%w: more than %d key statements", ErrInvalid, maxKeyChanges)
		}
		ev, err := parseExactEvent(bytes.TrimSuffix(line, []byte("\n")))
		if err == nil {
			_, err = h.Add(ev)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
	return h, nil
}

// Add verifies an event and adds what it says. A rotation that the next key has not
// accepted changes nothing. A key that names two next keys is as good as leaked: it
// counts as retired, and no key follows it.
func (h *KeyHistory) Add(ev Event) (KeyStatement, error) {
	s, err := ParseKeyStatement(ev)
	if err != nil {
		return KeyStatement{}, err
	}
	if !s.Accepted && s.Reason == KeyRotated {
		return s, nil
	}
	if h.ends == nil {
		h.ends = map[string]KeyEnd{}
	}

	next := ""
	if s.Accepted {
		next = s.Next
	}
	end, known := h.ends[s.Key]
	switch {
	case !known:
		end = KeyEnd{Next: next, Reason: s.Reason, At: s.At}
	case end.Next == "" && !end.forked():
		end.Next = next
	case next != "" && next != end.Next:
		end.Next, end.Reason = forkedKey, KeyRetired
	}
	if s.Reason == KeyRetired {
		end.Reason = KeyRetired
	}
	if s.At.Before(end.At) {
		end.At = s.At
	}
	h.ends[s.Key] = end
	return s, nil
}

// forkedKey stands for the next key of one that named several.
const forkedKey = "several"

func (e KeyEnd) forked() bool { return e.Next == forkedKey }

// End tells how a key (hex) ended; false if it has not, as far as is known.
func (h *KeyHistory) End(key string) (KeyEnd, bool) {
	end, ok := h.keyEnds()[key]
	if end.forked() {
		end.Next = ""
	}
	return end, ok
}

func (h *KeyHistory) keyEnds() map[string]KeyEnd {
	if h == nil {
		return nil
	}
	return h.ends
}

// Leads reports whether changes lead from one key (hex) to another, or to itself.
func (h *KeyHistory) Leads(from, to string) bool { return h.changes(from, to) >= 0 }

// changes is how many changes lead from one key to another; -1 if none do.
func (h *KeyHistory) changes(from, to string) int {
	for n := range len(h.keyEnds()) + 1 { // a circle ends
		if from == to {
			return n
		}
		end, ok := h.End(from)
		if !ok || end.Next == "" {
			break
		}
		from = end.Next
	}
	return -1
}

// Joins reports whether two keys (hex) are of one holder: one leads to the other.
func (h *KeyHistory) Joins(a, b string) bool { return h.Leads(a, b) || h.Leads(b, a) }

// CheckSigned refuses what a key (hex) signed after its end.
func (h *KeyHistory) CheckSigned(key string, at time.Time) error {
	end, ok := h.End(key)
	if !ok || !at.After(end.At) {
		return nil
	}
	return fmt.Errorf("%w: the key was %s at %s, and this is of %s", ErrMismatch, end.Reason, Timestamp(end.At), Timestamp(at))
}
