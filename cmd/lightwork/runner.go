package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	agentsandbox "github.com/lightwork-market/lightwork/agentruntime/agents/sandbox"
	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/internal/kernel"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/schemas"
)

// The names a paid job travels the pipeline under.
const (
	jobsNamespace  = "urn:openagents:jobs:v1"
	jobsProfile    = "paid-job"
	sandboxHandler = "sandbox"
	resultSuffix   = "#result" // of the tag that answers a job's tag
	marketSender   = "market"
)

// maxArtifactBytes bounds one artifact read from an agent.
const maxArtifactBytes = 32 << 20

// runner runs jobs: through the pipeline, to a supervised agent process.
type runner struct {
	pipe *pipeline.Pipeline
	sup  *supervisor.Supervisor
	key  string // the provider's, for provenance
	dir  string // artifacts on their way

	dirs sync.Map // request id -> artifact folder of its current run
}

var _ provider.Runner = (*runner)(nil)

// newRunner builds the pipeline over the sandbox agent. The agent is started
// by start, not here.
func newRunner(k *kernel.Kernel, sup *supervisor.Supervisor, providerKey, dir string, log *slog.Logger) (*runner, error) {
	r := &runner{sup: sup, key: providerKey, dir: dir}
	if err := os.RemoveAll(dir); err != nil { // of runs that a crash cut short
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	s, ok := schemas.Lookup(string(schemas.SandboxRun))
	if !ok {
		return nil, errors.New("no schema for sandbox runs")
	}
	tag := string(schemas.SandboxRun)
	journal := k.PipelineLog(jobsProfile)
	var err error
	r.pipe, err = pipeline.New(pipeline.Config{
		Handlers: []pipeline.Handler{{
			Name: sandboxHandler, Description: "runs commands in a sandbox on this host",
			Tags: []string{tag}, Outputs: []string{tag + resultSuffix}, Tool: true, RequiresDirective: true,
			Handle: r.handle,
		}},
		Profiles: []pipeline.Profile{{Name: jobsProfile, Handlers: []string{sandboxHandler}}},
		Schemas: map[string]pipeline.Validate{
			tag:                func(b []byte) error { _, err := s.ParseRequest(b); return err },
			tag + resultSuffix: func(b []byte) error { _, err := s.ParseResult(b); return err },
		},
		Journal: journal, Audit: journal, DirectiveLive: journal.DirectiveLive, Logger: log,
	})
	return r, err
}

// start launches the agent and waits until it has registered.
func (r *runner) start(ctx context.Context) error {
	return r.sup.Start(ctx, supervisor.Spec{
		ID: agentsandbox.ID, Version: agentsandbox.Version, Tools: []string{agentsandbox.Tool},
		Command: []string{self(), agentCommand, agentSandbox},
	})
}

// Run implements provider.Runner.
func (r *runner) Run(ctx context.Context, run provider.Run) (provider.Outcome, error) {
	dir, err := os.MkdirTemp(r.dir, "run-")
	if err != nil {
		return provider.Outcome{}, fmt.Errorf("make artifact folder: %w", err)
	}
	defer os.RemoveAll(dir)
	r.dirs.Store(run.RequestID, dir)
	defer r.dirs.Delete(run.RequestID)
	ctx, cancel := context.WithTimeout(ctx, run.Timeout)
	defer cancel()
	out, err := r.pipe.Submit(ctx, pipeline.Ingress{
		Namespace: jobsNamespace, Tag: run.SchemaID, Payload: run.Input,
		Thread: pipeline.ThreadID(run.Thread), Profile: jobsProfile, Sender: marketSender,
		DirectiveID: run.DirectiveID, RequestID: run.RequestID, CorrelationID: run.RequestID,
		Stream: run.OnStream,
	})
	if err != nil {
		return provider.Outcome{}, runError(err)
	}
	outcome := provider.Outcome{Output: out.Reply.Payload(), Tool: agentsandbox.ID + "/" + agentsandbox.Tool}
	outcome.Artifacts, err = readArtifacts(dir, outcome.Output)
	return outcome, err
}

// handle is the pipeline's handler for sandbox jobs: one call to the agent.
func (r *runner) handle(ctx context.Context, p pipeline.Payload, _ pipeline.Context) (pipeline.Response, error) {
	call := pipeline.CallFrom(ctx)
	dir, ok := r.dirs.Load(call.RequestID)
	if !ok {
		return pipeline.Response{}, errors.New("no run of this request is under way")
	}
	res, err := r.sup.Call(ctx, supervisor.Call{
		AgentID: agentsandbox.ID, Tool: agentsandbox.Tool, Input: p.Bytes,
		RequestID: call.RequestID, CorrelationID: call.CorrelationID, CausationID: call.DirectiveID,
		Timeout: timeLeft(ctx), ProjectRoot: dir.(string),
		OnStream: func(c supervisor.Chunk) { call.Stream(string(c.Channel), c.Text) },
	})
	var failed *supervisor.Error
	if errors.As(err, &failed) {
		return pipeline.Fail(pipeline.Failure{Code: failed.Code, Message: failed.Message, Retryable: failed.Retryable}), nil
	}
	if err != nil {
		return pipeline.Response{}, err
	}
	s, _ := schemas.Lookup(p.Tag)
	finished, err := s.FinishResult(res.Output, r.key)
	if err != nil {
		return pipeline.Response{}, fmt.Errorf("agent output: %w", err)
	}
	return pipeline.Reply(p.Tag+resultSuffix, finished.Canonical), nil
}

// runError turns how a message ended into what the job's buyer is told.
func runError(err error) error {
	var failed *pipeline.HandlerError
	if !errors.As(err, &failed) {
		return err
	}
	f := failed.Failure
	reason := provider.Reason{Code: provider.CodeAgentFailed, Detail: f.Message}
	switch f.Code {
	case wire.CodeUnavailable, wire.CodeOverloaded, agentsandbox.CodeCannotConfine:
		reason.Code = provider.CodeAgentUnavailable
	case wire.CodeTimeout:
		reason.Code = provider.CodeDeadline
	case wire.CodeInvalidInput:
		reason.Code = provider.CodeInvalidInput
	case wire.CodeCanceled:
		reason.Code = provider.CodeCanceled
	}
	return &provider.RunError{Reason: reason, Retryable: f.Retryable}
}

// readArtifacts reads the files that the result lists, by content hash. The
// agent wrote them; they are opened without following links.
func readArtifacts(dir string, output []byte) ([][]byte, error) {
	var res schemas.SandboxRunResult
	if err := json.Unmarshal(output, &res); err != nil {
		return nil, fmt.Errorf("read result: %w", err)
	}
	var all [][]byte
	seen := map[string]bool{}
	for _, a := range res.Artifacts {
		name := a.SHA256.Hex()
		if seen[name] {
			continue
		}
		seen[name] = true
		data, err := readRegular(filepath.Join(dir, name))
		if err != nil {
			return nil, fmt.Errorf("artifact %s: %w", name, err)
		}
		all = append(all, data)
	}
	return all, nil
}

func readRegular(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() || st.Size() > maxArtifactBytes {
		return nil, errors.New("not a regular file of allowed size")
	}
	return io.ReadAll(io.LimitReader(f, maxArtifactBytes))
}
