package organism

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/agentruntime/thinker"
)

// addCallable adds the handler with which others call a thinking listener.
func (b *builder) addCallable(l Listener) error {
	schema, err := l.Callable.schema()
	if err != nil {
		return err
	}
	check, err := b.parts.Compile(schema)
	if err != nil {
		return fmt.Errorf("callable: %w", err)
	}
	tag := l.Name + callSuffix
	answer := tag + resultSuffix
	b.cfg.Schemas[tag], b.cfg.Schemas[answer] = check, thinker.Schemas("")[thinker.TagAnswer]
	b.cfg.Handlers = append(b.cfg.Handlers, pipeline.Handler{
		Name: tag, Description: l.Callable.Description, Tags: []string{tag}, Outputs: []string{answer}, Tool: true,
		Handle: func(ctx context.Context, p pipeline.Payload, c pipeline.Context) (pipeline.Response, error) {
			return b.out.call(ctx, l, answer, p.Bytes, c.Thread)
		},
	})
	b.offer(l, l.Callable.Description, schema, tag, tag, answer)
	return nil
}

func (c Callable) schema() (json.RawMessage, error) {
	properties, required := map[string]any{}, []string{}
	for _, p := range c.Parameters {
		properties[p.Name] = map[string]string{"type": p.Type}
		if p.Required {
			required = append(required, p.Name)
		}
	}
	return json.Marshal(map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

// maxCalls bounds the depth of calls between listeners: a listener that may call
// itself, or two listeners with profiles of their own, could otherwise call without
// end.
const maxCalls = 16

// codeTooDeep is the failure code of such a call.
const codeTooDeep = "agent.too_deep"

type callsKey struct{} // context key for the depth of calls

// call runs a callable listener in a thread of its own: a child thread that reaches
// only what both the caller's profile allows and the listener needs or, if the
// configuration grants the listener a profile, a thread with that profile.
func (b *Built) call(ctx context.Context, l Listener, answer string, args []byte, from pipeline.ThreadID) (pipeline.Response, error) {
	depth, _ := ctx.Value(callsKey{}).(int)
	if depth == maxCalls {
		return pipeline.Fail(pipeline.Failure{Code: codeTooDeep, Message: fmt.Sprintf("calls between listeners are nested %d deep, the limit", maxCalls)}), nil
	}
	ctx = context.WithValue(ctx, callsKey{}, depth+1)
	thread, err := b.callee(l, from)
	if err != nil {
		return pipeline.Response{}, err
	}
	task, err := json.Marshal(thinker.Task{Task: taskText(l, args)})
	if err != nil {
		return pipeline.Response{}, err
	}
	came := pipeline.CallFrom(ctx)
	out, err := thread.Submit(ctx, pipeline.Ingress{
		Namespace: Namespace, Tag: l.PayloadClass, Payload: task, Sender: "caller:" + l.Name,
		DirectiveID: came.DirectiveID, RequestID: came.RequestID, CorrelationID: came.CorrelationID, Stream: came.Stream,
	})
	thread.Finish(err == nil)
	if err := b.returned(ctx, thread, out, err); err != nil {
		return pipeline.Response{}, err
	}

	var failed *pipeline.HandlerError
	switch {
	case errors.As(err, &failed):
		return pipeline.Fail(failed.Failure), nil
	case errors.Is(err, pipeline.ErrRouteNotFound):
		return pipeline.Fail(pipeline.Failure{Code: "route.not_found", Message: pipeline.ErrRouteNotFound.Error()}), nil
	case err != nil:
		return pipeline.Response{}, err
	}

	return pipeline.Reply(answer, out.Reply.Payload()), nil
}

// returned records the end of a call's thread.
func (b *Built) returned(ctx context.Context, thread *pipeline.Thread, out pipeline.Outcome, failed error) error {
	if b.record == nil {
		return nil
	}
	var answer []byte
	if failed == nil {
		answer = out.Reply.Payload()
	}
	p, _ := b.Profile(thread.Profile())
	return b.record(ctx, thread.ID(), p.Retention, answer)
}

func (b *Built) callee(l Listener, from pipeline.ThreadID) (*pipeline.Thread, error) {
	segment := fmt.Sprintf("call-%d[%s]", b.calls.Add(1), l.Name)
	parent, ok := b.Pipeline.Active(from)
	if !ok {
		return nil, fmt.Errorf("thread %s is not active", from)
	}
	if l.Callable.Profile != "" {
		id, err := from.Child(segment)
		if err != nil {
			return nil, err
		}
		return b.Pipeline.Open(id, l.Callable.Profile)
	}

	keep := append(b.requiredTags(l), l.PayloadClass, thinker.TagAnswer, thinker.TagRequest, thinker.TagResponse)
	return parent.Spawn(segment, pipeline.Keep(keep...))
}

// taskText turns a call into a task in words: the description and the named
// arguments.
func taskText(l Listener, args []byte) string {
	var values map[string]json.RawMessage
	if err := json.Unmarshal(args, &values); err != nil {
		return string(args)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n", l.Callable.Description)

	for _, name := range slices.Sorted(maps.Keys(values)) {
		var s string
		if json.Unmarshal(values[name], &s) != nil {
			s = string(values[name])
		}
		fmt.Fprintf(&text, "\n%s: %s", name, s)
	}

	return text.String()
}
