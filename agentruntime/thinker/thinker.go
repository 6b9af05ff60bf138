package thinker

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/model/chat"
	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
)

// Codes of the failures an agent answers with.
const (
	codeBadTask       = "agent.bad_task"
	codeBusy          = "agent.busy"
	codeModelFailed   = "agent.model_failed" // details have the model's own failure
	codeMaxIterations = "agent.max_iterations"
	codeTooLarge      = "agent.history_too_large"
	codeTimeout       = "agent.timeout"
	codeUnexpected    = "agent.unexpected"
)

// Codes the model reads, beside a tool's own, where a call has no answer. The
// loop goes on.
const (
	codeNoSuchTool    = "tool.not_found"
	codeBadArguments  = "tool.bad_arguments"
	codeAnswerTooLong = "tool.answer_too_long"
	codeAnswerNoText  = "tool.answer_no_text"
)

const (
	// maxSessions bounds the tasks under way at a time.
	maxSessions = 256
	// maxToolAnswer bounds one answer in the conversation, in bytes.
	maxToolAnswer = 256 << 10
)

// Thinker is one agent. It is safe for use by many goroutines; of one thread
// the pipeline gives it one message at a time.
type Thinker struct {
	cfg    Config
	system string // prompt
	tools  map[string]Tool
	offers []chat.Tool

	mu       sync.Mutex
	sessions map[pipeline.ThreadID]*session // guarded by mu; without those that a goroutine has taken
}

// New checks the configuration. What is wrong with it is a *ConfigError.
func New(cfg Config) (*Thinker, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.Tag == "" {
		cfg.Tag = tagTask
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.MaxHistory == 0 {
		cfg.MaxHistory = defaultMaxHistory
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Tools = slices.Clone(cfg.Tools)

	t := &Thinker{cfg: cfg, tools: map[string]Tool{}, sessions: map[pipeline.ThreadID]*session{}}
	for _, tool := range cfg.Tools {
		if err := tool.check(cfg); err != nil {
			return nil, &ConfigError{cfg.Name, fmt.Sprintf("tool %.80s", tool.Name), err}
		}
		if _, twice := t.tools[tool.Name]; twice {
			return nil, &ConfigError{cfg.Name, "tool " + tool.Name, fmt.Errorf("is named twice")}
		}
		t.tools[tool.Name] = tool
		t.offers = append(t.offers, chat.Offer(tool.Name, tool.Description, tool.Schema))
	}

	var err error
	if t.system, err = systemPrompt(cfg); err != nil {
		return nil, &ConfigError{cfg.Name, "prompt", err}
	}
	return t, nil
}

// Handler is the agent's place in a pipeline.
func (t *Thinker) Handler() pipeline.Handler {
	h := pipeline.Handler{
		Name: t.cfg.Name, Description: t.cfg.Description,
		Tags:    []string{t.cfg.Tag, TagResponse, pipeline.TagError, pipeline.TagAck},
		Outputs: []string{TagAnswer, TagRequest},
		Peers:   []string{t.cfg.Model},
		Handle:  t.handle,
	}

	for _, tool := range t.cfg.Tools {
		h.Outputs = append(h.Outputs, tool.Tag)
		h.Peers = append(h.Peers, tool.Handler)
		h.Tags = append(h.Tags, tool.Answers...)
	}

	for _, list := range []*[]string{&h.Tags, &h.Outputs, &h.Peers} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return h
}

// handle is one step of the loop.
func (t *Thinker) handle(_ context.Context, p pipeline.Payload, c pipeline.Context) (pipeline.Response, error) {
	k := t.take(c.Thread)
	if p.Tag == t.cfg.Tag {
		return t.begin(k, p, c)
	}
	if k == nil {
		return pipeline.Fail(pipeline.Failure{Code: codeUnexpected, Message: "there is no task in this thread that waits for " + p.Tag}), nil
	}
	if time.Now().After(k.deadline) {
		return k.fail(codeTimeout, fmt.Sprintf("the task took longer than %v", t.cfg.Timeout)), nil
	}

	switch {
	case !k.expects(p.Tag, c.Sender):
		// As from a handler that answers twice. To fail would end the task.
		t.cfg.Logger.Warn("agent got a message that nobody waits for", "agent", t.cfg.Name, "tag", p.Tag, "sender", c.Sender)
		t.put(c.Thread, k)
		return pipeline.Silence(), nil
	case k.calling == nil:
		return t.onModel(k, p, c)
	}

	return t.onTool(k, p, c)
}

// take hands the thread's conversation to the caller, nil if there is none.
func (t *Thinker) take(id pipeline.ThreadID) *session {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.sessions[id]
	delete(t.sessions, id)
	return k
}

// put keeps a conversation until the next message of its thread.
func (t *Thinker) put(id pipeline.ThreadID, k *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sessions[id] = k
}

// room drops sessions after their deadline, whose answer was lost when their flow broke
// off. It reports whether another session can begin.
func (t *Thinker) room() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for id, k := range t.sessions {
		if now.After(k.deadline) {
			delete(t.sessions, id)
		}
	}
	return len(t.sessions) < maxSessions
}

// question sends the conversation to the model.
func (t *Thinker) question(k *session, c pipeline.Context) (pipeline.Response, error) {
	if k.bytes > t.cfg.MaxHistory {
		return k.fail(codeTooLarge, fmt.Sprintf("the conversation has more than %d bytes", t.cfg.MaxHistory)), nil
	}
	k.Iterations++
	doc, err := json.Marshal(chat.Request{Model: t.cfg.Agent.Model, Messages: k.messages, Tools: t.offers, Sampling: k.Sampling})
	if err != nil {
		return pipeline.Response{}, fmt.Errorf("encode model request: %w", err)
	}
	t.put(c.Thread, k)
	return pipeline.Send(t.cfg.Model, TagRequest, doc), nil
}
