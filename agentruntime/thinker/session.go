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

// talk is the conversation on one task, as far as it has come. It belongs to
// whoever took it from Thinker.talks.
type talk struct {
	Provenance
	messages []chat.Message
	bytes    int // of text in messages
	deadline time.Time
	// calls are the tool calls still to be made; calling is the tool that is
	// at work on the first of them, nil while the model is.
	calls   []chat.ToolCall
	calling *Tool
	model   string // the model's handler
	counted bool   // every question so far had its tokens counted
}

// begin takes on a task. k is what the thread was at before, which is over:
// its flow broke off, or this task would have had to wait for it.
func (t *Thinker) begin(k *talk, p pipeline.Payload, c pipeline.Context) (pipeline.Response, error) {
	if k != nil && k.calling != nil && k.calling.Handler == c.Sender {
		// A tool that asks its own caller: one of the two would lose its answer.
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

	k = &talk{
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
func (k *talk) expects(tag, sender string) bool {
	switch {
	case k.calling == nil:
		return sender == k.model && (tag == TagResponse || tag == pipeline.TagError) || sender == pipeline.Name && tag == pipeline.TagError
	case tag == pipeline.TagError || tag == pipeline.TagAck:
		return true
	}
	return sender == k.calling.Handler && slices.Contains(k.calling.Answers, tag)
}

// onModel takes the model's answer: text ends the task, tool calls go on.
func (t *Thinker) onModel(k *talk, p pipeline.Payload, c pipeline.Context) (pipeline.Response, error) {
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

// nextCall dispatches the next tool call, byte for byte, and asks the model
// again when there is none left.
func (t *Thinker) nextCall(k *talk, c pipeline.Context) (pipeline.Response, error) {
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
func (t *Thinker) onTool(k *talk, p pipeline.Payload, c pipeline.Context) (pipeline.Response, error) {
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

// answerCall appends the answer to the first call that is left.
func (k *talk) answerCall(content string) {
	k.add(chat.Message{Role: chat.RoleTool, ToolCallID: k.calls[0].ID, Content: content})
	k.calls = k.calls[1:]
}

func (k *talk) add(m chat.Message) {
	k.messages = append(k.messages, m)
	k.bytes += len(m.Content)
	for _, c := range m.ToolCalls {
		k.bytes += len(c.ID) + len(c.Function.Name) + len(c.Function.Arguments)
	}
}

func (k *talk) count(u *chat.Usage) {
	if u == nil {
		k.counted = false
		return
	}
	k.Usage.PromptTokens += u.PromptTokens
	k.Usage.CompletionTokens += u.CompletionTokens
}

func (k *talk) provenance() Provenance {
	p := k.Provenance
	if !k.counted {
		p.Usage = nil
	}
	return p
}

// fail ends the task, with what it took in the details.
func (k *talk) fail(code, message string) pipeline.Response {
	f := pipeline.Failure{Code: code, Message: clip(message)}
	if doc, err := json.Marshal(k.provenance()); err == nil {
		f.Details = doc
	}
	return pipeline.Fail(f)
}

// modelFailed ends the task with the model's failure.
func (k *talk) modelFailed(payload []byte) pipeline.Response {
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
