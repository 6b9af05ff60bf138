package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/lightwork-market/lightwork/hashing"
)

// Payload is the input of a handler: validated bytes and their tag. The bytes are a copy
// that the handler may change.
type Payload struct {
	Tag   string
	Bytes []byte
}

// Context is all that a handler learns of the conversation.
type Context struct {
	Thread ThreadID
	Sender string
	Self   string // the name the handler is registered under
}

// HandleFunc does a handler's work. A Go error becomes an Error response with the code
// "handler.failed". ctx ends when the caller gives up. [CallFrom] returns the [Call] of
// ctx.
type HandleFunc func(ctx context.Context, p Payload, c Context) (Response, error)

// Handler is a handler's metadata and its work.
type Handler struct {
	// Name is unique in the pipeline.
	Name string
	// Description is required.
	Description string
	// Tags are the payload tags it accepts.
	Tags []string
	// Outputs are the payload tags it may reply or send with; any other is
	// refused.
	Outputs []string
	// Peers are the only handlers that it may send to.
	Peers []string
	// Tool says that every tag in and out must have a schema.
	Tool bool
	// RequiresDirective refuses every message without a live directive.
	RequiresDirective bool
	Handle            HandleFunc
}

func (h Handler) check(schemas map[string]Validate) error {
	if err := checkName(h.Name); err != nil {
		return err
	}

	switch {
	case h.Name == Name:
		return errors.New("name is the pipeline's own")
	case h.Description == "":
		return errors.New("description is empty")
	case h.Handle == nil:
		return errors.New("has nothing to do: Handle is nil")
	case len(h.Tags) == 0:
		return errors.New("accepts no payload tag")
	}

	for _, tag := range slices.Concat(h.Tags, h.Outputs) {
		if err := checkTag(tag); err != nil {
			return err
		}
		if h.Tool && schemas[tag] == nil {
			return fmt.Errorf("is a tool, and tag %s has no schema", tag)
		}
	}

	if slices.Contains(h.Outputs, TagAck) || slices.Contains(h.Outputs, TagError) {
		return errors.New("outputs: acknowledgements and errors have responses of their own")
	}

	for i, tag := range h.Tags {
		if slices.Contains(h.Tags[:i], tag) {
			return fmt.Errorf("accepts tag %s twice", tag)
		}
	}

	for _, peer := range h.Peers {
		if isWildcard(peer) {
			return fmt.Errorf("peers: %w", ErrWildcard)
		}
	}

	return nil
}

// Validate checks the bytes of one payload tag against its schema.
type Validate func(payload []byte) error

// Failure is the structured payload of an Error response.
type Failure struct {
	Code    string `json:"code"` // lower-case words with dots: "tool.unavailable"
	Message string `json:"message"`
	// Retryable says that the same message may succeed later.
	Retryable bool `json:"retryable"`
	// Details may hold more for a program, as JSON.
	Details json.RawMessage `json:"details,omitempty"`
}

// Bounds of a Failure, in bytes.
const (
	maxFailureMessage = 4 << 10
	maxFailureDetails = 64 << 10
)

var codeForm = regexp.MustCompile(`^[a-z][a-z0-9_]*(\.[a-z0-9_]+)*$`)

// check is the response schema of an Error response.
func (f Failure) check() error {
	switch {
	case len(f.Code) > maxNameLength || !codeForm.MatchString(f.Code):
		return errors.New("error code has a bad form")
	case len(f.Message) > maxFailureMessage || !utf8.ValidString(f.Message):
		return errors.New("error message is too long or no UTF-8")
	case len(f.Details) > maxFailureDetails || (f.Details != nil && hashing.Check(f.Details) != nil):
		return errors.New("error details are too long or no JSON")
	}
	return nil
}

// payload must only be called after check, so that it cannot fail.
func (f Failure) payload() []byte {
	doc, err := json.Marshal(f)
	if err != nil {
		return []byte(`{"code":"handler.failed","message":"","retryable":false}`)
	}
	return doc
}

// clipText shortens the text of a Go error to the bounds of a Failure.
func clipText(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), maxFailureMessage/4)], "?")
}

type responseKind int

const (
	kindNone responseKind = iota
	kindReply
	kindSend
	kindBroadcast
	kindSilence
	kindError
)

// Message is one message that a handler sends.
type Message struct {
	To, Tag string
	Payload []byte
}

// Response is the answer of a handler, made by [Reply], [Send], [Broadcast], [Silence] or
// [Fail]. The pipeline, not the handler, sets its sender, thread and profile. The zero
// value is refused.
type Response struct {
	kind     responseKind
	messages []Message // one with an empty To for a reply
	failure  Failure
}

// Reply answers the sender.
func Reply(tag string, payload []byte) Response {
	return Response{kind: kindReply, messages: []Message{{Tag: tag, Payload: payload}}}
}

// Send sends to the named handler, if the profile routes the tag there and the
// sending handler has it among its peers.
func Send(to, tag string, payload []byte) Response {
	return Response{kind: kindSend, messages: []Message{{To: to, Tag: tag, Payload: payload}}}
}

// Broadcast sends several messages, each by itself as Send would. Since a tag
// has one handler, each recipient gets its own tag.
func Broadcast(messages ...Message) Response {
	return Response{kind: kindBroadcast, messages: messages}
}

// Silence consumes the message. The sender gets an acknowledgement.
func Silence() Response { return Response{kind: kindSilence} }

// Fail answers the sender with a structured error.
func Fail(f Failure) Response { return Response{kind: kindError, failure: f} }

// Call is what accompanies the payload of a message from outside.
type Call struct {
	RequestID, CorrelationID, DirectiveID string
	// Stream passes output on while the handler works. It is never nil.
	Stream func(channel, text string)
	// Secrets returns the secrets of the exchange so far, without those too short to
	// tell from other text. Use it to mask logs, because a program that receives a
	// secret may log it. It is never nil.
	Secrets func() []string
}

type callKey struct{}

// CallFrom returns the Call of the message that ctx belongs to.
func CallFrom(ctx context.Context) Call {
	c, _ := ctx.Value(callKey{}).(Call)
	if c.Stream == nil {
		c.Stream = func(string, string) {}
	}
	if c.Secrets == nil {
		c.Secrets = func() []string { return nil }
	}
	return c
}
