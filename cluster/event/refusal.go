// Package event has what gateways say to each other: the envelope of every event, the
// payload of each kind, and the records of the control plane. It has the one strict
// reader of each, which takes nothing that is over its limit.
package event

import (
	"crypto/rand"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// The codes of a refusal. The first four are those of routes.
const (
	InvalidTargets        = "invalid_targets"        // 400: an agent that is named does not exist or is not active
	NoRoute               = "no_route"               // 400: well formed, but nobody is eligible
	MissingRouteFields    = "missing_route_fields"   // 400: neither agents nor capabilities
	CapabilityUnavailable = "capability_unavailable" // 409: the capability is there, and nobody can serve it now
	InvalidEvent          = "invalid_event"          // 400: a field is missing or wrong
	InvalidCapability     = "invalid_capability"     // 400: a capability that must not be published
	VersionNotConfirmed   = "version_not_confirmed"  // 409: the skill's version was not confirmed
	InvalidState          = "invalid_state"          // 409: the task does not take this step now
	Overloaded            = "overloaded"             // 429: a queue is full
)

// Refusal says why an event or a request was not taken, with the code that the protocol
// gives it.
type Refusal struct {
	Status int    // 400, 409, 429
	Code   string // "no_route"
	Field  string // the member at fault; may be empty
	Detail string
}

func (r *Refusal) Error() string {
	if r.Field == "" {
		return fmt.Sprintf("%d %s: %s", r.Status, r.Code, r.Detail)
	}
	return fmt.Sprintf("%d %s: %s: %s", r.Status, r.Code, r.Field, r.Detail)
}

// statuses are those of the codes that are not 400.
var statuses = map[string]int{CapabilityUnavailable: 409, VersionNotConfirmed: 409, InvalidState: 409, Overloaded: 429}

// Refuse makes a refusal with the status of its code.
func Refuse(code, field, format string, args ...any) *Refusal {
	status := 400
	if s, ok := statuses[code]; ok {
		status = s
	}
	return &Refusal{Status: status, Code: code, Field: field, Detail: fmt.Sprintf(format, args...)}
}

// Time is a time as the protocol writes it: UTC, with milliseconds.
type Time struct{ time.Time }

// layout is how a time is written, quotes included, and the only form that is read.
const layout = `"2006-01-02T15:04:05.000Z"`

// At is t as far as the protocol can write it.
func At(t time.Time) Time { return Time{t.UTC().Truncate(time.Millisecond)} }

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) { return []byte(t.UTC().Format(layout)), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (t *Time) UnmarshalJSON(text []byte) error {
	at, err := time.Parse(layout, string(text))
	if err != nil || at.Format(layout) != string(text) {
		return fmt.Errorf("time %.40s is not of the form %s", text, layout)
	}
	t.Time = at
	return nil
}

// NewID makes an id that nobody else makes: the prefix, the time and 80 random bits, in
// the alphabet of ULIDs, so that ids sort by time.
func NewID(prefix string, now time.Time) string {
	const alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	var random [10]byte
	_, _ = rand.Read(random[:]) // it never fails: crypto/rand

	var b strings.Builder
	b.WriteString(prefix)
	ms := uint64(now.UnixMilli())
	for shift := 45; shift >= 0; shift -= 5 {
		b.WriteByte(alphabet[ms>>shift&31])
	}
	var bits, held uint
	for _, c := range random {
		bits, held = bits<<8|uint(c), held+8
		for ; held >= 5; held -= 5 {
			b.WriteByte(alphabet[bits>>(held-5)&31])
		}
	}
	return b.String()
}

var (
	nodeID       = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)
	agentID      = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)
	capabilityID = regexp.MustCompile(`^cap\.[a-z0-9][a-z0-9._-]{0,119}$`)
	anyID        = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$`)
	version      = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.+-]{0,63}$`)
)

// Everybody is the one name among the targets that stands for all active agents. The
// publisher replaces it, so no stored event has it.
const Everybody = "all"

// IsNode says whether a text can be the id of a gateway.
func IsNode(id string) bool { return nodeID.MatchString(id) }

// IsAgent says whether a text can be the id of an agent.
func IsAgent(id string) bool { return agentID.MatchString(id) && id != Everybody }

// IsCapability says whether a text can be the id of a capability.
func IsCapability(id string) bool { return capabilityID.MatchString(id) }

// fault is the first thing that is wrong with a payload. Its methods do nothing after it
// was found.
type fault struct{ found *Refusal }

func (f *fault) say(field, format string, args ...any) {
	if f.found == nil {
		f.found = Refuse(InvalidEvent, field, format, args...)
	}
}

func (f *fault) err() error {
	if f.found == nil {
		return nil
	}
	return f.found
}

// want says that a field is wrong unless ok.
func (f *fault) want(ok bool, field, value, what string) {
	if !ok {
		f.say(field, "%.60q is no %s", value, what)
	}
}

func (f *fault) id(field, value string) { f.want(anyID.MatchString(value), field, value, "id") }

func (f *fault) agent(field, value string) { f.want(IsAgent(value), field, value, "id of an agent") }

func (f *fault) node(field, value string) { f.want(IsNode(value), field, value, "id of a gateway") }

func (f *fault) capability(field, value string) {
	f.want(IsCapability(value), field, value, "id of a capability (cap.<name>)")
}

func (f *fault) at(field string, t Time) {
	if t.IsZero() {
		f.say(field, "is missing")
	}
}

// text holds a text to the characters that it may have.
func (f *fault) text(field, value string, most int) {
	if n := utf8.RuneCountInString(value); n > most {
		f.say(field, "has %d characters, and may have %d", n, most)
	}
}

// oneOf holds a text to a few words; none may be missing if "" is among them.
func (f *fault) oneOf(field, value string, words ...string) {
	for _, w := range words {
		if w == value {
			return
		}
	}
	f.say(field, "%.60q is none of %s", value, strings.Join(words, ", "))
}

// list holds the names of a list, which are all different and at most most.
func (f *fault) list(field string, names []string, most int, check func(field, value string)) {
	if len(names) > most {
		f.say(field, "names %d, and may name %d", len(names), most)
		return
	}
	seen := map[string]bool{}
	for _, name := range names {
		check(field, name)
		if seen[name] {
			f.say(field, "names %s twice", name)
		}
		seen[name] = true
	}
}
