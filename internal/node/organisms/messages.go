package organisms

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/agentruntime/message"
	"github.com/lightwork-market/lightwork/agentruntime/organism"
	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// questionTTL is how many seconds a person waits for an agent's answer.
const questionTTL = 300

// said is the answer to a person's message, as ask prints it.
type said struct {
	Text    string          `json:"text"`
	Message json.RawMessage `json:"message"` // with its evidence
}

// say sends what a person says to an agent as a message, and returns its answer.
// The session is the conversation or, without one, the question alone.
func (l *living) say(ctx context.Context, thread *pipeline.Thread, to organism.Listener, text string, t *talk, in pipeline.Ingress) (json.RawMessage, error) {
	now := time.Now()
	about := message.Context{
		SessionID: string(thread.ID()), RequestID: in.RequestID, ConversationID: in.CorrelationID, Locale: "en", Timezone: "UTC",
	}
	if t != nil {
		about.SessionID = string(t.thread)
	}
	m, err := asMessage(l.Messengers[to.Name], to.Messages.Takes, text, t.context(), about, now)
	if err != nil {
		return nil, err
	}
	doc, err := message.Encode(m)
	if err != nil {
		return nil, messageError(message.FromError(err))
	}
	in.Tag, in.Payload = m.Type.Tag(), doc
	edge := message.Edge{Submit: thread.Submit, Self: message.Agent{AgentID: organism.NodeID, InstanceID: l.version}, Now: time.Now}
	answer, err := edge.Deliver(ctx, in)
	if err != nil {
		return nil, err
	}
	if answer == nil {
		return json.Marshal(said{Text: "(" + to.Name + " has nothing to say)"})
	}

	return readAnswer(*answer)
}

// asMessage is a question where the agent takes questions, else a command.
func asMessage(to message.Agent, takes []message.Type, text, before string, about message.Context, now time.Time) (m message.Message, err error) {
	person := message.Agent{AgentID: organism.PersonID, InstanceID: organism.PersonID}
	var more []byte
	if before != "" {
		if more, err = json.Marshal(map[string]string{"context": before}); err != nil {
			return m, err
		}
	}

	switch {
	case slices.Contains(takes, message.TypeQuery):
		m, err = message.New(person, to, message.Query{Question: text, Parameters: more}, about, now)
	case slices.Contains(takes, message.TypeCommand):
		m, err = message.New(person, to, message.Command{Command: text, Arguments: more}, about, now)
	default:
		return m, &host.CallError{Code: wire.CodeRouteNotFound, Message: to.AgentID + " takes neither questions nor commands"}
	}

	m.TTL = questionTTL
	return m, err
}

// readAnswer is an answer for a person; an error message is an error.
func readAnswer(m message.Message) (json.RawMessage, error) {
	if m.Type == message.TypeError {
		f, err := message.ContentOf[message.Failure](m)
		if err != nil {
			return nil, err
		}
		text := f.Message
		if len(f.Details) > 0 {
			text += " " + string(f.Details)
		}
		return nil, &host.CallError{Code: string(f.Code), Message: text, Retryable: f.Recoverable}
	}

	text := string(m.Payload.Content)
	if r, err := message.ContentOf[message.Response](m); err == nil && r.Answer != "" {
		text = r.Answer
		if len(r.Data) > 0 {
			text += "\n" + string(r.Data)
		}
	}

	doc, err := message.Encode(m)
	if err != nil {
		return nil, err
	}
	return json.Marshal(said{Text: text, Message: doc})
}

func messageError(e *message.Error) error {
	return &host.CallError{Code: string(e.Code()), Message: e.Error(), Retryable: e.Code().Recoverable()}
}
