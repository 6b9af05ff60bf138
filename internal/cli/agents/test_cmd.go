package agents

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lightwork-market/lightwork/agentruntime/contract"
	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/agentruntime/manifest"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/display"
)

type agentsTestCmd struct {
	Dir  string   `arg:"" optional:"" help:"The agent's folder." type:"existingdir"`
	Only []string `help:"Names of checks; all without it."`
	List bool     `help:"List the checks instead, and the lines of the specification that they are of."`
	JSON bool     `help:"Print JSON."`
}

// Run starts the agent about a hundred times, unconfined and as the caller, and
// plays a node with it, byte by byte.
func (c agentsTestCmd) Run(ctx context.Context, s *app.Streams) error {
	if c.List {
		return c.list(s)
	}
	if c.Dir == "" {
		return advice.Usage("lightwork agents test DIR; --list shows what is checked", "which agent?")
	}

	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return err
	}
	m, err := manifest.Read(filepath.Join(dir, manifest.FileName))
	if err != nil {
		return advice.Usage("docs/build-agents/agents.md says what the file must hold", "%s: %w", dir, err)
	}
	spec := host.SpecOf(&host.Installed{Dir: dir, Unconfined: true}, m, nil)
	if !c.JSON {
		fmt.Fprintf(s.Err, "lightwork: starting %s about a hundred times, as you and unconfined\n", m.ID)
	}
	report, err := contract.Run(ctx, contract.Agent{ID: m.ID, Version: m.Version, Command: spec.Command, Dir: dir, Env: spec.Env}, contract.Options{Only: c.Only})
	if errors.Is(err, contract.ErrUnknownCheck) {
		return advice.Usage("lightwork agents test --list names them", "%w", err)
	}
	if err != nil {
		return err
	}

	if c.JSON {
		err = app.PrintJSON(s.Out, report)
	} else {
		err = printContract(s, report)
	}

	if err == nil && !report.OK() {
		err = advice.Exit(advice.ExitFailed)
	}
	return err
}

// printContract shows what failed in full; what was skipped is a line for each
// reason, since one reason often skips them all.
func printContract(s *app.Streams, r *contract.Report) error {
	skipped := map[string][]string{}
	for _, res := range r.Results {
		switch res.Status {
		case contract.Passed:
			continue
		case contract.Skipped:
			skipped[res.Detail] = append(skipped[res.Detail], res.Name)
			continue
		}
		fmt.Fprintf(s.Out, "%s  %s  (%s)\n        %s\n", res.Status, res.Name, strings.Join(res.Lines, " "), display.Printable(res.About))
		for line := range strings.Lines(display.Printable(res.Detail)) {
			fmt.Fprintf(s.Out, "        %s\n", strings.TrimRight(line, "\n"))
		}
	}

	for _, why := range slices.Sorted(maps.Keys(skipped)) {
		fmt.Fprintf(s.Out, "skipped  %s: %s\n", display.Printable(why), strings.Join(skipped[why], " "))
	}
	_, err := fmt.Fprintf(s.Out, "%d checks passed, %d failed, %d skipped\n", r.Count(contract.Passed), r.Count(contract.Failed), r.Count(contract.Skipped))
	return err
}

func (c agentsTestCmd) list(s *app.Streams) error {
	checks, err := contract.Checks()
	if err != nil {
		return err
	}
	if c.JSON {
		return app.PrintJSON(s.Out, checks)
	}

	w := app.NewTable(s.Out)
	fmt.Fprintln(w, "CHECK\tLINES\tWHAT")
	for _, check := range checks {
		fmt.Fprintf(w, "%s\t%s\t%s\n", check.Name, strings.Join(check.Lines, " "), check.About)
	}
	return w.Flush()
}
