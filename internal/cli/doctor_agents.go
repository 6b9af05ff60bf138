package cli

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
	"github.com/lightwork-market/lightwork/internal/config"
)

// checkAgents lists the built-in agent and the configured ones: is the manifest
// readable, and approved as it is? A running node is asked for their state; what
// the configuration says since its start it does not know.
func checkAgents(ctx context.Context, c *node) []finding {
	list, err := c.agentsInstalled()
	if err != nil {
		return []finding{{"agents", "fail", err.Error(), ""}}
	}
	running, err := runningAgents(ctx, c)
	if err != nil {
		return []finding{{"agents", "fail", err.Error(), "restart the node"}}
	}
	var all []finding
	for _, a := range list {
		f := finding{"agent", "ok", "approved", ""}
		switch {
		case a.BuiltIn:
			f.Detail = "built in"
		case a.ID == "":
			f = finding{"agent", "fail", a.Reason, "put a readable " + manifest.FileName + " into " + a.Dir + ", or take the agent out of the configuration"}
		case !a.Approved:
			f.State, f.Detail, f.Fix = "warn", notTwice(a.ID, a.Reason), "lightwork agents approve "+a.ID
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

// runningAgents are the agents of the running node, by id; nil without a node.
func runningAgents(ctx context.Context, c *node) (map[string]host.Status, error) {
	node, err := host.Dial(ctx, c.controlSocket())
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
	for _, a := range list {
		running[a.ID] = a
	}
	return running, nil
}

// runs says of an approved agent what the running node makes of it.
func runs(f finding, id string, running map[string]host.Status) finding {
	switch a, known := running[id]; {
	case !known:
		f.State, f.Detail, f.Fix = "warn", "approved, but the running node does not know it", "restart the node: it reads its configuration at the start"
	case a.State == string(supervisor.StateDown), a.State == string(supervisor.StateBackoff), a.State == string(supervisor.StateUnhealthy):
		f.State, f.Detail, f.Fix = "warn", "approved, and "+strings.TrimSuffix(a.State+": "+a.Reason, ": "), "lightwork agents logs "+id+" has what it printed; lightwork agents restart "+id
	}
	return f
}

// checkEndpoint asks the model's endpoint for its models, which costs nothing.
func checkEndpoint(ctx context.Context, c *config.Config) []finding {
	endpoint := endpoint(c)
	if endpoint == nil {
		return nil
	}
	f := finding{"model", "fail", c.Model.BaseURL, "start the endpoint, or correct model in the configuration: until it answers, what it does is not sold"}
	client, err := model.New(endpoint.Client)
	if err != nil {
		f.Detail += ": " + err.Error()
		return []finding{f}
	}
	defer client.Close()
	names, err := client.Ping(ctx)
	if err != nil {
		f.Detail += ": " + err.Error()
		return []finding{f}
	}
	f.State, f.Detail = "ok", c.Model.BaseURL+" answers"
	for _, want := range []string{c.Model.Name, c.Model.Embed} {
		if want != "" && len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool {
			return strings.TrimSuffix(name, ":latest") == strings.TrimSuffix(want, ":latest")
		}) {
			f.State, f.Detail, f.Fix = "warn", c.Model.BaseURL+" does not list "+want, "correct model.name and model.embed, unless the endpoint knows it by another name"
		}
	}
	return []finding{f}
}

// checkOffers finds job types on offer whose tool the configuration lets nobody
// call, and those that the running node has withdrawn.
func checkOffers(ctx context.Context, c *node) []finding {
	var all []finding
	if _, state, err := lookAt(c.observeSocket())(ctx); err == nil {
		for _, o := range state.Offers {
			if o.Withdrawn != "" {
				all = append(all, finding{"offer", "fail", o.Schema + " is withdrawn: " + o.Withdrawn, "it is on offer again once that is mended"})
			}
		}
	}
	for _, o := range c.Provider.Offers {
		id, tool, ok := wire.ToolID(o.Tool).Split()
		if !ok || id == agentsandbox.ID || id == agenttext.ID {
			continue
		}
		f := finding{"offer", "fail", o.Schema + ": agents[].tools does not name " + o.Tool, "name it there, or correct tool under provider.offers"}
		if dir, _, err := c.findAgent(id); err != nil {
			f.Detail = o.Schema + ": there is no agent " + id + " with a readable manifest"
			f.Fix = "name its folder under agents, or correct tool under provider.offers"
		} else if contains(c.tools(dir), tool) {
			continue
		}
		all = append(all, f)
	}
	return all
}

// Two checks of sandbox.Check whose failures are one: the trial needs the limits.
const (
	limitsFeature = "memory, pids and cpu limits"
	trialFeature  = "namespaces and read-only system"
)

// checkSandbox tries the sandbox, and returns the level that it found; none if
// not even least works.
func checkSandbox(ctx context.Context, least sandbox.Level) (sandbox.Level, []finding) {
	var all []finding
	limits := true
	level, features := tryLevels(ctx, least)
	for _, f := range features {
		found := finding{"sandbox", "ok", strings.TrimSuffix(f.Name+": "+f.Detail, ": "), f.Fix}
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

// announcedLevel is how firmly jobs are confined that the built-in sandbox does;
// empty if none are on offer.
func (c *node) announcedLevel() string {
	if !c.SellsSandbox() {
		return ""
	}
	return string(c.level)
}

// checkNetwork says whether jobs get the network, and whether the file of
// authorities can be read.
func checkNetwork(c *config.Config) []finding {
	f := finding{"sandbox", "ok", `network policy "full": refused (sandbox.full_network_mb is 0)`, ""}
	if mb := c.Sandbox.FullNetworkMB; mb > 0 {
		f.Detail = fmt.Sprintf(`network policy "full": ports 80 and 443 of public addresses, %d MiB a job`, mb)
	}
	if err := sandbox.CheckAuthorities(c.Path(c.Sandbox.CAFile)); err != nil {
		return []finding{f, {"sandbox", "fail", "sandbox.ca_file: " + err.Error(), "name a readable PEM file of certificates, or leave it out"}}
	}
	return []finding{f}
}
