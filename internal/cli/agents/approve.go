package agents

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/agentruntime/manifest"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node"
)

type agentsApproveCmd struct {
	Agent       string   `arg:"" help:"The agent's id or its folder."`
	Permissions []string `name:"permission" help:"Grant this permission; repeat for more. None is granted by default." placeholder:"P" sep:"none"`
	All         bool     `help:"Grant every permission that the manifest asks for."`
	JSON        bool     `help:"Print the approval as JSON."`
}

// Run records the operator's consent to these bytes of the manifest, in this
// folder.
func (c agentsApproveCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	conf, err := app.Open(s, g)
	if err != nil {
		return err
	}
	dir, m, err := node.AgentsOf(conf).Find(c.Agent)
	if err != nil {
		return err
	}
	granted := c.Permissions
	if c.All {
		granted = m.Permissions
	}
	approvals, err := manifest.OpenApprovals(node.AgentsOf(conf).Dir("approvals"))
	if err != nil {
		return err
	}
	ap, err := approvals.Approve(dir, m, granted, time.Now())
	if err != nil {
		return advice.Usage("lightwork agents show "+m.ID+" lists what it asks for", "%w", err)
	}
	if c.JSON {
		return app.PrintJSON(s.Out, ap)
	}

	fmt.Fprintf(s.Out, "approved %s %s, manifest sha256 %s\n", m.ID, display.Printable(m.Version), m.Hash)
	lacks := false
	for _, p := range m.Permissions {
		word := "not granted"
		if node.Contains(ap.Permissions, p) {
			word = "granted"
		} else {
			lacks = true
		}
		fmt.Fprintf(s.Out, "  %s: %s\n", word, display.Printable(strings.TrimSpace(p)))
	}

	if lacks {
		fmt.Fprintln(s.Err, "lightwork: it runs without what is not granted; approve it with --permission P or --all to grant more")
	}
	if node.AgentsOf(conf).Slots(dir) == nil {
		fmt.Fprintf(s.Err, "lightwork: the configuration does not name it yet; add\n  agents:\n    - dir: %s\n      tools: [NAME, ...]\n", dir)
		return nil
	}

	running, err := node.AgentsOf(conf).Running(ctx)
	_, known := running[m.ID]
	switch {
	case err != nil, running == nil:
		fmt.Fprintln(s.Err, "lightwork:", g.Spell("lightwork provider run starts it"))
	case known:
		fmt.Fprintln(s.Err, "lightwork:", g.Spell("lightwork agents start "+m.ID+" starts it in the running node"))
	default:
		fmt.Fprintln(s.Err, "lightwork: the running node does not know it: it reads its configuration at the start, so start the node again")
	}

	return nil
}

type agentsRevokeCmd struct {
	Agent string `arg:"" help:"The agent's id."`
}

// Run removes an approval and stops the agent if a node runs it.
func (c agentsRevokeCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	conf, err := app.Open(s, g)
	if err != nil {
		return err
	}
	approvals, err := manifest.OpenApprovals(node.AgentsOf(conf).Dir("approvals"))
	if err != nil {
		return err
	}
	if err := approvals.Revoke(c.Agent); err != nil {
		return advice.Usage("", "%w", err)
	}

	fmt.Fprintf(s.Out, "%s is not approved\n", c.Agent)
	daemon, err := node.AgentsOf(conf).Dial(ctx)
	if errors.Is(err, host.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := daemon.Steer(ctx, c.Agent, "stop"); err != nil {
		return fmt.Errorf("stop it in the running node: %w", err)
	}

	fmt.Fprintf(s.Out, "%s is stopped\n", c.Agent)
	return nil
}
