package node

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
	"github.com/lightwork-market/lightwork/internal/node/builtin"
	"github.com/lightwork-market/lightwork/internal/node/organisms"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/store/journal"
)

// openHost prepares the agents of a node: supervisor, approvals, logs. close
// ends every agent.
func openHost(ctx context.Context, c *Node, k *store.Store, people *organisms.Runtime, desk *debtDesk, log *slog.Logger) (_ *host.Host, _ *supervisor.Supervisor, closeAll func(context.Context) error, err error) {
	approvals, err := manifest.OpenApprovals(AgentsOf(c).Dir("approvals"))
	if err != nil {
		return nil, nil, nil, err
	}
	logs, err := host.OpenLogs(AgentsOf(c).Dir("logs"), log)
	if err != nil {
		return nil, nil, nil, err
	}
	audit := newAuditTrail(k, log)
	defer func() {
		if err != nil {
			audit.close()
		}
	}()

	installed, err := AgentsOf(c).folders()
	if err != nil {
		return nil, nil, nil, err
	}
	if err := organisms.SetAccounts(c.Config, installed, log); err != nil {
		return nil, nil, nil, err
	}
	if err := supervisor.PrepareSocketDir(socketDir(c.DataDir("provider"))); err != nil { // the node's own, see agentSocketDir
		return nil, nil, nil, err
	}

	sup, err := supervisor.New(supervisor.Config{
		SocketDir: agentSocketDir(c.DataDir("provider"), installed), CoreVersion: c.Version, Log: log, OnLog: people.Told.Masking(logs.Write), Audit: audit.add,
	})
	if err != nil {
		return nil, nil, nil, err
	}
	level := c.findLevel(ctx)
	builtIn, err := builtin.BuiltIn(c.Config, c.Level)
	if err != nil {
		return nil, nil, nil, err
	}
	if level == "" { // what nothing else needs keeps no node from its other work
		log.Warn("the sandbox is left out: jobs cannot be confined here")
		builtIn = slices.DeleteFunc(builtIn, func(s supervisor.Spec) bool { return s.ID == agentsandbox.ID })
	}

	calls := organisms.NewOperatorCalls(k, organisms.TellingSupervisor{Supervisor: sup, Told: people.Told})
	h, err := host.New(host.Config{
		Invoke: calls.Invoke, Supervisor: sup, Approvals: approvals, Installed: installed, Log: log, Private: filepath.Dir(c.DataDir("provider")),
		BuiltIn: builtIn, Confined: map[string]string{agentsandbox.ID: "jobs: level " + string(level)}, Ask: people.Ask, Node: desk.calls(),
		Directive: func(ctx context.Context, agent, tool string) (string, error) {
			d := journal.Directive{ID: "human-" + rand.Text(), ApprovedBy: fmt.Sprintf("human:uid:%d:%s/%s", os.Geteuid(), agent, tool)}
			d.Key = d.ID
			return d.ID, k.Update(ctx, func(tx *store.Tx) error { return tx.RecordDirective(d) })
		},
	})
	if err != nil {
		return nil, nil, nil, advice.Usage(advice.ListAgents+" shows what is configured", "%w", err)
	}
	if err := calls.Build(h.Slots(), log); err != nil {
		return nil, nil, nil, err
	}

	return h, sup, func(ctx context.Context) error {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), StopTime)
		defer cancel()
		err := sup.Stop(stop)
		leaveSocketDir(c.DataDir("provider"), installed)
		logs.Close()
		audit.close()
		return err
	}, nil
}
