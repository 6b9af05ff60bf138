package markettest

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/schemas"
)

// Runner is an agent that does what the test says; left alone it succeeds.
type Runner struct {
	Key string // of the provider

	mu   sync.Mutex
	runs []provider.Run
	Do   func(ctx context.Context, r provider.Run) (provider.Outcome, error)
}

// Run notes the run and does what the test says.
func (r *Runner) Run(ctx context.Context, run provider.Run) (provider.Outcome, error) {
	r.mu.Lock()
	r.runs = append(r.runs, run)
	do := r.Do
	r.mu.Unlock()
	if do != nil {
		return do(ctx, run)
	}
	return r.Good(nil)
}

// Tool names the agent's tool.
func (r *Runner) Tool(string) string { return "worker/count" }

// Count says how many runs were begun.
func (r *Runner) Count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.runs)
}

// Good is a valid outcome of the usual order, changed by the test.
func (r *Runner) Good(change func(*schemas.SandboxRunResult)) (provider.Outcome, error) {
	file := []byte("one two three\n")
	res := schemas.SandboxRunResult{
		EnvInfo:    schemas.SandboxEnv{ImageDigest: Toolchain()},
		Runs:       []schemas.SandboxRunInfo{{Cmd: "count", StdoutSHA256: hashing.Bytes(file), StderrSHA256: hashing.Bytes(nil), StdoutPreview: string(file)}},
		Artifacts:  []schemas.SandboxArtifact{{Path: "out.txt", SHA256: hashing.Bytes(file), SizeBytes: int64(len(file))}},
		Status:     schemas.StatusSuccess,
		Provenance: schemas.Provenance{ModelID: "worker", ProviderPubkey: r.Key},
	}
	if change != nil {
		change(&res)
	}
	doc, err := json.Marshal(res)
	return provider.Outcome{Output: doc, Artifacts: [][]byte{file}}, err
}

// Hang runs until it is told to stop.
func Hang(ctx context.Context, _ provider.Run) (provider.Outcome, error) {
	<-ctx.Done()
	return provider.Outcome{}, ctx.Err()
}

// Streaming prints, and writes its text once the buyer saw something.
func (w *World) Streaming(seen <-chan string) func(context.Context, provider.Run) (provider.Outcome, error) {
	return func(ctx context.Context, run provider.Run) (provider.Outcome, error) {
		run.OnStream("stdout", "the secret output")
		select {
		case <-seen:
		case <-ctx.Done():
		}
		return w.Words()
	}
}

// Calls are the runs that were begun.
func (r *Runner) Calls() []provider.Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.runs)
}

// Becomes changes what the agent does while the provider is served.
func (r *Runner) Becomes(do func(context.Context, provider.Run) (provider.Outcome, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Do = do
}

// Failing makes every run fail.
func (w *World) Failing() {
	w.Runner.Do = func(context.Context, provider.Run) (provider.Outcome, error) {
		return provider.Outcome{}, &provider.RunError{Reason: provider.Reason{Code: provider.CodeAgentFailed, Detail: "as told"}}
	}
}

// Answer is what writers write.
const Answer = "The banana, \"of course\"."

// Writes makes the world's provider one that writes texts.
func (w *World) Writes(t *testing.T) {
	w.Runner.Do = func(_ context.Context, run provider.Run) (provider.Outcome, error) {
		var asked schemas.TextRequest
		if err := json.Unmarshal(run.Input, &asked); err != nil || !strings.HasPrefix(asked.Prompt, "Which fruit") {
			t.Errorf("asked %s, %v", run.Input, err)
		}
		return w.Words()
	}
	w.Serve(t, func(c *provider.Config) { c.Offers = []provider.Offer{TextOffer()} })
}

// Words is what a writer's run comes to.
func (w *World) Words() (provider.Outcome, error) {
	doc, err := json.Marshal(schemas.TextResult{Text: Answer, Provenance: schemas.Provenance{ModelID: "m", ProviderPubkey: w.Runner.Key}})
	return provider.Outcome{Output: doc}, err
}

// TextOffer sells texts at a fixed price.
func TextOffer() provider.Offer {
	return provider.Offer{SchemaID: string(schemas.TextGeneration), Modes: AllModes, BaseMsats: RateMsats}
}

// Echoes makes the world's provider one whose texts say what they were asked.
func (w *World) Echoes(t *testing.T, change func(*provider.Config)) {
	w.Runner.Do = func(_ context.Context, run provider.Run) (provider.Outcome, error) {
		var asked schemas.TextRequest
		Check(t, json.Unmarshal(run.Input, &asked))
		doc, err := json.Marshal(schemas.TextResult{Text: "<" + asked.Prompt + ">", Provenance: schemas.Provenance{ModelID: "m", ProviderPubkey: w.Runner.Key}})
		return provider.Outcome{Output: doc}, err
	}
	w.Serve(t, func(c *provider.Config) {
		c.Offers = []provider.Offer{TextOffer()}
		if change != nil {
			change(c)
		}
	})
}
