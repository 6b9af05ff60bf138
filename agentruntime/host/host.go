// Package host runs the agents that an operator installed and approved, beside
// those built into the node, and lets the operator look at them and steer them
// through a private socket.
package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"

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
	// Confined says how firmly built-in agents, by id, confine what they run.
	Confined  map[string]string
	Installed []Installed
	Approvals *manifest.Approvals
	// Private is the node's data folder, with its keys and the approvals. An agent of the
	// node's own user is not started if its confinement leaves that open. Empty: none.
	Private string
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
	broken    error // of an agent whose manifest says not who it is; its folder is its id

	mu      sync.Mutex // one start or stop at a time
	why     string     // why it was not started; "" if nothing is wrong
	stopped bool       // by the operator
}

// last is why the entry does not run, and whether the operator wants it so.
func (e *entry) last() (why string, stopped bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.why, e.stopped
}

// New reads the manifests of the installed agents, which runs nothing of
// theirs. An agent whose manifest cannot be read, or has the id of another, is not
// started, and List says why.
func New(cfg Config) *Host {
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
		if err == nil && h.entries[m.ID] != nil {
			err = fmt.Errorf("another agent is called %s", m.ID)
		}
		if err != nil {
			h.entries[in.Dir] = &entry{id: in.Dir, installed: in, broken: err}
			continue
		}
		h.entries[m.ID] = &entry{id: m.ID, installed: in}
	}

	return h
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
		if e.broken != nil {
			tools = nil
		}
		for _, tool := range tools {
			all = append(all, id+"/"+tool)
		}
	}

	slices.Sort(all)
	return slices.Compact(all)
}

// StartAll starts the agents that start with the node and do not run. One that
// does not start is left out, and List says why; calling StartAll again tries it
// again. What the operator has stopped stays stopped.
func (h *Host) StartAll(ctx context.Context) {
	known := map[string]bool{}
	for _, st := range h.cfg.Supervisor.Status() {
		known[st.ID] = true
	}

	for _, id := range h.ids() {
		e := h.entries[id]
		before, stopped := e.last()
		if known[id] || e.installed != nil && e.installed.Manual || stopped || ctx.Err() != nil {
			continue
		}
		if err := h.Start(ctx, id); err != nil && ctx.Err() == nil && err.Error() != before {
			h.cfg.Log.Warn("agent not started", "agent", id, "err", err)
		}
	}
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
	e.why, e.stopped = "", false
	if err != nil {
		e.why = err.Error()
	}
	return err
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

	e.why, e.stopped = "stopped by the operator", true
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
