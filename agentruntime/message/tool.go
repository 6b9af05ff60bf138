package message

import (
	"context"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/lightwork-market/lightwork/hashing"
)

// Tool is the name of the tool with which an agent process takes part in messages:
// each message arrives as a call.
const Tool = "handle_message"

// ToolInputSchema and ToolOutputSchema are the tool's schemas. A message is passed
// as JSON in a string, because an object, and the evidence in it, would be
// re-encoded on the way to the process.
const (
	ToolInputSchema = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","additionalProperties":false,` +
		`"required":["message"],"properties":{"message":{"type":"string"},"origin":{"type":"string"}}}`
	ToolOutputSchema = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","additionalProperties":false,` +
		`"maxProperties":1,"properties":{"answer":{"type":"string"},"ask":{"type":"string"},` +
		`"use":{"type":"object","additionalProperties":false,"required":["tool","input"],"properties":{"tool":{"type":"string"},"input":{"type":"object"}}}}}`
)

// ToolInput is the input of a call.
type ToolInput struct {
	Message string `json:"message"`
	// Origin is the message on which the agent was working when it asked the
	// question that Message answers; "" if Message is not such an answer.
	Origin string `json:"origin,omitzero"`
}

// ToolOutput is the result of a call: at most one of an answer to the sender of the
// origin, a question to a peer, and an input for a tool.
type ToolOutput struct {
	Answer string   `json:"answer,omitzero"`
	Ask    string   `json:"ask,omitzero"`
	Use    *ToolUse `json:"use,omitzero"`
}

// ToolUse requests one call of another tool, by the name of its listener.
type ToolUse struct {
	Tool  string         `json:"tool"`
	Input jsontext.Value `json:"input"`
}

// maxToolOutput allows a message with every character escaped once.
const maxToolOutput = 2*maxBytes + 1<<10

// ToolWork passes messages to an agent process. call invokes its Tool with an input
// and returns the output; its errors should be known to [FromError].
func ToolWork(call func(ctx context.Context, input []byte) (output []byte, err error)) Work {
	return func(ctx context.Context, m, origin Message) (Action, error) {
		input, err := toolInput(m, origin)
		if err != nil {
			return Action{}, err
		}
		output, err := call(ctx, input)
		if err != nil {
			return Action{}, err
		}
		return toolAction(output)
	}
}

func toolInput(m, origin Message) ([]byte, error) {
	doc, err := Encode(m)
	if err != nil {
		return nil, err
	}
	in := ToolInput{Message: string(doc)}
	if origin.ID != m.ID {
		if doc, err = Encode(origin); err != nil {
			return nil, err
		}
		in.Origin = string(doc)
	}

	input, err := json.Marshal(in)
	if err != nil {
		return nil, invalid("", "cannot be written")
	}
	return input, nil
}

// actions counts the requested actions.
func (o ToolOutput) actions() (n int) {
	for _, present := range []bool{o.Answer != "", o.Ask != "", o.Use != nil} {
		if present {
			n++
		}
	}
	return n
}

func toolAction(output []byte) (Action, error) {
	if len(output) > maxToolOutput {
		return Action{}, invalid("", "the tool's output has more than %d bytes", maxToolOutput)
	}
	var out ToolOutput
	if err := hashing.Unmarshal(output, &out); err != nil || out.actions() > 1 {
		return Action{}, invalid("", "the tool's output is neither an answer nor a question")
	}

	switch {
	case out.Use != nil && (out.Use.Tool == "" || len(out.Use.Input) == 0):
		return Action{}, invalid("use", "lacks a tool or an input")
	case out.Use != nil:
		return use(out.Use.Tool, out.Use.Input), nil
	case out.Answer != "":
		m, err := Parse([]byte(out.Answer))
		return Answer(m), err
	case out.Ask != "":
		m, err := Parse([]byte(out.Ask))
		return Ask(m), err
	}

	return nothing(), nil
}
