package organisms

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/agents/text"
	"github.com/lightwork-market/lightwork/agentruntime/curator"
	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/agentruntime/model/chat"
	"github.com/lightwork-market/lightwork/agentruntime/organism"
	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/agentruntime/toolschema"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/node/builtin"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/store/row"
)

// parts are what organisms are built of on this node: tools of supervised
// agents, and the model in a process of its own.
func organismParts(agents *host.Host, sup TellingSupervisor, k *store.Store, c *config.Config, log *slog.Logger) organism.Parts {
	journal := k.PipelineLog(organismProfile)
	p := organism.Parts{
		Tool: func(ref string) (organism.Tool, error) {
			if ref == UnfoldTool {
				return newUnfoldTool(k)
			}
			if AsksModel(c, ref) {
				return organism.Tool{}, fmt.Errorf("%s asks the language model, which only agents do: %s", ref, ThinkHint)
			}
			return organismTool(sup, ref)
		},
		Compile: compileCheck,
		Journal: journal, Audit: journal, DirectiveLive: journal.DirectiveLive, Logger: log,
		Holds: k.Holds, Permits: agents.Permits, Returned: recordReturn(k),
	}
	if builtin.Endpoint(c) != nil && c.Model.Name != "" {
		p.Chat = func(ctx context.Context, r chat.Request, onText func(string)) (chat.Response, error) {
			return complete(ctx, sup, r, onText)
		}
	}
	return p
}

// recordReturn ends the thread of a call in the store, and gives its answer to the
// thread that made the call.
func recordReturn(k *store.Store) func(context.Context, pipeline.ThreadID, pipeline.Retention, []byte) error {
	return func(ctx context.Context, thread pipeline.ThreadID, kept pipeline.Retention, answer []byte) error {
		r := curator.Returned{Thread: thread, Failed: answer == nil, ContentType: "application/json", Retention: kept}
		if answer != nil {
			r.Result = []byte(masked(string(answer)))
		}
		c, err := curator.New(curator.Config{Store: k.ContextStore()})
		if err != nil {
			return err
		}
		err = c.Return(context.WithoutCancel(ctx), r)
		if errors.Is(err, row.ErrNotFound) {
			return nil // no message passed, so there is no thread
		}
		return err
	}
}

func compileCheck(schema json.RawMessage) (pipeline.Validate, error) {
	check, _, err := compileSchema(schema)
	return check, err
}

// compileSchema makes what the pipeline asks of a schema; secrets is nil where it
// marks none.
func compileSchema(schema json.RawMessage) (check pipeline.Validate, secrets pipeline.Marked, err error) {
	s, err := toolschema.Compile(schema)
	if err != nil {
		return nil, nil, err
	}
	if s.HasSecrets() {
		secrets = s.Secrets
	}
	return func(doc []byte) error { return s.Validate(doc) }, secrets, nil
}

// errAgentDown is why an organism cannot be made now, and can be later: a listener
// is the tool of an agent that does not run.
var errAgentDown = errors.New("the agent is not running")

// organismTool finds a tool among those that running agents have registered.
func organismTool(sup TellingSupervisor, ref string) (organism.Tool, error) {
	agent, name, ok := wire.ToolID(ref).Split()
	if !ok {
		return organism.Tool{}, fmt.Errorf("%q is not AGENT/TOOL", ref)
	}
	tools, err := sup.Tools(agent)
	if errors.Is(err, supervisor.ErrNoAgent) || err == nil && len(tools) == 0 {
		return organism.Tool{}, fmt.Errorf("%s: %w", agent, errAgentDown)
	}
	if err != nil {
		return organism.Tool{}, err
	}

	for _, t := range tools {
		if t.Name != name {
			continue
		}
		out := organism.Tool{Request: orObject(t.InputSchema), Response: orObject(t.OutputSchema)}
		if out.CheckRequest, out.RequestSecrets, err = compileSchema(out.Request); err != nil {
			return out, err
		}
		if out.CheckResponse, out.ResponseSecrets, err = compileSchema(out.Response); err != nil {
			return out, err
		}

		out.Do = func(ctx context.Context, input []byte, _ pipeline.Context) ([]byte, error) {
			return callTool(ctx, sup, agent, name, input, nil)
		}
		return out, nil
	}

	return organism.Tool{}, fmt.Errorf("%s has not registered %s", agent, name)
}

// orObject stands in for a schema that an agent did not give.
func orObject(schema json.RawMessage) json.RawMessage {
	if len(schema) == 0 {
		return json.RawMessage(`{"type":"object"}`)
	}
	return schema
}

// callTool makes one call in the name of the message that ctx belongs to.
func callTool(ctx context.Context, sup TellingSupervisor, agent, tool string, input []byte, onChunk func(supervisor.Chunk)) ([]byte, error) {
	came := pipeline.CallFrom(ctx)
	res, err := sup.Call(ctx, supervisor.Call{
		AgentID: agent, Tool: tool, Input: input, Timeout: TimeLeft(ctx),
		RequestID: came.RequestID, CorrelationID: came.CorrelationID, CausationID: came.DirectiveID, OnStream: onChunk,
	})

	var failed *supervisor.Error
	switch {
	case errors.As(err, &failed) && failed.Code == wire.CodeRouteNotFound:
		// The pipeline's table has the route; what is missing is the agent (K-2).
		return nil, &organism.Failure{Failure: pipeline.Failure{Code: wire.CodeUnavailable, Message: agent + " is not running", Retryable: true}}
	case errors.As(err, &failed):
		return nil, &organism.Failure{Failure: pipeline.Failure{Code: failed.Code, Message: failed.Message, Retryable: failed.Retryable}}
	}

	return res.Output, err
}

// complete asks the model, through the agent that has the key.
func complete(ctx context.Context, sup TellingSupervisor, r chat.Request, onText func(string)) (chat.Response, error) {
	input, err := json.Marshal(r)
	if err != nil {
		return chat.Response{}, err
	}
	out, err := callTool(ctx, sup, text.ID, text.ToolComplete, input, func(c supervisor.Chunk) {
		if c.Channel == wire.Stdout {
			onText(c.Text)
		}
	})
	if err != nil {
		return chat.Response{}, err
	}
	var resp chat.Response
	return resp, json.Unmarshal(out, &resp)
}

// TimeLeft is the time until ctx's deadline; 0 without one.
func TimeLeft(ctx context.Context) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return max(time.Until(end), time.Millisecond)
	}
	return 0
}
