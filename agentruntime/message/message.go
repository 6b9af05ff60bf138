// Package message holds what agents say to each other: nine types of message,
// each with the evidence for what it says.
//
// A message is no transport. It is a payload of the pipeline, under Namespace,
// with a payload tag for each type ("ye.query"); the pipeline routes, journals
// and re-enters it like any other. [Parse] does every check that needs nothing
// but the message, a [Gate] those that need a clock, the registry or the
// journal, and [NewHandler] puts both around an agent's work.
//
// Evidence is kept as the bytes it came in, so that it arrives at the last
// agent as it left the first.
package message

import (
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Version and ControlPack are what the message schemas are published as.
const (
	Version     = "1.0.0"
	ControlPack = "v0.0-control-pack"
	// Namespace is the pipeline namespace of every message.
	namespace = "urn:yeto:agent-message:1.0.0"

	// TagPrefix begins the payload tag of every message.
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

// Tag is the type's payload tag in the pipeline: "ye.query".
func (t Type) Tag() string { return TagPrefix + string(t) }

// typeOfTag reads a payload tag.
func typeOfTag(tag string) (Type, bool) {
	name, ok := strings.CutPrefix(tag, TagPrefix)
	return Type(name), ok && slices.Contains(Types(), Type(name))
}

// Agent names one running agent.
type Agent struct {
	AgentID    string `json:"agentId"`    // of its manifest
	InstanceID string `json:"instanceId"` // of this run
}

// Context is what a conversation is for. An answer has its question's.
type Context struct {
	SessionID      string `json:"sessionId"`
	UserID         string `json:"userId,omitzero"`
	RequestID      string `json:"requestId"` // the original request, the same over all hops
	ConversationID string `json:"conversationId,omitzero"`
	Locale         string `json:"locale"`
	Timezone       string `json:"timezone"`
}

// Format is how a content is written.
type Format string

// The formats: a JSON object of the type's own shape, or, for a query or a
// response alone, a string that is the question or the answer.
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

// encodingUTF8 is the only encoding there is.
const encodingUTF8 = "utf-8"

// Payload is the content. Its encoding is always "utf-8".
type Payload struct {
	Content  jsontext.Value // an object, or a string; see Format
	Format   Format
	Language Language
}

// Priority of a message. It says nothing about what the message holds.
type Priority string

// The priorities.
const (
	PriorityHigh   Priority = "high"
	PriorityNormal Priority = "normal"
	PriorityLow    Priority = "low"
)

// Message is one message. Those that Parse and the builders give are valid; one
// that was changed by hand is checked by Encode.
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
