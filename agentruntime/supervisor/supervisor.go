package supervisor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/cgroup"

	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// Supervisor runs agents. All methods are safe for concurrent use.
type Supervisor struct {
	cfg Config

	mu      sync.Mutex
	workers map[string]*worker
	stopped bool
	loops   sync.WaitGroup
}

// New checks the configuration and prepares the socket directory. Nothing runs
// until Start.
func New(cfg Config) (*Supervisor, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	if err := PrepareSocketDir(cfg.SocketDir); err != nil {
		return nil, err
	}

	// What a killed supervisor left behind. Where there are no cgroups there is
	// nothing.
	if removed, err := cgroup.Sweep(cfg.CgroupRoot); err != nil || len(removed) > 0 {
		cfg.Log.Warn("removed what a killed node left", "cgroups", removed, "err", err)
	}
	return &Supervisor{cfg: cfg, workers: map[string]*worker{}}, nil
}

// Start launches an agent and returns when it has registered its tools, or
// with the reason why it has not; then nothing of it is left and Start may be
// called again. ctx bounds the start only. From then on the agent is restarted
// as its policy says, until Stop.
func (s *Supervisor) Start(ctx context.Context, spec Spec) error {
	if err := spec.fill(s.cfg.MaxFrameBytes, s.cfg.MaxInflight); err != nil {
		return err
	}
	w := &worker{
		cfg: &s.cfg, spec: spec, restarts: intensity{policy: spec.Restart},
		stop: make(chan struct{}), hurry: make(chan struct{}), done: make(chan struct{}),
		restart: make(chan struct{}, 1),
	}
	w.set(StateStarting, "", nil)
	if err := s.add(w); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-w.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	r, err := startRun(ctx, &s.cfg, &w.spec)
	cancel()
	<-watched
	if err != nil {
		s.remove(w)
		return err
	}
	w.set(StateRunning, "", r)
	if missing := w.status().Missing; len(missing) > 0 {
		s.cfg.Log.Warn("declared tools are not registered", "agent", spec.ID, "tools", missing)
	}
	go func() {
		defer s.loops.Done()
		w.loop(r)
	}()
	return nil
}

func (s *Supervisor) add(w *worker) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return ErrStopped
	}
	if s.workers[w.spec.ID] != nil {
		return fmt.Errorf("%w: %s", ErrExists, w.spec.ID)
	}
	s.workers[w.spec.ID] = w
	s.loops.Add(1)
	return nil
}

// remove undoes add.
func (s *Supervisor) remove(w *worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.workers, w.spec.ID)
	close(w.done)
	s.loops.Done()
}

// Call runs a tool and returns its result or an *Error. It returns at the
// latest CancelGrace after its timeout or the end of ctx, provided that
// OnStream returns.
func (s *Supervisor) Call(ctx context.Context, c Call) (Result, error) {
	s.mu.Lock()
	w := s.workers[c.AgentID]
	s.mu.Unlock()

	// Only a declared slot is a route, whatever agents register (K-2).
	if w == nil || !w.spec.declares(c.Tool) {
		s.cfg.Audit(AuditEvent{Time: time.Now().UTC(), Type: auditDenied, Code: wire.CodeRouteNotFound, Reason: "no such slot", RequestID: c.RequestID})
		return Result{}, failf(wire.CodeRouteNotFound, "no route to %s", wire.JoinToolID(c.AgentID, c.Tool))
	}
	session, failure := w.route()
	if failure != nil {
		return Result{}, failure
	}
	result, failure := session.call(ctx, c)
	if failure != nil {
		return result, failure
	}
	return result, nil
}

// Check says why a call would be refused before its agent hears of it, as an
// *Error; nil: it would be sent.
func (s *Supervisor) Check(c Call) error {
	s.mu.Lock()
	w := s.workers[c.AgentID]
	s.mu.Unlock()
	if w == nil || !w.spec.declares(c.Tool) {
		return failf(wire.CodeRouteNotFound, "no route to %s", wire.JoinToolID(c.AgentID, c.Tool))
	}
	session, failure := w.route()
	if failure == nil {
		_, failure = session.prepare(&c)
	}
	if failure != nil {
		return failure
	}
	return nil
}

// Status describes all agents, ordered by id.
func (s *Supervisor) Status() []AgentStatus {
	s.mu.Lock()
	list := make([]*worker, 0, len(s.workers))
	for _, w := range s.workers {
		list = append(list, w)
	}
	s.mu.Unlock()
	all := make([]AgentStatus, 0, len(list))
	for _, w := range list {
		all = append(all, w.status())
	}
	slices.SortFunc(all, func(a, b AgentStatus) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// Restart ends the agent's process, if there is one, and starts a new one; it
// clears the restart limit. It does not wait.
func (s *Supervisor) Restart(id string) error {
	s.mu.Lock()
	w := s.workers[id]
	stopped := s.stopped
	s.mu.Unlock()

	switch {
	case stopped:
		return ErrStopped
	case w == nil:
		return fmt.Errorf("%w: %s", ErrNoAgent, id)
	}

	select {
	case w.restart <- struct{}{}:
	default: // one is asked for already
	}

	return nil
}

// Stop ends all agents: goodbye, SIGTERM, and after StopGrace SIGKILL for the
// whole process group. It returns when no process is left. The end of ctx cuts
// the grace short, and is then returned. Stopping twice is fine.
func (s *Supervisor) Stop(ctx context.Context) error {
	s.mu.Lock()
	s.stopped = true
	var list []*worker
	for _, w := range s.workers {
		list = append(list, w)
		w.halt()
	}

	s.mu.Unlock()
	for _, w := range list {
		w.await(ctx)
	}
	s.loops.Wait()
	return ctx.Err()
}

// StopAgent ends one agent as Stop does, and forgets it: it may be started
// again, also with another Spec. ErrNoAgent if there is none.
func (s *Supervisor) StopAgent(ctx context.Context, id string) error {
	s.mu.Lock()
	w := s.workers[id]
	s.mu.Unlock()
	if w == nil {
		return fmt.Errorf("%w: %s", ErrNoAgent, id)
	}
	w.halt()
	w.await(ctx)
	<-w.done
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.workers[id] == w {
		delete(s.workers, id)
	}
	return ctx.Err()
}

// Tools describes what an agent has registered, ordered by name, whether it is
// routable or not. ErrNoAgent if there is none; nothing while it is down.
func (s *Supervisor) Tools(id string) ([]ToolInfo, error) {
	s.mu.Lock()
	w := s.workers[id]
	s.mu.Unlock()
	if w == nil {
		return nil, fmt.Errorf("%w: %s", ErrNoAgent, id)
	}
	return w.tools(), nil
}
