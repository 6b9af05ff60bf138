package message

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/hashing"
)

// Asker asks other agents on behalf of an agent that knows no messages, such as a
// thinking agent. Its question goes out as a message; the answer comes back as
// plain JSON.
type Asker struct {
	// Self is the agent that asks; its AgentID is the handler's name.
	Self        Agent
	Description string
	// Asks are the agents that it may ask, by the payload tag of the question.
	Asks map[string]Agent
	// Types says for each tag whether the question is a TypeQuery or a TypeCommand.
	Types map[string]Type
	// Answer is the payload tag of all answers.
	Answer string
	// Gives are the message types of the answers.
	Gives  []Type
	Gate   Gate
	Logger *slog.Logger
}

// question is the payload of a question.
type question struct {
	Question string `json:"question"`
}

// QuestionSchema is the JSON Schema of a question.
const QuestionSchema = `{"type":"object","additionalProperties":false,"required":["question"],` +
	`"properties":{"question":{"type":"string","minLength":1,"description":"what to ask, in words"}}}`

// answerPayload is the payload of an answer: the text of the agent and its evidence, in
// the bytes that it wrote.
type answerPayload struct {
	From     string         `json:"from"`
	Type     Type           `json:"type"`
	Content  jsontext.Value `json:"content"`
	Evidence jsontext.Value `json:"evidence"`
}

// askTTL is the number of seconds that an agent has for its answer.
const askTTL = 300

type asker struct {
	Asker
	pending *pending
}

// NewAsker returns the pipeline handler of an asker.
func NewAsker(cfg Asker) (pipeline.Handler, error) {
	if len(cfg.Asks) == 0 || cfg.Answer == "" || cfg.Self.InstanceID == "" || cfg.Logger == nil {
		return pipeline.Handler{}, errors.New("asker " + cfg.Self.AgentID + ": somebody to ask, a tag of answers, an agent and a logger are required")
	}
	if err := cfg.Gate.validate(); err != nil {
		return pipeline.Handler{}, err
	}

	a := &asker{Asker: cfg, pending: newPending()}
	h := pipeline.Handler{
		Name: cfg.Self.AgentID, Description: cfg.Description, Tags: []string{pipeline.TagError, pipeline.TagAck, TypeError.Tag()},
		Outputs: []string{cfg.Answer}, Handle: a.handle,
	}

	for tag, to := range cfg.Asks {
		t := cfg.Types[tag]
		if t != TypeQuery && t != TypeCommand {
			return pipeline.Handler{}, fmt.Errorf("asker %s: %s takes neither questions nor commands", cfg.Self.AgentID, to.AgentID)
		}
		h.Tags, h.Outputs, h.Peers = append(h.Tags, tag), append(h.Outputs, t.Tag()), append(h.Peers, to.AgentID)
	}

	for _, t := range cfg.Gives {
		if t != TypeError {
			h.Tags = append(h.Tags, t.Tag())
		}
	}

	return h, nil
}

// CheckQuestion and CheckAnswered validate the payloads of questions and answers.
func CheckQuestion(doc []byte) error {
	var q question
	if err := hashing.Unmarshal(doc, &q); err != nil {
		return err
	}
	if q.Question == "" {
		return errors.New("question: is missing")
	}
	return nil
}

// CheckAnswered validates an answer; see [CheckQuestion].
func CheckAnswered(doc []byte) error { return hashing.Unmarshal(doc, &answerPayload{}) }

func (a *asker) handle(ctx context.Context, p pipeline.Payload, c pipeline.Context) (pipeline.Response, error) {
	switch {
	case IsMessage(p.Tag):
		return a.answer(ctx, p, c), nil
	case p.Tag == pipeline.TagError, p.Tag == pipeline.TagAck:
		return a.noAnswer(p, c), nil
	}
	response, err := a.question(ctx, p, c)
	if err != nil {
		return pipeline.Fail(FromError(err).Failure()), nil
	}
	return response, nil
}

// question turns a plain question into a message. The session of the message is the
// thread, so that the answer must be backed by the journal of this task.
func (a *asker) question(ctx context.Context, p pipeline.Payload, c pipeline.Context) (pipeline.Response, error) {
	var q question
	if err := hashing.Unmarshal(p.Bytes, &q); err != nil {
		return pipeline.Response{}, invalid("question", "%v", err)
	}
	came, now := pipeline.CallFrom(ctx), a.Gate.Now()
	about := Context{
		SessionID: string(c.Thread), RequestID: came.RequestID, ConversationID: came.CorrelationID, Locale: "en", Timezone: "UTC",
	}
	if about.RequestID == "" {
		about.RequestID = wire.NewID()
	}
	to := a.Asks[p.Tag]
	m, err := a.ask(p.Tag, to, q.Question, about, now)
	if err != nil {
		return pipeline.Response{}, err
	}
	m.TTL = askTTL
	doc, err := a.Gate.Send(ctx, m)
	if err != nil {
		return pipeline.Response{}, err
	}
	if err := a.pending.add(m.ID, ask{of: to.AgentID, thread: c.Thread, origin: m, until: m.Deadline()}, now); err != nil {
		return pipeline.Response{}, err
	}

	return pipeline.Send(to.AgentID, m.Type.Tag(), doc), nil
}

func (a *asker) ask(tag string, to Agent, text string, about Context, now time.Time) (Message, error) {
	if a.Types[tag] == TypeCommand {
		return New(a.Self, to, Command{Command: text}, about, now)
	}
	return New(a.Self, to, Query{Question: text}, about, now)
}

// answer checks an answer and its evidence as any receiving agent does.
func (a *asker) answer(ctx context.Context, p pipeline.Payload, c pipeline.Context) pipeline.Response {
	m, err := a.Gate.Receive(ctx, p.Bytes)
	pending, ok := a.pending.take(m.ReplyTo, c.Sender)
	switch {
	case err != nil:
	case !ok || m.From.AgentID != c.Sender || m.To.AgentID != a.Self.AgentID:
		err = invalid("replyTo", "answers nothing that was asked")
	default:
		err = a.Gate.checkDeadline(pending.origin)
	}

	if err != nil {
		e := FromError(err)
		a.Logger.Info("message refused", "agentId", c.Sender, "code", e.Code(), "field", e.Field, "reason", e.Reason)
		return pipeline.Fail(e.Failure())
	}
	if m.Type == TypeError {
		f, err := ContentOf[Failure](m)
		if err != nil {
			return pipeline.Fail(FromError(err).Failure())
		}
		return pipeline.Fail(pipeline.Failure{Code: osCode(f.Code), Message: wire.SafeText(f.Message), Retryable: f.Recoverable})
	}

	doc, err := json.Marshal(answerPayload{From: m.From.AgentID, Type: m.Type, Content: m.Payload.Content, Evidence: m.Evidence.Bytes()})
	if err != nil {
		return pipeline.Fail(FromError(err).Failure())
	}
	return pipeline.Reply(a.Answer, doc)
}

// noAnswer handles the pipeline's notice that the agent was not reached or gave no
// answer.
func (a *asker) noAnswer(p pipeline.Payload, c pipeline.Context) pipeline.Response {
	if _, ok := a.pending.takeOn(c.Thread); !ok {
		return pipeline.Silence()
	}
	if p.Tag == pipeline.TagAck {
		return pipeline.Fail(pipeline.Failure{Code: OSDataUnavailable, Message: "the agent has nothing to say", Retryable: true})
	}
	var f pipeline.Failure
	if err := json.Unmarshal(p.Bytes, &f); err != nil {
		return pipeline.Fail(FromError(err).Failure())
	}
	return pipeline.Fail(FromOS(f.Code, f.Message).Failure())
}

// osCode returns the runtime protocol's code for a message code: the first one in
// the first matching row of the table.
func osCode(c Code) string {
	for _, row := range table() {
		if row.Code == c {
			return row.OS[0]
		}
	}
	return wire.CodeFailed
}
