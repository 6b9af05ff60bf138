package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/lightwork-market/lightwork/hashing"
)

const (
	maxInteger = 1<<53 - 1 // the largest integer that every JSON reader preserves
	maxName    = 1024      // bytes of an id, a name or a status
	maxText    = 1 << 20   // bytes of one command
)

// object reads the fields of one line by their exact names, where encoding/json would
// also accept "T" for "t". It keeps the first error.
type object struct {
	whole []byte
	doc   *hashing.Object // has no member if the line did not parse
	err   error
}

func newObject(doc []byte) *object {
	o := &object{doc: new(hashing.Object)}
	o.parse(doc)
	return o
}

// parse reads another document into the object's memory. Slices of the last document
// become invalid.
func (o *object) parse(doc []byte) {
	o.whole, o.err = doc, o.doc.Parse(doc)
}

func (o *object) fail(name, format string, args ...any) {
	if o.err == nil {
		o.err = fmt.Errorf("%s: %s", name, fmt.Sprintf(format, args...))
	}
}

// raw returns the text of a field, a slice of the line, or nil if it is absent.
func (o *object) raw(name string) json.RawMessage {
	return o.doc.Value(name)
}

// absent reports whether a field is missing or null.
func (o *object) absent(name string) bool { return isAbsent(o.raw(name)) }

func isAbsent(raw json.RawMessage) bool { return raw == nil || string(raw) == "null" }

// required returns the text of a field that must be present. It returns nil if it is
// not, or after an earlier error.
func (o *object) required(name string) json.RawMessage {
	if o.err != nil {
		return nil
	}
	raw := o.raw(name)
	if isAbsent(raw) {
		o.fail(name, "missing")
		return nil
	}
	return raw
}

func (o *object) decode(name string, v any, kind string) {
	if raw := o.required(name); raw != nil && json.Unmarshal(raw, v) != nil {
		o.fail(name, "not %s", kind)
	}
}

// unquote reads a string of a document that passed the strict decoder.
func unquote(raw json.RawMessage) (s string, ok bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), true
	}
	return s, json.Unmarshal(raw, &s) == nil
}

func (o *object) text(name string, limit int) string {
	raw := o.required(name)
	if raw == nil {
		return ""
	}
	s, ok := unquote(raw)
	if !ok {
		o.fail(name, "not a string")
	}
	if len(s) > limit {
		o.fail(name, "longer than %d bytes", limit)
		return ""
	}
	return s
}

// name is a required, non-empty, short string.
func (o *object) name(name string) string {
	s := o.text(name, maxName)
	if s == "" {
		o.fail(name, "empty")
	}
	return s
}

func (o *object) optionalName(name string) *string {
	if o.err != nil || o.absent(name) {
		return nil
	}
	s := o.text(name, maxName)
	return &s
}

func (o *object) oneOf(name string, allowed ...string) string {
	s := o.name(name)
	for _, a := range allowed {
		if s == a {
			return s
		}
	}
	o.fail(name, "unknown value %q", clip(s))
	return ""
}

func (o *object) time(name string) Time {
	var t Time
	if raw := o.required(name); raw != nil && t.UnmarshalJSON(raw) != nil {
		o.fail(name, "not an RFC 3339 time")
	}
	return t
}

func (o *object) digest(name string) hashing.Digest {
	if raw := o.required(name); len(raw) > 2 && raw[0] == '"' {
		var d hashing.Digest
		if d.UnmarshalText(raw[1:len(raw)-1]) == nil { // a digest has no escape
			return d
		}
	}

	s := o.text(name, maxName)
	if o.err != nil {
		return hashing.Digest{}
	}
	d, err := hashing.ParseDigest(s)
	if err != nil || !strings.HasPrefix(s, "sha256:") { // ParseDigest also accepts bare hex
		o.fail(name, "not a sha256 digest")
	}
	return d
}

func (o *object) integer(name string, low, high int64) int64 {
	return o.bounded(name, o.required(name), low, high)
}

// bounded parses the text of an integer. It does not use encoding/json's Number, which
// accepts "1" in quotes. An integer has one spelling, so it refuses 1.0 and 1e3.
func (o *object) bounded(name string, n json.RawMessage, low, high int64) int64 {
	if o.err != nil {
		return 0
	}
	v, err := strconv.ParseInt(string(n), 10, 64)
	if err != nil || v < low || v > high {
		o.fail(name, "not an integer from %d to %d", low, high)
		return 0
	}
	return v
}

func (o *object) optionalInteger(name string) *int64 {
	if o.err != nil || o.absent(name) {
		return nil
	}
	v := o.integer(name, -maxInteger, maxInteger)
	return &v
}

func (o *object) count(name string) int64 { return o.integer(name, 0, maxInteger) }

func (o *object) ratio(name string, low, high float64) float64 {
	raw := o.required(name)
	if raw == nil {
		return 0
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		o.fail(name, "not a number")
	}
	if o.err == nil && (math.IsNaN(f) || f < low || f > high) {
		o.fail(name, "not from %v to %v", low, high)
	}
	return f
}

func (o *object) texts(name string) []string {
	var list []*string
	o.decode(name, &list, "a list of strings")
	out := make([]string, 0, len(list))
	for _, s := range list {
		if s == nil || len(*s) > maxText {
			o.fail(name, "holds null or too long a string")
			return nil
		}
		out = append(out, *s)
	}
	return out
}

func (o *object) integers(name string) []int64 {
	var list []json.RawMessage
	o.decode(name, &list, "a list of numbers")
	out := make([]int64, 0, len(list))
	for _, n := range list {
		out = append(out, o.bounded(name, n, -maxInteger, maxInteger))
	}
	return out
}

// hashedValue reads a value and the digest that must be the hash of its canonical form.
// A value that is absent was redacted, and only the digest is left.
func (o *object) hashedValue(value, digest string) (json.RawMessage, hashing.Digest) {
	want := o.digest(digest)
	raw := o.raw(value)
	if o.err != nil || raw == nil {
		return nil, want
	}
	if hashing.Bytes(o.doc.CanonicalValue(value)) != want {
		o.fail(digest, "is not the hash of %s", value)
	}
	return raw, want
}

// clip shortens text from outside for a message; %q then makes it printable.
func clip(s string) string {
	const most = 40
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}
