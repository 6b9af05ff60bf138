package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/agentruntime/manifest"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node/builtin"
)

// FindAgent resolves an id, or a folder, to one agent of the configuration or
// of the disk.
func (c *Node) FindAgent(name string) (dir string, m *manifest.Manifest, err error) {
	dirs := []string{}
	for _, a := range c.Agents {
		dirs = append(dirs, c.Path(a.Dir))
	}
	if st, statErr := os.Stat(name); statErr == nil && st.IsDir() {
		dirs = append([]string{name}, dirs...)
	}

	for i, d := range dirs {
		if dirs[i], err = filepath.Abs(d); err != nil {
			return "", nil, err
		}
		m, err := manifest.Read(filepath.Join(dirs[i], manifest.FileName))
		abs, _ := filepath.Abs(name)
		if err != nil && abs == dirs[i] {
			return "", nil, advice.Usage("docs/build-agents/agents.md says what the file must hold", "%s: %w", dirs[i], err)
		}
		if err == nil && (m.ID == name || abs == dirs[i]) {
			return dirs[i], m, nil
		}
	}

	return "", nil, advice.Usage("name the agent's folder, or its id if it is configured under agents", "no agent %q", name)
}

// Tools are the slots that the configuration gives an agent's folder.
func (c *Node) Tools(dir string) []string {
	for _, a := range c.Agents {
		if abs, err := filepath.Abs(c.Path(a.Dir)); err == nil && abs == dir {
			return slices.Clone(a.Tools)
		}
	}
	return nil
}

// NotTwice leaves an agent's id off a reason that begins with it.
func NotTwice(id, reason string) string {
	return display.Printable(strings.TrimPrefix(reason, "agent "+id+": "))
}

// Agents asks the running node, or reads the manifests.
func Agents(ctx context.Context, c *Node) ([]host.Status, error) {
	node, err := host.Dial(ctx, c.ControlSocket())
	if err == nil {
		return node.Agents(ctx)
	}
	if !errors.Is(err, host.ErrNoNode) {
		return nil, err
	}
	return c.AgentsInstalled()
}

// AgentsInstalled reads the manifests of the configured agents.
func (c *Node) AgentsInstalled() ([]host.Status, error) {
	builtIn, err := builtin.BuiltIn(c.Config, c.Level)
	if err != nil {
		return nil, err
	}

	list := []host.Status{}
	for _, b := range builtIn {
		list = append(list, host.Status{
			ID: b.ID, Version: b.Version, BuiltIn: true, Approved: true, State: host.StateNotStarted, Tools: b.Tools, Missing: []string{},
		})
	}

	installed, err := c.installed()
	if err != nil {
		return nil, err
	}

	approvals := manifest.At(c.AgentDir("approvals"))
	for _, in := range installed {
		st := host.Status{Dir: in.Dir, State: host.StateNotStarted, Tools: append([]string{}, in.Tools...), Missing: []string{}}
		m, err := manifest.Read(filepath.Join(in.Dir, manifest.FileName))
		if err == nil {
			st.ID, st.Version = m.ID, m.Version
			_, err = approvals.Check(in.Dir, m)
		}
		if st.Approved = err == nil; err != nil {
			st.Reason = err.Error()
		}
		list = append(list, st)
	}

	return list, nil
}

// Contains reports a permission in a list, whatever blanks are around it.
func Contains(list []string, p string) bool {
	for _, have := range list {
		if have == strings.TrimSpace(p) {
			return true
		}
	}
	return false
}

// Dial reaches the node that runs on this configuration.
func Dial(ctx context.Context, c *Node) (*host.Client, error) {
	node, err := host.Dial(ctx, c.ControlSocket())
	if errors.Is(err, host.ErrNoNode) {
		return nil, advice.Hint(host.ErrNoNode, "lightwork provider run starts one; agents call --dir DIR needs none")
	}
	return node, err
}

// RunningAgents are the agents of the running node, by id; nil without a node.
func RunningAgents(ctx context.Context, c *Node) (map[string]host.Status, error) {
	node, err := host.Dial(ctx, c.ControlSocket())
	if errors.Is(err, host.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	list, err := node.Agents(ctx)
	if err != nil {
		return nil, err
	}
	running := map[string]host.Status{}
	for _, a := range list {
		running[a.ID] = a
	}
	return running, nil
}
