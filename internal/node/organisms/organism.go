// Package organisms runs the organism of a node: what a person asks of it, its
// conversations, and the accounts of its agents.
package organisms

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/lightwork-market/lightwork/agentruntime/analysis"
	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/agentruntime/organism"
	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/agentruntime/routing"
	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/agentruntime/thinker"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/store/journal"
)

// personSender is who asks an organism from outside.
const personSender = "person"

// organismProfile names threads that the pipeline has no profile of.
const organismProfile = "organism"

// Runtime is the node's organism, once it is built.
type Runtime struct {
	k    *store.Store
	Told *Told
	log  *slog.Logger
	// version is the program's, by which agents know the node.
	version string
	built   atomic.Pointer[living]            // for threads that begin
	read    atomic.Pointer[organism.Organism] // the file, also where it cannot be built yet
	// rebuild tries again what start could not do; nil where no organism is
	// configured.
	rebuild func(context.Context) error
	waits   atomic.Pointer[string] // the agent that it lacked at the last attempt
}

// New is the runtime of a node of that version, over its store.
func New(k *store.Store, version string, log *slog.Logger) *Runtime {
	return &Runtime{k: k, Told: &Told{}, log: log, version: version}
}

// living is an organism that was built, and the index of what it can do.
type living struct {
	*organism.Built
	router   *routing.Router
	accounts map[string]account // of its agents
	version  string             // of the program
}

// Build reads the file and makes the organism. Threads that run in an earlier
// one stay there.
func (s *Runtime) Build(ctx context.Context, c *config.Config, agents *host.Host, sup *supervisor.Supervisor) error {
	if c.Organism == "" {
		return nil
	}
	o, err := organism.Load(c.OrganismFile())
	if err != nil {
		return advice.Usage("docs/build-agents/thinking-agents.md has the shape", "%w", err)
	}
	s.read.Store(o)
	users, err := Accounts(o)
	if err != nil {
		return advice.Usage("name an account of this machine, the same for all profiles that reach the agent", "%s: %w", c.OrganismFile(), err)
	}
	if before := s.built.Load(); before != nil && !maps.Equal(before.accounts, users) {
		return advice.Usage("start the node again for that", "%s: linux_user: agents that run keep their accounts", c.OrganismFile())
	}

	built, err := organism.Build(o, organismParts(agents, TellingSupervisor{sup, s.Told}, s.k, c, s.log))
	if errors.Is(err, errAgentDown) {
		return advice.Hint(err, advice.ListAgents+" says why it does not run")
	}
	if err != nil {
		return advice.Usage(advice.ListAgents+" says why an agent does not run; "+advice.CheckConfig+" what the configuration lacks", "%w", err)
	}

	router, err := routing.New(ctx, routing.Config{
		Capabilities: built.Capabilities, Fillers: []routing.Filler{routing.Rules()}, Threshold: analysis.MatchThreshold,
		Trace: func(step routing.Step, detail string) {
			s.log.Debug("semantic routing", "step", step, "detail", detail)
		},
		Embed: func(_ context.Context, texts []string) ([][]float32, error) {
			vectors := make([][]float32, len(texts))
			for i, t := range texts {
				vectors[i] = analysis.Embed(t)
			}
			return vectors, nil
		},
	})
	if err != nil {
		return err
	}
	s.built.Store(&living{built, router, users, s.version})
	s.log.Info("the organism is in force for threads that begin", "file", c.OrganismFile(), "organism", o.Hash)
	return nil
}

// Start makes the organism. One that lacks an agent now does not keep the node
// from selling: it is made when somebody asks it and the agent is there (K-2).
func (s *Runtime) Start(ctx context.Context, c *config.Config, build func(context.Context) error) error {
	if c.Organism == "" {
		return nil
	}
	s.rebuild = build
	err := build(ctx)
	if errors.Is(err, errAgentDown) {
		why := err.Error()
		s.waits.Store(&why)
		s.log.Warn("the organism is not in force: it begins when its agents run", "err", err)
		return nil
	}
	return err
}

// Lacks says which agent the organism waits for, "" once it is made.
func (s *Runtime) Lacks() string {
	if why := s.waits.Load(); why != nil && s.built.Load() == nil {
		return "it begins when its agents run: " + *why
	}
	return ""
}

// current is the organism that threads begin in.
func (s *Runtime) current(ctx context.Context) (*living, error) {
	if l := s.built.Load(); l != nil {
		return l, nil
	}
	if s.rebuild == nil {
		return nil, &host.CallError{Code: wire.CodeRouteNotFound, Message: "this node has no organism; name its file under organism in the configuration"}
	}
	err := s.rebuild(ctx)
	if errors.Is(err, errAgentDown) {
		return nil, &host.CallError{Code: wire.CodeUnavailable, Message: err.Error(), Retryable: true}
	}
	return s.built.Load(), err
}

// Ask implements host.Config.Ask: a person's need, in a thread of its own, with
// a directive of its own.
func (s *Runtime) Ask(ctx context.Context, req host.AskRequest, emit func(host.CallEvent)) (json.RawMessage, error) {
	l, err := s.current(ctx)
	if err != nil {
		return nil, err
	}

	id := rand.Text()
	talk, err := s.talk(ctx, l, req)
	if err != nil {
		return nil, err
	}
	path := pipeline.ThreadID("root.ask[" + id + "]")
	if talk != nil {
		path, err = talk.thread.Child("ask[" + id + "]")
	}
	var thread *pipeline.Thread
	if err == nil {
		thread, err = l.Pipeline.Open(path, req.Profile)
	}
	if err != nil {
		return nil, &host.CallError{Code: wire.CodeRouteNotFound, Message: fmt.Sprintf("there is no profile %q", req.Profile)}
	}
	directive := journal.Directive{ID: "human-" + id, Key: "human-" + id, ApprovedBy: "human:ask"}
	if err := s.k.Update(ctx, func(tx *store.Tx) error { return tx.RecordDirective(directive) }); err != nil {
		return nil, err
	}
	s.log.Info("a thread of the organism begins", "thread", path, "profile", req.Profile, "organism", l.Hash)
	in := pipeline.Ingress{
		Namespace: organism.Namespace, Sender: personSender, DirectiveID: directive.ID, RequestID: id, CorrelationID: id,
		Stream: func(channel, text string) { emit(host.CallEvent{Channel: channel, Text: text}) },
	}
	out, err := l.put(ctx, thread, req, talk, in, emit)
	thread.Finish(err == nil)
	return out.answer, askError(cmp.Or(err, s.returned(ctx, l, thread, talk, out, err)))
}

// turnResult is what came of a need.
type turnResult struct {
	answer json.RawMessage // for the person
	// asked and answered are what a conversation keeps: without what schemas
	// mark as secrets (K-38).
	asked, answered string
}

func exchanged(text string, out pipeline.Outcome) turnResult {
	return turnResult{out.Whole(), out.Kept(text), string(out.Reply.Payload())}
}

// put sends the need to the listener that was named, or to the one it fits.
func (l *living) put(ctx context.Context, thread *pipeline.Thread, req host.AskRequest, t *talk, in pipeline.Ingress, emit func(host.CallEvent)) (turnResult, error) {
	if req.Listener == "" {
		var e turnResult
		choice, err := l.router.Submit(ctx, thread.Table(), req.Text, func(ctx context.Context, c routing.Choice) (err error) {
			emit(host.CallEvent{Channel: "status", Text: fmt.Sprintf("%s fits best (%.2f)\n", c.Name, c.Score)})
			in.Tag, in.Payload = c.Tag, c.Payload
			to, _ := l.Listener(c.Name) // none for a listener as others' tool
			e, err = l.send(ctx, thread, to, req.Text, t, in)
			return err
		})
		return e, l.formError(choice.Name, err)
	}

	to, ok := l.Listener(req.Listener)
	if !ok {
		return turnResult{}, fmt.Errorf("listener %q: %w", req.Listener, pipeline.ErrRouteNotFound)
	}
	in.Tag, in.Payload = to.PayloadClass, []byte(req.Text)
	e, err := l.send(ctx, thread, to, req.Text, t, in)
	return e, l.formError(req.Listener, err)
}

// send submits what a person says: as a message, as a task or, to a tool, as
// the payload that in has.
func (l *living) send(ctx context.Context, thread *pipeline.Thread, to organism.Listener, text string, t *talk, in pipeline.Ingress) (turnResult, error) {
	if to.Messages != nil {
		answer, err := l.say(ctx, thread, to, text, t, in)
		return turnResult{answer, text, string(answer)}, err
	}
	if to.Agent != nil {
		task, err := json.Marshal(thinker.Task{Task: text, Context: t.context()})
		if err != nil {
			return turnResult{}, err
		}
		in.Payload = task
	}

	out, err := thread.Submit(ctx, in)
	return exchanged(text, out), err
}

// formError shows who gave a tool another input than it takes one that it does.
func (l *living) formError(name string, err error) error {
	i := slices.IndexFunc(l.Capabilities, func(c routing.Capability) bool { return c.Name == name })
	if i < 0 || l.Capabilities[i].InWords || !errors.Is(err, routing.ErrNoForm) && !errors.As(err, new(*pipeline.ValidationError)) {
		return err
	}
	example := routing.Example(l.Capabilities[i].Schema)
	return &host.CallError{Code: wire.CodeInvalidInput, Message: fmt.Sprintf("%v; with "+advice.NameListener+" %s the text is JSON such as %s, without it \"field: value\" fills in a field", err, name, example)}
}

// askError is what a person is told.
func askError(err error) error {
	var failed *pipeline.HandlerError
	switch {
	case errors.As(err, &failed):
		return &host.CallError{Code: failed.Failure.Code, Message: failed.Failure.Message, Retryable: failed.Failure.Retryable}
	case errors.Is(err, pipeline.ErrRouteNotFound), errors.Is(err, routing.ErrMasked), errors.Is(err, routing.ErrNoMatch):
		return &host.CallError{Code: wire.CodeRouteNotFound, Message: err.Error()}
	}
	return err
}
