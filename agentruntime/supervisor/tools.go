package supervisor

import (
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"github.com/lightwork-market/lightwork/agentruntime/toolschema"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

const (
	maxTools       = 256
	maxDescription = 4 << 10
	maxToolLabels  = 64 // capabilities or tags
	maxLabelBytes  = 256
	// maxSchemaWork bounds the schemas of a session's tools. It allows a few seconds of
	// a core, and some hundred bytes of memory per unit; usual tools need a tenth.
	maxSchemaWork = 100_000
	// schemaMinute bounds the schema work per minute of a session, after a first burst
	// of twice as much. The agent's own limits do not count this work, so an agent that
	// registers again and again would keep a core of the node busy.
	schemaMinute = maxSchemaWork
)

// newSchemaPace limits the rate of the schema work of one session.
func newSchemaPace() *rate.Limiter {
	return rate.NewLimiter(rate.Limit(schemaMinute)/60, 2*maxSchemaWork)
}

// boundTool is a registered tool with its compiled schemas.
type boundTool struct {
	name              string
	id                wire.ToolID
	declared          wire.Tool // as the agent said it
	requiresDirective bool
	input, output     *toolschema.Schema // output may be nil
	work              int                // of both
}

// register applies a registration to the session's tools: what is wrong with
// one tool rejects that one only (OS-4.2.2.3).
func (s *session) register(p *wire.Register) *wire.Registered {
	s.mu.Lock()
	tools := s.tools
	s.mu.Unlock()
	next := map[string]*boundTool{}
	left := maxSchemaWork
	if !p.Replace {
		for name, t := range tools {
			next[name] = t
			left -= t.work
		}
	}

	now := time.Now()
	allowed := min(left, int(s.schemaPace.TokensAt(now)))
	hurried, asked := allowed < left, allowed
	answer := &wire.Registered{Registered: []wire.ToolID{}}
	for i := range p.Tools {
		t, err := bind(s.spec.ID, &p.Tools[i], next, &allowed)
		if err != nil && hurried {
			err.Message += "; tools were registered often: try again in a minute"
			err.Retryable = true
		}

		if err != nil {
			id := p.Tools[i].ToolID
			answer.Rejected = append(answer.Rejected, wire.RejectedTool{ToolID: id[:min(len(id), maxLabelBytes)], Error: err})
			continue
		}
		next[t.name] = t
		answer.Registered = append(answer.Registered, t.id)
	}

	s.schemaPace.AllowN(now, asked-allowed)

	// Replace the map and never change it, because readers use it without the lock.
	s.mu.Lock()
	s.tools = next
	s.mu.Unlock()
	return answer
}

func (s *session) unregister(p *wire.Unregister) *wire.Unregistered {
	s.mu.Lock()
	defer s.mu.Unlock()

	next := map[string]*boundTool{}
	for name, t := range s.tools {
		next[name] = t
	}

	answer := &wire.Unregistered{ToolIDs: []wire.ToolID{}}
	for _, id := range p.ToolIDs {
		agent, name, ok := id.Split()
		if ok && agent == s.spec.ID && next[name] != nil {
			delete(next, name)
			answer.ToolIDs = append(answer.ToolIDs, id)
		}
	}

	s.tools = next
	return answer
}

func bind(agentID string, t *wire.Tool, taken map[string]*boundTool, left *int) (*boundTool, *wire.Error) {
	owner, name, ok := t.ToolID.Split()
	switch {
	case !ok || owner != agentID:
		return nil, rejectTool("tool_id must be <own agent_id>/<tool_name>")
	case t.Name != name:
		return nil, rejectTool("name does not match tool_id")
	case taken[name] != nil:
		return nil, rejectTool("a tool of this name is registered")
	case len(taken) >= maxTools:
		return nil, rejectTool(fmt.Sprintf("more than %d tools", maxTools))
	case len(t.Description) > maxDescription:
		return nil, rejectTool("description too long")
	case tooMany(t.Capabilities) || tooMany(t.Tags):
		return nil, rejectTool("too many or too long capabilities or tags")
	}

	bound := &boundTool{name: name, id: t.ToolID, declared: *t, requiresDirective: t.RequiresDirective}
	var err error
	if bound.input, err = toolschema.CompileWithin(t.InputSchema, left); err != nil {
		return nil, rejectTool("input_schema: " + err.Error())
	}
	bound.work = bound.input.Work()
	if len(t.OutputSchema) > 0 && string(t.OutputSchema) != "null" {
		if bound.output, err = toolschema.CompileWithin(t.OutputSchema, left); err != nil {
			return nil, rejectTool("output_schema: " + err.Error())
		}
		bound.work += bound.output.Work()
	}

	return bound, nil
}

func tooMany(labels []string) bool {
	for _, l := range labels {
		if len(l) > maxLabelBytes {
			return true
		}
	}
	return len(labels) > maxToolLabels
}

func rejectTool(reason string) *wire.Error {
	return &wire.Error{Code: wire.CodeInvalidTool, Message: wire.SafeText(reason), Where: "core.registry"}
}
