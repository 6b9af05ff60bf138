package node

import (
	"context"
	"slices"

	"github.com/lightwork-market/lightwork/agentruntime/organism"
	"github.com/lightwork-market/lightwork/internal/advice"
)

// organismRole has the organism answer who asks it.
type organismRole struct{ *core }

// Start implements roles.Role. An organism that lacks an agent is made once that runs.
func (r organismRole) Start(ctx context.Context) error {
	return r.people.Start(ctx, r.Config, r.buildOrganism)
}

// Serve implements roles.Role.
func (organismRole) Serve(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Stop implements roles.Role.
func (organismRole) Stop(context.Context) error { return nil }

// Lacks implements roles.Role.
func (r organismRole) Lacks() string { return r.people.Lacks() }

// judgeRole is the listener of the organism that chooses among results for the buyer.
type judgeRole struct{ *core }

// Start implements roles.Role: it finds out whether the organism has a judge that thinks.
func (r judgeRole) Start(context.Context) error {
	j := r.Buyer.Judge
	o, err := organism.Load(r.OrganismFile())
	if err != nil {
		return advice.Usage("docs/build-agents/thinking-agents.md has the shape", "%w", err)
	}

	i := slices.IndexFunc(o.Profiles, func(p organism.Profile) bool { return p.Name == j.Profile })
	if i < 0 {
		return advice.Usage("name one of its profiles under buyer.judge", "%s has no profile %q", r.OrganismFile(), j.Profile)
	}
	if !slices.Contains(o.Profiles[i].Listeners, j.Listener) {
		return advice.Usage("name a listener of the profile under buyer.judge", "%s: profile %s does not reach %q", r.OrganismFile(), j.Profile, j.Listener)
	}
	if l, ok := o.Listener(j.Listener); !ok || l.Agent == nil {
		return advice.Usage("docs/build-agents/thinking-agents.md says how a listener thinks", "%s: listener %s does not think, so it cannot judge", r.OrganismFile(), j.Listener)
	}
	return nil
}

// Serve implements roles.Role: the judge is asked as the organism is.
func (judgeRole) Serve(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Stop implements roles.Role.
func (judgeRole) Stop(context.Context) error { return nil }

// Lacks implements roles.Role: what the organism lacks, its judge may lack too.
func (r judgeRole) Lacks() string { return r.people.Lacks() }
