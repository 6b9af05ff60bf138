// Package message defines the messages between agents: nine types, each with
// evidence for its content.
//
// A message is not a transport. It is a pipeline payload with a tag for each type
// ("ye.query"); the pipeline routes and journals it like any other payload. [Parse]
// makes every check that needs only the message, a [Gate] makes those that need a
// clock, the registry or the journal, and [NewHandler] wraps both around an agent's
// work.
//
// Evidence is passed on byte for byte, so that the last agent receives exactly what
// the first one wrote.
package message

import (
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Version and ControlPack identify the published message schemas.
const (
	Version     = "1.0.0"
	ControlPack = "v0.0-control-pack"
	// namespace is the pipeline namespace of every message.
	namespace = "urn:yeto:agent-message:1.0.0"

	// TagPrefix starts the payload tag of every message.
	TagPrefix = "ye."
)

// Type is a kind of message.
type Type string

// The nine types.
const (
	TypeQuery      Type = "query"      // request for information
	TypeResponse   Type = "response"   // answer to a query, with evidence
	TypeCommand    Type = "command"    // request to act
	TypeEvent      Type = "event"      // notification
	TypeError      Type = "error"      // report of an error
	TypeValidation Type = "validation" // request for a judgement, or the judgement
	TypeEvidence   Type = "evidence"   // submission of evidence
	TypeGap        Type = "gap"        // notice that data is missing
	TypeCorrection Type = "correction" // request to correct an earlier message
)

// Types returns all nine.
func Types() []Type {
	return []Type{
		TypeQuery, TypeResponse, TypeCommand, TypeEvent, TypeError, TypeValidation, TypeEvidence, TypeGap, TypeCorrection,
	}
}

// Tag returns the pipeline's payload tag for the type, such as "ye.query".
func (t Type) Tag() string { return TagPrefix + string(t) }

// typeOfTag returns the type for a payload tag.
func typeOfTag(tag string) (Type, bool) {
	name, ok := strings.CutPrefix(tag, TagPrefix)
	return Type(name), ok && slices.Contains(Types(), Type(name))
}

// Agent identifies one running agent.
type Agent struct {
	AgentID    string `json:"agentId"`    // of its manifest
	InstanceID string `json:"instanceId"` // of this run
}

// Context identifies a conversation. An answer repeats the context of its question.
type Context struct {
	SessionID      string `json:"sessionId"`
	UserID         string `json:"userId,omitzero"`
	RequestID      string `json:"requestId"` // the first request, the same over all hops
	ConversationID string `json:"conversationId,omitzero"`
	Locale         string `json:"locale"`
	Timezone       string `json:"timezone"`
}

// Format is the form of a content.
type Format string

// The formats: a JSON object with the shape of its type or, for queries and
// responses only, the question or answer as a string.
const (
	FormatJSON     Format = "json"
	FormatText     Format = "text"
	FormatMarkdown Format = "markdown"
)

// Language of a content.
type Language string

// The languages.
const (
	English Language = "en"
	Arabic  Language = "ar"
)

// encodingUTF8 is the only encoding.
const encodingUTF8 = "utf-8"

// Payload is the content. Its encoding is always "utf-8".
type Payload struct {
	Content  jsontext.Value // an object, or a string; see Format
	Format   Format
	Language Language
}

// Priority of a message. It does not restrict the content.
type Priority string

// The priorities.
const (
	PriorityHigh   Priority = "high"
	PriorityNormal Priority = "normal"
	PriorityLow    Priority = "low"
)

// Message is one message. Parse and New return valid messages; Encode checks
// messages that were changed since.
type Message struct {
	ID        string    // bare UUID v4
	Timestamp time.Time // written in UTC with milliseconds
	From, To  Agent
	ReplyTo   string // id of the message that this one answers, "" for none
	Type      Type
	Payload   Payload
	Context   Context
	Evidence  Evidence
	Priority  Priority
	// TTL is how many seconds after Timestamp the message is still processed.
	TTL int
	// RetryCount grows by one each time the message is sent again.
	RetryCount int
}

// Deadline is the instant after which the message is not processed.
func (m Message) Deadline() time.Time { return m.Timestamp.Add(time.Duration(m.TTL) * time.Second) }
