// Package pipeline moves messages between the handlers of one node.
//
// A message is an immutable Envelope. Every one, whether it comes from outside
// or out of a handler, passes the same stages in the same order: validation of
// structure and schema, security (the thread's profile has a static table that
// maps a payload tag to one handler, and what is not in the table has no route),
// journal, dispatch, validation of the response. A response that passes is
// journaled and, if a handler is to get it, goes through all of it again as a
// new envelope. A handler gets bytes and its
// place in the conversation and gives bytes back; it holds no reference to the
// pipeline, a table or another handler.
package pipeline

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/lightwork-market/lightwork/hashing"
)

// Header is what routing may see of a message: everything but the payload.
type Header struct {
	// Namespace is the URI of the schema family, "urn:agentos:tools:v1".
	Namespace string
	// Tag is the payload tag, the only thing routed by.
	Tag string
	// Sender is the handler or outside source the message comes from. The
	// pipeline sets it.
	Sender string
	// Thread is the conversation, Profile the name of its profile.
	Thread  ThreadID
	Profile string
}

// Envelope is one message. It cannot change: fields are set once, and the
// payload goes in and out as a copy. The zero value is no message.
type Envelope struct {
	header  Header
	payload []byte
	hash    hashing.Digest
}

// Namespaces and tags of what the pipeline itself says.
const (
	namespace = "urn:lightwork:pipeline:v1"
	// TagAck answers a sender whose message a handler consumed in silence. The
	// payload is {"result":"ack","success":true}.
	TagAck = "pipeline.ack"
	// TagError carries a Failure.
	TagError = "pipeline.error"
)

const maxNameLength = 256

// The forms of names. They are read for each message, so without regexp.

func isTag(s string) bool { return isName(s, "._:/#-") }

func isHandlerName(s string) bool { return isName(s, "._:/@-") }

// isNamespace: a URI of printable ASCII.
func isNamespace(s string) bool {
	scheme, rest, ok := strings.Cut(s, ":")
	if !ok || rest == "" || !isName(scheme, "+.-") || scheme[0] <= '9' {
		return false
	}
	for i := range len(rest) {
		if rest[i] < '!' || rest[i] > '~' {
			return false
		}
	}
	return true
}

// isName: letters and digits in ASCII, and after the first of them also others.
func isName(s, others string) bool {
	for i := range len(s) {
		c := s[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || i > 0 && strings.IndexByte(others, c) >= 0 {
			continue
		}
		return false
	}
	return s != ""
}

// newEnvelope makes a message of a header and a payload that have their form.
func newEnvelope(h Header, payload []byte, maxPayload int) (Envelope, error) {
	if err := checkStructure(h, len(payload), maxPayload); err != nil {
		return Envelope{}, err
	}
	return seal(h, payload), nil
}

// seal makes the envelope of a checked header and payload.
func seal(h Header, payload []byte) Envelope {
	return Envelope{header: h, payload: bytes.Clone(payload), hash: hashing.Bytes(payload)}
}

// checkStructure checks that every field is present and has its form. It does not check
// the thread's path again, which was checked when the thread began: that would make
// messages in deep threads slow.
func checkStructure(h Header, payload, maxPayload int) error {
	for _, f := range []struct {
		name, value string
		has         func(string) bool
	}{
		{"namespace", h.Namespace, isNamespace},
		{"payload_tag", h.Tag, isTag},
		{"sender", h.Sender, isHandlerName},
		{"profile", h.Profile, isHandlerName},
	} {
		if f.value == "" {
			return &MalformedError{f.name, "is missing"}
		}
		if len(f.value) > maxNameLength || !f.has(f.value) {
			return &MalformedError{f.name, "has a bad form"}
		}
	}

	if payload > maxPayload {
		return &MalformedError{"payload", fmt.Sprintf("has more than %d bytes", maxPayload)}
	}
	return nil
}

// Header returns all of the message but the payload.
func (e Envelope) Header() Header { return e.header }

// namespace returns the URI of the schema family.
func (e Envelope) Namespace() string { return e.header.Namespace }

// Tag returns the payload tag.
func (e Envelope) Tag() string { return e.header.Tag }

// Sender returns where the message comes from.
func (e Envelope) Sender() string { return e.header.Sender }

// Thread returns the conversation the message belongs to.
func (e Envelope) Thread() ThreadID { return e.header.Thread }

// Profile returns the name of the thread's profile.
func (e Envelope) Profile() string { return e.header.Profile }

// Payload returns a copy of the payload.
func (e Envelope) Payload() []byte { return bytes.Clone(e.payload) }

// PayloadHash returns the SHA-256 of the payload.
func (e Envelope) PayloadHash() hashing.Digest { return e.hash }

// IsZero reports whether e is no message.
func (e Envelope) IsZero() bool { return e.header.Tag == "" }
