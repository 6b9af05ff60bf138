package supervisor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// State is what an agent is doing.
type State string

const (
	StateStarting  State = "starting"
	StateRunning   State = "running"
	StateUnhealthy State = "unhealthy" // runs, but gets no calls
	StateBackoff   State = "backoff"   // ended, will be started again
	StateDown      State = "down"      // ended, needs Restart
	StateStopped   State = "stopped"
)

// worker keeps one agent running. The goroutine of loop owns the current run and the
// restart counter.
type worker struct {
	cfg      *Config
	spec     Spec
	restarts intensity

	stop    chan struct{} // closed by halt
	hurry   chan struct{} // closed when Stop must not wait for SIGTERM to work
	restart chan struct{} // room for one
	done    chan struct{} // closed when loop has returned

	stopping, hurrying sync.Once

	mu     sync.Mutex
	state  State
	reason string // why it is not running
	since  time.Time
	count  int // restarts in all
	run    *run
}

func (w *worker) set(state State, reason string, r *run) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state, w.reason, w.run, w.since = state, reason, r, time.Now().UTC()
}

// halt makes the loop end the agent.
func (w *worker) halt() { w.stopping.Do(func() { close(w.stop) }) }

// await waits until the loop has returned. When ctx ends, it tells the loop to kill the
// agent without grace, and returns at once.
func (w *worker) await(ctx context.Context) {
	select {
	case <-w.done:
	case <-ctx.Done():
		w.hurrying.Do(func() { close(w.hurry) })
	}
}

// route returns the session for a call, or the reason why there is none.
func (w *worker) route() (*session, *Error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state != StateRunning {
		return nil, unavailable("agent %s is %s", w.spec.ID, w.state)
	}
	if s := w.run.session; s.healthy() {
		return s, nil
	}
	return nil, unavailable("agent %s is %s", w.spec.ID, StateUnhealthy)
}

// loop watches the run, and starts the next one when it ends, until stop.
func (w *worker) loop(r *run) {
	defer close(w.done)
	for r != nil {
		r = w.watch(r)
	}
	w.set(StateStopped, "stopped", nil)
}

// watch waits for the end of r and returns the run after it, or nil.
func (w *worker) watch(r *run) *run {
	w.set(StateRunning, "", r)

	select {
	case <-w.stop:
		w.set(StateStopped, "stopping", nil)
		r.end("shutdown", w.cfg.StopGrace, w.hurry)
		return nil
	case <-w.restart:
		w.set(StateStarting, "restart asked for", nil)
		r.end("restart", w.cfg.StopGrace, w.stop)
		w.restarts.reset()
		return w.startAfter(0)
	case <-r.proc.exited:
		return w.afterCrash(r, "process ended: "+r.proc.status, 0)
	case <-r.session.done:
		cause := r.session.endCause()
		grace := w.cfg.StopGrace
		if errors.Is(cause, errRunaway) || errors.Is(cause, errHeartbeat) {
			grace = 0 // the agent does not react, so it will not react to SIGTERM
		}
		return w.afterCrash(r, reasonOf(cause), grace)
	}
}

func (w *worker) afterCrash(r *run, reason string, grace time.Duration) *run {
	w.set(StateBackoff, reason, nil)
	w.cfg.Log.Warn("agent run ended", "agent", w.spec.ID, "run", r.id, "reason", reason)
	r.audit(AuditEvent{Type: auditRunCrashed, Reason: reason})
	r.end("agent fault", grace, w.stop)
	if r.proc.note != "" {
		reason += "; " + r.proc.note
		w.cfg.Log.Warn("agent run ended", "agent", w.spec.ID, "run", r.id, "why", r.proc.note)
	}
	return w.next(reason)
}

// next starts a run after the delay of the restart policy or, if the policy allows no
// more restarts, when an operator asks for one.
func (w *worker) next(reason string) *run {
	wait, ok := w.restarts.next(time.Now())
	if ok {
		w.set(StateBackoff, reason, nil)
		return w.startAfter(wait)
	}
	return w.waitRestart(reason)
}

// waitRestart waits until an operator asks for a restart.
func (w *worker) waitRestart(reason string) *run {
	w.set(StateDown, reason, nil)
	w.cfg.Log.Error("agent stays down", "agent", w.spec.ID, "reason", reason)
	w.cfg.Audit(AuditEvent{Time: time.Now().UTC(), Type: auditDown, AgentID: w.spec.ID, Reason: reason})
	select {
	case <-w.stop:
		return nil
	case <-w.restart:
		w.restarts.reset()
		return w.startAfter(0)
	}
}

// startAfter starts a run after wait. It returns nil if the worker was stopped before.
func (w *worker) startAfter(wait time.Duration) *run {
	timer := time.NewTimer(wait)
	defer timer.Stop()

	select {
	case <-w.stop:
		return nil
	case <-w.restart:
		w.restarts.reset()
	case <-timer.C:
	}

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	quit := make(chan struct{})
	defer close(quit)

	go func() {
		select {
		case <-w.stop:
			cancel()
		case <-quit:
		}
	}()
	w.set(StateStarting, "", nil)
	w.mu.Lock()
	w.count++
	w.mu.Unlock()
	r, err := startRun(ctx, w.cfg, &w.spec)
	if err == nil {
		return r
	}
	if ctx.Err() != nil {
		return nil
	}

	w.cfg.Log.Warn("restart agent", "agent", w.spec.ID, "err", err)
	if refused := (*notAllowed)(nil); errors.As(err, &refused) {
		return w.waitRestart(reasonOf(err)) // trying again would not change the answer
	}
	return w.next(reasonOf(err))
}

// AgentStatus describes one agent.
type AgentStatus struct {
	ID            string
	Version       string
	ManifestHash  string
	State         State
	Reason        string // why it is not running
	Since         time.Time
	Restarts      int // since Start
	PID           int // 0 if there is no process
	RunID         string
	Confined      string // what confinement is in force; "" if none was asked for
	Unlimited     string // why Limits.Group is not in force; "" if it is, or asks for nothing
	SessionID     string
	LastHeartbeat time.Time
	Inflight      int      // calls that the agent has not ended
	Abandoned     int      // those among them that the caller has given up
	Stray         int      // chunks and results that belonged to no call
	Tools         []string // routable: declared and registered
	Missing       []string // declared, not registered
}

func (w *worker) status() AgentStatus {
	w.mu.Lock()
	defer w.mu.Unlock()

	st := AgentStatus{
		ID: w.spec.ID, Version: w.spec.Version, ManifestHash: w.spec.ManifestHash, State: w.state, Reason: w.reason,
		Since: w.since, Restarts: w.count, Tools: []string{}, Missing: []string{},
	}
	if w.run == nil {
		st.Missing = append(st.Missing, w.spec.Tools...)
		return st
	}
	s := w.run.session
	if !s.healthy() {
		st.State, st.Reason = StateUnhealthy, errHeartbeat.Error()
	}
	st.PID, st.RunID, st.SessionID, st.Confined = w.run.proc.pid, w.run.id, s.id, w.run.proc.confined
	st.Unlimited = w.run.proc.unlimited
	s.mu.Lock()
	defer s.mu.Unlock()

	st.LastHeartbeat, st.Inflight, st.Abandoned, st.Stray = s.lastBeat.UTC(), len(s.calls), s.abandoned, s.stray
	for _, name := range w.spec.Tools {
		if s.tools[name] != nil {
			st.Tools = append(st.Tools, name)
		} else {
			st.Missing = append(st.Missing, name)
		}
	}

	slices.Sort(st.Tools)
	return st
}

// ToolInfo is a tool as its agent registered it.
type ToolInfo struct {
	wire.Tool
	Routable bool `json:"routable"` // declared, so calls reach it
}

func (w *worker) tools() []ToolInfo {
	w.mu.Lock()
	defer w.mu.Unlock()

	list := []ToolInfo{}
	if w.run == nil {
		return list
	}
	s := w.run.session
	s.mu.Lock()
	defer s.mu.Unlock()

	for _, t := range s.tools {
		list = append(list, ToolInfo{Tool: t.declared, Routable: w.spec.declares(t.name)})
	}
	slices.SortFunc(list, func(a, b ToolInfo) int { return strings.Compare(a.Name, b.Name) })
	return list
}
