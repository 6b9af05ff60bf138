// Package text is the built-in agent for jobs on text: analysis of code chunks,
// ranking, embeddings and chat. Jobs for which a language model is configured go to
// its endpoint, the others to package analysis, which names itself in the results.
// Neither stands in for the other: if the model fails, so does the job.
package text

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"

	"github.com/lightwork-market/lightwork/agentruntime/agent"
	"github.com/lightwork-market/lightwork/agentruntime/model"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/schemas"
)

// The agent's id and its tools. Chat is offered only with a chat model.
const (
	ID      = "com.lightwork.text"
	Version = "1.0.0"

	ToolCodeChunk = "code_chunk_analysis"
	ToolRerank    = "retrieval_rerank"
	ToolEmbedding = "embedding"
	ToolGenerate  = "text_generation"
	toolChat      = "chat"
	ToolComplete  = "complete"
)

// Config configures the agent.
type Config struct {
	// Endpoint is the language model endpoint; nil means none.
	Endpoint *EndpointConfig
	// Logger writes to the agent's stderr. If it is nil, nothing is logged.
	Logger *slog.Logger
}

// EndpointConfig describes an endpoint and its models.
type EndpointConfig struct {
	// Client says how to reach the endpoint. Its Model analyses, ranks and chats;
	// if it is empty, the built-in programs analyse and rank, and there is no chat.
	Client model.Config
	// EmbedModel computes embeddings; if it is empty, the built-in program does.
	EmbedModel string
}

// Main connects to the node that launched the process (the environment says where)
// and serves calls until ctx ends or the node ends the session.
func Main(ctx context.Context, cfg Config) error {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	tools, closeClient, err := newTools(cfg)
	if err != nil {
		return err
	}
	defer closeClient()
	return agent.Run(ctx, agent.Config{ID: ID, Version: Version, Tools: tools, Log: cfg.Logger})
}

// Tools returns the names of the tools that an agent with this configuration
// offers.
func Tools(cfg *EndpointConfig) []string {
	names := []string{ToolCodeChunk, ToolRerank, ToolEmbedding}
	if cfg != nil && cfg.Client.Model != "" {
		names = append(names, ToolGenerate, toolChat, ToolComplete)
	}
	return names
}

// AsksModel reports whether a tool of an agent with this configuration asks the
// language model. Embedding models do not count.
func AsksModel(cfg *EndpointConfig, tool string) bool {
	return tool != ToolEmbedding && cfg != nil && cfg.Client.Model != "" && slices.Contains(Tools(cfg), tool)
}

// newTools also returns a function that closes the endpoint's connections.
func newTools(cfg Config) ([]agent.Tool, func(), error) {
	local := builtin{slots: make(chan struct{}, runtime.GOMAXPROCS(0))}
	analyse, rank, embed := local.analyse, local.rank, local.embed
	var e *endpoint
	closeClient := func() {}
	if cfg.Endpoint != nil {
		client := cfg.Endpoint.Client
		client.Logger = cfg.Logger
		c, err := model.New(client)
		if err != nil {
			return nil, nil, err
		}
		closeClient = c.Close
		e = &endpoint{client: c, embedModel: cfg.Endpoint.EmbedModel, log: cfg.Logger}
		if client.Model == "" && e.embedModel == "" {
			return nil, nil, errors.New("text agent: the endpoint has neither a model nor an embedding model")
		}
		if client.Model != "" {
			analyse, rank = e.analyse, e.rank
		}
		if e.embedModel != "" {
			embed = e.embed
		}
	}

	chats := e != nil && cfg.Endpoint.Client.Model != ""
	embeds := e != nil && e.embedModel != ""
	var tools []agent.Tool
	for _, t := range []struct {
		name, about string
		id          schemas.ID
		do          job
		paid        bool
		tag         string
	}{
		{ToolCodeChunk, "Analyses a chunk of a source file: symbols, suspected faults, where to look next.", schemas.CodeChunkAnalysis, analyse, chats, "subjective"},
		{ToolRerank, "Ranks retrieval candidates against a task.", schemas.RetrievalRerank, rank, chats, "subjective"},
		{ToolEmbedding, "Embeds texts as vectors.", schemas.Embedding, embed, embeds, "objective"},
	} {
		tool, err := newTool(t.id, t.do)
		if err != nil {
			return nil, nil, err
		}
		tool.Name, tool.Description, tool.Tags = t.name, t.about, []string{"text", t.tag}
		// The endpoint costs money, so every call needs a directive.
		tool.RequiresDirective = t.paid
		tools = append(tools, tool)
	}

	if chats {
		generate, err := e.generateTool()
		if err != nil {
			return nil, nil, err
		}
		tools = append(tools, generate, e.chatTool(), e.completeTool())
	}

	return tools, closeClient, nil
}

// job does one request of a job type. Its result is a pointer to a struct of
// package schemas, without the provider's key.
type job func(ctx context.Context, s *schemas.Schema, req *schemas.Request) (any, error)

// newTool declares no output schema: that of the job type requires the provider's
// key, which the provider adds before it checks the result.
func newTool(id schemas.ID, do job) (agent.Tool, error) {
	s, ok := schemas.Lookup(string(id))
	if !ok {
		return agent.Tool{}, fmt.Errorf("no schema %s", id)
	}

	return agent.Tool{
		InputSchema: s.InputSchema(),
		// Results are not streamed.
		Capabilities: []string{"cancellation"},
		Handler: func(ctx context.Context, call *agent.Call) (any, error) {
			req, err := s.ParseRequest(call.Input)
			if err != nil {
				return nil, agent.Fail(wire.CodeInvalidInput, err.Error())
			}
			result, err := do(ctx, s, req)
			if err != nil {
				return nil, err
			}
			return withoutKey(result)
		},
	}, nil
}

// without removes a member from an object.
func without(doc json.RawMessage, member string) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(doc, &members); err != nil {
		return nil, fmt.Errorf("read object: %w", err)
	}
	delete(members, member)
	return json.Marshal(members)
}

// withoutKey encodes a result without the provider's key, which the agent does not
// know.
func withoutKey(result any) (json.RawMessage, error) {
	doc, err := json.Marshal(result)
	if err != nil {
		return nil, fmt.Errorf("encode result: %w", err)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(doc, &members); err != nil {
		return nil, fmt.Errorf("read result: %w", err)
	}
	if members["provenance"], err = without(members["provenance"], "provider_pubkey"); err != nil {
		return nil, err
	}

	return json.Marshal(members)
}
