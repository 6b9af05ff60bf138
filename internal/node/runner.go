package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	agentsandbox "github.com/lightwork-market/lightwork/agentruntime/agents/sandbox"
	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/agentruntime/redact"
	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/node/organisms"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/schemas"
)

// The names a paid job travels the pipeline under.
const (
	jobsNamespace = "urn:openagents:jobs:v1"
	jobsProfile   = "paid-job"
	marketSender  = "market"
)

// maxArtifactBytes bounds one artifact read from an agent.
const maxArtifactBytes = 32<<20 - 1<<10

// route says which tool does the jobs of a type.
type route struct {
	schema      *schemas.Schema
	agent, tool string
}

// runner runs jobs: through the pipeline, to a supervised agent process.
type runner struct {
	pipe   *pipeline.Pipeline
	sup    *supervisor.Supervisor
	routes map[string]route // by schema id
	key    string           // the provider's, for provenance
	dir    string           // artifacts on their way
}

var _ provider.Runner = (*runner)(nil)

// routesOf gives each job type on offer the tool that does it.
func routesOf(c *config.Config) (map[string]route, error) {
	routes := map[string]route{}
	for _, o := range c.Provider.Offers {
		s, ok := schemas.Lookup(o.Schema)
		if !ok {
			return nil, fmt.Errorf("unknown schema %q", o.Schema)
		}
		r := route{schema: s}
		r.agent, r.tool, _ = config.OwnTool(s.ID)
		if o.Tool != "" {
			r.agent, r.tool, _ = wire.ToolID(o.Tool).Split()
		}
		routes[string(s.ID)] = r
	}

	return routes, nil
}

// jobsJournal is how long the journal keeps what paid jobs leave: at least as long as
// their quotes promise, which the store makes sure of.
func (c *Node) jobsJournal() pipeline.Retention {
	const day = 24 * time.Hour
	keep := c.Retention.Kept().JournalsMs.Duration()
	if keep == 0 {
		return pipeline.Retention{Policy: pipeline.RetainForever}
	}
	return pipeline.Retention{Policy: pipeline.RetainDays, Days: int((keep + day - 1) / day)}
}

// newRunner builds the pipeline over the agents' tools: one handler a job type.
func newRunner(k *store.Store, sup *supervisor.Supervisor, routes map[string]route, keep pipeline.Retention, providerKey, dir string, log *slog.Logger) (*runner, error) {
	r := &runner{sup: sup, routes: routes, key: providerKey, dir: dir}
	if err := os.RemoveAll(dir); err != nil { // of runs that a crash cut short
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}

	journal := k.PipelineLog(jobsProfile)
	cfg := pipeline.Config{
		Schemas: map[string]pipeline.Validate{},
		Journal: runJournal{journal}, Audit: journal, DirectiveLive: journal.DirectiveLive, Logger: log,
	}

	profile := pipeline.Profile{Name: jobsProfile, Retention: keep}
	for _, tag := range slices.Sorted(maps.Keys(routes)) {
		to := routes[tag]
		name := strings.ReplaceAll(tag, ".", "-")
		cfg.Handlers = append(cfg.Handlers, pipeline.Handler{
			Name: name, Description: to.agent + "/" + to.tool + " does " + tag,
			Tags: []string{tag}, Outputs: []string{tag + organisms.ResultSuffix}, Tool: true, RequiresDirective: true,
			Handle: r.handle,
		})
		profile.Handlers = append(profile.Handlers, name)
		cfg.Schemas[tag] = func(b []byte) error { _, err := to.schema.ParseRequest(b); return err }
		cfg.Schemas[tag+organisms.ResultSuffix] = func(b []byte) error { _, err := to.schema.ParseResult(b); return err }
	}

	cfg.Profiles = []pipeline.Profile{profile}
	var err error
	r.pipe, err = pipeline.New(cfg)
	return r, err
}

// Tool implements provider.Runner.
func (r *runner) Tool(schemaID string) string {
	to := r.routes[schemaID]
	return to.agent + "/" + to.tool
}

// runKey has the *running that a message belongs to.
type runKey struct{}

// running is one run on its way through the pipeline, on one goroutine.
type running struct {
	id     string        // of its request
	dir    string        // for its artifacts; "" if it can have none
	callID string        // of its one call
	call   provider.Call // as the journal has it
}

// runJournal is the journal of runs: it keeps the id of a call in the commit that
// lets it be made, and tells the run what it has of it.
type runJournal struct{ *journal.Log }

// Append implements pipeline.Journal.
func (j runJournal) Append(ctx context.Context, entries ...pipeline.Entry) error {
	run, ok := ctx.Value(runKey{}).(*running)
	if !ok {
		return j.Log.Append(ctx, entries...)
	}
	last := entries[len(entries)-1]
	callID := ""
	if last.Direction == pipeline.Outbound {
		callID = run.callID
	}

	at, err := j.AppendCall(ctx, run.id, callID, entries...)
	switch {
	case err != nil:
	case last.Direction == pipeline.Outbound:
		run.call = provider.Call{Asked: at, Params: last.PayloadHash}
	default:
		run.call.Answered, run.call.Output = at, last.PayloadHash
	}

	return err
}

// Run implements provider.Runner.
func (r *runner) Run(ctx context.Context, run provider.Run) (provider.Outcome, error) {
	now := &running{id: run.RequestID, callID: wire.NewID()}
	if run.SchemaID == string(schemas.SandboxRun) { // only its results list files
		var err error
		if now.dir, err = os.MkdirTemp(r.dir, "run-"); err != nil {
			return provider.Outcome{}, fmt.Errorf("make artifact folder: %w", err)
		}
		defer os.RemoveAll(now.dir)
		if run.Tree != "" {
			if err := os.Link(run.Tree, filepath.Join(now.dir, agentsandbox.TreeFile)); err != nil {
				return provider.Outcome{}, fmt.Errorf("give the agent its files: %w", err)
			}
		}
	}

	ctx, cancel := context.WithTimeout(context.WithValue(ctx, runKey{}, now), run.Timeout)
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
	outcome := provider.Outcome{Output: out.Reply.Payload(), Call: &now.call}
	if now.dir != "" {
		outcome.Artifacts, err = readArtifacts(now.dir, outcome.Output)
	}
	return outcome, err
}

// handle is the pipeline's handler for every job type: one call to its agent.
func (r *runner) handle(ctx context.Context, p pipeline.Payload, _ pipeline.Context) (pipeline.Response, error) {
	call := pipeline.CallFrom(ctx)
	run, ok := ctx.Value(runKey{}).(*running)
	if !ok {
		return pipeline.Response{}, errors.New("no run of this request is under way")
	}
	to, ok := r.routes[p.Tag]
	if !ok {
		return pipeline.Response{}, fmt.Errorf("no tool does %s", p.Tag)
	}
	res, err := r.sup.Call(ctx, supervisor.Call{
		AgentID: to.agent, Tool: to.tool, Input: p.Bytes, CallID: run.callID,
		RequestID: call.RequestID, CorrelationID: call.CorrelationID, CausationID: call.DirectiveID,
		Timeout: organisms.TimeLeft(ctx), ProjectRoot: run.dir,
		OnStream: func(c supervisor.Chunk) { call.Stream(string(c.Channel), redact.Text(c.Text)) },
	})
	var failed *supervisor.Error
	if errors.As(err, &failed) {
		f := pipeline.Failure{Code: failed.Code, Message: failed.Message, Retryable: failed.Retryable}
		if f.Code == wire.CodeInvalidInput && !failed.FromAgent {
			f.Code = wire.CodeInternal // the request is what its job type allows, so it is the tool that does not fit
		}
		return pipeline.Fail(f), nil
	}

	if err != nil {
		return pipeline.Response{}, err
	}
	finished, err := to.schema.FinishResult(res.Output, r.key)
	if err != nil {
		return pipeline.Fail(pipeline.Failure{Code: wire.CodeInvalidOutput, Message: "agent output: " + err.Error()}), nil
	}
	return pipeline.Reply(p.Tag+organisms.ResultSuffix, finished.Canonical), nil
}

// runError turns how a message ended into the reason that the seller reads. A call
// that its agent canceled is the agent's failure: who cancels a job ends its context.
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
	case wire.CodeInvalidOutput:
		reason.Code = provider.CodeInvalidOutput
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
