package contract

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// Agent is what is tested: what its manifest says of it and how it starts.
type Agent struct {
	ID      string
	Version string
	Command []string // program and arguments; a path (from Dir, if relative) or a name looked up in PATH
	Dir     string   // working directory; "" is that of the caller
	Env     []string // NAME=value. Nothing is inherited but PATH
}

// Options tune a run; the zero value is fine.
type Options struct {
	Only        []string      // names of checks; none means all
	Parallel    int           // agents that run at the same time; 0 means 4 per processor
	StepTimeout time.Duration // how long a step waits for the agent; 0 means 10 s
}

// Check is one thing that is checked of an agent.
type Check struct {
	Name  string   `json:"name"`
	About string   `json:"about"`           // one sentence or two
	Lines []string `json:"lines"`           // specification lines, such as "OS-4.4.2.1"
	Needs []string `json:"needs,omitempty"` // tools that the agent must offer
	steps []step   // nil for a watch
}

// Status is how a check ended.
type Status string

const (
	Passed  Status = "passed"
	Failed  Status = "failed"
	Skipped Status = "skipped"
)

// Result is the outcome of one check.
type Result struct {
	Check
	Status Status `json:"status"`
	Detail string `json:"detail,omitempty"` // why it did not pass; holds no session token
}

// Report holds the results in the order of Checks.
type Report struct {
	Results []Result `json:"results"`
}

// OK reports whether nothing failed and something passed.
func (r *Report) OK() bool { return r.Count(Failed) == 0 && r.Count(Passed) > 0 }

// Count returns how many checks ended so.
func (r *Report) Count(s Status) int {
	n := 0
	for _, res := range r.Results {
		if res.Status == s {
			n++
		}
	}
	return n
}

// ErrUnknownCheck means that Options.Only names a check that does not exist.
var ErrUnknownCheck = errors.New("contract: no such check")

// opening is the check that shows whether the others have anything to test.
const opening = "handshake"

// Run tests the agent. What is wrong with the agent is in the report; the
// error is for a run that could not be made or that ctx ended.
//
// The agent runs as the caller, unconfined, about a hundred times. Its process
// group is killed at the end of each; what has left the group is not. Tools are
// called with inputs that they must refuse; those of the reference agent, where
// it offers them, with real ones.
func Run(ctx context.Context, agent Agent, opts Options) (*Report, error) {
	checks, err := Checks()
	if err != nil {
		return nil, err
	}

	for _, name := range opts.Only {
		if !slices.ContainsFunc(checks, func(c Check) bool { return c.Name == name }) {
			return nil, fmt.Errorf("%w: %s", ErrUnknownCheck, name)
		}
	}

	if len(agent.Command) == 0 || !wire.ValidAgentID(agent.ID) || !wire.ValidVersion(agent.Version) {
		return nil, errors.New("contract: the agent needs a command, an id and a semantic version")
	}
	r := newRun(agent, opts)
	results := r.all(ctx, checks)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("test agent: %w", err)
	}

	report := &Report{}
	for _, res := range results {
		if r.selects(res.Name) {
			report.Results = append(report.Results, res)
		}
	}

	return report, nil
}

// run is one Run.
type run struct {
	agent   Agent
	opts    Options
	watch   *watch
	offered []string // tools that the agent registered in the opening
}

func newRun(agent Agent, opts Options) *run {
	if opts.Parallel <= 0 {
		opts.Parallel = 4 * runtime.GOMAXPROCS(0)
	}
	if opts.StepTimeout <= 0 {
		opts.StepTimeout = 10 * time.Second
	}
	return &run{agent: agent, opts: opts, watch: newWatch()}
}

func (r *run) selects(name string) bool {
	return len(r.opts.Only) == 0 || slices.Contains(r.opts.Only, name)
}

// all plays the opening alone, then the other transcripts at the same time,
// then asks the watch.
func (r *run) all(ctx context.Context, checks []Check) []Result {
	results := make([]Result, len(checks)) // each written by one goroutine
	opened := false
	for i, c := range checks {
		if c.Name == opening {
			results[i] = r.play(ctx, c)
			opened = results[i].Status == Passed
		}
	}

	var wg sync.WaitGroup
	slots := make(chan struct{}, r.opts.Parallel)
	for i, c := range checks {
		if c.steps == nil || c.Name == opening {
			continue
		}
		if why := r.skip(c, opened); why != "" {
			results[i] = Result{Check: c, Status: Skipped, Detail: why}
			continue
		}

		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			results[i] = r.play(ctx, c)
		})
	}

	wg.Wait()
	for i, c := range checks {
		if c.steps == nil {
			results[i] = r.watch.result(c)
		}
	}

	return results
}

// skip says why a transcript is not played, "" if it is.
func (r *run) skip(c Check, opened bool) string {
	if !opened {
		return "the agent does not get through the handshake"
	}

	for _, tool := range c.Needs {
		if !slices.Contains(r.offered, tool) {
			return "the agent does not offer " + tool
		}
	}

	// A watch sees what the transcripts play, so it needs them all.
	watches := slices.ContainsFunc(r.opts.Only, func(name string) bool { return watchRules[name].about != "" })
	if !r.selects(c.Name) && !watches {
		return "not asked for"
	}
	return ""
}

// play runs one transcript against a fresh agent.
func (r *run) play(ctx context.Context, c Check) Result {
	p := newPlayer(r, c.Name)
	err := p.all(ctx, c.steps)
	p.end()
	if c.Name == opening {
		for _, t := range p.tools {
			r.offered = append(r.offered, t.Name)
		}
	}

	res := Result{Check: c, Status: Passed}
	var skip skipError
	switch {
	case errors.As(err, &skip):
		res.Status, res.Detail = Skipped, string(skip)
	case err != nil:
		res.Status, res.Detail = Failed, p.redact(strings.TrimRight(err.Error()+"\n"+p.evidence(), "\n"))
	}

	return res
}

// skipError ends a transcript that turns out to have nothing to test.
type skipError string

func (e skipError) Error() string { return string(e) }
