// Package host runs the agents that an operator installed and approved, beside
// those built into the node, and lets the operator look at them and steer them
// through a private socket.
package host

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/cgroup"
	"github.com/lightwork-market/lightwork/agentruntime/guard"
	"github.com/lightwork-market/lightwork/agentruntime/manifest"
	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
)

// Errors of a Host.
var (
	// ErrUnknownAgent: no agent of this id is configured.
	ErrUnknownAgent = errors.New("no such agent is configured")
	// ErrBuiltIn: the node cannot do without the agent.
	ErrBuiltIn = errors.New("built into the node")
)

// Installed is an agent in a folder of its own, as the configuration names it.
type Installed struct {
	Dir string // absolute; holds the manifest
	// Tools are the slots: nothing else the agent registers can be called (K-2).
	Tools []string
	// Env is what the agent finds in its environment, NAME=value.
	Env []string
	// Read lists what it may read beside the system's programs and its folder.
	Read []string
	// Unconfined leaves it everything that its user can reach.
	Unconfined bool
	UID, GID   int // 0: the node's own
	// Manual agents are started by the operator, not with the node.
	Manual bool
}

// Config sets up a Host.
type Config struct {
	Supervisor *supervisor.Supervisor
	BuiltIn    []supervisor.Spec // trusted: part of the program
	Installed  []Installed
	Approvals  *manifest.Approvals
	// Directive records that a person allowed one call of a tool that needs a
	// directive, and returns its id.
	Directive func(ctx context.Context, agent, tool string) (string, error)
	// Invoke makes a person's call of a tool: through the node's pipeline. Nil:
	// straight to the agent, for a call without a node.
	Invoke func(ctx context.Context, c supervisor.Call) (supervisor.Result, error)
	// Ask puts a need of a person's to the node's organism. Nil: there is none.
	Ask func(ctx context.Context, req AskRequest, emit func(CallEvent)) (json.RawMessage, error)
	// Node are further calls of the operator's that the node itself answers, by
	// name. They take and give JSON.
	Node map[string]func(ctx context.Context, request json.RawMessage) (any, error)
	Log  *slog.Logger // nil discards
}

// Host knows all agents of a node. Its methods are safe for concurrent use.
type Host struct {
	cfg     Config
	entries map[string]*entry // by agent id; the map never changes
}

type entry struct {
	id        string
	installed *Installed // nil: built in
	builtIn   supervisor.Spec

	mu  sync.Mutex // one start or stop at a time
	why string     // why it was not started; "" if nothing is wrong
}

// New reads the manifests of the installed agents, which runs nothing of
// theirs. A manifest that cannot be read, or an id that comes twice, is an error.
func New(cfg Config) (*Host, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Invoke == nil {
		cfg.Invoke = cfg.Supervisor.Call
	}
	h := &Host{cfg: cfg, entries: map[string]*entry{}}
	for _, s := range cfg.BuiltIn {
		h.entries[s.ID] = &entry{id: s.ID, builtIn: s}
	}
	for i := range cfg.Installed {
		in := &cfg.Installed[i]
		m, err := manifest.Read(filepath.Join(in.Dir, manifest.FileName))
		if err != nil {
			return nil, fmt.Errorf("agent in %s: %w", in.Dir, err)
		}
		if h.entries[m.ID] != nil {
			return nil, fmt.Errorf("agent in %s: another agent is called %s", in.Dir, m.ID)
		}
		h.entries[m.ID] = &entry{id: m.ID, installed: in}
	}
	return h, nil
}

// Slots are the tools that the configuration declares, as AGENT/TOOL, sorted.
// Nothing else can be called, whatever an agent registers.
func (h *Host) Slots() []string {
	var all []string
	for _, id := range h.ids() {
		e := h.entries[id]
		tools := e.builtIn.Tools
		if e.installed != nil {
			tools = e.installed.Tools
		}
		for _, tool := range tools {
			all = append(all, id+"/"+tool)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// StartAll starts the agents that start with the node. A built-in agent that
// does not start is an error; an installed one is left out, and List says why.
func (h *Host) StartAll(ctx context.Context) error {
	for _, id := range h.ids() {
		e := h.entries[id]
		if e.installed != nil && e.installed.Manual {
			continue
		}
		err := h.Start(ctx, id)
		switch {
		case err == nil:
		case e.installed == nil:
			return err
		default:
			h.cfg.Log.Warn("agent not started", "agent", id, "err", err)
		}
	}
	return nil
}

// Start launches an agent and returns when it has registered. One that runs is fine.
func (h *Host) Start(ctx context.Context, id string) error {
	e, err := h.entry(id)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	spec, err := h.spec(e)
	if err == nil {
		err = h.cfg.Supervisor.Start(ctx, spec)
	}
	if errors.Is(err, supervisor.ErrExists) {
		err = nil
	}
	e.why = ""
	if err != nil {
		e.why = err.Error()
	}
	return err
}

// spec makes an agent's Spec from its manifest as it is now and what was
// approved of it; manifest.ErrNotApproved.
func (h *Host) spec(e *entry) (supervisor.Spec, error) {
	if e.installed == nil {
		return e.builtIn, nil
	}
	m, approval, err := h.approved(e)
	if err != nil {
		return supervisor.Spec{}, err
	}
	spec := SpecOf(e.installed, m, approval.Permissions)
	spec.Allow = func() error {
		_, _, err := h.approved(e)
		return err
	}
	return spec, nil
}

func (h *Host) approved(e *entry) (*manifest.Manifest, manifest.Approval, error) {
	m, err := manifest.Read(filepath.Join(e.installed.Dir, manifest.FileName))
	if err != nil {
		return nil, manifest.Approval{}, err
	}
	if m.ID != e.id {
		return nil, manifest.Approval{}, &manifest.DriftError{AgentID: e.id, What: "id"}
	}
	ap, err := h.cfg.Approvals.Check(e.installed.Dir, m)
	return m, ap, err
}

// Defaults where a manifest is silent (OSX-11).
const (
	defaultCallTime   = 15 * time.Second
	defaultConcurrent = 3
	defaultMemoryMB   = 256
	// Of processes and threads; OSX-11 has none for them, and a share of a core
	// is no default here: it would slow every start.
	defaultProcesses = 128
)

// SpecOf is how an installed agent runs with the permissions that it was
// granted. A program that is a path is one below the agent's folder.
func SpecOf(in *Installed, m *manifest.Manifest, granted []string) supervisor.Spec {
	command := m.Command()
	if strings.Contains(command[0], "/") && !filepath.IsAbs(command[0]) {
		command[0] = filepath.Join(in.Dir, command[0])
	}
	l := m.ExecutionLimits
	spec := supervisor.Spec{
		ID: m.ID, Version: m.Version, Command: command, Dir: in.Dir, Env: in.Env,
		UID: in.UID, GID: in.GID, ManifestHash: m.Hash, Tools: in.Tools,
		Limits: supervisor.Limits{
			CallTimeout: defaultCallTime, Concurrent: defaultConcurrent,
			OpenFiles: uint64(l.OpenFiles),
			Group: cgroup.Limits{
				MemoryBytes: cmp.Or(l.MemoryMB, defaultMemoryMB) << 20,
				Pids:        int(cmp.Or(l.Processes, defaultProcesses)),
				CPUs:        float64(l.CPUMillis) / 1000,
			},
		},
	}
	if !in.Unconfined {
		spec.Confine = confinement(in, command[0], granted)
		spec.Env = append([]string{"TMPDIR=" + in.Dir}, in.Env...)
	}
	if l.MaxToolCallDurationSecs > 0 {
		spec.Limits.CallTimeout = time.Duration(l.MaxToolCallDurationSecs) * time.Second
	}
	if l.MaxConcurrentCalls > 0 {
		spec.Limits.Concurrent = l.MaxConcurrentCalls
	}
	return spec
}

// Permits reports whether an agent may use a tool of another's: it was granted
// tool:invoke:AGENT/TOOL, or is built in. An agent that is not approved may
// nothing.
func (h *Host) Permits(agent, toolID string) bool {
	e, err := h.entry(agent)
	if err != nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.installed == nil {
		return true
	}
	_, approval, err := h.approved(e)
	return err == nil && slices.Contains(approval.Permissions, permitInvoke+toolID)
}

// system is what every program needs to run at all. /etc as a whole holds
// secrets that root may read, so it is not among it.
var system = [...]string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/proc", "/dev/random", "/dev/urandom",
	"/etc/alternatives", "/etc/ca-certificates", "/etc/fonts", "/etc/group", "/etc/hosts", "/etc/host.conf", "/etc/ld.so.cache",
	"/etc/localtime", "/etc/mime.types", "/etc/nsswitch.conf", "/etc/os-release", "/etc/passwd", "/etc/pki", "/etc/protocols",
	"/etc/resolv.conf", "/etc/services", "/etc/ssl", "/etc/timezone",
}

// Forms of permissions that the node knows. Others mean something to the agent
// alone.
const (
	permitRead    = "filesystem:read:"
	permitWrite   = "filesystem:write:"
	permitNetwork = "network:egress:"
	permitInvoke  = "tool:invoke:" // what a pipeline's table may then have
)

// confinement is what the agent may reach: the system's programs, its own
// folder, and what it was granted. A granted host opens the network: Landlock
// knows ports, not names.
func confinement(in *Installed, program string, granted []string) *guard.Confinement {
	c := &guard.Confinement{
		Read:  append(system[:len(system):len(system)], in.Read...),
		Write: []string{in.Dir, "/dev/null", "/dev/zero", "/dev/full"},
	}
	if path, err := exec.LookPath(program); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			c.Read = append(c.Read, path)
		}
	}
	for _, p := range granted {
		switch {
		case strings.HasPrefix(p, permitRead):
			c.Read = append(c.Read, below(p[len(permitRead):]))
		case strings.HasPrefix(p, permitWrite):
			c.Write = append(c.Write, below(p[len(permitWrite):]))
		case strings.HasPrefix(p, permitNetwork):
			c.Network = true
		}
	}
	return c
}

// SystemOnly confines a program of our own to the system's files, what it may
// read beside them, and the network if it needs that.
func SystemOnly(program string, network bool, read ...string) *guard.Confinement {
	c := confinement(&Installed{Dir: "/nonexistent", Read: read}, program, nil)
	c.Network = network
	return c
}

// below is the folder that a pattern such as /srv/texts/** means. A pattern
// within a name cannot be held by Landlock and grants nothing.
func below(pattern string) string {
	pattern = strings.TrimSuffix(strings.TrimSuffix(pattern, "**"), "*")
	if !filepath.IsAbs(pattern) || strings.ContainsAny(pattern, "*?[") {
		return "/nonexistent"
	}
	return filepath.Clean(pattern)
}

// Stop ends an agent. One that does not run is fine.
func (h *Host) Stop(ctx context.Context, id string) error {
	e, err := h.entry(id)
	if err != nil {
		return err
	}
	if e.installed == nil {
		return fmt.Errorf("agent %s: %w", id, ErrBuiltIn)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.why = "stopped by the operator"
	if err := h.cfg.Supervisor.StopAgent(ctx, id); err != nil && !errors.Is(err, supervisor.ErrNoAgent) {
		return err
	}
	return nil
}

// Restart ends an agent and starts it again, with its manifest as it is now.
func (h *Host) Restart(ctx context.Context, id string) error {
	e, err := h.entry(id)
	if err != nil {
		return err
	}
	if e.installed == nil {
		return h.cfg.Supervisor.Restart(id)
	}
	if err := h.Stop(ctx, id); err != nil {
		return err
	}
	return h.Start(ctx, id)
}

// Status is an agent as List shows it.
type Status struct {
	ID       string `json:"agent_id"`
	Version  string `json:"version,omitempty"`
	BuiltIn  bool   `json:"built_in"`
	Dir      string `json:"dir,omitempty"`
	State    string `json:"state"` // a supervisor.State, or "not_started"
	Reason   string `json:"reason,omitempty"`
	Approved bool   `json:"approved"`
	Since    string `json:"since,omitempty"` // RFC 3339
	PID      int    `json:"pid,omitempty"`
	RunID    string `json:"run_id,omitempty"`
	Confined string `json:"confined,omitempty"` // what confinement is in force
	// Unlimited says why memory, processes and processor time are not limited.
	Unlimited string   `json:"unlimited,omitempty"`
	Restarts  int      `json:"restarts"`
	Inflight  int      `json:"calls_in_flight"`
	Tools     []string `json:"tools"`   // that can be called now
	Missing   []string `json:"missing"` // slots that the agent has not registered
}

// StateNotStarted is the state of an agent that the supervisor does not know.
const StateNotStarted = "not_started"

// List describes all agents, ordered by id.
func (h *Host) List() []Status {
	running := map[string]supervisor.AgentStatus{}
	for _, s := range h.cfg.Supervisor.Status() {
		running[s.ID] = s
	}
	list := []Status{}
	for _, id := range h.ids() {
		e := h.entries[id]
		st := Status{ID: id, BuiltIn: e.installed == nil, State: StateNotStarted, Approved: true, Tools: []string{}, Missing: []string{}}
		if e.installed != nil {
			m, _, err := h.approved(e)
			st.Dir, st.Approved = e.installed.Dir, err == nil
			if m != nil {
				st.Version = m.Version
			}
			if err != nil {
				st.Reason = err.Error()
			}
		}
		if s, ok := running[id]; ok {
			st.Version, st.State, st.Reason = s.Version, string(s.State), s.Reason
			st.Since, st.PID, st.RunID, st.Confined = s.Since.Format(time.RFC3339), s.PID, s.RunID, s.Confined
			st.Unlimited = s.Unlimited
			st.Restarts, st.Inflight, st.Tools, st.Missing = s.Restarts, s.Inflight, s.Tools, s.Missing
		} else if st.Reason == "" {
			st.Reason = e.reason()
		}
		list = append(list, st)
	}
	return list
}

func (e *entry) reason() string {
	if !e.mu.TryLock() {
		return "" // it is being started or stopped
	}
	defer e.mu.Unlock()
	return e.why
}

// Tools lists what the running agents registered, ordered by tool id.
func (h *Host) Tools() []supervisor.ToolInfo {
	all := []supervisor.ToolInfo{}
	for _, id := range h.ids() {
		if tools, err := h.cfg.Supervisor.Tools(id); err == nil {
			all = append(all, tools...)
		}
	}
	return all
}

func (h *Host) entry(id string) (*entry, error) {
	if e := h.entries[id]; e != nil {
		return e, nil
	}
	return nil, fmt.Errorf("agent %s: %w", id, ErrUnknownAgent)
}

func (h *Host) ids() []string {
	ids := make([]string, 0, len(h.entries))
	for id := range h.entries {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
