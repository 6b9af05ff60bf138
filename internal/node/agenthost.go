package node

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	agentsandbox "github.com/lightwork-market/lightwork/agentruntime/agents/sandbox"
	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/agentruntime/manifest"
	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/internal/node/builtin"
	"github.com/lightwork-market/lightwork/internal/node/organisms"
	"github.com/lightwork-market/lightwork/internal/node/retention"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/store/journal"
)

const (
	// StopTime is how long agents get to end when the node stops.
	StopTime = 10 * time.Second
	// agentsLook is how often agents that do not run are started again.
	agentsLook = 15 * time.Second
)

// core is what the roles of a node stand on: its database and its agents.
type core struct {
	*Node
	k      *store.Store
	agents *host.Host
	sup    *supervisor.Supervisor
	people *organisms.Runtime
	tell   *SaleLog
	log    *slog.Logger
	prune  *retention.Stage
	close  func(context.Context) error
}

// openCore opens the node's database, which locks the data folder, and prepares its
// agents. None of them runs yet.
func openCore(ctx context.Context, c *Node, tell *SaleLog, calls nodeCalls, log *slog.Logger) (*core, error) {
	k, err := store.Open(ctx, c.DataDir("provider"), store.Options{Logger: log})
	if err != nil {
		return nil, err
	}
	n := &core{Node: c, k: k, people: organisms.New(k, c.Version, log), tell: tell, log: log}
	stop, err := n.openHost(ctx, calls)
	if err != nil {
		return nil, cmp.Or(err, k.Close())
	}
	if err := n.people.EndInterrupted(ctx, c.Config); err != nil {
		return nil, cmp.Or(err, stop(ctx), k.Close())
	}

	n.close = func(ctx context.Context) error { return cmp.Or(stop(ctx), k.Close()) }
	return n, nil
}

// serve answers the operator, and deletes what the journal need not keep, until ctx
// ends. A signal of reread has the organism read again.
func (n *core) serve(ctx context.Context, reread <-chan os.Signal) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return stopped(ctx, n.agents.Serve(ctx, n.controlSocket())) })
	g.Go(func() error { return pruneHourly(ctx, n.k, n.prune, n.log) })
	g.Go(func() error { return n.people.Serve(ctx, reread, n.tell.say, n.buildOrganism) })
	return g.Wait()
}

// buildOrganism reads the organism's file and makes it of the agents that run.
func (n *core) buildOrganism(ctx context.Context) error {
	return n.people.Build(ctx, n.Config, n.agents, n.sup)
}

// openHost prepares the agents of a node: supervisor, approvals, logs. closeAll
// ends every agent.
func (n *core) openHost(ctx context.Context, answers nodeCalls) (closeAll func(context.Context) error, err error) {
	c, k, log := n.Node, n.k, n.log
	approvals, err := manifest.OpenApprovals(AgentsOf(c).Dir("approvals"))
	if err != nil {
		return nil, err
	}
	logs, err := host.OpenLogs(AgentsOf(c).Dir("logs"), log)
	if err != nil {
		return nil, err
	}
	audit := newAuditTrail(k, log)
	defer func() {
		if err != nil {
			audit.close()
		}
	}()

	installed, err := AgentsOf(c).folders()
	if err != nil {
		return nil, err
	}
	if err := organisms.SetAccounts(c.Config, installed, log); err != nil {
		return nil, err
	}
	if err := supervisor.PrepareSocketDir(socketDir(c.DataDir("provider"))); err != nil { // the node's own, see agentSocketDir
		return nil, err
	}

	sup, err := supervisor.New(supervisor.Config{
		SocketDir: agentSocketDir(c.DataDir("provider"), installed), CoreVersion: c.Version, Log: log, OnLog: n.people.Told.Masking(logs.Write), Audit: audit.add,
	})
	if err != nil {
		return nil, err
	}
	level := c.findLevel(ctx)
	builtIn, err := builtin.BuiltIn(c.Config, c.Level)
	if err != nil {
		return nil, err
	}
	if level == "" { // what nothing else needs keeps no node from its other work
		log.Warn("the sandbox is left out: jobs cannot be confined here")
		builtIn = slices.DeleteFunc(builtIn, func(s supervisor.Spec) bool { return s.ID == agentsandbox.ID })
	}

	calls := organisms.NewOperatorCalls(k, organisms.TellingSupervisor{Supervisor: sup, Told: n.people.Told})
	h := host.New(host.Config{
		Invoke: calls.Invoke, Supervisor: sup, Approvals: approvals, Installed: installed, Log: log, Private: filepath.Dir(c.DataDir("provider")),
		BuiltIn: builtIn, Confined: map[string]string{agentsandbox.ID: "jobs: level " + string(level)}, Ask: n.people.Ask, Node: answers,
		Directive: func(ctx context.Context, agent, tool string) (string, error) {
			d := journal.Directive{ID: "human-" + rand.Text(), ApprovedBy: fmt.Sprintf("human:uid:%d:%s/%s", os.Geteuid(), agent, tool)}
			d.Key = d.ID
			return d.ID, k.Update(ctx, func(tx *store.Tx) error { return tx.RecordDirective(d) })
		},
	})
	if err = calls.Build(h.Slots(), log); err != nil {
		return nil, err
	}

	n.agents, n.sup = h, sup
	return func(ctx context.Context) error {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), StopTime)
		defer cancel()
		err := sup.Stop(stop)
		leaveSocketDir(c.DataDir("provider"), installed)
		logs.Close()
		audit.close()
		return err
	}, nil
}

// pruneHourly deletes what the journal need not keep: of the organism's threads, as
// their profiles say, and of paid jobs what their quotes no longer promise.
func pruneHourly(ctx context.Context, k *store.Store, stage *retention.Stage, log *slog.Logger) error {
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()

	for {
		done, err := stage.Run(ctx)
		if err != nil && ctx.Err() == nil {
			log.Warn("prune what jobs left", "err", err)
		}
		if done.Clock == nil {
			if _, err := k.Prune(ctx, time.Now()); err != nil && ctx.Err() == nil {
				log.Warn("prune the journal", "err", err)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// stopped makes an early nil end the group too.
func stopped(ctx context.Context, err error) error {
	if err == nil && ctx.Err() == nil {
		return context.Canceled
	}
	return err
}

// agentsRole runs the agents that start with the node.
type agentsRole struct{ *core }

// Start implements roles.Role. An agent that does not start costs only what needs it.
func (r agentsRole) Start(ctx context.Context) error {
	r.agents.StartAll(ctx)
	return nil
}

// Serve starts agents again that did not start.
func (r agentsRole) Serve(ctx context.Context) error {
	tick := time.NewTicker(agentsLook)
	defer tick.Stop()

	for {
		select {
		case <-tick.C:
			r.agents.StartAll(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// Stop leaves the agents to the node's end: other roles may still call them.
func (agentsRole) Stop(context.Context) error { return nil }

// Lacks names the agents that do not run, and why.
func (r agentsRole) Lacks() string {
	var missing []string
	for _, st := range r.agents.List() {
		manual := st.State == host.StateNotStarted && st.Reason == ""
		if st.State != string(supervisor.StateRunning) && !manual {
			missing = append(missing, cmp.Or(st.ID, st.Dir)+": "+NotTwice(st.ID, cmp.Or(st.Reason, st.State)))
		}
	}
	return strings.Join(missing, "; ")
}
