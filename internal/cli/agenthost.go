package cli

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	agentsandbox "github.com/lightwork-market/lightwork/agentruntime/agents/sandbox"
	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/agentruntime/manifest"
	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/kernel"
	"github.com/lightwork-market/lightwork/internal/store/journal"
)

// agentDir is where a provider keeps approvals and logs of its agents.
func (c *node) agentDir(part string) string {
	return filepath.Join(c.DataDir("provider"), "agents", part)
}

// controlSocket is where a running provider answers its operator.
func (c *node) controlSocket() string {
	return filepath.Join(socketDir(c.DataDir("provider")), "control")
}

// installed are the agents of the configuration.
func (c *node) installed() ([]host.Installed, error) {
	var all []host.Installed
	for _, a := range c.Agents {
		dir, err := filepath.Abs(c.Path(a.Dir))
		if err != nil {
			return nil, err
		}
		in := host.Installed{Dir: dir, Tools: a.Tools, UID: a.UID, GID: a.GID, Manual: a.Manual, Unconfined: a.Unconfined}
		in.Read = append(in.Read, display.Self()) // scripts that end in "lightwork agent ..."
		for _, p := range a.Read {
			in.Read = append(in.Read, c.Path(p))
		}
		for _, name := range a.EnvFrom {
			if value, ok := os.LookupEnv(name); ok {
				in.Env = append(in.Env, name+"="+value)
			}
		}
		all = append(all, in)
	}
	return all, nil
}

// openHost prepares the agents of a node: supervisor, approvals, logs. close
// ends every agent.
func openHost(ctx context.Context, c *node, k *kernel.Kernel, people *society, desk *debtDesk, log *slog.Logger) (_ *host.Host, _ *supervisor.Supervisor, closeAll func(context.Context) error, err error) {
	approvals, err := manifest.OpenApprovals(c.agentDir("approvals"))
	if err != nil {
		return nil, nil, nil, err
	}
	logs, err := host.OpenLogs(c.agentDir("logs"), log)
	if err != nil {
		return nil, nil, nil, err
	}
	audit := newAuditTrail(k, log)
	defer func() {
		if err != nil {
			audit.close()
		}
	}()
	installed, err := c.installed()
	if err != nil {
		return nil, nil, nil, err
	}
	if err := setAccounts(c.Config, installed, log); err != nil {
		return nil, nil, nil, err
	}
	if err := supervisor.PrepareSocketDir(socketDir(c.DataDir("provider"))); err != nil { // the node's own, see agentSocketDir
		return nil, nil, nil, err
	}
	sup, err := supervisor.New(supervisor.Config{
		SocketDir: agentSocketDir(c.DataDir("provider"), installed), CoreVersion: c.version, Log: log, OnLog: people.told.masking(logs.Write), Audit: audit.add,
	})
	if err != nil {
		return nil, nil, nil, err
	}
	level := c.findLevel(ctx)
	builtIn, err := builtIn(c.Config, c.level)
	if err != nil {
		return nil, nil, nil, err
	}
	if level == "" { // what nothing else needs keeps no node from its other work
		log.Warn("the sandbox is left out: jobs cannot be confined here; lightwork doctor says why")
		builtIn = slices.DeleteFunc(builtIn, func(s supervisor.Spec) bool { return s.ID == agentsandbox.ID })
	}
	calls := &operatorCalls{k: k, sup: tellingSupervisor{sup, people.told}}
	h, err := host.New(host.Config{
		Invoke: calls.invoke, Supervisor: sup, Approvals: approvals, Installed: installed, Log: log, Private: filepath.Dir(c.DataDir("provider")),
		BuiltIn: builtIn, Confined: map[string]string{agentsandbox.ID: "jobs: level " + string(level)}, Ask: people.ask, Node: desk.calls(),
		Directive: func(ctx context.Context, agent, tool string) (string, error) {
			d := journal.Directive{ID: "human-" + rand.Text(), ApprovedBy: fmt.Sprintf("human:uid:%d:%s/%s", os.Geteuid(), agent, tool)}
			d.Key = d.ID
			return d.ID, k.Update(ctx, func(tx *kernel.Tx) error { return tx.RecordDirective(d) })
		},
	})
	if err != nil {
		return nil, nil, nil, advice.Usage("lightwork agents list shows what is configured", "%w", err)
	}
	if err := calls.build(h.Slots(), log); err != nil {
		return nil, nil, nil, err
	}
	return h, sup, func(ctx context.Context) error {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		defer cancel()
		err := sup.Stop(stop)
		leaveSocketDir(c.DataDir("provider"), installed)
		logs.Close()
		audit.close()
		return err
	}, nil
}

// findAgent resolves an id, or a folder, to one agent of the configuration or
// of the disk.
func (c *node) findAgent(name string) (dir string, m *manifest.Manifest, err error) {
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

// tools are the slots that the configuration gives an agent's folder.
func (c *node) tools(dir string) []string {
	for _, a := range c.Agents {
		if abs, err := filepath.Abs(c.Path(a.Dir)); err == nil && abs == dir {
			return slices.Clone(a.Tools)
		}
	}
	return nil
}
