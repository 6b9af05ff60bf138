package receipts

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/lightwork-market/lightwork/market/kinds"
)

// Types of an input that is somewhere else, as NIP-90 names them.
const (
	InputJob   = "job"   // the result of another request
	InputEvent = "event" // an event's content
)

const (
	// MaxReferences is how many inputs of one request may be somewhere else.
	MaxReferences = 4
	// MaxInputBytes is how long the content of one may be.
	MaxInputBytes = 64 << 10
)

// kindsOfPrivate are meant for one reader, even where they are ciphertext.
var kindsOfPrivate = []int{4, 13, 14, 15, 1059, 1060, 21059}

// Reference is an input that says where it is: ["i", id, "job", relay, provider]
// or ["i", id, "event", relay]. The relay is a hint.
type Reference struct {
	Type string
	ID   string // of the request whose result it is, or of the event; hex
	// Provider is whose result counts, hex; "" stands for the provider that the
	// request itself is for. Of a job only.
	Provider string
}

// isReference reports whether a tag is an input that is somewhere else.
func isReference(tag []string) bool {
	return len(tag) >= 3 && tag[0] == "i" && isOneOf(tag[2], InputJob, InputEvent)
}

// ReferencesOf reads the inputs of a request that are somewhere else, in their
// order; none is no error. Errors wrap ErrInvalid.
func ReferencesOf[Tag ~[]string](tags []Tag) ([]Reference, error) {
	var list []Reference
	for _, tag := range tags {
		if !isReference(tag) {
			continue
		}
		r := Reference{Type: tag[2], ID: tag[1]}
		if r.Type == InputJob && len(tag) >= 5 {
			r.Provider = tag[4]
		}

		switch {
		case len(list) == MaxReferences:
			return nil, fmt.Errorf("%w: more than %d inputs are somewhere else", ErrInvalid, MaxReferences)
		case !isHex(r.ID, 64):
			return nil, fmt.Errorf("%w: an input of type %s names no event id (64 lower-case hex digits)", ErrInvalid, r.Type)
		case r.Provider != "" && !isHex(r.Provider, 64):
			return nil, fmt.Errorf("%w: an input of type job names a provider that is no key (64 lower-case hex digits)", ErrInvalid)
		}

		list = append(list, r)
	}

	return list, nil
}

// Author is whose event counts, for a request to the provider; "" for anybody's,
// where the id names the event.
func (r Reference) Author(provider string) string {
	switch {
	case r.Type == InputEvent:
		return ""
	case r.Provider != "":
		return r.Provider
	}
	return provider
}

// Names reports whether the event is the one that the reference means, or one
// of those. It looks at no signature.
func (r Reference) Names(ev Event, provider string) bool {
	if r.Type == InputEvent {
		return ev.ID == r.ID
	}
	return ev.PubKey == r.Author(provider) && ev.Kind >= kinds.FirstRequest+kinds.ResultOffset && ev.Kind <= kinds.LastRequest+kinds.ResultOffset && ev.has("e", r.ID)
}

// matchInputs compares the events that a quote names as inputs with those at hand.
func matchInputs(named, have []string) error {
	if slices.Equal(named, have) {
		return nil
	}
	return &MismatchError{"inputs", strings.Join(named, " "), strings.Join(have, " ")}
}

// IDs are the ids of events, in their order.
func IDs(events []Event) []string {
	ids := make([]string, 0, len(events))
	for _, ev := range events {
		ids = append(ids, ev.ID)
	}
	return ids
}

// InputText is what an event says as an input: its content, if that is for
// everybody to read. Errors wrap ErrInvalid.
func InputText(ev Event) (string, error) {
	switch {
	case len(ev.Values("encrypted")) > 0 || slices.Contains(kindsOfPrivate, ev.Kind) || len(ev.Values("-")) > 0:
		return "", fmt.Errorf("%w: the input %s is not for everybody to read", ErrInvalid, ev.ID)
	case len(ev.Values("commitment")) > 0:
		return "", fmt.Errorf("%w: the input %s is a sealed result: only who paid for it can open it", ErrInvalid, ev.ID)
	case ev.Content == "":
		return "", fmt.Errorf("%w: the input %s has no content", ErrInvalid, ev.ID)
	case len(ev.Content) > MaxInputBytes:
		return "", fmt.Errorf("%w: the input %s has more than %d bytes", ErrInvalid, ev.ID, MaxInputBytes)
	}
	return ev.Content, nil
}

// Inline puts the texts of events in the place of the references to them: the
// n-th event is that of the n-th reference. What comes out is read as any
// request's tags. The signatures are not looked at. Errors wrap ErrInvalid.
func Inline[Tag ~[]string](tags []Tag, provider string, events []Event) ([]Tag, error) {
	refs, err := ReferencesOf(tags)
	if err != nil {
		return nil, err
	}
	if len(refs) != len(events) {
		return nil, fmt.Errorf("%w: %d inputs are somewhere else, and %d events are here", ErrInvalid, len(refs), len(events))
	}

	out := slices.Clone(tags)
	for i, tag := range out {
		if !isReference(tag) {
			continue
		}
		if !refs[0].Names(events[0], provider) {
			return nil, fmt.Errorf("%w: the event %s is not the input %s of type %s", ErrInvalid, events[0].ID, refs[0].ID, refs[0].Type)
		}

		text, err := InputText(events[0])
		if err != nil {
			return nil, err
		}
		out[i] = Tag{"i", text, "text"}
		refs, events = refs[1:], events[1:]
	}

	return out, nil
}

// WriteInputs makes INPUTS.jsonl: an event a line.
func WriteInputs(events []Event) []byte {
	var b bytes.Buffer
	for _, ev := range events {
		b.Write(ev.JSON())
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// ParseInputs reads INPUTS.jsonl, each line in the form of Event.JSON, and checks
// the signatures. Errors wrap ErrInvalid.
func ParseInputs(doc []byte) ([]Event, error) { return parseInputs(doc, nil) }

// parseInputs is ParseInputs but for the signatures that are put off.
func parseInputs(doc []byte, later *later) ([]Event, error) {
	lines := bytes.SplitAfter(doc, []byte("\n"))
	if last := lines[len(lines)-1]; len(last) > 0 || len(lines)-1 > MaxReferences {
		return nil, fmt.Errorf("%w: %s is not 1 to %d lines", ErrInvalid, FileInputs, MaxReferences)
	}

	var events []Event
	for _, line := range lines[:len(lines)-1] {
		ev, err := readEvent(line[:len(line)-1])
		if err == nil && !ev.exact {
			err = fmt.Errorf("%w: %s: a line is not in the form of an event", ErrInvalid, FileInputs)
		}
		if err == nil {
			err = later.verify(&ev)
		}
		if err != nil {
			return nil, err
		}
		events = append(events, ev.Event)
	}

	return events, nil
}
