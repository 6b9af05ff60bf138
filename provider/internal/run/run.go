// Package run has an agent do a job. It numbers the run, tells the buyer of it, and makes
// of the output a result with the record of how it came about.
package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/clip"
	"github.com/lightwork-market/lightwork/lifecycle"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider/internal/openjob"
	"github.com/lightwork-market/lightwork/provider/internal/publish"
	"github.com/lightwork-market/lightwork/schemas"
)

// Store keeps the numbers of runs.
type Store interface {
	// Start moves paid, quoted (postpay and free: d is their directive and
	// thread is made, else d is nil) or running -> running and returns the run
	// number, which fences Finish. The first run's deadline becomes the job's;
	// that of a later run is not looked at.
	Start(ctx context.Context, requestID string, d *job.Directive, thread string, plan job.Plan, out ...job.OutEvent) (run int, err error)
}

// Config is what an Executor needs.
type Config struct {
	Store     Store
	Runner    job.Runner
	Publisher *publish.Publisher
	Log       *slog.Logger
	Tell      func(job.Event)

	Runs      int             // that a job is worth at most
	StartIn   time.Duration   // how long a job that may begin waits for a slot
	Key       string          // of the provider
	Producer  string          // of the record, as it names itself
	Lifecycle lifecycle.Kinds // of NIP-SA's events that are published
	Node      func() payments.Node
}

// Executor runs jobs.
type Executor struct {
	cfg Config
	log *slog.Logger
}

// New makes an Executor.
func New(cfg Config) *Executor { return &Executor{cfg: cfg, log: cfg.Log} }

// margin is what a run gets beyond the request's own limit, for starting
// and stopping the agent.
const margin = 30 * time.Second

// Deadline is the job's one deadline: the least of all that bounds the work
// (K-24). It was decided as the first run started, or it is now: from the time to
// wait for a slot, the request's own limit, and until when the payment is held, if it is.
func (e *Executor) Deadline(j *openjob.Job, held time.Time) time.Time {
	end := j.Deadline
	if end.IsZero() {
		end = e.startBy(j).Add(j.RunLimit() + margin)
	}
	if !held.IsZero() {
		end = earlier(end, held)
	}
	return end
}

// startBy is when a job that has not begun is waited for no longer: counted from
// what the store has, so that a restart gives no time.
func (e *Executor) startBy(j *openjob.Job) time.Time {
	if j.State != job.StateQuoted { // paid then
		return j.StateAt.Add(e.cfg.StartIn)
	}
	by := j.AddedAt.Add(e.cfg.StartIn)
	if j.Engagement != nil { // as long after the fee as without one
		by = by.Add(e.cfg.StartIn)
	}
	return earlier(by, j.ExpiresAt)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// Attempt is one run of a job. Only the one that the store numbered last can finish: a
// run left over from before a crash is fenced off.
type Attempt struct {
	*Executor
	job      *openjob.Job
	tool     string
	deadline time.Time
	began    time.Time
	ended    func(status string)
}

// Begin records the start of the job's next run, which has until the deadline.
func (e *Executor) Begin(ctx context.Context, j *openjob.Job, deadline time.Time) (*Attempt, error) {
	processing, err := e.processing(ctx, j)
	if err != nil {
		return nil, err
	}
	var approved *job.Directive
	if j.State == job.StateQuoted { // postpay and free: policy, not payment, approves
		d := j.Directive("policy:" + string(j.Mode))
		approved = &d
	}

	tool := e.cfg.Runner.Tool(j.SchemaID)
	planned, err := planHash(j, tool)
	if err != nil {
		return nil, fmt.Errorf("hash plan: %w", err)
	}
	number, err := e.cfg.Store.Start(ctx, j.RequestID, approved, j.ThreadName(), job.Plan{Deadline: deadline, Hash: planned}, processing)
	if err != nil {
		return nil, fmt.Errorf("record start: %w", err)
	}

	e.cfg.Tell(job.StateEvent{RequestID: j.RequestID, State: job.StateRunning})
	e.cfg.Publisher.Send(processing)
	j.Run, j.State, j.DirectiveID, j.PlanHash = number, job.StateRunning, j.Directive("").ID, planned
	return &Attempt{Executor: e, job: j, tool: tool, deadline: deadline}, nil
}

// processing says that a run began. Where nothing is paid first it is the
// buyer's first sight of the quote, so it carries it. Runs after the first name
// their number: two runs that begin within a second are not one event.
func (e *Executor) processing(ctx context.Context, j *openjob.Job) (job.OutEvent, error) {
	content, info := "", ""
	if j.Run > 0 {
		info = fmt.Sprintf("run %d", j.Run+1)
	}
	if !j.PaysFirst() {
		content = string(j.Quote)
	}
	return e.cfg.Publisher.Feedback(ctx, j.To, "processing", info, content)
}

// errBuyerCanceled ends a run's context when the buyer cancels.
var errBuyerCanceled = errors.New("canceled by the buyer")

// Perform has the agent do the run, and checks what it gave.
func (a *Attempt) Perform(base context.Context) (*openjob.Made, error) {
	ctx, stop := context.WithDeadline(base, a.deadline)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer during(ctx, func(ctx context.Context) {
		select {
		case <-a.job.Cancel:
			cancel(errBuyerCanceled)
		case <-ctx.Done():
		}
	})()

	a.began = time.Now().UTC()
	a.ended = a.tick(ctx)
	run := job.Run{
		RequestID: a.job.RequestID, Number: a.job.Run, SchemaID: a.job.SchemaID, Input: a.job.Input,
		Thread: a.job.ThreadName(), DirectiveID: a.job.DirectiveID, Timeout: min(a.job.RunLimit()+margin/2, time.Until(a.deadline)),
		Tree: a.job.Tree, OnStream: func(string, string) {},
	}
	quiet := func() {}
	if showsOutput(a.job) {
		run.OnStream = a.partials()
	} else {
		quiet = during(ctx, a.stages)
	}

	asked := time.Now()
	out, err := a.cfg.Runner.Run(ctx, run)
	a.cfg.Tell(job.RunEvent{RequestID: a.job.RequestID, SchemaID: a.job.SchemaID, Took: time.Since(asked), Err: err})
	quiet()
	if err == nil {
		err = ctx.Err() // what comes after the deadline does not count, nor is it charged (K-47)
	}
	if err != nil {
		return nil, a.failure(base, ctx, err)
	}
	return a.made(out)
}

// during runs f until it is told to stop, which waits for f's end.
func during(ctx context.Context, f func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(ctx)
	}()
	return func() { cancel(); <-done }
}

// fail ends a job that failed.
func fail(code job.Code, detail string) error {
	return openjob.GiveBack(job.StateFailed, code, detail)
}

// failure decides what a run without a result means. Nothing of it is charged (K-47).
func (a *Attempt) failure(base, ctx context.Context, err error) error {
	switch {
	case base.Err() != nil:
		return base.Err() // we are stopping; the next life runs it again
	case errors.Is(context.Cause(ctx), errBuyerCanceled):
		return openjob.GiveBack(job.StateCanceled, job.CodeCanceled, "by the buyer, while running")
	case ctx.Err() != nil:
		return fail(job.CodeDeadline, "the job's deadline passed")
	}

	var failed *job.RunError
	switch {
	case errors.As(err, &failed):
	case errors.Is(err, context.DeadlineExceeded): // of the run's own time
		failed = &job.RunError{Reason: job.Because(job.CodeDeadline, "the run took too long")}
	default:
		a.log.Error("run", "request", a.job.RequestID, "err", err)
		failed = &job.RunError{Reason: job.Because(job.CodeInternal, "the run failed on this node")}
	}

	if failed.Retryable && a.job.Run < a.cfg.Runs {
		select { // the buyer hears of the next run
		case <-time.After(untilTick(a.began)):
		case <-ctx.Done():
		}
		return fmt.Errorf("run %d: %w", a.job.Run, err) // the next run begins soon
	}

	return fail(failed.Reason.Code, failed.Reason.Detail)
}

// made checks the output and writes the trajectory.
func (a *Attempt) made(out job.Outcome) (*openjob.Made, error) {
	finished := time.Now().UTC()
	schema, ok := schemas.Lookup(a.job.SchemaID)
	if !ok {
		return nil, fail(job.CodeInternal, "schema gone")
	}
	result, err := schema.ParseResult(out.Output)
	if err != nil {
		a.log.Error("agent output invalid", "request", a.job.RequestID, "err", err)
		return nil, fail(job.CodeInvalidOutput, "the agent's output breaks its schema")
	}
	if err := check(a.job.Typed, result, out.Artifacts); err != nil {
		return nil, err
	}

	made, err := a.trajectory(result, out, finished)
	if err != nil {
		a.log.Error("write trajectory", "request", a.job.RequestID, "err", err)
		return nil, fail(job.CodeInternal, "trajectory")
	}
	for _, artifact := range out.Artifacts {
		made.Result.Artifacts = append(made.Result.Artifacts, hashing.Bytes(artifact))
	}
	return made, nil
}

// check holds the result against the request: that the commands ran at
// all, that every artifact listed is there, and that the result is of the kind
// the buyer asked for, where it asked. The error is how the job ends.
func check(req *schemas.Request, result *schemas.Result, artifacts [][]byte) error {
	if err := req.CheckResult(result); err != nil {
		return fail(job.CodeInvalidOutput, "the agent's output does not answer the request")
	}
	out, ok := result.Value.(*schemas.SandboxRunResult)
	if !ok {
		return nil
	}
	if out.Status == schemas.StatusError || out.Status == schemas.StatusCancelled {
		return fail(job.CodeStopped, clip.Text(out.Error, 200)) // the buyer's own commands can do that
	}

	have := map[hashing.Digest]int{}
	for _, artifact := range artifacts {
		have[hashing.Bytes(artifact)] = len(artifact)
	}

	for _, listed := range out.Artifacts {
		if size, ok := have[listed.SHA256]; !ok || int64(size) != listed.SizeBytes {
			return fail(job.CodeInvalidOutput, "an artifact is missing")
		}
	}

	if met, why := req.Value.(*schemas.SandboxRunRequest).ExpectationMet(out); !met {
		return fail(job.CodeExpectationNotMet, why)
	}
	return nil
}

// Conclude tells how the attempt ended, with err if it gave nothing that could be
// recorded. An end of the job is told and carried out at a tick of the run's clock: when
// a payment goes back tells as much as a word.
func (a *Attempt) Conclude(ctx context.Context, err error) error {
	var end *openjob.End
	switch {
	case err == nil:
		a.ended(tickSuccess)
		return nil
	case !errors.As(err, &end):
		return err
	}

	select {
	case <-time.After(untilTick(a.began)):
	case <-ctx.Done():
		return ctx.Err() // the next life runs it again
	}
	status := tickFailure
	if end.Reason.Code == job.CodeDeadline {
		status = tickTimeout
	}
	a.ended(status)
	return err
}
