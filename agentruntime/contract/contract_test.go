package contract

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/internal/requirements"
)

func TestReferenceAgentPasses(t *testing.T) {
	requirements.Covers(t, "OSX-16", "OSX-17", "OSX-18")
	report, err := Run(t.Context(), roleAgent(t, "reference"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Results {
		if r.Status != Passed {
			t.Errorf("%s: %s: %s", r.Name, r.Status, r.Detail)
		}
	}
	if !report.OK() {
		t.Error("the report is not OK")
	}
}

// sample is what is played against every broken agent, besides the checks that
// its fault must break.
var sample = []string{
	opening, "heartbeat", "echo", "unknown-tool", "invalid-input", "unknown-fields", "unknown-type-unsolicited", "frames-together",
	"missing-fields", "wrong-payload", "cancel-unknown", "node-gone", "call", "stream", "cancel", "timeout", "output-too-large",
}

// TestBrokenAgents lets the suite find each fault, and nothing else.
func TestBrokenAgents(t *testing.T) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, 4) // most of the time is spent waiting
	reports := map[string]*Report{}
	for name, f := range faults {
		report := &Report{}
		reports[name] = report
		agent := roleAgent(t, name)
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			report.Results = playSome(t.Context(), agent, f.checks)
		})
	}
	wg.Wait()
	for name, f := range faults {
		t.Run(name, func(t *testing.T) { judge(t, f, reports[name]) })
	}
}

// playSome plays the sample and the named checks.
func playSome(ctx context.Context, agent Agent, names []string) []Result {
	checks, err := Checks()
	if err != nil {
		return nil
	}
	checks = slices.DeleteFunc(checks, func(c Check) bool {
		return c.steps != nil && !slices.Contains(sample, c.Name) && !slices.Contains(names, c.Name)
	})
	return newRun(agent, Options{StepTimeout: 6 * time.Second}).all(ctx, checks)
}

func judge(t *testing.T, f fault, report *Report) {
	named := false
	for _, r := range report.Results {
		failed := r.Status == Failed
		if failed != slices.Contains(f.checks, r.Name) {
			t.Errorf("%s: %s: %s", r.Name, r.Status, r.Detail)
		}
		named = named || failed && slices.Contains(r.Lines, f.line)
		if failed && r.Detail == "" {
			t.Errorf("%s does not say why it failed", r.Name)
		}
	}
	if report.OK() || !named {
		t.Errorf("no failed check names %s", f.line)
	}
}

func TestUnknownCheck(t *testing.T) {
	if _, err := Run(t.Context(), roleAgent(t, "reference"), Options{Only: []string{"none"}}); !errors.Is(err, ErrUnknownCheck) {
		t.Errorf("got %v", err)
	}
}

func TestOnly(t *testing.T) {
	report, err := Run(t.Context(), roleAgent(t, "reference"), Options{Only: []string{"call", "ping"}})
	if err != nil || len(report.Results) != 2 || report.Count(Passed) != 2 {
		t.Errorf("%+v, %v", report, err)
	}
}

// TestChecksNameLines: every line that a check names exists, and no two checks
// have one name.
func TestChecksNameLines(t *testing.T) {
	lines, err := requirements.Read()
	if err != nil {
		t.Fatal(err)
	}
	lawIDs := map[string]bool{}
	for _, l := range lines {
		lawIDs[l.ID] = true
	}
	checks, err := Checks()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, c := range checks {
		if names[c.Name] {
			t.Errorf("two checks are called %s", c.Name)
		}
		names[c.Name] = true
		for _, id := range c.Lines {
			if !lawIDs[id] {
				t.Errorf("%s names the unknown line %q", c.Name, id)
			}
		}
	}
	for name, f := range faults {
		for _, check := range f.checks {
			if !names[check] {
				t.Errorf("%s names the unknown check %q", name, check)
			}
		}
	}
}

// TestInterrupted: the end of the context ends a run that waits, and the agent.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	agent := roleAgent(t, "no hello")
	time.AfterFunc(100*time.Millisecond, cancel)
	began := time.Now()
	if _, err := Run(ctx, agent, Options{StepTimeout: time.Minute}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("the run ended %s after", took)
	}
}

func TestNoSuchProgram(t *testing.T) {
	agent := roleAgent(t, "reference")
	agent.Command = []string{"/nonexistent/agent"}
	report, err := Run(t.Context(), agent, Options{})
	if err != nil || report.OK() || report.Count(Failed) != 1 {
		t.Errorf("%+v %v", report, err)
	}
}

func TestRunRefuses(t *testing.T) {
	for _, a := range []Agent{{}, {ID: "a", Version: "1.0.0"}, {ID: "/", Version: "1.0.0", Command: []string{"x"}}, {ID: "a", Version: "1", Command: []string{"x"}}} {
		if _, err := Run(t.Context(), a, Options{}); err == nil {
			t.Errorf("%+v is accepted", a)
		}
	}
}

// TestTokenIsRedacted, even where a shown message ends in the middle of it.
func TestTokenIsRedacted(t *testing.T) {
	requirements.Covers(t, "OS-5.1.2")
	p := newPlayer(newRun(Agent{}, Options{}), "x")
	p.used = []string{"0123456789abcdef"}
	for _, pad := range []int{0, maxShown - 15, maxShown - 8, maxShown - 4, maxShown} {
		got := p.redact(clip(strings.Repeat("-", pad) + "0123456789abcdef" + strings.Repeat("-", maxShown)))
		if strings.Contains(got, "0123") {
			t.Errorf("after %d bytes: %s", pad, got)
		}
	}
}

// TestDocumented: docs/build-agents/agent-protocol.md lists the checks as they are.
func TestDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../docs/build-agents/agent-protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	checks, err := Checks()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range checks {
		row := "| `" + c.Name + "` | " + c.About + " | " + strings.Join(c.Lines, " ") + " |\n"
		if !strings.Contains(string(doc), row) {
			t.Errorf("docs/build-agents/agent-protocol.md lacks\n%s", row)
		}
	}
}
