package message

import (
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/hashing"
)

// Instrument is a pipeline tool that an agent may use for its work. Its output is
// journaled before the agent gets it, so an answer may cite it: the instrument's
// name as a source, the digest of the output as an entity.
type Instrument struct {
	Name string // the name of its handler
	// Tag is the payload tag of its requests, Answer that of its results.
	Tag, Answer string
}

// use sends an input to a tool, whose schema it must match. The result arrives as a
// response with its evidence, a failure as an error.
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

// use translates the use of a tool into a pipeline response.
func (h *handler) use(thread pipeline.ThreadID, origin Message, a Action) (pipeline.Response, error) {
	i, ok := h.instrument(a.tool)
	if !ok {
		// The error is the same as for a tool outside the profile, so that it does
		// not reveal whether the tool exists.
		return pipeline.Response{}, &Error{Kind: KindUnauthorized, Reason: pipeline.ErrRouteNotFound.Error()}
	}
	// A thread carries one message at a time, so the thread identifies the tool
	// call that the agent waits for.
	err := h.pending.add(string(thread), ask{of: i.Name, thread: thread, origin: origin, until: origin.Deadline()}, h.Gate.Now())
	if err != nil {
		return pipeline.Response{}, err
	}
	return pipeline.Send(i.Name, i.Tag, a.input), nil
}

// fromPipeline makes a message from a payload that is not one: the result of a
// tool, or the pipeline's notice that a tool or a peer did not answer.
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
		return m, waits.origin, h.Gate.checkDeadline(waits.origin)
	}

	waits, ok := h.pending.take(string(c.Thread), c.Sender)
	if !ok {
		return m, origin, invalid("", "is a result without a pending question")
	}
	m, err = resultOf(waits, h.Self, p.Bytes, now)
	if err != nil {
		return m, waits.origin, err
	}
	return m, waits.origin, h.Gate.checkDeadline(waits.origin)
}

// resultOf returns the message that tells an agent the result of a tool and the
// evidence to cite it.
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
