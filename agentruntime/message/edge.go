package message

import (
	"context"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
)

// Edge brings messages from outside into a pipeline. All fields are required.
type Edge struct {
	// Submit is the method of a Pipeline or, for a thread that continues, of a
	// Thread.
	Submit func(ctx context.Context, in pipeline.Ingress) (pipeline.Outcome, error)
	// Self is the sender of the error messages for what the pipeline refuses.
	Self Agent
	Now  func() time.Time
}

// Deliver submits the message in in.Payload and returns the answer, nil if no agent
// answered. in.Sender must be the agent that the message was proven to come from.
// Deliver sets in.Namespace and, if it is empty, in.CorrelationID. If the pipeline
// refuses the message, the answer is an error message. The error is the pipeline's;
// it is returned when the sender cannot be read from the payload.
func (e Edge) Deliver(ctx context.Context, in pipeline.Ingress) (*Message, error) {
	in.Namespace = namespace
	origin := peek(in.Payload)
	if in.CorrelationID == "" {
		in.CorrelationID = origin.Context.RequestID
	}
	out, err := e.Submit(ctx, in)
	if err == nil {
		if _, ok := typeOfTag(out.Reply.Tag()); !ok {
			return nil, nil
		}
		answer, err := Parse(out.Reply.Payload())
		if err != nil {
			return nil, err
		}
		return &answer, nil
	}

	if origin.ID == "" {
		return nil, err
	}
	answer := origin.Fail(err, e.Now())
	answer.From = e.Self
	return &answer, nil
}

// peek reads the members that an answer needs from a message that may be invalid.
// The result is the zero Message if the id or the sender is missing.
func peek(doc []byte) Message {
	members, err := tree(doc)
	if err != nil {
		return Message{}
	}
	valid := func(name string, s shape) bool {
		value, present := members[name]
		return present && s.check(value, name) == nil
	}
	if !valid("id", uuidShape()) || !valid("from", agentShape()) {
		return Message{}
	}
	m := Message{ID: members["id"].(string), From: agentOf(members["from"]), Payload: Payload{Language: English}}
	if valid("to", agentShape()) {
		m.To = agentOf(members["to"])
	}
	if valid("context", contextShape()) {
		m.Context = contextOf(members["context"])
	}
	return m.withDefaults()
}

// agentOf and contextOf read values whose shape was checked.
func agentOf(value any) Agent {
	a := value.(map[string]any)
	return Agent{AgentID: a["agentId"].(string), InstanceID: a["instanceId"].(string)}
}

func contextOf(value any) Context {
	c := value.(map[string]any)
	get := func(name string) string {
		text, _ := c[name].(string)
		return text
	}
	return Context{
		SessionID: get("sessionId"), UserID: get("userId"), RequestID: get("requestId"),
		ConversationID: get("conversationId"), Locale: get("locale"), Timezone: get("timezone"),
	}
}
