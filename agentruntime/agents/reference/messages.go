package reference

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/agent"
	"github.com/lightwork-market/lightwork/agentruntime/message"
)

// handleMessage answers the messages of a node. For a question "TOOL INPUT" it
// calls the tool with the JSON input and answers with the result and its evidence.
// For "cite SOURCE" it cites that source as evidence, whether it exists or not. For
// any other question it reports a gap.
func handleMessage(_ context.Context, call *agent.Call) (any, error) {
	var in message.ToolInput
	if err := call.Decode(&in); err != nil {
		return nil, err
	}
	m, err := message.Parse([]byte(in.Message))
	if err != nil {
		return nil, err
	}
	origin := m
	if in.Origin != "" {
		if origin, err = message.Parse([]byte(in.Origin)); err != nil {
			return nil, err
		}
	}

	switch m.Type {
	case message.TypeQuery:
		return question(m)
	case message.TypeResponse:
		got, err := message.ContentOf[message.Response](m)
		if err != nil {
			return nil, err
		}
		return reply(origin, message.Response{Answer: got.Answer, Data: got.Data}, m.Evidence)
	case message.TypeError:
		got, err := message.ContentOf[message.Failure](m)
		if err != nil {
			return nil, err
		}
		return reply(origin, got, message.Evidence{})
	}

	return message.ToolOutput{}, nil
}

func question(m message.Message) (any, error) {
	q, err := message.ContentOf[message.Query](m)
	if err != nil {
		return nil, err
	}

	verb, rest, _ := strings.Cut(q.Question, " ")
	switch {
	case verb == "cite":
		claim, err := message.NewEvidence(message.Chain{
			Sources: []message.Source{{ID: rest, Name: rest}}, Confidence: 99, Citations: []message.Citation{{Text: "as known", Source: rest}},
			Provenance: []message.Provenance{{Entity: "what is known", WasGeneratedBy: m.To.AgentID, WasDerivedFrom: rest}},
		})
		if err != nil {
			return nil, err
		}
		return reply(m, message.Response{Answer: "known"}, claim)
	case json.Valid([]byte(rest)):
		return message.ToolOutput{Use: &message.ToolUse{Tool: verb, Input: []byte(rest)}}, nil
	}

	return nil, agent.Fail(message.OSDataUnavailable, "the question is not of the form TOOL INPUT")
}

func reply[C message.Content](origin message.Message, content C, evidence message.Evidence) (any, error) {
	answer, err := message.Reply(origin, content, evidence, time.Now())
	if err != nil {
		return nil, err
	}
	doc, err := message.Encode(answer)
	return message.ToolOutput{Answer: string(doc)}, err
}
