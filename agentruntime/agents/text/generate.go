package text

import (
	"context"

	"github.com/lightwork-market/lightwork/agentruntime/agent"
	"github.com/lightwork-market/lightwork/agentruntime/model/chat"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/schemas"
)

// generateTool offers chat as a job type, whose result can be sold.
func (e *endpoint) generateTool() (agent.Tool, error) {
	tool, err := newTool(schemas.TextGeneration, nil)
	if err != nil {
		return agent.Tool{}, err
	}
	s, _ := schemas.Lookup(string(schemas.TextGeneration)) // as in newTool
	tool.Name, tool.Description, tool.Tags = ToolGenerate, "Answers a prompt in words.", []string{"text", "subjective"}
	tool.RequiresDirective = true
	tool.Capabilities = append(tool.Capabilities, "streaming")
	tool.Handler = func(ctx context.Context, call *agent.Call) (any, error) {
		req, err := s.ParseRequest(call.Input)
		if err != nil {
			return nil, agent.Fail(wire.CodeInvalidInput, err.Error())
		}
		result, err := e.generate(ctx, req.Value.(*schemas.TextRequest), call)
		if err != nil {
			return nil, err
		}
		return withoutKey(result)
	}
	return tool, nil
}

func (e *endpoint) generate(ctx context.Context, in *schemas.TextRequest, call *agent.Call) (*schemas.TextResult, error) {
	ask := chat.Request{Sampling: chat.Sampling{MaxTokens: int(in.MaxTokens), Temperature: in.Temperature, TopP: in.TopP, Seed: in.Seed}}
	if in.System != "" {
		ask.Messages = append(ask.Messages, chat.Message{Role: chat.RoleSystem, Content: in.System})
	}
	ask.Messages = append(ask.Messages, chat.Message{Role: chat.RoleUser, Content: in.Prompt})
	if err := ask.Check(); err != nil {
		return nil, agent.Fail(wire.CodeInvalidInput, err.Error())
	}
	resp, err := e.client.Chat(ctx, ask, func(text string) { _ = call.Stream(wire.Stdout, text) })
	if err != nil {
		return nil, e.failure(ctx, err)
	}
	if resp.Message.Content == "" {
		return nil, agent.Fail(codeBadAnswer, "the model returned no text")
	}

	return &schemas.TextResult{
		Text: resp.Message.Content, FinishReason: resp.FinishReason, Provenance: provenance(resp, count(nil, resp.Usage)),
	}, nil
}
