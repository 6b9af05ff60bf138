package node

import (
	"maps"
	"slices"
	"strings"

	"github.com/lightwork-market/lightwork/agentruntime/organism"
	"github.com/lightwork-market/lightwork/internal/advice"
)

// Profiles are the tables that the node will build.
func (a Agents) Profiles() ([]organism.View, error) {
	routes, err := routesOf(a.c.Config)
	if err != nil {
		return nil, err
	}

	paid := organism.View{Profile: jobsProfile, Journal: "retain_forever"}
	for _, tag := range slices.Sorted(maps.Keys(routes)) {
		paid.Routes = append(paid.Routes, organism.ViewRoute{
			Tag: tag, Handler: strings.ReplaceAll(tag, ".", "-"), Work: routes[tag].agent + "/" + routes[tag].tool,
		})
	}

	views := []organism.View{paid}
	if a.c.Organism == "" {
		return views, nil
	}
	o, err := organism.Load(a.c.OrganismFile())
	if err != nil {
		return nil, advice.Usage("docs/build-agents/thinking-agents.md has the shape", "%w", err)
	}
	return append(views, o.Views()...), nil
}
