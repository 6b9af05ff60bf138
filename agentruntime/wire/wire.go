// Package wire holds the messages of the OpenSentience runtime protocol v1,
// which the node ("core") and one agent process exchange over a local socket,
// each as one frame.
//
// Decode is strict about the envelope and about the fields it knows, and
// ignores payload fields it does not know (OS-6.2.1). Every rejection is a
// *DecodeError with a protocol code.
package wire

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"
)

// Version is the only protocol version this package speaks.
const Version = 1

// Side is one end of the connection. Its value is the prefix of the message
// types that this end may send (OS-4.0.1).
type Side string

const (
	Core  Side = "core"
	Agent Side = "agent"
)

// Type names a message.
type Type string

const (
	TypeHello         Type = "agent.hello"
	TypeRegister      Type = "agent.tools.register"
	TypeUnregister    Type = "agent.tools.unregister"
	TypeToolStream    Type = "agent.tool.stream"
	TypeToolResult    Type = "agent.tool.result"
	TypeCancelAck     Type = "agent.tool.cancel_ack"
	TypeHeartbeat     Type = "agent.heartbeat"
	TypePong          Type = "agent.pong"
	TypeAgentError    Type = "agent.error"
	TypeWelcome       Type = "core.welcome"
	TypeGoodbye       Type = "core.goodbye"
	TypeRegistered    Type = "core.tools.registered"
	TypeUnregistered  Type = "core.tools.unregistered"
	TypeToolCall      Type = "core.tool.call"
	TypeToolCancel    Type = "core.tool.cancel"
	TypePing          Type = "core.ping"
	TypeCoreError     Type = "core.error"
	maxTypeBytes           = 100
	maxIDBytes             = 256
	maxMessageBytes        = 2 << 10
	maxToolsPerMsg         = 256
	maxShortListItems      = 64
)

// From tells which side may send the type; "" for neither.
func (t Type) From() Side {
	prefix, rest, ok := strings.Cut(string(t), ".")
	if side := Side(prefix); ok && rest != "" && (side == Core || side == Agent) {
		return side
	}
	return ""
}

// Actor says on whose behalf a call is made. It is metadata, never a ground
// for authorization (OS-3.2.3). Types other than the three are rejected.
type Actor struct {
	Type    string `json:"type"` // "human", "agent" or "system"
	ID      string `json:"id"`
	Display string `json:"display,omitzero"`
}

// Message is one envelope with its decoded payload.
//
// Encode fills ID (a UUID) and TS (now) when they are zero.
type Message struct {
	ID string
	TS time.Time

	InReplyTo     string
	RequestID     string
	CorrelationID string
	CausationID   string
	Actor         *Actor

	// Error is the envelope's error: a failure of the protocol itself. A
	// tool's failure is in its result payload (K-14).
	Error *Error

	Payload Payload
}

// Type is the type of the payload.
func (m *Message) Type() Type { return m.Payload.messageType() }

// Echo copies the fields that every message about a request must carry on
// from the request (OS-3.1.7).
func (m *Message) Echo(request *Message) {
	m.RequestID = request.RequestID
	m.CorrelationID = request.CorrelationID
	m.CausationID = request.CausationID
}

// Payload is the type-specific part: a pointer to one of this package's
// payload structs.
type Payload interface {
	messageType() Type
	// check reports the first field that breaks its rule.
	check() *fieldError
}

// NewID returns a random UUID (version 4).
func NewID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	out := make([]byte, 36)
	hex.Encode(out, b[:4])
	hex.Encode(out[9:], b[4:6])
	hex.Encode(out[14:], b[6:8])
	hex.Encode(out[19:], b[8:10])
	hex.Encode(out[24:], b[10:])
	out[8], out[13], out[18], out[23] = '-', '-', '-', '-'
	return string(out)
}

// Time is an instant as the protocol writes it: RFC 3339, UTC, milliseconds.
type Time struct{ time.Time }

const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// MarshalText writes RFC 3339 with milliseconds in UTC.
func (t Time) MarshalText() ([]byte, error) {
	return t.UTC().AppendFormat(nil, timeLayout), nil
}

// UnmarshalText reads any RFC 3339 time.
func (t *Time) UnmarshalText(b []byte) error { return t.Time.UnmarshalText(b) }

// MarshalJSON and UnmarshalJSON keep time.Time's own promoted methods from
// deciding the format.
func (t Time) MarshalJSON() ([]byte, error) {
	return t.UTC().AppendFormat(nil, `"`+timeLayout+`"`), nil
}

// UnmarshalJSON reads a JSON string with any RFC 3339 time.
func (t *Time) UnmarshalJSON(b []byte) error { return t.Time.UnmarshalJSON(b) }

// isObject reports whether raw is a JSON object; raw is known to be JSON.
func isObject(raw json.RawMessage) bool {
	return len(raw) > 1 && raw[0] == '{'
}
