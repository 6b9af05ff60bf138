package text

import (
	"context"
	"encoding/json"

	"github.com/lightwork-market/lightwork/agentruntime/agent"
	"github.com/lightwork-market/lightwork/agentruntime/model/chat"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/hashing"
)

// completeTool makes one request to the model for a thinking agent: a chat.Request
// in, a chat.Response out. Only this process has the key and the network access.
func (e *endpoint) completeTool() agent.Tool {
	return agent.Tool{
		Name:              ToolComplete,
		Description:       "Continues a conversation with a language model, which may call tools.",
		InputSchema:       json.RawMessage(`{"type":"object","required":["messages"]}`),
		OutputSchema:      json.RawMessage(`{"type":"object","required":["message"]}`),
		RequiresDirective: true,
		Tags:              []string{"text"},
		Handler:           e.complete,
	}
}

func (e *endpoint) complete(ctx context.Context, call *agent.Call) (any, error) {
	var ask chat.Request
	if err := hashing.Unmarshal(call.Input, &ask); err != nil {
		return nil, agent.Fail(wire.CodeInvalidInput, err.Error())
	}
	if err := ask.Check(); err != nil {
		return nil, agent.Fail(wire.CodeInvalidInput, err.Error())
	}

	resp, err := e.client.Chat(ctx, ask, func(text string) { _ = call.Stream(wire.Stdout, text) })
	if err != nil {
		return nil, e.failure(ctx, err)
	}
	return resp, nil
}
