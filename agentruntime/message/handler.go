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

// Work is an agent's processing of a message. If m answers a question that the
// agent has asked, origin is the message on which it was working then; otherwise
// origin is m. ctx ends with the ttl of m. An error is sent to the sender of origin
// as an error message: an *Error keeps its code, and FromOS converts the code of a
// tool.
type Work func(ctx context.Context, m, origin Message) (Action, error)

// Action is the reaction to a message. The zero value does nothing.
type Action struct {
	m   *Message
	ask bool

	tool  string
	input []byte
}

// Answer answers the sender of origin with m.
func Answer(m Message) Action { return Action{m: &m} }

// Ask sends m to a peer, whose answer arrives as a message of its own.
func Ask(m Message) Action { return Action{m: &m, ask: true} }

// nothing consumes the message: its sender gets the pipeline's acknowledgement.
func nothing() Action { return Action{} }

// Config describes an agent among the others.
type Config struct {
	// Self is the agent. Its AgentID is the name of its handler, and the only name
	// that it can send under.
	Self        Agent
	Description string
	// Takes are the message types that it receives. In a profile each type has one
	// agent. An agent with Peers or Instruments must also take errors.
	Takes []Type
	// Gives are the types of its answers and questions. Errors are always allowed.
	Gives []Type
	// Peers are the agents that it may ask, Instruments the tools that it may use.
	Peers       []string
	Instruments []Instrument
	Gate        Gate
	Work        Work
	// Logger receives refusals and violations of evidence laws, never contents.
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

// NewHandler returns the pipeline handler of an agent. The gate checks each message
// before Work sees it, and each message of Work before anybody else does. Every
// refusal is answered with an error message (YE-O.5).
func NewHandler(cfg Config) (pipeline.Handler, error) {
	if err := cfg.validate(); err != nil {
		return pipeline.Handler{}, fmt.Errorf("message handler %s: %w", cfg.Self.AgentID, err)
	}
	h := &handler{Config: cfg, pending: newPending()}
	ph := pipeline.Handler{
		Name: cfg.Self.AgentID, Description: cfg.Description, Peers: slices.Clone(cfg.Peers), Tool: true, Handle: h.handle,
	}
	if len(cfg.Peers)+len(cfg.Instruments) > 0 {
		ph.Tags = append(ph.Tags, pipeline.TagError)
	}

	for _, i := range cfg.Instruments {
		ph.Peers = append(ph.Peers, i.Name)
		ph.Outputs = append(ph.Outputs, i.Tag)
		if !slices.Contains(ph.Tags, i.Answer) {
			ph.Tags = append(ph.Tags, i.Answer)
		}
	}

	for _, t := range cfg.Takes {
		ph.Tags = append(ph.Tags, t.Tag())
	}
	for _, t := range cfg.Gives {
		ph.Outputs = append(ph.Outputs, t.Tag())
	}
	ph.Outputs = append(ph.Outputs, TypeError.Tag())
	return ph, nil
}

// Schemas returns the checks of all nine payload tags for [pipeline.Config]. They
// also refuse likely secrets, because the pipeline hashes and keeps every payload
// that passes.
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

// IsMessage reports whether a payload tag is that of a message. The journal must
// keep the bytes of messages, because the log is read from them.
func IsMessage(tag string) bool { _, ok := typeOfTag(tag); return ok }

func (h *handler) handle(ctx context.Context, p pipeline.Payload, c pipeline.Context) (pipeline.Response, error) {
	m, origin, err := h.receive(ctx, p, c)
	if err != nil {
		return h.refuse(origin, c.Sender, err), nil
	}

	// A question to another agent gets no more time than the message that led to
	// it.
	deadline := m.Deadline()
	if origin.Deadline().Before(deadline) {
		deadline = origin.Deadline()
	}
	ctx, cancel := context.WithTimeout(ctx, deadline.Sub(h.Gate.Now()))
	defer cancel()

	action, err := h.Work(ctx, m, origin)
	if ctx.Err() != nil {
		err = ctx.Err() // an answer after the deadline is dropped
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

// receive checks a message and finds its origin. On an error, origin is the message
// whose sender must be told; it is the zero Message if the payload passed the
// schema of its tag but is not a message.
func (h *handler) receive(ctx context.Context, p pipeline.Payload, c pipeline.Context) (m, origin Message, err error) {
	if !IsMessage(p.Tag) {
		return h.fromPipeline(p, c)
	}
	m, err = h.Gate.Receive(ctx, p.Bytes)
	origin = m
	if m.ReplyTo != "" {
		question, ok := h.pending.take(m.ReplyTo, c.Sender)
		isAnswer := m.Type == TypeResponse || m.Type == TypeError
		switch {
		case ok:
			origin = question.origin
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
		err = h.Gate.checkDeadline(origin)
	}

	return m, origin, err
}

// perform translates an action into a pipeline response.
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

	question := ask{of: m.To.AgentID, thread: thread, origin: origin, until: m.Deadline()}
	if err := h.pending.add(m.ID, question, h.Gate.Now()); err != nil {
		return pipeline.Response{}, err
	}
	return pipeline.Send(m.To.AgentID, m.Type.Tag(), doc), nil
}

// refuse answers origin with an error message. agentID is the agent at fault.
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

// failure returns the error message; it comes from this agent, whoever origin was
// addressed to.
func (h *handler) failure(origin Message, e *Error, now time.Time) Message {
	answer := origin.Fail(e, now)
	answer.From = h.Self
	return answer
}
