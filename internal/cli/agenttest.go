package cli

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
)

type agentsTestCmd struct {
	Dir  string   `arg:"" optional:"" help:"The agent's folder." type:"existingdir"`
	Only []string `help:"Names of checks; all without it."`
	List bool     `help:"List the checks instead, and the lines of the specification that they are of."`
	JSON bool     `help:"Print JSON."`
}

// Run starts the agent about a hundred times, unconfined and as the caller, and
// plays a node with it, byte by byte.
func (c agentsTestCmd) Run(ctx context.Context, s *streams) error {
	if c.List {
		return c.list(s)
	}
	if c.Dir == "" {
		return usage("lightwork agents test DIR; --list shows what is checked", "which agent?")
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return err
	}
	m, err := manifest.Read(filepath.Join(dir, manifest.FileName))
	if err != nil {
		return usage("docs/build-agents/agents.md says what the file must hold", "%s: %w", dir, err)
	}
	spec := host.SpecOf(&host.Installed{Dir: dir, Unconfined: true}, m, nil)
	if !c.JSON {
		fmt.Fprintf(s.err, "lightwork: starting %s about a hundred times, as you and unconfined\n", m.ID)
	}
	report, err := contract.Run(ctx, contract.Agent{ID: m.ID, Version: m.Version, Command: spec.Command, Dir: dir, Env: spec.Env}, contract.Options{Only: c.Only})
	if errors.Is(err, contract.ErrUnknownCheck) {
		return usage("lightwork agents test --list names them", "%w", err)
	}
	if err != nil {
		return err
	}
	if c.JSON {
		err = printJSON(s.out, report)
	} else {
		err = printContract(s, report)
	}
	if err == nil && !report.OK() {
		err = exitCode(ExitFailed)
	}
	return err
}

// printContract shows what failed in full; what was skipped is a line for each
// reason, since one reason often skips them all.
func printContract(s *streams, r *contract.Report) error {
	skipped := map[string][]string{}
	for _, res := range r.Results {
		switch res.Status {
		case contract.Passed:
			continue
		case contract.Skipped:
			skipped[res.Detail] = append(skipped[res.Detail], res.Name)
			continue
		}
		fmt.Fprintf(s.out, "%s  %s  (%s)\n        %s\n", res.Status, res.Name, strings.Join(res.Lines, " "), printable(res.About))
		for line := range strings.Lines(printable(res.Detail)) {
			fmt.Fprintf(s.out, "        %s\n", strings.TrimRight(line, "\n"))
		}
	}
	for _, why := range slices.Sorted(maps.Keys(skipped)) {
		fmt.Fprintf(s.out, "skipped  %s: %s\n", printable(why), strings.Join(skipped[why], " "))
	}
	_, err := fmt.Fprintf(s.out, "%d checks passed, %d failed, %d skipped\n", r.Count(contract.Passed), r.Count(contract.Failed), r.Count(contract.Skipped))
	return err
}

func (c agentsTestCmd) list(s *streams) error {
	checks, err := contract.Checks()
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.out, checks)
	}
	w := newTable(s.out)
	fmt.Fprintln(w, "CHECK\tLINES\tWHAT")
	for _, check := range checks {
		fmt.Fprintf(w, "%s\t%s\t%s\n", check.Name, strings.Join(check.Lines, " "), check.About)
	}
	return w.Flush()
}
