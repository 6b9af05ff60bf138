package event

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
)

// MaxSize bounds an encoded event. What is larger goes by its hash.
const MaxSize = 256 << 10

// MaxLife bounds the time from an event's creation to its expiry. A receiver remembers
// for so long which events it has seen, and no longer.
const MaxLife = 7 * 24 * time.Hour

// Trace says which attempt an event is and by which policies it was routed.
type Trace struct {
	Attempt                 int    `json:"attempt"`
	RoutingPolicyVersion    string `json:"routingPolicyVersion"`
	CapabilityPolicyVersion string `json:"capabilityPolicyVersion"`
}

// Envelope is an event. ToAgentID is the recipient if there is exactly one.
type Envelope struct {
	EventID       string          `json:"eventId"`
	Seq           uint64          `json:"seq"`
	Kind          Kind            `json:"kind"`
	SourceNodeID  string          `json:"sourceNodeId"`
	SourceAgentID string          `json:"sourceAgentId"`
	ToAgentID     string          `json:"toAgentId,omitempty"`
	CorrID        string          `json:"corrId,omitempty"`
	CreatedAt     Time            `json:"createdAt"`
	ExpiresAt     Time            `json:"expiresAt"`
	Payload       json.RawMessage `json:"payload"`
	PayloadRef    string          `json:"payloadRef,omitempty"` // sha256:<hex> of what is too large for the payload
	Trace         Trace           `json:"trace"`
}

// forms makes the payload of each kind.
var forms = map[Kind]func() payload{
	KindMessage:      func() payload { return new(Message) },
	KindReply:        func() payload { return new(Reply) },
	KindSignal:       func() payload { return new(Message) },
	KindAck:          func() payload { return new(Ack) },
	KindTaskCreate:   func() payload { return new(TaskCreate) },
	KindTaskAccept:   func() payload { return new(TaskAccept) },
	KindTaskUpdate:   func() payload { return new(TaskUpdate) },
	KindTaskComplete: func() payload { return new(TaskComplete) },
	KindTaskFailed:   func() payload { return new(TaskFailed) },
	KindDeadLetter:   func() payload { return new(DeadLetter) },
}

// Event is an envelope with its payload as the type of its kind, such as *Message.
type Event struct {
	Envelope
	Body any
}

// Parse reads an event. The error is a *Refusal.
func Parse(doc []byte) (*Event, error) {
	if len(doc) > MaxSize {
		return nil, Refuse(InvalidEvent, "", "an event of %d bytes; at most %d are read", len(doc), MaxSize)
	}
	e := &Event{}
	if err := hashing.Unmarshal(doc, &e.Envelope); err != nil {
		return nil, Refuse(InvalidEvent, "", "%v", err)
	}
	if err := e.check(); err != nil {
		return nil, err
	}

	body, err := ParsePayload(e.Kind, e.Payload)
	if err != nil {
		return nil, err
	}
	e.Body = body
	return e, nil
}

// ParsePayload reads the payload of a kind. The error is a *Refusal.
func ParsePayload(kind Kind, doc []byte) (any, error) {
	form, ok := forms[kind]
	if !ok {
		return nil, Refuse(InvalidEvent, "kind", "%.40q is not known", kind)
	}
	p := form()
	if len(doc) > MaxSize {
		return nil, Refuse(InvalidEvent, "payload", "%d bytes; at most %d are read", len(doc), MaxSize)
	}
	if err := hashing.Unmarshal(doc, p); err != nil {
		return nil, Refuse(InvalidEvent, "payload", "%v", err)
	}

	var f fault
	p.check(&f)
	return p, f.err()
}

// check holds what does not depend on the kind, and which kinds need a corrId.
func (e *Envelope) check() error {
	var f fault
	f.id("eventId", e.EventID)
	f.node("sourceNodeId", e.SourceNodeID)
	f.agent("sourceAgentId", e.SourceAgentID)
	if e.ToAgentID != "" {
		f.agent("toAgentId", e.ToAgentID)
	}
	if e.Seq < 1 {
		f.say("seq", "is missing")
	}

	switch e.Kind {
	case KindMessage, KindSignal, KindDeadLetter:
		if e.CorrID != "" {
			f.id("corrId", e.CorrID)
		}
	default:
		f.id("corrId", e.CorrID)
	}

	f.at("createdAt", e.CreatedAt)
	f.at("expiresAt", e.ExpiresAt)
	if life := e.ExpiresAt.Sub(e.CreatedAt.Time); life <= 0 || life > MaxLife {
		f.say("expiresAt", "%s after the creation; it has to be after it by at most %s", life, MaxLife)
	}
	if e.PayloadRef != "" {
		_, err := hashing.ParseDigest(e.PayloadRef)
		f.want(err == nil, "payloadRef", e.PayloadRef, "hash")
	}
	if e.Trace.Attempt < 1 {
		f.say("trace.attempt", "%d is less than 1", e.Trace.Attempt)
	}
	f.text("trace.routingPolicyVersion", e.Trace.RoutingPolicyVersion, maxTitle)
	f.text("trace.capabilityPolicyVersion", e.Trace.CapabilityPolicyVersion, maxTitle)
	return f.err()
}

// New puts a payload into an envelope, whose other fields the caller has set, and checks
// both as a receiver would. The sequence, which the outbox gives, is not looked at.
func New(e Envelope, body any) (*Event, error) {
	doc, err := hashing.CanonicalValue(body)
	if err != nil {
		return nil, fmt.Errorf("payload of a %s: %w", e.Kind, err)
	}
	e.Payload = doc
	e.Trace.Attempt = max(e.Trace.Attempt, 1)

	numbered := e
	numbered.Seq = 1<<53 - 1 // as long as any
	text, err := Encode(&numbered)
	if err != nil {
		return nil, err
	}
	made, err := Parse(text)
	if err != nil {
		return nil, err
	}
	made.Seq = e.Seq
	return made, nil
}

// Encode writes an event as it goes over the wire.
func Encode(e *Envelope) ([]byte, error) {
	doc, err := hashing.CanonicalValue(e)
	if err != nil {
		return nil, fmt.Errorf("encode event %s: %w", e.EventID, err)
	}
	return doc, nil
}

// MessageID is the id by which the wire knows a second copy of an attempt.
func (e *Envelope) MessageID() string { return fmt.Sprintf("%s:%d", e.EventID, e.Trace.Attempt) }
