// Package agents has the commands about agents and the tools that they offer: list,
// approve, call, test, log, audit.
package agents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/agentruntime/manifest"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node"
)

// Cmd is lightwork agents.
type Cmd struct {
	List    agentsListCmd    `cmd:"" help:"List agents with their state and the tools that may be called."`
	Show    agentsShowCmd    `cmd:"" help:"Show an agent's manifest, what it asks for and what was approved."`
	Approve agentsApproveCmd `cmd:"" help:"Allow an agent, as it is now, to run, with the permissions you name."`
	Revoke  agentsRevokeCmd  `cmd:"" help:"Take an approval back."`
	Start   agentsStartCmd   `cmd:"" help:"Start an agent of the running node."`
	Stop    agentsStopCmd    `cmd:"" help:"Stop an agent of the running node."`
	Restart agentsRestartCmd `cmd:"" help:"Stop and start an agent, with its manifest as it is now."`
	Logs    agentsLogsCmd    `cmd:"" help:"Show what an agent printed."`
	Audit   agentsAuditCmd   `cmd:"" help:"Show what happened to agents and calls."`
	Call    agentsCallCmd    `cmd:"" help:"Call one tool."`
	Test    agentsTestCmd    `cmd:"" help:"Test an agent against the runtime protocol, and name the lines of the specification that it breaks."`
}

type agentsListCmd struct {
	JSON bool `help:"Print JSON."`
}

// Run lists the agents: as the running node sees them or, without one, as they
// are installed.
func (c agentsListCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	conf, err := app.Open(s, g)
	if errors.Is(err, config.ErrNone) {
		conf, err = node.New(config.In(filepath.Dir(g.Config)), s.Version, s.Log), nil
	}
	if err != nil {
		return err
	}
	list, err := node.AgentsOf(conf).List(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return app.PrintJSON(s.Out, list)
	}

	w := app.NewTable(s.Out)
	fmt.Fprintln(w, "AGENT\tVERSION\tSTATE\tAPPROVAL\tRESTARTS\tCONFINED\tTOOLS")

	for _, a := range list {
		approved := "approved"
		switch {
		case a.BuiltIn:
			approved = "built in"
		case !a.Approved && a.State == "running":
			approved = "CHANGED" // since it was approved and started
		case !a.Approved:
			approved = "NOT APPROVED"
		}

		confined := "-" // it does not run
		switch {
		case a.PID != 0 && a.Confined == "":
			confined = "no"
		case a.PID != 0:
			confined = display.Printable(a.Confined)
		}

		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", cmp.Or(a.ID, a.Dir), display.Printable(a.Version), a.State, approved, a.Restarts, confined, strings.Join(a.Tools, " "))
	}

	if err := w.Flush(); err != nil {
		return err
	}

	for _, a := range list {
		if a.Reason != "" && a.State != "running" {
			fmt.Fprintf(s.Err, "lightwork: %s: %s\n", cmp.Or(a.ID, a.Dir), node.NotTwice(a.ID, a.Reason))
		}
		if !a.Approved && a.ID != "" {
			fmt.Fprintln(s.Err, "  hint:", g.Spell("lightwork agents show "+a.ID+" says what it asks for, lightwork agents approve "+a.ID+" allows it"))
		}
	}

	return nil
}

type agentsShowCmd struct {
	Agent string `arg:"" help:"The agent's id or its folder."`
	JSON  bool   `help:"Print JSON."`
}

// agentView is an agent as agents show prints it.
type agentView struct {
	*manifest.Manifest
	Dir             string             `json:"dir"`
	ManifestHash    string             `json:"manifest_hash"`
	PermissionsHash string             `json:"permissions_hash"`
	Approval        *manifest.Approval `json:"approval"`
	Approved        bool               `json:"approved"`
	Why             string             `json:"why,omitempty"` // why it is not
	Slots           []string           `json:"slots"`
}

// Run shows one agent. It runs nothing of the agent's.
func (c agentsShowCmd) Run(s *app.Streams, g *app.Globals) error {
	conf, err := app.Open(s, g)
	if err != nil {
		return err
	}
	dir, m, err := node.AgentsOf(conf).Find(c.Agent)
	if err != nil {
		return err
	}
	v := agentView{
		Manifest: m, Dir: dir, ManifestHash: m.Hash, PermissionsHash: m.PermissionsHash, Slots: append([]string{}, node.AgentsOf(conf).Slots(dir)...),
	}
	approvals := manifest.At(node.AgentsOf(conf).Dir("approvals"))
	if ap, err := approvals.Get(m.ID); err == nil {
		v.Approval = &ap
	}
	if _, err := approvals.Check(dir, m); err != nil {
		v.Why = err.Error()
	} else {
		v.Approved = true
	}

	if c.JSON {
		return app.PrintJSON(s.Out, v)
	}
	w := tabwriter.NewWriter(s.Out, 2, 8, 2, ' ', 0)
	fmt.Fprintf(w, "agent\t%s %s\n", m.ID, display.Printable(m.Version))
	fmt.Fprintf(w, "name\t%s\n", display.Printable(m.Name))
	fmt.Fprintf(w, "description\t%s\n", display.Printable(strings.ReplaceAll(m.Description, "\n", " ")))
	fmt.Fprintf(w, "source\t%s\n", strings.TrimSpace(display.Printable(m.Source.GitURL)+" "+display.Printable(m.Source.Ref)))
	fmt.Fprintf(w, "folder\t%s\n", dir)
	fmt.Fprintf(w, "starts\t%s\n", display.Printable(strings.Join(m.Command(), " ")))
	fmt.Fprintf(w, "manifest\tsha256 %s\n", m.Hash)
	fmt.Fprintf(w, "tools\t%s\n", strings.Join(v.Slots, " "))

	for _, p := range m.Permissions {
		granted := "asked for"
		if v.Approved && node.Contains(v.Approval.Permissions, p) {
			granted = "granted"
		}
		fmt.Fprintf(w, "permission\t%s (%s)\n", display.Printable(strings.TrimSpace(p)), granted)
	}

	if v.Approved {
		fmt.Fprintf(w, "approved\t%s\n", v.Approval.ApprovedAt.Local().Format(time.DateTime))
	} else {
		fmt.Fprintf(w, "approved\tno: %s\n", node.NotTwice(m.ID, v.Why))
	}

	if err := w.Flush(); err != nil || v.Approved {
		return err
	}
	fmt.Fprintln(s.Err, "lightwork:", g.Spell("lightwork agents approve "+m.ID+" allows it to run"))
	return nil
}

// steer is what start, stop and restart share.
func steer(ctx context.Context, s *app.Streams, g *app.Globals, id, action, done string) error {
	conf, err := app.Open(s, g)
	if err != nil {
		return err
	}
	daemon, err := node.AgentsOf(conf).Dial(ctx)
	if err != nil {
		return err
	}
	if err := daemon.Steer(ctx, id, action); err != nil {
		return advice.Hint(fmt.Errorf("%s %s: %w", action, id, err), "lightwork agents list says how the agents are")
	}

	_, err = fmt.Fprintf(s.Out, "%s is %s\n", id, done)
	return err
}

type agentsStartCmd struct {
	Agent string `arg:"" help:"The agent's id."`
}

// Run starts an agent.
func (c agentsStartCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	return steer(ctx, s, g, c.Agent, "start", "running")
}

type agentsStopCmd struct {
	Agent string `arg:"" help:"The agent's id."`
}

// Run stops an agent.
func (c agentsStopCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	return steer(ctx, s, g, c.Agent, "stop", "stopped")
}

type agentsRestartCmd struct {
	Agent string `arg:"" help:"The agent's id."`
}

// Run restarts an agent.
func (c agentsRestartCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	return steer(ctx, s, g, c.Agent, "restart", "restarted")
}

type agentsLogsCmd struct {
	Agent  string `arg:"" help:"The agent's id."`
	Lines  int    `short:"n" help:"How many lines of the end; 0 for all." default:"100"`
	Before int    `help:"Which run: 0 is the last, 1 the one before it." default:"0"`
}

// Run prints the end of a run's log. The log holds no secret that is known to
// be one, and no control characters.
func (c agentsLogsCmd) Run(s *app.Streams, g *app.Globals) error {
	conf, err := app.Open(s, g)
	if err != nil {
		return err
	}
	files, err := host.Runs(node.AgentsOf(conf).Dir("logs"), c.Agent)
	if err != nil || len(files) == 0 {
		if _, _, unknown := node.AgentsOf(conf).Find(c.Agent); unknown != nil && !strings.HasPrefix(c.Agent, "com.lightwork.") {
			return unknown
		}
		fmt.Fprintf(s.Err, "lightwork: %s has printed nothing\n", c.Agent)
		return nil
	}

	if c.Before < 0 || c.Before >= len(files) {
		return advice.Usage("", "there are %d runs", len(files))
	}
	raw, err := os.ReadFile(files[len(files)-1-c.Before])
	if err != nil {
		return err
	}
	lines := strings.SplitAfter(string(raw), "\n")
	if c.Lines > 0 && len(lines) > c.Lines+1 {
		lines = lines[len(lines)-c.Lines-1:]
	}
	_, err = fmt.Fprint(s.Out, display.Printable(strings.Join(lines, "")))
	return err
}
