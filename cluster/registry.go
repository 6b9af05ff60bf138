package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lightwork-market/lightwork/cluster/event"
	"github.com/lightwork-market/lightwork/cluster/store"
	"github.com/lightwork-market/lightwork/hashing"
)

// registry is what the control plane's records say: who is where, and who can do what.
// It is computed; nobody writes it.
type registry struct {
	self     string
	nodes    map[string]bool
	homes    map[string][]string // of each active agent: one gateway, or several by mistake
	catalogs map[string][]event.Catalog
	routing  string // a version for the trace
	policy   string
}

// readRegistry computes the registry from the records of all gateways.
func readRegistry(tx *store.Tx, self string) (*registry, error) {
	r := &registry{self: self, nodes: map[string]bool{self: true}, homes: map[string][]string{}, catalogs: map[string][]event.Catalog{}}
	control := store.Control{Tx: tx}
	nodes, err := control.Nodes()
	if err != nil {
		return nil, err
	}

	for _, node := range nodes {
		records, err := control.Of(node)
		if err != nil {
			return nil, err
		}
		r.nodes[node] = true
		for _, key := range slices.Sorted(maps.Keys(records)) {
			r.add(node, key, records[key])
		}
	}

	agents, err := hashing.SumValue(r.homes)
	if err != nil {
		return nil, err
	}
	catalogs, err := hashing.SumValue(r.catalogs)
	if err != nil {
		return nil, err
	}
	r.routing, r.policy = "rpv_"+agents.Hex()[:16], "cpv_"+catalogs.Hex()[:16]
	return r, nil
}

// add takes a record that goodRecord took before.
func (r *registry) add(node, key string, value []byte) {
	switch {
	case strings.HasPrefix(key, event.KeyAgent):
		if a, err := event.ParseRecord[event.AgentRecord](value); err == nil && a.Status == event.Active {
			r.homes[a.AgentID] = append(r.homes[a.AgentID], node)
		}
	case strings.HasPrefix(key, event.KeyCatalog):
		if c, err := event.ParseRecord[event.Catalog](value); err == nil {
			r.catalogs[c.CapabilityID] = append(r.catalogs[c.CapabilityID], c)
		}
	}
}

// goodRecord says whether a gateway may write a record: it is of itself, of its agents,
// or of a capability that one of its agents owns, under the key that belongs to it.
func goodRecord(node, key string, value []byte) error {
	foreign := func(of string) error {
		return event.Refuse(event.InvalidEvent, key, "%s wrote it, and it is of %s", node, of)
	}

	switch {
	case strings.HasPrefix(key, event.KeyAgent):
		a, err := event.ParseRecord[event.AgentRecord](value)
		if err == nil && (a.NodeID != node || key != event.KeyAgent+a.AgentID) {
			err = foreign(a.NodeID)
		}
		return err
	case strings.HasPrefix(key, event.KeyCatalog):
		c, err := event.ParseRecord[event.Catalog](value)
		if err == nil && (c.OwnerNodeID != node || key != event.KeyCatalog+c.CapabilityID) {
			err = foreign(c.OwnerNodeID)
		}
		return err
	}
	return event.Refuse(event.InvalidEvent, key, "the key is not known")
}

// active are all active agents but one.
func (r *registry) active(but string) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(r.homes)) {
		if name != but && len(r.homes[name]) == 1 {
			names = append(names, name)
		}
	}
	return names
}

// home is the gateway of an active agent.
func (r *registry) home(agent string) (string, error) {
	nodes := r.homes[agent]
	switch {
	case len(nodes) == 1:
		return nodes[0], nil
	case len(nodes) > 1:
		return "", event.Refuse(event.InvalidTargets, "toAgents", "%s is an agent of several gateways: %s", agent, strings.Join(nodes, ", "))
	case r.nodes[agent]:
		return "", event.Refuse(event.InvalidTargets, "toAgents", "%s is a gateway; name one of its agents", agent)
	}
	return "", event.Refuse(event.InvalidTargets, "toAgents", "%.60q is no active agent", agent)
}

// local refuses an agent that is not active here.
func (r *registry) local(agent string) error {
	node, err := r.home(agent)
	if err == nil && node != r.self {
		err = event.Refuse(event.InvalidTargets, "agent", "%s is an agent of %s", agent, node)
	}
	return err
}

// targets says where the named agents live. All of them have to be active.
func (r *registry) targets(names []string) (map[string]string, error) {
	homes := map[string]string{}
	for _, name := range names {
		node, err := r.home(name)
		if err != nil {
			return nil, err
		}
		homes[name] = node
	}
	return homes, nil
}

// index says which agents serve a capability now.
func (r *registry) index(capability string) event.Index {
	index := event.Index{CapabilityID: capability, EligibleAgentIDs: []string{}, PolicyVersion: r.policy}
	for _, c := range r.catalogs[capability] {
		if c.PublishedAt.After(index.UpdatedAt.Time) {
			index.UpdatedAt = c.PublishedAt
		}
		if node, err := r.home(c.OwnerAgentID); c.Status == event.Active && err == nil && node == c.OwnerNodeID {
			index.EligibleAgentIDs = append(index.EligibleAgentIDs, c.OwnerAgentID)
		}
	}
	slices.Sort(index.EligibleAgentIDs)
	index.EligibleAgentIDs = slices.Compact(index.EligibleAgentIDs)
	return index
}

// indexes are those of all capabilities, by name.
func (r *registry) indexes() []event.Index {
	var list []event.Index
	for _, capability := range slices.Sorted(maps.Keys(r.catalogs)) {
		list = append(list, r.index(capability))
	}
	return list
}

// route picks the agent with the least open tasks that serves all capabilities.
func (r *registry) route(capabilities []string, load map[string]int) (string, error) {
	var eligible []string
	for i, capability := range capabilities {
		if len(r.catalogs[capability]) == 0 {
			return "", event.Refuse(event.NoRoute, "requiredCapabilities", "nobody published %s", capability)
		}
		serve := r.index(capability).EligibleAgentIDs
		if len(serve) == 0 {
			return "", event.Refuse(event.CapabilityUnavailable, "requiredCapabilities", "%s is published, and no active agent serves it", capability)
		}
		if i == 0 {
			eligible = serve
		}
		eligible = slices.DeleteFunc(eligible, func(agent string) bool { return !slices.Contains(serve, agent) })
	}

	if len(eligible) == 0 {
		return "", event.Refuse(event.NoRoute, "requiredCapabilities", "no agent serves all of %s", strings.Join(capabilities, ", "))
	}
	return slices.MinFunc(eligible, func(a, b string) int { return cmp.Or(load[a]-load[b], strings.Compare(a, b)) }), nil
}

// catalog is the record of a capability by which an agent serves it.
func (r *registry) catalog(capability, agent string) (event.Catalog, bool) {
	for _, c := range r.catalogs[capability] {
		if c.OwnerAgentID == agent {
			return c, true
		}
	}
	return event.Catalog{}, false
}

// skillName is how a skill and its version are compared.
func skillName(s *event.SkillRef) string {
	if s == nil {
		return ""
	}
	return fmt.Sprintf("%s@%s", s.Name, s.Version)
}
