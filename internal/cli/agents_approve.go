package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/agentruntime/manifest"
)

type agentsApproveCmd struct {
	Agent       string   `arg:"" help:"The agent's id or its folder."`
	Permissions []string `name:"permission" help:"Grant this permission; repeat for more. None is granted by default." placeholder:"P" sep:"none"`
	All         bool     `help:"Grant every permission that the manifest asks for."`
	JSON        bool     `help:"Print the approval as JSON."`
}

// Run records the operator's consent to these bytes of the manifest, in this
// folder.
func (c agentsApproveCmd) Run(ctx context.Context, s *streams, g *globals) error {
	conf, err := loadConfig(g.Config)
	if err != nil {
		return err
	}
	dir, m, err := conf.findAgent(c.Agent)
	if err != nil {
		return err
	}
	granted := c.Permissions
	if c.All {
		granted = m.Permissions
	}
	approvals, err := manifest.OpenApprovals(conf.agentDir("approvals"))
	if err != nil {
		return err
	}
	ap, err := approvals.Approve(dir, m, granted, time.Now())
	if err != nil {
		return usage("lightwork agents show "+m.ID+" lists what it asks for", "%w", err)
	}
	if c.JSON {
		return printJSON(s.out, ap)
	}
	fmt.Fprintf(s.out, "approved %s %s, manifest sha256 %s\n", m.ID, printable(m.Version), m.Hash)
	lacks := false
	for _, p := range m.Permissions {
		word := "not granted"
		if contains(ap.Permissions, p) {
			word = "granted"
		} else {
			lacks = true
		}
		fmt.Fprintf(s.out, "  %s: %s\n", word, printable(strings.TrimSpace(p)))
	}
	if lacks {
		fmt.Fprintln(s.err, "lightwork: it runs without what is not granted; approve it with --permission P or --all to grant more")
	}
	if conf.tools(dir) == nil {
		fmt.Fprintf(s.err, "lightwork: the configuration does not name it yet; add\n  agents:\n    - dir: %s\n      tools: [NAME, ...]\n", dir)
		return nil
	}
	running, err := runningAgents(ctx, conf)
	_, known := running[m.ID]
	switch {
	case err != nil, running == nil:
		fmt.Fprintln(s.err, "lightwork:", g.spell("lightwork provider run starts it"))
	case known:
		fmt.Fprintln(s.err, "lightwork:", g.spell("lightwork agents start "+m.ID+" starts it in the running node"))
	default:
		fmt.Fprintln(s.err, "lightwork: the running node does not know it: it reads its configuration at the start, so start the node again")
	}
	return nil
}

type agentsRevokeCmd struct {
	Agent string `arg:"" help:"The agent's id."`
}

// Run removes an approval and stops the agent if a node runs it.
func (c agentsRevokeCmd) Run(ctx context.Context, s *streams, g *globals) error {
	conf, err := loadConfig(g.Config)
	if err != nil {
		return err
	}
	approvals, err := manifest.OpenApprovals(conf.agentDir("approvals"))
	if err != nil {
		return err
	}
	if err := approvals.Revoke(c.Agent); err != nil {
		return usage("", "%w", err)
	}
	fmt.Fprintf(s.out, "%s is not approved\n", c.Agent)
	node, err := host.Dial(ctx, conf.controlSocket())
	if errors.Is(err, host.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := node.Steer(ctx, c.Agent, "stop"); err != nil {
		return fmt.Errorf("stop it in the running node: %w", err)
	}
	fmt.Fprintf(s.out, "%s is stopped\n", c.Agent)
	return nil
}
