package host

import (
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
)

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
	// Confined is what confinement is in force or, of a built-in agent that runs
	// jobs of strangers, how firmly it confines these.
	Confined string `json:"confined,omitempty"`
	// Unlimited says why no cgroup limits memory, processes and processor time; a
	// watchdog then bounds the first two.
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
			if e.broken != nil {
				st.ID = ""
			}
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
			if own, ok := h.cfg.Confined[id]; ok {
				st.Confined = own
			}
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
