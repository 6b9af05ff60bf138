// Package lifecycle defines typed forms of the agent lifecycle events that NIP-SA
// proposes (OA-1.4). They have no standard kind numbers yet: the user chooses them,
// and events without one are not published. A form is a JSON document in canonical
// form, with tags by which relays find it; the tags only repeat values of the
// document.
// the document does not.
package lifecycle

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/market/kinds"
)

// Errors of this package.
var (
	ErrInvalid = errors.New("not a lifecycle event")
	ErrKinds   = errors.New("lifecycle kinds")
)

// maxDocument bounds a document, in bytes.
const maxDocument = 64 << 10

// Kinds are the kind numbers of the events; 0 means that the event is not
// published.
type Kinds struct {
	AgentProfile      int
	AgentState        int
	TickRequest       int
	TickResult        int
	TrajectorySession int
	TrajectoryEvent   int
}

// Check refuses unsuitable kinds. Every form has its own d tag, so all forms may
// have an addressable kind (30000 to 39999); those that never change may also have
// a regular kind. Check also refuses a form that refers to another event that is
// not published.
func (k Kinds) Check() error {
	var seen []int
	for _, c := range []struct {
		name    string
		kind    int
		changes bool
	}{
		{"agent_profile", k.AgentProfile, true},
		{"agent_state", k.AgentState, true},
		{"tick_request", k.TickRequest, false},
		{"tick_result", k.TickResult, false},
		{"trajectory_session", k.TrajectorySession, false},
		{"trajectory_event", k.TrajectoryEvent, false},
	} {
		addressable := c.kind >= 30000 && c.kind < 40000
		regular := c.kind >= 1000 && c.kind < 10000 && (c.kind < 5000 || c.kind > 7999) // except the kinds of the market
		switch {
		case c.kind == 0:
			continue
		case c.kind == kinds.Announcement || slices.Contains(seen, c.kind):
			return fmt.Errorf("%w: %s: %d is already the kind of another event", ErrKinds, c.name, c.kind)
		case !addressable && (c.changes || !regular):
			return fmt.Errorf("%w: %s: %d must be from 30000 to 39999%s", ErrKinds, c.name, c.kind,
				map[bool]string{true: "", false: ", or from 1000 to 9999 and not of the market"}[c.changes])
		}

		seen = append(seen, c.kind)
	}

	switch {
	case k.TickResult != 0 && k.TickRequest == 0:
		return fmt.Errorf("%w: tick_result refers to tick_request, which has no kind", ErrKinds)
	case k.TrajectoryEvent != 0 && k.TrajectorySession == 0:
		return fmt.Errorf("%w: trajectory_event refers to trajectory_session, which has no kind", ErrKinds)
	}
	return nil
}

// Document is one of the six forms.
type Document interface {
	// d is the d tag: documents with the same d replace each other.
	d() string
	domain() domain.Domain
	// tags are the further tags by which relays find the document.
	tags() [][]string
	check() error
}

// Encode checks a document and returns tags and content of its event. Errors wrap
// ErrInvalid.
func Encode(doc Document) (tags [][]string, content string, err error) {
	if err := doc.check(); err != nil {
		return nil, "", err
	}
	raw, err := hashing.CanonicalValue(doc)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if len(raw) > maxDocument {
		return nil, "", fmt.Errorf("%w: of more than %d bytes", ErrInvalid, maxDocument)
	}
	return append([][]string{{"d", doc.d()}, doc.domain().Tag()}, doc.tags()...), string(raw), nil
}

// Address returns the d tag of a document's event, which is not encrypted even if
// the document is.
func Address(doc Document) string { return doc.d() }

// DomainOf returns the domain of a document's event.
func DomainOf(doc Document) domain.Domain { return doc.domain() }

// Parse parses the document of an event strictly into doc, a pointer to one of the
// forms: unknown fields are refused, and every tag of the form must match the
// document. Further tags are allowed. The event's signature is not checked. Errors
// wrap ErrInvalid.
func Parse(tags [][]string, content string, doc Document) error {
	if len(content) > maxDocument {
		return fmt.Errorf("%w: of more than %d bytes", ErrInvalid, maxDocument)
	}
	if err := domain.Demand(doc.domain(), tags); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err := hashing.Unmarshal([]byte(content), doc); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}

	want, _, err := Encode(doc)
	if err != nil {
		return err
	}

	for _, tag := range want {
		n := 0
		for _, t := range tags {
			if len(t) > 0 && t[0] == tag[0] {
				n++
			}
		}
		if !slices.ContainsFunc(tags, func(t []string) bool { return slices.Equal(t, tag) }) || tag[0] == "d" && n != 1 {
			return fmt.Errorf("%w: the tag %s is not the document's", ErrInvalid, tag[0])
		}
	}

	return nil
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// firstOf returns the first error.
func firstOf(checks ...error) error {
	for _, err := range checks {
		if err != nil {
			return err
		}
	}
	return nil
}

func oneOf(field, value string, allowed ...string) error {
	if !slices.Contains(allowed, value) {
		return fmt.Errorf("%w: %s is none of %v", ErrInvalid, field, allowed)
	}
	return nil
}

func sized(field, value string, least, most int) error {
	if len(value) < least || len(value) > most {
		return fmt.Errorf("%w: %s has not %d to %d bytes", ErrInvalid, field, least, most)
	}
	return nil
}

func between(field string, n, least, most int64) error {
	if n < least || n > most {
		return fmt.Errorf("%w: %s is not from %d to %d", ErrInvalid, field, least, most)
	}
	return nil
}

func hexID(field, value string) error {
	for _, c := range []byte(value) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return fmt.Errorf("%w: %s is no lower-case hex", ErrInvalid, field)
		}
	}
	return sized(field, value, 64, 64)
}
