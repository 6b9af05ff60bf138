package health

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	agentsandbox "github.com/lightwork-market/lightwork/agentruntime/agents/sandbox"
	agenttext "github.com/lightwork-market/lightwork/agentruntime/agents/text"
	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/agentruntime/manifest"
	"github.com/lightwork-market/lightwork/agentruntime/model"
	"github.com/lightwork-market/lightwork/agentruntime/sandbox"
	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/internal/node/builtin"
)

// CheckAgents lists the built-in agent and the configured ones: is the manifest
// readable, and approved as it is? A running node is asked for their state; what
// the configuration says since its start it does not know.
func CheckAgents(ctx context.Context, c *node.Node) []Finding {
	list, err := node.AgentsOf(c).Installed()
	if err != nil {
		return []Finding{{"agents", "fail", err.Error(), ""}}
	}
	running, err := node.AgentsOf(c).Running(ctx)
	if err != nil {
		return []Finding{{"agents", "fail", err.Error(), "restart the node"}}
	}

	var all []Finding
	for _, a := range list {
		f := Finding{"agent", "ok", "approved", ""}
		switch {
		case a.BuiltIn:
			f.Detail = "built in"
		case a.ID == "":
			f = Finding{"agent", "fail", a.Reason, "put a readable " + manifest.FileName + " into " + a.Dir + ", or take the agent out of the configuration"}
		case !a.Approved:
			f.State, f.Detail, f.Fix = "warn", node.NotTwice(a.ID, a.Reason), advice.With(advice.ApproveAgent, a.ID)
		case running != nil:
			f = runs(f, a.ID, running)
		}

		if a.Version != "" {
			f.Detail += ", version " + a.Version
		}
		if len(a.Tools) > 0 && f.State != "fail" {
			f.Detail += ", tools " + strings.Join(a.Tools, " ")
		}
		if a.ID != "" {
			f.Detail = a.ID + ": " + f.Detail
		}
		all = append(all, f)
	}

	return all
}

// runs says of an approved agent what the running node makes of it.
func runs(f Finding, id string, running map[string]host.Status) Finding {
	switch a, known := running[id]; {
	case !known:
		f.State, f.Detail, f.Fix = "warn", "approved, but the running node does not know it", "restart the node: it reads its configuration at the start"
	case a.State == string(supervisor.StateDown), a.State == string(supervisor.StateBackoff), a.State == string(supervisor.StateUnhealthy):
		f.State, f.Detail, f.Fix = "warn", "approved, and "+strings.TrimSuffix(a.State+": "+a.Reason, ": "), advice.With(advice.ReadAgentLog, id)+" has what it printed; "+advice.With(advice.RestartAgent, id)
	}
	return f
}

// CheckEndpoint asks the model's endpoint for its models, which costs nothing.
func CheckEndpoint(ctx context.Context, c *config.Config) []Finding {
	endpoint := builtin.Endpoint(c)
	if endpoint == nil {
		return nil
	}
	f := Finding{"model", "fail", c.Model.BaseURL, "start the endpoint, or correct model in the configuration: until it answers, what it does is not sold"}
	client, err := model.New(endpoint.Client)
	if err != nil {
		f.Detail += ": " + err.Error()
		return []Finding{f}
	}
	defer client.Close()

	names, err := client.Ping(ctx)
	if err != nil {
		f.Detail += ": " + err.Error()
		return []Finding{f}
	}
	f.State, f.Detail = "ok", c.Model.BaseURL+" answers"

	for _, want := range []string{c.Model.Name, c.Model.Embed} {
		if want != "" && len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool {
			return strings.TrimSuffix(name, ":latest") == strings.TrimSuffix(want, ":latest")
		}) {
			f.State, f.Detail, f.Fix = "warn", c.Model.BaseURL+" does not list "+want, "correct model.name and model.embed, unless the endpoint knows it by another name"
		}
	}

	return []Finding{f}
}

// CheckOffers finds job types on offer whose tool the configuration lets nobody
// call, and those that the running node has withdrawn.
func CheckOffers(ctx context.Context, c *node.Node) []Finding {
	var all []Finding
	if _, state, err := node.LookAt(c.ObserveSocket())(ctx); err == nil {
		for _, o := range state.Offers {
			if o.Withdrawn != "" {
				all = append(all, Finding{"offer", "fail", o.Schema + " is withdrawn: " + o.Withdrawn, "it is on offer again once that is mended"})
			}
		}
	}

	for _, o := range c.Provider.Offers {
		id, tool, ok := wire.ToolID(o.Tool).Split()
		if !ok || id == agentsandbox.ID || id == agenttext.ID {
			continue
		}
		f := Finding{"offer", "fail", o.Schema + ": agents[].tools does not name " + o.Tool, "name it there, or correct tool under provider.offers"}
		if dir, _, err := node.AgentsOf(c).Find(id); err != nil {
			f.Detail = o.Schema + ": there is no agent " + id + " with a readable manifest"
			f.Fix = "name its folder under agents, or correct tool under provider.offers"
		} else if node.Contains(node.AgentsOf(c).Slots(dir), tool) {
			continue
		}

		all = append(all, f)
	}

	return all
}

// CheckRoles finds roles of the running node that do not run.
func CheckRoles(ctx context.Context, c *node.Node) []Finding {
	list, err := c.Roles(ctx)
	if errors.Is(err, host.ErrNoNode) {
		return nil
	}
	if err != nil {
		return []Finding{{"roles", "fail", err.Error(), "restart the node"}}
	}

	var all []Finding
	for _, r := range list {
		switch {
		case r.State == node.RoleFailed:
			all = append(all, Finding{"role", "fail", r.Role + " does not run: " + r.Why, r.Hint})
		case r.Why != "":
			all = append(all, Finding{"role", "warn", r.Role + " is " + string(r.State) + ": " + r.Why, ""})
		default:
			all = append(all, Finding{"role", "ok", r.Role + " is " + string(r.State), ""})
		}
	}
	return all
}

// Two checks of sandbox.Check whose failures are one: the trial needs the limits.
const (
	limitsFeature = "memory, pids and cpu limits"
	trialFeature  = "namespaces and read-only system"
)

// CheckSandbox tries the sandbox, and returns the level that it found; none if
// not even least works.
func CheckSandbox(ctx context.Context, least sandbox.Level) (sandbox.Level, []Finding) {
	var all []Finding
	limits := true
	level, features := builtin.TryLevels(ctx, least)
	for _, f := range features {
		found := Finding{"sandbox", "ok", strings.TrimSuffix(f.Name+": "+f.Detail, ": "), f.Fix}
		if !f.OK {
			found.State = "fail"
		}
		limits = limits && (f.OK || f.Name != limitsFeature)
		if f.Name == trialFeature && !f.OK && !limits {
			found.State, found.Detail, found.Fix = "warn", f.Name+": not tried: a trial needs the limits above", ""
		}
		all = append(all, found)
	}

	return level, all
}

// CheckNetwork says whether jobs get the network, and whether the file of
// authorities can be read.
func CheckNetwork(c *config.Config) []Finding {
	f := Finding{"sandbox", "ok", `network policy "full": refused (sandbox.full_network_mb is 0)`, ""}
	if mb := c.Sandbox.FullNetworkMB; mb > 0 {
		f.Detail = fmt.Sprintf(`network policy "full": ports 80 and 443 of public addresses, %d MiB a job`, mb)
	}
	if err := sandbox.CheckAuthorities(c.Path(c.Sandbox.CAFile)); err != nil {
		return []Finding{f, {"sandbox", "fail", "sandbox.ca_file: " + err.Error(), "name a readable PEM file of certificates, or leave it out"}}
	}
	return []Finding{f}
}
