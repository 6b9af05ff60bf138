package message

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/hashing"
)

// Work is what an agent does with a message. Origin is the message that the
// agent was working on when it asked what m answers; for any other m it is m
// itself. ctx ends with m's ttl. An error becomes an error message for the
// sender of origin: an *Error keeps its code, FromOS makes one of a tool's code.
type Work func(ctx context.Context, m, origin Message) (Action, error)

// Action is what follows from a message. The zero value is Nothing.
type Action struct {
	m   *Message
	ask bool

	tool  string
	input []byte
}

// Answer answers the sender of origin with m.
func Answer(m Message) Action { return Action{m: &m} }

// Ask sends m to a peer. The answer comes as a message of its own.
func Ask(m Message) Action { return Action{m: &m, ask: true} }

// nothing consumes the message; the sender gets the pipeline's acknowledgement.
func nothing() Action { return Action{} }

// Config is an agent's place among the others.
type Config struct {
	// Self is the agent. Its AgentID is the handler's name, and so the only
	// name that it can send under.
	Self        Agent
	Description string
	// Takes are the types it receives. In a profile each type has one agent.
	// Who has Peers or Instruments also takes errors.
	Takes []Type
	// Gives are the types it answers or asks with. Errors need no mention.
	Gives []Type
	// Peers are the agents it may ask, Instruments the tools it may use.
	Peers       []string
	Instruments []Instrument
	Gate        Gate
	Work        Work
	// Logger hears of refusals and of broken evidence laws, never of contents.
	Logger *slog.Logger
}

func (c Config) validate() error {
	if c.Work == nil || c.Logger == nil || c.Self.InstanceID == "" {
		return errors.New("an agent, work and a logger are required")
	}

	for _, t := range slices.Concat(c.Takes, c.Gives) {
		if !slices.Contains(Types(), t) {
			return fmt.Errorf("there is no message type %.20q", t)
		}
	}

	if len(c.Peers)+len(c.Instruments) > 0 && !slices.Contains(c.Takes, TypeError) {
		return errors.New("an agent that asks peers or uses tools must take errors")
	}
	return c.Gate.validate()
}

type handler struct {
	Config
	pending *pending
}

// NewHandler makes the pipeline handler of an agent. What the agent receives is
// checked by its gate before Work sees it, and what it gives before anybody
// else does. Every refusal is answered with an error message (YE-O.5).
func NewHandler(cfg Config) (pipeline.Handler, error) {
	if err := cfg.validate(); err != nil {
		return pipeline.Handler{}, fmt.Errorf("message handler %s: %w", cfg.Self.AgentID, err)
	}
	h := &handler{Config: cfg, pending: newPending()}
	made := pipeline.Handler{
		Name: cfg.Self.AgentID, Description: cfg.Description, Peers: slices.Clone(cfg.Peers), Tool: true, Handle: h.handle,
	}
	if len(cfg.Peers)+len(cfg.Instruments) > 0 {
		made.Tags = append(made.Tags, pipeline.TagError)
	}

	for _, i := range cfg.Instruments {
		made.Peers = append(made.Peers, i.Name)
		made.Outputs = append(made.Outputs, i.Tag)
		if !slices.Contains(made.Tags, i.Answer) {
			made.Tags = append(made.Tags, i.Answer)
		}
	}

	for _, t := range cfg.Takes {
		made.Tags = append(made.Tags, t.Tag())
	}
	for _, t := range cfg.Gives {
		made.Outputs = append(made.Outputs, t.Tag())
	}
	made.Outputs = append(made.Outputs, TypeError.Tag())
	return made, nil
}

// Schemas are the checks of all nine payload tags, for pipeline.Config. They
// refuse what looks like a secret too: what passes them is hashed and kept.
func Schemas() map[string]pipeline.Validate {
	all := map[string]pipeline.Validate{pipeline.TagError: func(doc []byte) error { return hashing.Check(doc) }}
	for _, t := range Types() {
		all[t.Tag()] = func(doc []byte) error {
			m, err := Parse(doc)
			switch {
			case err != nil:
				return err
			case m.Type != t:
				return invalid("type", "is not that of the payload tag")
			}
			if err := noSecret(doc); err != nil {
				return err
			}
			return nil
		}
	}

	return all
}

// IsMessage reports whether a payload tag is one of a message: the journal must
// keep its bytes, which the log is read from.
func IsMessage(tag string) bool { _, ok := typeOfTag(tag); return ok }

func (h *handler) handle(ctx context.Context, p pipeline.Payload, c pipeline.Context) (pipeline.Response, error) {
	m, origin, err := h.receive(ctx, p, c)
	if err != nil {
		return h.refuse(origin, c.Sender, err), nil
	}

	// What is asked of others on the way to an answer does not get more time.
	deadline := m.Deadline()
	if origin.Deadline().Before(deadline) {
		deadline = origin.Deadline()
	}
	ctx, cancel := context.WithTimeout(ctx, deadline.Sub(h.Gate.Now()))
	defer cancel()

	action, err := h.Work(ctx, m, origin)
	if ctx.Err() != nil {
		err = ctx.Err() // an answer that comes too late is none
	}
	if err != nil {
		return h.refuse(origin, h.Self.AgentID, err), nil
	}
	response, err := h.perform(ctx, c.Thread, origin, action)
	if err != nil {
		return h.refuse(origin, h.Self.AgentID, err), nil
	}
	return response, nil
}

// receive checks a message and finds what it belongs to. With an error the
// origin is whose sender must be told, and the zero Message where the schema of
// the tag has let through what is none.
func (h *handler) receive(ctx context.Context, p pipeline.Payload, c pipeline.Context) (m, origin Message, err error) {
	if !IsMessage(p.Tag) {
		return h.fromPipeline(p, c)
	}
	m, err = h.Gate.Receive(ctx, p.Bytes)
	origin = m
	if m.ReplyTo != "" {
		asked, ok := h.pending.take(m.ReplyTo, c.Sender)
		isAnswer := m.Type == TypeResponse || m.Type == TypeError
		switch {
		case ok:
			origin = asked.origin
		case isAnswer && err == nil:
			err = invalid("replyTo", "answers nothing that was asked")
		}
	}

	switch {
	case err != nil:
	case m.From.AgentID != c.Sender:
		err = &Error{Kind: KindUnauthorized, Field: "from.agentId", Reason: "is not who sent the message"}
	case m.To.AgentID != h.Self.AgentID:
		err = &Error{Kind: KindUnauthorized, Field: "to.agentId", Reason: "is not who got the message"}
	default:
		err = h.Gate.late(origin)
	}

	return m, origin, err
}

// perform puts an action into the pipeline's words.
func (h *handler) perform(ctx context.Context, thread pipeline.ThreadID, origin Message, a Action) (pipeline.Response, error) {
	switch {
	case a.tool != "":
		return h.use(thread, origin, a)
	case a.m == nil:
		return pipeline.Silence(), nil
	}

	m := *a.m
	switch {
	case m.From != h.Self:
		return pipeline.Response{}, invalid("from", "is not the agent itself")
	case m.Context.SessionID != origin.Context.SessionID, m.Context.RequestID != origin.Context.RequestID:
		return pipeline.Response{}, invalid("context", "is not that of the message it belongs to")
	case !a.ask && (m.ReplyTo != origin.ID || m.To != origin.From):
		return pipeline.Response{}, invalid("replyTo", "is not the message that is answered")
	}

	doc, err := h.Gate.Send(ctx, m)
	if err != nil {
		return pipeline.Response{}, err
	}
	if !a.ask {
		return pipeline.Reply(m.Type.Tag(), doc), nil
	}

	asked := ask{of: m.To.AgentID, thread: thread, origin: origin, until: m.Deadline()}
	if err := h.pending.add(m.ID, asked, h.Gate.Now()); err != nil {
		return pipeline.Response{}, err
	}
	return pipeline.Send(m.To.AgentID, m.Type.Tag(), doc), nil
}

// refuse answers origin with an error message. agentID is whose fault it is.
func (h *handler) refuse(origin Message, agentID string, err error) pipeline.Response {
	e, now := FromError(err), h.Gate.Now()
	h.Logger.Info("message refused", "agentId", agentID, "code", e.Code(), "field", e.Field, "reason", e.Reason)
	if e.Law != "" {
		h.Logger.Warn("evidence law broken", "violation", violation{
			Timestamp: now.UTC(), AgentID: agentID, Law: e.Law, Severity: e.Law.Severity(), Action: actionBlocked,
		})
	}

	doc, err := Encode(h.failure(origin, e, now))
	if err != nil { // there is no message to answer
		return pipeline.Fail(e.Failure())
	}
	return pipeline.Reply(TypeError.Tag(), doc)
}

// failure is the error message: from this agent, whoever it was addressed to.
func (h *handler) failure(origin Message, e *Error, now time.Time) Message {
	answer := origin.Fail(e, now)
	answer.From = h.Self
	return answer
}
