package thinker

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/lightwork-market/lightwork/agentruntime/model/chat"
	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
)

// session is the conversation on one task. The goroutine that took it from
// Thinker.sessions owns it.
type session struct {
	Provenance
	messages []chat.Message
	bytes    int // of text in messages
	deadline time.Time
	// calls are the tool calls still to be made. calling is the tool that works on the
	// first of them; it is nil while the model works.
	calls   []chat.ToolCall
	calling *Tool
	model   string // the model's handler
	counted bool   // every question so far had its tokens counted
}

// begin starts a task. k is an earlier session of the thread, or nil. Its flow has
// broken off, because otherwise the thread would be busy.
func (t *Thinker) begin(k *session, p pipeline.Payload, c pipeline.Context) (pipeline.Response, error) {
	if k != nil && k.calling != nil && k.calling.Handler == c.Sender {
		// A tool asks the agent that called it, and one of the two would lose its answer.
		t.put(c.Thread, k)
		return pipeline.Fail(pipeline.Failure{Code: codeBusy, Message: "the agent waits for the answer of " + c.Sender}), nil
	}
	task, err := parseTask(p.Bytes)
	if err != nil {
		return pipeline.Fail(pipeline.Failure{Code: codeBadTask, Message: err.Error()}), nil
	}
	if !t.room() {
		return pipeline.Fail(pipeline.Failure{Code: codeBusy, Message: "too many tasks are under way", Retryable: true}), nil
	}

	k = &session{
		Provenance: Provenance{Sampling: t.cfg.Agent.sampling(), Usage: &chat.Usage{}},
		deadline:   time.Now().Add(t.cfg.Timeout), model: t.cfg.Model, counted: true,
	}
	k.add(chat.Message{Role: chat.RoleSystem, Content: t.system})
	text := task.Task
	if task.Context != "" {
		text = "Context:\n" + task.Context + "\n\nTask:\n" + task.Task
	}
	k.add(chat.Message{Role: chat.RoleUser, Content: text})
	return t.question(k, c)
}

// expects reports whether a message is the one the task waits for. The error of
// a tool may come from behind it, so any sender will do. The model's own never
// does, nor is it ever silent: at that time those are a tool's second answers.
func (k *session) expects(tag, sender string) bool {
	switch {
	case k.calling == nil:
		return sender == k.model && (tag == TagResponse || tag == pipeline.TagError) || sender == pipeline.Name && tag == pipeline.TagError
	case tag == pipeline.TagError || tag == pipeline.TagAck:
		return true
	}
	return sender == k.calling.Handler && slices.Contains(k.calling.Answers, tag)
}

// onModel takes the model's answer: text ends the task, tool calls go on.
func (t *Thinker) onModel(k *session, p pipeline.Payload, c pipeline.Context) (pipeline.Response, error) {
	if p.Tag == pipeline.TagError {
		return k.modelFailed(p.Bytes), nil
	}
	r, err := parseResponse(p.Bytes)
	if err != nil {
		return k.fail(codeModelFailed, err.Error()), nil
	}
	k.Model = r.Model
	k.count(r.Usage)
	if len(r.Message.ToolCalls) == 0 {
		doc, err := json.Marshal(Answer{Text: r.Message.Content, FinishReason: r.FinishReason, Provenance: k.provenance()})
		if err != nil {
			return pipeline.Response{}, fmt.Errorf("encode answer: %w", err)
		}
		return pipeline.Reply(TagAnswer, doc), nil
	}

	// There would be nobody to read what the tools answer.
	if k.Iterations >= t.cfg.Agent.MaxIterations {
		return k.fail(codeMaxIterations, fmt.Sprintf("the model still calls tools after %d iterations", k.Iterations)), nil
	}
	k.add(r.Message)
	k.calls = r.Message.ToolCalls
	return t.nextCall(k, c)
}

// nextCall dispatches the next tool call, with the model's bytes unchanged. After the
// last one it asks the model again.
func (t *Thinker) nextCall(k *session, c pipeline.Context) (pipeline.Response, error) {
	k.calling = nil

	for len(k.calls) > 0 {
		call := k.calls[0].Function
		tool, ok := t.tools[call.Name]
		if !ok {
			k.answerCall(toolError(codeNoSuchTool, "no such tool"))
			continue
		}
		if tool.Check != nil {
			if err := tool.Check([]byte(call.Arguments)); err != nil {
				k.answerCall(toolError(codeBadArguments, err.Error()))
				continue
			}
		}

		k.calling = &tool
		k.ToolCalls++
		t.put(c.Thread, k)
		return pipeline.Send(tool.Handler, tool.Tag, []byte(call.Arguments)), nil
	}

	return t.question(k, c)
}

// onTool takes a tool's answer, its error or its silence.
func (t *Thinker) onTool(k *session, p pipeline.Payload, c pipeline.Context) (pipeline.Response, error) {
	switch {
	case p.Tag == pipeline.TagError:
		k.answerCall(`{"error":` + string(p.Bytes) + `}`)
	case len(p.Bytes) > maxToolAnswer:
		k.answerCall(toolError(codeAnswerTooLong, fmt.Sprintf("the answer has %d bytes, more than %d", len(p.Bytes), maxToolAnswer)))
	case !utf8.Valid(p.Bytes):
		k.answerCall(toolError(codeAnswerNoText, "the answer is no UTF-8"))
	default:
		k.answerCall(string(p.Bytes))
	}
	return t.nextCall(k, c)
}

// answerCall appends the answer to the first pending call.
func (k *session) answerCall(content string) {
	k.add(chat.Message{Role: chat.RoleTool, ToolCallID: k.calls[0].ID, Content: content})
	k.calls = k.calls[1:]
}

func (k *session) add(m chat.Message) {
	k.messages = append(k.messages, m)
	k.bytes += len(m.Content)
	for _, c := range m.ToolCalls {
		k.bytes += len(c.ID) + len(c.Function.Name) + len(c.Function.Arguments)
	}
}

func (k *session) count(u *chat.Usage) {
	if u == nil {
		k.counted = false
		return
	}
	k.Usage.PromptTokens += u.PromptTokens
	k.Usage.CompletionTokens += u.CompletionTokens
}

func (k *session) provenance() Provenance {
	p := k.Provenance
	if !k.counted {
		p.Usage = nil
	}
	return p
}

// fail ends the task. The details of the failure have its provenance.
func (k *session) fail(code, message string) pipeline.Response {
	f := pipeline.Failure{Code: code, Message: clip(message)}
	if doc, err := json.Marshal(k.provenance()); err == nil {
		f.Details = doc
	}
	return pipeline.Fail(f)
}

// modelFailed ends the task with the model's failure.
func (k *session) modelFailed(payload []byte) pipeline.Response {
	var f pipeline.Failure
	if err := json.Unmarshal(payload, &f); err != nil {
		return k.fail(codeModelFailed, "the model's failure is malformed")
	}
	out := pipeline.Failure{Code: codeModelFailed, Message: clip(f.Message), Retryable: f.Retryable}
	if doc, err := json.Marshal(struct {
		Code string `json:"code"`
		Provenance
	}{f.Code, k.provenance()}); err == nil {
		out.Details = doc
	}

	return pipeline.Fail(out)
}
