package wire

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/lightwork-market/lightwork/agentruntime/frame"
)

// outgoing is the envelope as we write it.
type outgoing struct {
	V             int     `json:"v"`
	Type          Type    `json:"type"`
	ID            string  `json:"id"`
	TS            Time    `json:"ts"`
	InReplyTo     string  `json:"in_reply_to,omitzero"`
	RequestID     string  `json:"request_id,omitzero"`
	CorrelationID string  `json:"correlation_id,omitzero"`
	CausationID   string  `json:"causation_id,omitzero"`
	Actor         *Actor  `json:"actor,omitzero"`
	Error         *Error  `json:"error,omitzero"`
	Payload       Payload `json:"payload"`
}

// incoming is the envelope as it may arrive: pointers tell absent from zero,
// raw values are judged after the envelope.
type incoming struct {
	V             *int           `json:"v"`
	Type          *Type          `json:"type"`
	ID            *string        `json:"id"`
	TS            *string        `json:"ts"`
	InReplyTo     string         `json:"in_reply_to"`
	RequestID     string         `json:"request_id"`
	CorrelationID string         `json:"correlation_id"`
	CausationID   string         `json:"causation_id"`
	Actor         *Actor         `json:"actor"`
	Error         *Error         `json:"error"`
	Payload       jsontext.Value `json:"payload"`
}

// EncodeFrame appends m to buf as one frame of at most limit payload bytes (0
// for the default). It fills a zero ID and TS. On an error buf is as it was:
// *frame.SizeError, or a payload that breaks its own rules.
func EncodeFrame(buf *bytes.Buffer, m *Message, limit int) error {
	if m.ID == "" {
		m.ID = NewID()
	}
	if m.TS.IsZero() {
		m.TS = time.Now()
	}
	if m.Error == nil {
		if err := m.Payload.check(); err != nil {
			return fmt.Errorf("encode %s: %s: %s", m.Type(), err.field, err.reason)
		}
	}

	start := buf.Len()
	buf.Write(make([]byte, frame.HeaderBytes))
	err := json.MarshalWrite(buf, &outgoing{
		V: Version, Type: m.Type(), ID: m.ID, TS: Time{m.TS}, InReplyTo: m.InReplyTo,
		RequestID: m.RequestID, CorrelationID: m.CorrelationID, CausationID: m.CausationID,
		Actor: m.Actor, Error: m.Error, Payload: m.Payload,
	})
	if err == nil {
		err = frame.Seal(buf.Bytes()[start:], limit)
	}
	if err != nil {
		buf.Truncate(start)
		return fmt.Errorf("encode %s: %w", m.Type(), err)
	}
	return nil
}

// Decode reads one message that from has sent. Every error is a *DecodeError.
// The message shares no memory with data.
func Decode(data []byte, from Side) (*Message, error) {
	var in incoming
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, refuse(&in, syntaxOrType(err))
	}
	if err := in.check(from); err != nil {
		return nil, refuse(&in, err)
	}

	payload := newPayload(*in.Type)
	if payload == nil {
		return nil, refuse(&in, &DecodeError{Code: CodeUnknownType, Field: "type", Reason: "unknown message type"})
	}
	if err := json.Unmarshal(in.Payload, payload); err != nil {
		de := syntaxOrType(err)
		de.Field = "payload" + de.Field
		return nil, refuse(&in, de)
	}
	if r, ok := payload.(*ToolResult); ok && in.Error != nil && r.Error != nil {
		return nil, refuse(&in, invalid(&fieldError{"error", "is at the top level and in the payload: one of them"}))
	}

	// A refusal has nothing but its error, so its payload has no duties.
	if in.Error == nil {
		if err := payload.check(); err != nil {
			return nil, refuse(&in, invalid(err))
		}
	}

	var ts Time
	if err := ts.UnmarshalText([]byte(*in.TS)); err != nil {
		return nil, refuse(&in, invalid(&fieldError{"ts", "must be an RFC 3339 time"}))
	}

	return &Message{
		ID: *in.ID, TS: ts.Time, InReplyTo: in.InReplyTo, RequestID: in.RequestID,
		CorrelationID: in.CorrelationID, CausationID: in.CausationID,
		Actor: in.Actor, Error: in.Error, Payload: payload,
	}, nil
}

// check judges everything but the payload's fields.
func (in *incoming) check(from Side) *DecodeError {
	if err := in.required(); err != nil {
		return invalid(err)
	}
	if *in.V != Version {
		return &DecodeError{Code: CodeUnsupportedVersion, Field: "v", Reason: "must be 1"}
	}
	if side := in.Type.From(); side != from {
		return &DecodeError{Code: CodeWrongDirection, Field: "type", Reason: "not a type that this side may send"}
	}

	err := first(
		requireID("id", *in.ID),
		optionalID("in_reply_to", in.InReplyTo),
		optionalID("request_id", in.RequestID),
		optionalID("correlation_id", in.CorrelationID),
		optionalID("causation_id", in.CausationID),
	)
	if err == nil && in.Actor != nil {
		err = in.Actor.check()
	}
	if err == nil && in.Error != nil {
		err = in.Error.check("error")
	}
	if err == nil && in.Payload.Kind() != '{' {
		err = &fieldError{"payload", "must be an object"}
	}
	if err != nil {
		return invalid(err)
	}
	return nil
}

func (in *incoming) required() *fieldError {
	missing := ""
	switch {
	case in.V == nil:
		missing = "v"
	case in.Type == nil:
		missing = "type"
	case in.ID == nil:
		missing = "id"
	case in.TS == nil:
		missing = "ts"
	case in.Payload == nil:
		missing = "payload"
	case len(*in.Type) > maxTypeBytes:
		return &fieldError{"type", "too long"}
	default:
		return nil
	}

	return &fieldError{missing, "required"}
}

func invalid(err *fieldError) *DecodeError {
	return &DecodeError{Code: CodeInvalidMessage, Field: err.field, Reason: err.reason}
}

// syntaxOrType turns an error of the JSON library into one that holds no
// content of the message.
func syntaxOrType(err error) *DecodeError {
	de := &DecodeError{Code: CodeInvalidMessage, Reason: "not a JSON object of the right shape"}
	var syntax *jsontext.SyntacticError
	var semantic *json.SemanticError
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		de.Reason = "a name occurs twice"
	case errors.As(err, &syntax):
		de.Reason = fmt.Sprintf("not JSON at byte %d", syntax.ByteOffset)
	case errors.As(err, &semantic):
		de.Reason = fmt.Sprintf("wrong type at byte %d", semantic.ByteOffset)
	}

	return de
}

// refuse adds what could be read of the message, cut to the sizes allowed, so
// that the receiver can answer it or end the call that it is about.
func refuse(in *incoming, de *DecodeError) *DecodeError {
	if in.Type != nil && len(*in.Type) <= maxTypeBytes {
		de.Type = *in.Type
	}
	if in.ID != nil && len(*in.ID) <= maxIDBytes {
		de.ID = *in.ID
	}
	if len(in.RequestID) <= maxIDBytes {
		de.RequestID = in.RequestID
	}

	// encoding/json is used here because it fills CallID even when a later
	// field has the wrong type.
	var about struct {
		CallID string `json:"call_id"`
	}
	if in.Payload.Kind() == '{' && len(in.Payload) <= frame.DefaultMaxBytes {
		_ = stdjson.Unmarshal(in.Payload, &about)
	}
	if len(about.CallID) <= maxIDBytes {
		de.CallID = about.CallID
	}
	return de
}
