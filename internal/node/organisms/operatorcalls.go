package organisms

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/lightwork-market/lightwork/agentruntime/curator"
	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/internal/store"
)

// The names an operator's call of a tool travels the pipeline under.
const (
	operatorNamespace = "urn:lightwork:operator:v1"
	operatorProfile   = "operator"
	operatorSender    = "operator"
)

// operatorRetention is how long the journal keeps what operators try out.
var operatorRetention = pipeline.Retention{Policy: pipeline.RetainDays, Days: 30}

// OperatorCalls takes the operator's calls of tools through a pipeline like any
// other message: a static table of the declared slots, and a journal.
type OperatorCalls struct {
	k    *store.Store
	sup  TellingSupervisor
	pipe *pipeline.Pipeline // set by build, before the first call
}

// NewOperatorCalls takes calls to the agents of a supervisor; Build comes first.
func NewOperatorCalls(k *store.Store, sup TellingSupervisor) *OperatorCalls {
	return &OperatorCalls{k: k, sup: sup}
}

// operatorCallKey has the supervisor.Call that a message is the input of.
type operatorCallKey struct{}

// Build makes a handler of each slot; its tag is its name. The supervisor
// checks inputs and outputs, by the schemas that the agent registered last.
func (o *OperatorCalls) Build(slots []string, log *slog.Logger) (err error) {
	journal := o.k.PipelineLog(operatorProfile)
	cfg := pipeline.Config{
		Secrets: map[string]pipeline.Marked{}, Journal: journal, Audit: journal, DirectiveLive: journal.DirectiveLive, Logger: log,
	}

	profile := pipeline.Profile{Name: operatorProfile, Retention: operatorRetention}
	for _, slot := range slots {
		cfg.Handlers = append(cfg.Handlers, pipeline.Handler{
			Name: slot, Description: "the operator's call of " + slot, Tags: []string{slot}, Outputs: []string{slot + ResultSuffix}, Handle: o.handle,
		})
		profile.Handlers = append(profile.Handlers, slot)
		cfg.Secrets[slot], cfg.Secrets[slot+ResultSuffix] = o.secrets(slot, false), o.secrets(slot, true)
	}

	cfg.Profiles = []pipeline.Profile{profile}
	if o.pipe, err = pipeline.New(cfg); err != nil {
		return fmt.Errorf("pipeline of the operator: %w", err)
	}
	return nil
}

// Invoke implements host.Config.Invoke. Its errors are the supervisor's.
func (o *OperatorCalls) Invoke(ctx context.Context, c supervisor.Call) (supervisor.Result, error) {
	c.CallID = wire.NewID()
	ctx = context.WithValue(ctx, operatorCallKey{}, &c)
	tag, thread := c.AgentID+"/"+c.Tool, pipeline.ThreadID("root.operator["+c.CallID+"]")
	out, err := o.pipe.Submit(ctx, pipeline.Ingress{
		Namespace: operatorNamespace, Tag: tag, Payload: c.Input, Thread: thread, Profile: operatorProfile, Sender: operatorSender,
		DirectiveID: c.CausationID, RequestID: c.RequestID, CorrelationID: c.CorrelationID,
	})
	if errors.Is(err, pipeline.ErrRouteNotFound) || errors.As(err, new(*pipeline.MalformedError)) {
		return supervisor.Result{}, &supervisor.Error{Code: wire.CodeRouteNotFound, Message: "no route to " + wire.SafeText(tag)}
	}

	// The thread is over, whatever came of it.
	ended := o.k.Update(context.WithoutCancel(ctx), func(tx *store.Tx) error {
		return tx.ReturnThread(curator.Returned{Thread: thread, Failed: err != nil, Retention: operatorRetention})
	})
	var failed *pipeline.HandlerError
	if errors.As(err, &failed) {
		f := failed.Failure
		return supervisor.Result{}, &supervisor.Error{Code: f.Code, Message: f.Message, Retryable: f.Retryable}
	}
	if invalid := (*pipeline.ValidationError)(nil); errors.As(err, &invalid) {
		return supervisor.Result{}, &supervisor.Error{Code: wire.CodeInvalidInput, Message: wire.SafeText(invalid.Err.Error())}
	}
	if err := cmp.Or(err, ended); err != nil {
		return supervisor.Result{}, err
	}

	return supervisor.Result{Output: json.RawMessage(out.Whole())}, nil
}

func (o *OperatorCalls) handle(ctx context.Context, p pipeline.Payload, _ pipeline.Context) (pipeline.Response, error) {
	c, ok := ctx.Value(operatorCallKey{}).(*supervisor.Call)
	if !ok {
		return pipeline.Response{}, errors.New("is no call of the operator's")
	}
	call := *c
	call.Input = p.Bytes
	res, err := o.sup.Call(ctx, call)
	var failed *supervisor.Error
	if errors.As(err, &failed) {
		return pipeline.Fail(pipeline.Failure{Code: failed.Code, Message: failed.Message, Retryable: failed.Retryable}), nil
	}
	if err != nil {
		return pipeline.Response{}, err
	}

	return pipeline.Reply(p.Tag+ResultSuffix, res.Output), nil
}

// ResultSuffix is of the tag that answers a tag.
const ResultSuffix = "#result"
