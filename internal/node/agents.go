package node

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/agentruntime/manifest"
	"github.com/lightwork-market/lightwork/agentruntime/organism"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node/builtin"
	"github.com/lightwork-market/lightwork/internal/store/journal"
)

// Agents are the agents of a node: those of its configuration, and as they run.
type Agents struct{ c *Node }

// AgentsOf are the agents of a node.
func AgentsOf(c *Node) Agents { return Agents{c} }

// Find resolves an id, or a folder, to one agent of the configuration or
// of the disk.
func (a Agents) Find(name string) (dir string, m *manifest.Manifest, err error) {
	dirs := []string{}
	for _, in := range a.c.Agents {
		dirs = append(dirs, a.c.Path(in.Dir))
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

// Slots are the tools that the configuration gives an agent's folder.
func (a Agents) Slots(dir string) []string {
	for _, in := range a.c.Agents {
		if abs, err := filepath.Abs(a.c.Path(in.Dir)); err == nil && abs == dir {
			return slices.Clone(in.Tools)
		}
	}
	return nil
}

// NotTwice leaves an agent's id off a reason that begins with it.
func NotTwice(id, reason string) string {
	return display.Printable(strings.TrimPrefix(reason, "agent "+id+": "))
}

// List asks the running node, or reads the manifests.
func (a Agents) List(ctx context.Context) ([]host.Status, error) {
	node, err := host.Dial(ctx, a.c.controlSocket())
	if err == nil {
		return node.Agents(ctx)
	}
	if !errors.Is(err, host.ErrNoNode) {
		return nil, err
	}
	return a.Installed()
}

// Installed reads the manifests of the configured agents.
func (a Agents) Installed() ([]host.Status, error) {
	builtIn, err := builtin.BuiltIn(a.c.Config, a.c.Level)
	if err != nil {
		return nil, err
	}

	list := []host.Status{}
	for _, b := range builtIn {
		list = append(list, host.Status{
			ID: b.ID, Version: b.Version, BuiltIn: true, Approved: true, State: host.StateNotStarted, Tools: b.Tools, Missing: []string{},
		})
	}

	installed, err := a.folders()
	if err != nil {
		return nil, err
	}

	approvals := manifest.At(a.Dir("approvals"))
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
func (a Agents) Dial(ctx context.Context) (*host.Client, error) {
	node, err := host.Dial(ctx, a.c.controlSocket())
	if errors.Is(err, host.ErrNoNode) {
		return nil, advice.Hint(host.ErrNoNode, advice.RunProvider+" starts one; "+advice.CallFolder+" needs none")
	}
	return node, err
}

// Running are the agents of the running node, by id; nil without a node.
func (a Agents) Running(ctx context.Context) (map[string]host.Status, error) {
	node, err := host.Dial(ctx, a.c.controlSocket())
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
	for _, st := range list {
		running[st.ID] = st
	}
	return running, nil
}

// Dir is where a provider keeps approvals and logs of its agents.
func (a Agents) Dir(part string) string {
	return filepath.Join(a.c.DataDir("provider"), "agents", part)
}

// controlSocket is where a running provider answers its operator.
func (c *Node) controlSocket() string {
	return filepath.Join(socketDir(c.DataDir("provider")), "control")
}

// folders are those of the configuration, with what it gives each agent.
func (a Agents) folders() ([]host.Installed, error) {
	var all []host.Installed
	for _, one := range a.c.Agents {
		dir, err := filepath.Abs(a.c.Path(one.Dir))
		if err != nil {
			return nil, err
		}
		in := host.Installed{Dir: dir, Tools: one.Tools, UID: one.UID, GID: one.GID, Manual: one.Manual, Unconfined: one.Unconfined}
		in.Read = append(in.Read, display.Self()) // scripts that end in "lightwork agent ..."
		for _, p := range one.Read {
			in.Read = append(in.Read, a.c.Path(p))
		}

		for _, name := range one.EnvFrom {
			if value, ok := os.LookupEnv(name); ok {
				in.Env = append(in.Env, name+"="+value)
			}
		}

		all = append(all, in)
	}

	return all, nil
}

// allSlots are the tools that the configuration declares, as AGENT/TOOL.
func (a Agents) allSlots() (all []string, err error) {
	installed, err := a.folders()
	if err != nil {
		return nil, err
	}
	builtIn, err := builtin.BuiltIn(a.c.Config, a.c.Level)
	if err != nil {
		return nil, err
	}

	for _, in := range installed {
		m, err := manifest.Read(filepath.Join(in.Dir, manifest.FileName))
		if err != nil {
			return nil, advice.Usage("docs/build-agents/agents.md says what the file must hold", "%s: %w", in.Dir, err)
		}
		for _, tool := range in.Tools {
			all = append(all, m.ID+"/"+tool)
		}
	}

	for _, spec := range builtIn {
		for _, tool := range spec.Tools {
			all = append(all, spec.ID+"/"+tool)
		}
	}

	return all, nil
}

// Profiles are the tables that the node will build.
func (a Agents) Profiles() ([]organism.View, error) {
	routes, err := routesOf(a.c.Config)
	if err != nil {
		return nil, err
	}

	keep, err := journal.RetentionOf(a.c.jobsJournal())
	if err != nil {
		return nil, err
	}
	paid := organism.View{Profile: jobsProfile, Journal: string(keep)}
	for _, tag := range slices.Sorted(maps.Keys(routes)) {
		paid.Routes = append(paid.Routes, organism.ViewRoute{
			Tag: tag, Handler: strings.ReplaceAll(tag, ".", "-"), Work: routes[tag].agent + "/" + routes[tag].tool,
		})
	}

	views := []organism.View{paid}
	if a.c.Organism == "" {
		return views, nil
	}
	o, err := organism.Load(a.c.OrganismFile())
	if err != nil {
		return nil, advice.Usage("docs/build-agents/thinking-agents.md has the shape", "%w", err)
	}
	return append(views, o.Views()...), nil
}
