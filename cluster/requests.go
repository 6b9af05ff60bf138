package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/lightwork-market/lightwork/cluster/event"
	"github.com/lightwork-market/lightwork/cluster/store"
	"github.com/lightwork-market/lightwork/hashing"
)

// Send publishes a message of an agent here. The target "all" becomes the agents that are
// active now. It returns when the message is durable. *event.Refusal.
func (g *Gateway) Send(ctx context.Context, from string, m event.Message) (sent *event.Event, err error) {
	err = g.books.update(ctx, func(tx *store.Tx) error {
		view, err := g.books.registry(tx)
		if err != nil {
			return err
		}
		if err := view.local(from); err != nil {
			return err
		}
		if m.Priority == "" {
			m.Priority = event.Normal
		}
		if slices.Equal(m.ToAgents, []string{event.Everybody}) {
			m.ToAgents = view.active(from)
			if len(m.ToAgents) == 0 {
				return event.Refuse(event.NoRoute, "toAgents", "there is no other active agent")
			}
		}
		to, err := view.targets(m.ToAgents)
		if err != nil {
			return err
		}
		sent, err = g.books.emit(tx, draft{kind: event.KindMessage, from: from, to: to, body: m, await: true})
		return err
	})
	return sent, err
}

// CreateTask asks for a task: of the agents that it names, or, if it names none, of one
// that serves all the capabilities that it requires. TaskID, RequesterAgentID, Priority
// and DeadlineAt may be left out. *event.Refusal.
func (g *Gateway) CreateTask(ctx context.Context, from string, t event.TaskCreate) (created *event.Event, err error) {
	noRoute := ""
	err = g.books.update(ctx, func(tx *store.Tx) error {
		view, err := g.books.registry(tx)
		if err != nil {
			return err
		}
		if err := view.local(from); err != nil {
			return err
		}

		t.RequesterAgentID = from
		if slices.Equal(t.ToAgents, []string{event.Everybody}) {
			t.ToAgents = view.active(from)
		}

		names := t.ToAgents
		if len(names) == 0 {
			if len(t.RequiredCapabilities) == 0 {
				return event.Refuse(event.MissingRouteFields, "toAgents", "name agents, or capabilities that the task requires")
			}
			load, err := store.Tasks{Tx: tx}.Load()
			if err != nil {
				return err
			}
			agent, err := view.route(t.RequiredCapabilities, load)
			if err != nil {
				noRoute = t.RequiredCapabilities[0]
				return err
			}
			names = []string{agent}
			if err := (store.Tasks{Tx: tx}).RouteFound(t.RequiredCapabilities[0]); err != nil {
				return err
			}
		}

		to, err := view.targets(names)
		if err != nil {
			return err
		}
		created, err = g.ask(tx, from, t, to)
		return err
	})
	if noRoute != "" {
		err = errors.Join(err, g.routeFailed(ctx, noRoute))
	}
	return created, err
}

// ask keeps a task for each agent that is asked, and emits it.
func (g *Gateway) ask(tx *store.Tx, from string, t event.TaskCreate, to map[string]string) (*event.Event, error) {
	if t.TaskID == "" {
		t.TaskID = event.NewID("tsk_", tx.Now)
	}
	if t.Priority == "" {
		t.Priority = event.Normal
	}
	expires := t.RequiredBy
	if t.TaskType == "" {
		if t.DeadlineAt.IsZero() {
			t.DeadlineAt = event.At(tx.Now.Add(defaultLife))
		}
		expires = t.DeadlineAt
	}

	// The task is there before the event, which an agent here accepts at once.
	k := store.Task{
		Role: store.Requester, TaskID: t.TaskID, CorrID: event.NewID("corr_", tx.Now), OtherAgent: from, DeadlineAt: expires.Time,
	}
	describe(&k, &t)
	e, err := g.books.emit(tx, draft{
		kind: event.KindTaskCreate, from: from, to: to, corrID: k.CorrID, expires: expires.Time, body: t, await: true,
		before: func(e *event.Event) error {
			k.EventID = e.EventID
			for agent, node := range to {
				k.AgentID, k.Peer = agent, node
				isNew, err := store.Tasks{Tx: tx}.Begin(k)
				if err == nil && !isNew {
					err = event.Refuse(event.InvalidState, "taskId", "%s was asked of %s before", k.TaskID, agent)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	})
	return e, err
}

// routeFailed notes that an active capability found nobody, and has it reviewed when that
// happens again and again.
func (g *Gateway) routeFailed(ctx context.Context, capability string) error {
	return g.books.update(ctx, func(tx *store.Tx) error {
		view, err := g.books.registry(tx)
		if err != nil {
			return err
		}
		list := view.catalogs[capability]
		if !slices.ContainsFunc(list, func(c event.Catalog) bool { return c.Status == event.Active }) {
			return nil
		}
		times, err := store.Tasks{Tx: tx}.RouteFailed(capability, tx.Now.Add(-routeWindow))
		if err != nil || times < routeFailures {
			return err
		}
		cause := fmt.Sprintf("route:%s:%d", capability, tx.Now.Unix()/int64(routeWindow/time.Second))
		return g.books.review(tx, cause, store.Task{CapabilityID: capability, AgentID: list[0].OwnerAgentID}, "capability_unavailable")
	})
}

// Published is what a published capability led to.
type Published struct {
	Index event.Index
	// Task distributes the skill to all active agents but its owner; nil if there is none.
	Task *event.Event
}

// Publish makes a capability of an agent here known. From then on tasks are routed by it.
// *event.Refusal.
func (g *Gateway) Publish(ctx context.Context, c event.Catalog) (done Published, err error) {
	c.OwnerNodeID, c.PublishedAt = g.books.Node, event.At(g.books.Now())
	if c.Status == "" {
		c.Status = event.Active
	}
	if err := event.CheckRecord(&c); err != nil {
		return done, err
	}
	if g.books.ResolveSkill == nil {
		return done, event.Refuse(event.InvalidCapability, "executorSkillRef", "no skill can be resolved here")
	}
	if err := g.books.ResolveSkill(ctx, c.OwnerAgentID, c.ExecutorSkillRef); err != nil {
		return done, event.Refuse(event.InvalidCapability, "executorSkillRef", "%s does not resolve: %v", skillName(&c.ExecutorSkillRef), err)
	}
	doc, err := hashing.CanonicalValue(c)
	if err != nil {
		return done, err
	}

	err = g.books.update(ctx, func(tx *store.Tx) error {
		before, err := g.books.registry(tx)
		if err != nil {
			return err
		}
		if err := before.local(c.OwnerAgentID); err != nil {
			return event.Refuse(event.InvalidCapability, "ownerAgentId", "%v", err)
		}
		if err := before.local(c.PublishedByAgentID); err != nil {
			return event.Refuse(event.InvalidCapability, "publishedByAgentId", "%v", err)
		}
		if err := (store.Control{Tx: tx}).Put(g.books.Node, event.KeyCatalog+c.CapabilityID, doc); err != nil {
			return err
		}
		after, err := readRegistry(tx, g.books.Node)
		if err != nil {
			return err
		}
		done.Index = after.index(c.CapabilityID)

		to, err := after.targets(after.active(c.OwnerAgentID))
		if err != nil || len(to) == 0 || c.Status != event.Active {
			return err
		}
		skill := event.SkillRef{Name: c.DelegationSkillRef.Name, Version: c.DelegationSkillRef.Version}
		done.Task, err = g.ask(tx, c.PublishedByAgentID, event.TaskCreate{
			TaskType: event.SkillDistribution, CapabilityID: c.CapabilityID, DelegationSkillRef: &skill,
			ToAgents: slices.Sorted(maps.Keys(to)), RequiredBy: event.At(tx.Now.Add(defaultLife)),
		}, to)
		return err
	})
	g.books.recordsChanged()
	return done, err
}
