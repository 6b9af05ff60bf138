package text

import (
	"context"
	"encoding/json"

	"github.com/lightwork-market/lightwork/agentruntime/agent"
	"github.com/lightwork-market/lightwork/agentruntime/model/chat"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/schemas"
)

// chatInput is the input of the chat tool.
type chatInput struct {
	Prompt      string   `json:"prompt"`
	System      string   `json:"system,omitempty"`
	MaxTokens   int      `json:"max_tokens,omitempty"`
	Temperature *float64 `json:"temperature,omitempty"`
	TopP        *float64 `json:"top_p,omitempty"`
	Seed        *int64   `json:"seed,omitempty"`
}

// chatOutput is its output. The text is also streamed on stdout.
type chatOutput struct {
	Text         string         `json:"text"`
	FinishReason string         `json:"finish_reason"` // "length" if it was cut
	Provenance   chatProvenance `json:"provenance"`
}

// chatProvenance names the model and its settings.
type chatProvenance struct {
	ModelID  string          `json:"model_id"`
	Tokens   *schemas.Tokens `json:"tokens,omitempty"`
	Sampling *chat.Sampling  `json:"sampling,omitempty"`
}

const (
	chatInputSchema = `{"type":"object","properties":{
		"prompt":{"type":"string","minLength":1,"maxLength":524288},
		"system":{"type":"string","minLength":1,"maxLength":65536},
		"max_tokens":{"type":"integer","minimum":1,"maximum":1000000},
		"temperature":{"type":"number","minimum":0,"maximum":2},
		"top_p":{"type":"number","minimum":0,"maximum":1},
		"seed":{"type":"integer","minimum":-9007199254740991,"maximum":9007199254740991}
		},"required":["prompt"],"additionalProperties":false}`
	chatOutputSchema = `{"type":"object","properties":{
		"text":{"type":"string"},
		"finish_reason":{"type":"string"},
		"provenance":{"type":"object"}
		},"required":["text","finish_reason","provenance"]}`
)

func (e *endpoint) chatTool() agent.Tool {
	return agent.Tool{
		Name:              toolChat,
		Description:       "Generates text with a language model.",
		InputSchema:       json.RawMessage(chatInputSchema),
		OutputSchema:      json.RawMessage(chatOutputSchema),
		RequiresDirective: true,
		Tags:              []string{"text", "untyped"},
		Handler:           e.chat,
	}
}

func (e *endpoint) chat(ctx context.Context, call *agent.Call) (any, error) {
	var in chatInput
	if err := call.Decode(&in); err != nil {
		return nil, err
	}
	ask := chat.Request{Sampling: chat.Sampling{MaxTokens: in.MaxTokens, Temperature: in.Temperature, TopP: in.TopP, Seed: in.Seed}}
	if in.System != "" {
		ask.Messages = append(ask.Messages, chat.Message{Role: chat.RoleSystem, Content: in.System})
	}
	ask.Messages = append(ask.Messages, chat.Message{Role: chat.RoleUser, Content: in.Prompt})
	if err := ask.Check(); err != nil {
		return nil, agent.Fail(wire.CodeInvalidInput, err.Error())
	}
	resp, err := e.client.Chat(ctx, ask, func(text string) {
		// A stream that reached its limit or lost its reader does not end the call:
		// the result has the whole text.
		_ = call.Stream(wire.Stdout, text)
	})
	if err != nil {
		return nil, e.failure(ctx, err)
	}
	if resp.Message.Content == "" {
		return nil, agent.Fail(codeBadAnswer, "the model returned no text")
	}

	out := chatOutput{
		Text: resp.Message.Content, FinishReason: resp.FinishReason,
		Provenance: chatProvenance{ModelID: modelID(resp.Model), Tokens: count(nil, resp.Usage)},
	}
	if resp.Sampling != (chat.Sampling{}) {
		out.Provenance.Sampling = &resp.Sampling
	}
	return out, nil
}
