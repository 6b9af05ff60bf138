package organism

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync/atomic"

	"github.com/lightwork-market/lightwork/agentruntime/message"
	"github.com/lightwork-market/lightwork/agentruntime/model/chat"
	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/agentruntime/routing"
	"github.com/lightwork-market/lightwork/agentruntime/thinker"
)

// Namespace is the pipeline namespace of an organism's payloads.
const Namespace = "urn:agentos:tools:v1"

// resultSuffix, appended to the tag of a tool's request, is the tag of its result.
const resultSuffix = ".result"

// callSuffix, appended to the name of a callable listener, is the tag and the
// handler name for calling it.
const callSuffix = ".call"

// Tool is the implementation of a listener that does not think.
type Tool struct {
	// Request and Response are JSON Schemas; CheckRequest and CheckResponse check a
	// payload against them. Every tool has both (AP-9.1.1).
	Request, Response           json.RawMessage
	CheckRequest, CheckResponse pipeline.Validate
	// RequestSecrets and ResponseSecrets find the values that the schemas mark as
	// secrets (K-38); nil if they mark none.
	RequestSecrets, ResponseSecrets pipeline.Marked
	// Do makes one call and returns its output; it returns a *Failure for a
	// structured error. at is the position of the message in the pipeline.
	Do func(ctx context.Context, input []byte, at pipeline.Context) ([]byte, error)
}

// Failure wraps a structured failure as the error that Do may return.
type Failure struct{ pipeline.Failure }

func (f *Failure) Error() string { return f.Code + ": " + f.Message }

// Parts are the dependencies for building an organism.
type Parts struct {
	// Tool returns the implementation for a Handler "AGENT/TOOL".
	Tool func(ref string) (Tool, error)
	// Compile returns a check for a JSON Schema.
	Compile func(schema json.RawMessage) (pipeline.Validate, error)
	// Chat asks the language model. If it is nil, thinking listeners are an error.
	Chat          func(ctx context.Context, r chat.Request, onText func(string)) (chat.Response, error)
	Journal       pipeline.Journal
	Audit         pipeline.Audit
	DirectiveLive func(ctx context.Context, id string) (bool, error)
	// Holds reports whether the journal of a session contains what evidence names;
	// see [message.Gate]. Listeners that exchange messages need it.
	Holds func(ctx context.Context, sessionID, ref string) (bool, error)
	// Returned records the end of a callable listener's thread: its answer (nil if
	// it failed) and the journal policy of its profile. If it is nil, nothing is
	// recorded.
	Returned func(ctx context.Context, thread pipeline.ThreadID, retention pipeline.Retention, answer []byte) error
	// Permits reports whether an agent may use a tool of another agent. If it is
	// nil, every agent may.
	Permits func(agent, toolID string) bool
	Logger  *slog.Logger
}

// Built is a running organism. It never changes: when a configuration is reloaded,
// a new Built is made, and threads of this one stay in it.
type Built struct {
	*Organism
	Pipeline *pipeline.Pipeline
	// Capabilities are matched with needs in natural language.
	Capabilities []routing.Capability
	// Messengers are the listeners that exchange messages, by name.
	Messengers map[string]message.Agent

	askers map[string]bool // names of the handlers that ask on behalf of thinking listeners
	calls  atomic.Uint64   // numbers the threads of calls
	record func(ctx context.Context, thread pipeline.ThreadID, retention pipeline.Retention, answer []byte) error
}

// Build builds the pipeline of an organism.
func Build(o *Organism, parts Parts) (*Built, error) {
	b := &builder{
		o: o, parts: parts, out: &Built{Organism: o, record: parts.Returned},
		cfg: pipeline.Config{
			Schemas: map[string]pipeline.Validate{}, Secrets: map[string]pipeline.Marked{}, Journal: parts.Journal, Audit: parts.Audit,
			DirectiveLive: parts.DirectiveLive, Logger: parts.Logger,
		},
		tools: map[string]thinker.Tool{},
	}
	if err := b.build(); err != nil {
		return nil, fmt.Errorf("organism %s: %w", o.Name, err)
	}
	return b.out, nil
}

type builder struct {
	o     *Organism
	parts Parts
	cfg   pipeline.Config
	out   *Built
	// tools are the tools offered to agents, by name of the listener.
	tools map[string]thinker.Tool
}

func (b *builder) build() error {
	b.nameMessengers()

	// Tools first: agents refer to them.
	for _, l := range b.o.Listeners {
		err := b.addTool(l)
		if err == nil && l.Callable != nil {
			err = b.addCallable(l)
		}
		if err != nil {
			return fmt.Errorf("listener %s: %w", l.Name, err)
		}
	}

	if err := errors.Join(b.addAgents(), b.addMessengers()); err != nil {
		return err
	}
	b.offerAgents()
	for _, p := range b.o.Profiles {
		b.cfg.Profiles = append(b.cfg.Profiles, b.profile(p))
	}
	var err error
	b.out.Pipeline, err = pipeline.New(b.cfg)
	return err
}

func (b *builder) addTool(l Listener) error {
	if l.Agent != nil || l.Messages != nil {
		return nil
	}
	t, err := b.parts.Tool(l.Handler)
	if err != nil {
		return err
	}
	answer := l.PayloadClass + resultSuffix
	b.cfg.Schemas[l.PayloadClass], b.cfg.Schemas[answer] = t.CheckRequest, t.CheckResponse
	if t.RequestSecrets != nil {
		b.cfg.Secrets[l.PayloadClass] = t.RequestSecrets
	}
	if t.ResponseSecrets != nil {
		b.cfg.Secrets[answer] = t.ResponseSecrets
	}

	b.cfg.Handlers = append(b.cfg.Handlers, pipeline.Handler{
		Name: l.Name, Description: l.Description, Tags: []string{l.PayloadClass}, Outputs: []string{answer}, Peers: l.Peers, Tool: true,
		Handle: func(ctx context.Context, p pipeline.Payload, at pipeline.Context) (pipeline.Response, error) {
			out, err := t.Do(ctx, p.Bytes, at)
			var failed *Failure
			if errors.As(err, &failed) {
				return pipeline.Fail(failed.Failure), nil
			}
			if err != nil {
				return pipeline.Response{}, err
			}
			return pipeline.Reply(answer, out), nil
		},
	})
	b.offer(l, l.Description, t.Request, l.Name, l.PayloadClass, answer)
	return nil
}

// offer makes a handler available to agents and to semantic routing.
func (b *builder) offer(l Listener, description string, schema json.RawMessage, handler, tag, answer string) {
	check := b.cfg.Schemas[tag]
	text := description
	if l.Usage != "" {
		text += "\n" + l.Usage
	}
	tool := thinker.Tool{
		Name: l.Name, Description: text, Schema: schema, Check: check, Handler: handler, Tag: tag, Answers: []string{answer},
	}
	if b.cfg.Secrets[tag] != nil {
		tool.Check = nil // arguments may hold references, which only the pipeline can resolve
	}
	b.tools[l.Name] = tool
	b.out.Capabilities = append(b.out.Capabilities, routing.Capability{
		Name: handler, Tag: tag, Description: cmp.Or(l.SemanticDescription, description), Schema: schema, Check: check,
	})
}

// offerAgents makes thinking and messaging listeners available to semantic routing.
func (b *builder) offerAgents() {
	for _, l := range b.o.Listeners {
		tag := ""
		switch {
		case l.Agent != nil && l.Callable == nil:
			tag = l.PayloadClass
		case l.Messages != nil && l.Messages.askType() != "":
			tag = l.Messages.askType().Tag()
		}

		if tag != "" {
			b.out.Capabilities = append(b.out.Capabilities, routing.Capability{
				Name: l.Name, Tag: tag, Description: cmp.Or(l.SemanticDescription, l.Description), InWords: true,
			})
		}
	}
}

// addAgents adds the thinking listeners and the model, which only they can reach.
func (b *builder) addAgents() error {
	var names []string
	for _, l := range b.o.Listeners {
		if l.Agent == nil {
			continue
		}
		names = append(names, l.Name)
		cfg := thinker.Config{
			Name: l.Name, Description: l.Description, Agent: *l.Agent, Prompts: b.o.Prompts, Tag: l.PayloadClass, Model: modelName,
			Logger: b.parts.Logger,
		}

		for _, peer := range l.Peers {
			tool, ok := b.tools[peer]
			if to, _ := b.o.Listener(peer); to.Messages != nil {
				tool, ok = askTool(l, to), true
			}
			if !ok {
				return fmt.Errorf("listener %s: peer %s is an agent that is not callable", l.Name, peer)
			}
			cfg.Tools = append(cfg.Tools, tool)
		}

		t, err := thinker.New(cfg)
		if err != nil {
			return err
		}
		maps.Copy(b.cfg.Schemas, thinker.Schemas(l.PayloadClass))
		b.cfg.Handlers = append(b.cfg.Handlers, t.Handler())
	}

	if len(names) == 0 {
		return nil
	}
	if b.parts.Chat == nil {
		return fmt.Errorf("listener %s thinks, and no model is configured", names[0])
	}

	model, err := thinker.Model(thinker.ModelConfig{Name: modelName, Description: "asks the language model", Thinkers: names, Chat: b.parts.Chat})
	if err != nil {
		return err
	}
	b.cfg.Handlers = append(b.cfg.Handlers, model)
	return thinker.OneThinker(b.cfg.Handlers, modelName, names)
}

func (b *builder) profile(p Profile) pipeline.Profile {
	out := pipeline.Profile{Name: p.Name, Retention: p.Retention}
	thinks := false
	for _, name := range p.Listeners {
		out.Handlers = append(out.Handlers, name)
		l, _ := b.o.Listener(name)
		if l.Callable != nil {
			out.Handlers = append(out.Handlers, name+callSuffix)
		}
		if len(b.o.messagePeers(l)) > 0 {
			out.Handlers = append(out.Handlers, name+askSuffix)
		}
		thinks = thinks || l.Agent != nil
	}

	if thinks {
		out.Handlers = append(out.Handlers, modelName)
	}
	return out
}
