package receipts

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/lightwork-market/lightwork/market/kinds"
)

// The types of NIP-90 for an input that is in another event.
const (
	InputJob   = "job"   // the result of another request
	InputEvent = "event" // an event's content
)

const (
	// MaxReferences bounds the inputs of one request that are in other events.
	MaxReferences = 4
	// MaxInputBytes bounds the content of one such input.
	MaxInputBytes = 64 << 10
)

// kindsOfPrivate are kinds of messages to one reader. They are never inputs, even if
// they are encrypted.
var kindsOfPrivate = []int{4, 13, 14, 15, 1059, 1060, 21059}

// Reference is an input that is in another event: ["i", id, "job", relay, provider] or
// ["i", id, "event", relay]. The relay is only a hint.
type Reference struct {
	Type string
	ID   string // of the request whose result is the input, or of the event; hex
	// Provider is the provider whose result is meant, hex; "" stands for the provider
	// that gets this request. Only for jobs.
	Provider string
}

// isReference reports whether a tag is an input that is in another event.
func isReference(tag []string) bool {
	return len(tag) >= 3 && tag[0] == "i" && isOneOf(tag[2], InputJob, InputEvent)
}

// ReferencesOf reads the inputs of a request that are in other events, in their order.
// A request without any is no error. Errors wrap [ErrInvalid].
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

// Author is the key that must have signed the referenced event, if the request is for
// this provider; "" if the id alone determines the event.
func (r Reference) Author(provider string) string {
	switch {
	case r.Type == InputEvent:
		return ""
	case r.Provider != "":
		return r.Provider
	}
	return provider
}

// Names reports whether the reference can mean this event. It does not check the
// event's signature.
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

// IDs lists the ids of events in their order.
func IDs(events []Event) []string {
	ids := make([]string, 0, len(events))
	for _, ev := range events {
		ids = append(ids, ev.ID)
	}
	return ids
}

// InputText is the content of an event as an input of a job. Private and sealed events
// are refused. Errors wrap [ErrInvalid].
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

// Inline replaces each reference by the text of its event; the n-th event belongs to
// the n-th reference. The resulting tags can be read like those of any request. Inline
// does not check signatures. Errors wrap [ErrInvalid].
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

// WriteInputs makes INPUTS.jsonl: one event in each line.
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

// parseInputs is ParseInputs; the signatures are checked with the batch.
func parseInputs(doc []byte, deferred *signatureBatch) ([]Event, error) {
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
			err = deferred.verify(&ev)
		}
		if err != nil {
			return nil, err
		}
		events = append(events, ev.Event)
	}

	return events, nil
}
