package message

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/lightwork-market/lightwork/hashing"
)

// Defaults for members that a message leaves out.
const (
	defaultTTL      = 30
	defaultTimezone = "UTC"
)

// timeLayout is how this package writes instants.
const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// head and tail are the members before and after the evidence. The evidence is
// written between them byte for byte.
type head struct {
	ID        string      `json:"id"`
	Timestamp string      `json:"timestamp"`
	Version   string      `json:"version"`
	From      Agent       `json:"from"`
	To        Agent       `json:"to"`
	ReplyTo   string      `json:"replyTo,omitzero"`
	Type      Type        `json:"type"`
	Payload   wirePayload `json:"payload"`
	Context   Context     `json:"context"`
}

type wirePayload struct {
	Content  jsontext.Value `json:"content"`
	Format   Format         `json:"format"`
	Language Language       `json:"language"`
	Encoding string         `json:"encoding"`
}

type tail struct {
	Priority   Priority `json:"priority"`
	TTL        float64  `json:"ttl"` // "30.0" is an integer to JSON Schema
	RetryCount float64  `json:"retryCount"`
}

// wireMessage is a whole message.
type wireMessage struct {
	head
	Evidence jsontext.Value `json:"evidence"`
	tail
}

// Parse reads a message and makes every check that needs only the message: its
// structure, its content, that a response has evidence (YE-V5, K-19) and that each
// citation names a source (K-20). The error is an *Error: VALIDATION_FAILED, or
// FABRICATION_DETECTED if the evidence is broken.
func Parse(doc []byte) (Message, error) {
	if err := checkShape(doc); err != nil {
		return Message{}, err
	}
	m, err := decode(doc)
	if err != nil {
		return Message{}, err
	}
	if err := checkContent(m); err != nil {
		return Message{}, err
	}
	if err := checkEvidence(m); err != nil {
		return Message{}, err
	}

	return m, nil
}

// tree decodes a document of bounded length strictly into maps, slices, strings and
// float64s.
func tree(doc []byte) (map[string]any, *Error) {
	if len(doc) > maxBytes {
		return nil, invalid("", "has more than %d bytes", maxBytes)
	}
	var value any
	if err := hashing.UnmarshalKnown(doc, &value); err != nil {
		return nil, invalid("", "%v", err)
	}
	members, ok := value.(map[string]any)
	if !ok {
		return nil, invalid("", "is no object")
	}
	return members, nil
}

// required are the members that every message must have (YE-V1).
var required = [...]string{"id", "timestamp", "version", "from", "to", "type", "payload"}

func checkShape(doc []byte) *Error {
	members, err := tree(doc)
	if err != nil {
		return err
	}

	for _, name := range required {
		if _, present := members[name]; !present {
			return invalid(name, "is missing")
		}
	}

	if err := oneWord(Types()...).check(members["type"], "type"); err != nil {
		return err
	}
	t := Type(members["type"].(string))
	format := FormatJSON
	if p, ok := members["payload"].(map[string]any); ok && mayBeText(t) && (p["format"] == string(FormatText) || p["format"] == string(FormatMarkdown)) {
		format = FormatText
	}
	return shapes()[shapeKey{t, format}].check(members, "")
}

type shapeKey struct {
	t      Type
	format Format // FormatJSON or FormatText
}

// shapes are the shapes of all messages, built once.
var shapes = sync.OnceValue(func() map[shapeKey]shape {
	all := map[shapeKey]shape{}
	for _, t := range Types() {
		for _, f := range []Format{FormatJSON, FormatText} {
			all[shapeKey{t, f}] = envelopeShape([]Type{t}, payloadShape(t, f))
		}
	}
	return all
})

// decode returns the Message of a document whose shape was checked.
func decode(doc []byte) (Message, *Error) {
	var w wireMessage
	if err := json.Unmarshal(doc, &w, json.RejectUnknownMembers(true)); err != nil {
		return Message{}, invalid("", "does not decode")
	}
	instant, err := time.Parse(time.RFC3339Nano, w.Timestamp)
	if err != nil {
		return Message{}, invalid("timestamp", "is no date and time")
	}
	m := Message{
		ID: w.ID, Timestamp: instant.UTC(), From: w.From, To: w.To, ReplyTo: w.ReplyTo, Type: w.Type,
		Payload: Payload{Content: slices.Clone(w.Payload.Content), Format: w.Payload.Format, Language: w.Payload.Language},
		Context: w.Context, Priority: w.Priority, TTL: int(w.TTL), RetryCount: int(w.RetryCount),
	}
	if w.Evidence != nil {
		var bad *Error
		if m.Evidence, bad = decodeEvidence(w.Evidence); bad != nil {
			return Message{}, bad
		}
	}

	return m.withDefaults(), nil
}

// withDefaults fills in the members that a sender may leave out (K-18).
func (m Message) withDefaults() Message {
	if m.Context == (Context{}) {
		// Nothing links this message to others, so it is a session of its own.
		m.Context = Context{SessionID: m.ID, RequestID: m.ID, Locale: string(m.Payload.Language), Timezone: defaultTimezone}
	}
	if m.Priority == "" {
		m.Priority = PriorityNormal
	}
	if m.TTL == 0 {
		m.TTL = defaultTTL
	}
	return m
}

// checkEvidence checks that a message has the evidence that its type requires.
func checkEvidence(m Message) *Error {
	switch m.Type {
	case TypeResponse:
		r, err := ContentOf[Response](m)
		if err != nil {
			return FromError(err)
		}
		if r.Gap == nil {
			return m.Evidence.chain.require()
		}
		if r.Data != nil {
			// Without this, a gap would be a way to give data without evidence.
			return invalid("payload.content.data", "must be absent where there is a gap")
		}
	case TypeEvidence:
		if len(m.Evidence.chain.Sources) == 0 {
			return invalid("evidence.sources", "is empty in a submission of evidence")
		}
	}

	return nil
}

// Encode writes a message, with its evidence byte for byte. Its error, an *Error,
// refuses every message that Parse would refuse.
func Encode(m Message) ([]byte, error) {
	first, err := json.Marshal(head{
		m.ID, m.Timestamp.UTC().Format(timeLayout), Version, m.From, m.To, m.ReplyTo, m.Type,
		wirePayload{m.Payload.Content, m.Payload.Format, m.Payload.Language, encodingUTF8},
		m.Context,
	})
	if err != nil {
		return nil, invalid("payload", "cannot be written")
	}
	last, err := json.Marshal(tail{m.Priority, float64(m.TTL), float64(m.RetryCount)})
	if err != nil {
		return nil, fmt.Errorf("encode message: %w", err)
	}
	doc := append(first[:len(first)-1], `,"evidence":`...)
	doc = append(append(doc, m.Evidence.Bytes()...), ',')
	doc = append(doc, last[1:]...)
	if _, err := Parse(doc); err != nil {
		return nil, err
	}
	return doc, nil
}
