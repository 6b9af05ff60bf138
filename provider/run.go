package provider

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/clip"
	"github.com/lightwork-market/lightwork/provider/internal/openjob"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// errTooLarge: no relay would take the event that tells of the result.
var errTooLarge = errors.New("the result and its list of artifacts fit in no event")

// errBuyerCanceled ends a run's context when the buyer cancels.
var errBuyerCanceled = errors.New("canceled by the buyer")

// run starts the job's next run and carries its result to durability. Only
// the run that Start numbered last can Finish: a run left over from before a
// crash is fenced off.
func (a *actor) run(ctx context.Context, deadline time.Time) error {
	p, job := a.p, a.job.Job
	processing, err := p.processing(ctx, job)
	if err != nil {
		return err
	}
	var d *Directive
	if job.State == StateQuoted { // postpay and free: policy, not payment, approves
		by := a.job.Directive("policy:" + string(job.Mode))
		d = &by
	}

	tool := p.cfg.Runner.Tool(job.SchemaID)
	planned, err := planHash(job, tool)
	if err != nil {
		return fmt.Errorf("hash plan: %w", err)
	}
	number, err := p.cfg.Store.Start(ctx, job.RequestID, d, a.job.ThreadName(), Plan{Deadline: deadline, Hash: planned}, processing)
	if err != nil {
		return fmt.Errorf("record start: %w", err)
	}
	p.tell(StateEvent{RequestID: job.RequestID, State: StateRunning})
	p.pub.Send(processing)
	job.Run, job.State, job.DirectiveID, job.PlanHash = number, StateRunning, a.job.Directive("").ID, planned
	a.job.Job = job
	return a.perform(ctx, tool, deadline)
}

// verdict ends a job that a run of it gave no result for, at a tick of the run's
// clock: when a payment goes back tells as much as a word.
type verdict struct {
	state  State
	reason Reason
	began  time.Time // of the run
	ended  func(status string)
}

func (v *verdict) Error() string { return v.reason.String() }

// failed is the verdict on a job that failed.
func failed(code Code, detail string) error {
	return &verdict{state: StateFailed, reason: because(code, detail)}
}

// perform has the agent do a run that was recorded. ctx ends at its deadline.
func (a *actor) perform(ctx context.Context, tool string, deadline time.Time) error {
	p, job := a.p, a.job.Job
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer during(ctx, func(ctx context.Context) {
		select {
		case <-a.job.Cancel:
			cancel(errBuyerCanceled)
		case <-ctx.Done():
		}
	})()

	began := time.Now().UTC()
	ended := p.tick(ctx, job)
	run := Run{
		RequestID: job.RequestID, Number: job.Run, SchemaID: job.SchemaID, Input: job.Input,
		Thread: a.job.ThreadName(), DirectiveID: job.DirectiveID, Timeout: min(a.job.RunLimit()+runMargin/2, time.Until(deadline)),
		OnStream: func(string, string) {},
	}
	quiet := func() {}
	if showsOutput(job) {
		run.OnStream = p.partials(job)
	} else {
		quiet = during(ctx, func(ctx context.Context) { p.stages(ctx, job, began) })
	}

	asked := time.Now()
	out, err := p.cfg.Runner.Run(ctx, run)
	p.tell(RunEvent{RequestID: job.RequestID, SchemaID: job.SchemaID, Took: time.Since(asked), Err: err})
	quiet()
	if err == nil {
		err = ctx.Err() // what comes after the deadline does not count, nor is it charged (K-47)
	}

	if err != nil {
		err = p.runFailed(ctx, job, began, err)
	} else {
		err = a.finish(ctx, tool, out, began)
	}

	if v := (*verdict)(nil); errors.As(err, &v) {
		v.began, v.ended = began, ended
		return v
	}
	if err == nil {
		ended(tickSuccess)
	}
	return err
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

// conclude carries out a verdict.
func (a *actor) conclude(ctx context.Context, v *verdict) error {
	select {
	case <-time.After(untilTick(v.began)):
	case <-ctx.Done():
		return ctx.Err() // the next life runs it again
	}
	status := tickFailure
	if v.reason.Code == CodeDeadline {
		status = tickTimeout
	}
	v.ended(status)
	return openjob.GiveBack(v.state, v.reason.Code, v.reason.Detail)
}

// runFailed decides what a run without a result means. Nothing of it is
// charged (K-47).
func (p *Provider) runFailed(ctx context.Context, job Job, began time.Time, err error) error {
	base := p.runCtx
	switch {
	case base.Err() != nil:
		return base.Err() // we are stopping; the next life runs it again
	case errors.Is(context.Cause(ctx), errBuyerCanceled):
		return &verdict{state: StateCanceled, reason: because(CodeCanceled, "by the buyer, while running")}
	case ctx.Err() != nil:
		return failed(CodeDeadline, "the job's deadline passed")
	}

	var re *RunError
	switch {
	case errors.As(err, &re):
	case errors.Is(err, context.DeadlineExceeded): // of the run's own time
		re = &RunError{Reason: because(CodeDeadline, "the run took too long")}
	default:
		p.log.Error("run", "request", job.RequestID, "err", err)
		re = &RunError{Reason: because(CodeInternal, "the run failed on this node")}
	}

	if re.Retryable && job.Run < p.limits.Runs {
		select { // the buyer hears of the next run
		case <-time.After(untilTick(began)):
		case <-ctx.Done():
		}
		return fmt.Errorf("run %d: %w", job.Run, err) // the loop begins the next run
	}

	return failed(re.Reason.Code, re.Reason.Detail)
}

// finish checks the output, writes the trajectory, signs the 6050 and makes
// all of it durable in one transaction. From here on the work is not lost.
func (a *actor) finish(ctx context.Context, tool string, out Outcome, started time.Time) error {
	finished := time.Now().UTC()
	p, job := a.p, a.job.Job
	base := p.runCtx
	schema, ok := schemas.Lookup(job.SchemaID)
	if !ok {
		return failed(CodeInternal, "schema gone")
	}
	result, err := schema.ParseResult(out.Output)
	if err != nil {
		p.log.Error("agent output invalid", "request", job.RequestID, "err", err)
		return failed(CodeInvalidOutput, "the agent's output breaks its schema")
	}
	if reason := unexpected(a.job.Typed, result, out.Artifacts); reason.Code != "" {
		return failed(reason.Code, reason.Detail)
	}

	r, replayFile, err := p.trajectory(job, a.job.Typed, result, tool, out, started, finished)
	if err != nil {
		p.log.Error("write trajectory", "request", job.RequestID, "err", err)
		return failed(CodeInternal, "trajectory")
	}
	contents := append([][]byte{replayFile}, out.Artifacts...) // beside the output
	for _, a := range out.Artifacts {
		r.Artifacts = append(r.Artifacts, hashing.Bytes(a))
	}

	var s *sealed
	switch {
	case a.job.IsSealed():
		s, err = p.seal(job, r, replayFile, out.Artifacts)
	case a.job.To.Scheme != "":
		s, err = p.box(job, r, replayFile, out.Artifacts)
	}

	switch {
	case errors.Is(err, errTooLarge):
		return failed(CodeStopped, err.Error())
	case err != nil:
		p.log.Error("seal result", "request", job.RequestID, "err", err)
		return failed(CodeInternal, "sealing")
	}

	if s != nil {
		contents = append(contents, s.boxes...)
	}
	events, err := a.resultEvents(ctx, &r, s, replayFile, out.Artifacts)
	if errors.Is(err, errTooLarge) {
		return failed(CodeStopped, err.Error())
	}
	if err != nil {
		return err
	}

	a.expect(r.EventID)
	p.pub.UploadAhead(p.runCtx, events[0], beside(r, s, replayFile), job.Mode == receipts.ModeHold && !a.job.IsSealed())
	if err := p.cfg.Store.Finish(base, job.RequestID, job.Run, r, contents, events...); err != nil {
		if errors.Is(err, ErrConflict) {
			p.log.Warn("a fenced run ended late", "request", job.RequestID, "run", job.Run)
			return nil
		}
		return fmt.Errorf("record result: %w", err)
	}

	p.tell(StateEvent{RequestID: job.RequestID, State: StateDelivering})
	p.pub.Send(events...)
	a.job.State, a.job.StateAt, a.job.Result = StateDelivering, time.Now().UTC(), &r
	a.job.Keep()
	p.log.Info("result durable", "request", job.RequestID, "output_hash", r.OutputHash, "run", job.Run)
	return nil
}

// unexpected holds the result against the request: that the commands ran at
// all, that every artifact listed is there, and that the result is of the kind
// the buyer asked for, where it asked.
func unexpected(req *schemas.Request, result *schemas.Result, artifacts [][]byte) Reason {
	if err := req.CheckResult(result); err != nil {
		return because(CodeInvalidOutput, "the agent's output does not answer the request")
	}
	out, ok := result.Value.(*schemas.SandboxRunResult)
	if !ok {
		return Reason{}
	}
	if out.Status == schemas.StatusError || out.Status == schemas.StatusCancelled {
		return because(CodeStopped, clip.Text(out.Error, 200)) // the buyer's own commands can do that
	}

	have := map[hashing.Digest]int{}
	for _, a := range artifacts {
		have[hashing.Bytes(a)] = len(a)
	}

	for _, a := range out.Artifacts {
		if size, ok := have[a.SHA256]; !ok || int64(size) != a.SizeBytes {
			return because(CodeInvalidOutput, "an artifact is missing")
		}
	}

	if met, why := req.Value.(*schemas.SandboxRunRequest).ExpectationMet(out); !met {
		return because(CodeExpectationNotMet, why)
	}
	return Reason{}
}
