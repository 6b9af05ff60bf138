package message

import (
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/hashing"
)

// Instrument is a tool of the pipeline that an agent may use for its work. What
// it gives is in the journal before the agent has it, so an answer may cite it:
// the instrument's name is a source, the digest of its output an entity.
type Instrument struct {
	Name string // the handler's
	// Tag is that of its requests, Answer that of its results.
	Tag, Answer string
}

// use gives a tool an input, which must have its schema. The result comes as a
// response of the tool, with the evidence for it; a failure as an error.
func use(tool string, input []byte) Action {
	return Action{tool: tool, input: input}
}

// instrument finds a tool by name.
func (c Config) instrument(name string) (Instrument, bool) {
	for _, i := range c.Instruments {
		if i.Name == name {
			return i, true
		}
	}
	return Instrument{}, false
}

// use puts an Action of Use into the pipeline's words.
func (h *handler) use(thread pipeline.ThreadID, origin Message, a Action) (pipeline.Response, error) {
	i, ok := h.instrument(a.tool)
	if !ok {
		// As where the profile lacks it: nothing says whether it exists.
		return pipeline.Response{}, &Error{Kind: KindUnauthorized, Reason: pipeline.ErrRouteNotFound.Error()}
	}
	// One thread carries one message at a time, so an agent waits for one tool.
	err := h.pending.add(string(thread), ask{of: i.Name, thread: thread, origin: origin, until: origin.Deadline()}, h.Gate.Now())
	if err != nil {
		return pipeline.Response{}, err
	}
	return pipeline.Send(i.Name, i.Tag, a.input), nil
}

// fromPipeline makes a message of what is none: a tool's result, or the
// pipeline's word that a tool or a peer did not answer.
func (h *handler) fromPipeline(p pipeline.Payload, c pipeline.Context) (m, origin Message, err error) {
	now := h.Gate.Now()
	if p.Tag == pipeline.TagError {
		waits, ok := h.pending.takeOn(c.Thread)
		if !ok {
			return m, origin, invalid("", "is an error without a pending question")
		}
		var f pipeline.Failure
		if err := json.Unmarshal(p.Bytes, &f); err != nil {
			return m, waits.origin, invalid("", "is an error that cannot be read")
		}
		m = Message{ID: waits.origin.ID, From: h.Self, To: h.Self, Context: waits.origin.Context, Payload: waits.origin.Payload}.
			Fail(FromOS(f.Code, f.Message), now)
		m.From = Agent{waits.of, waits.of}
		return m, waits.origin, h.Gate.late(waits.origin)
	}

	waits, ok := h.pending.take(string(c.Thread), c.Sender)
	if !ok {
		return m, origin, invalid("", "is a result without a pending question")
	}
	m, err = resultOf(waits, h.Self, p.Bytes, now)
	if err != nil {
		return m, waits.origin, err
	}
	return m, waits.origin, h.Gate.late(waits.origin)
}

// resultOf tells an agent what a tool gave, and what that can be cited as.
func resultOf(waits ask, self Agent, output []byte, now time.Time) (Message, error) {
	evidence, err := NewEvidence(Chain{
		Sources: []Source{{ID: waits.of, Name: waits.of, Type: "tool"}}, Confidence: 100,
		Citations: []Citation{{Text: "the result of " + waits.of, Source: waits.of}},
		Provenance: []Provenance{{
			Entity: hashing.Bytes(output).String(), WasGeneratedBy: waits.of, WasDerivedFrom: waits.of,
			GeneratedAtTime: now.UTC().Format(time.RFC3339Nano),
		}},
	})
	if err != nil {
		return Message{}, err
	}
	tool := Agent{waits.of, waits.of}
	m, err := New(tool, self, Response{Answer: "the result of " + waits.of, Data: jsontext.Value(output)}, waits.origin.Context, now)
	if err != nil {
		return Message{}, err
	}
	m.ReplyTo, m.Evidence, m.Payload.Language = waits.origin.ID, evidence, waits.origin.Payload.Language
	return m, nil
}
