package cluster

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/cluster/event"
	"github.com/lightwork-market/lightwork/cluster/store"
	"github.com/lightwork-market/lightwork/cluster/wire"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

// require asks for a task by capability.
func (w *world) require(from string, capabilities ...string) (*event.Event, error) {
	return w.gates[from].CreateTask(w.ctx(), "writer-"+from, event.TaskCreate{Title: "t", RequiredCapabilities: capabilities})
}

// reviews are the failure classes of a gateway's reviews, sorted.
func (w *world) reviews(node string) (classes []string) {
	w.t.Helper()
	list, err := w.gates[node].Reviews(w.ctx(), 100)
	w.ok(err)
	for _, r := range list {
		classes = append(classes, r.FailureClass)
	}
	slices.Sort(classes)
	return classes
}

// TestPublish: a capability is routed by once it is published, and only if its owner and
// its skill are there.
func TestPublish(t *testing.T) {
	requirements.Covers(t, "AN-0.2", "AN-2.2", "AN-2.3", "AN-2.4", "AN-2.7", "AN-4.4", "AN-9.L2.2", "K-4", "K-34", "ANX-2")
	inWorld(t, []string{"a", "b"}, func(w *world) {
		ctx := w.ctx()
		const capability = "cap.fs.diff-apply"
		_, err := w.require("a", capability)
		w.refusal(err, event.NoRoute)
		_, err = w.require("a")
		w.refusal(err, event.MissingRouteFields)
		_, err = w.gates["a"].CreateTask(ctx, "writer-a", event.TaskCreate{ToAgents: []string{"nobody"}})
		w.refusal(err, event.InvalidTargets)

		for name, change := range map[string]func(c *event.Catalog){
			"an owner that is not there":     func(c *event.Catalog) { c.OwnerAgentID = "nobody" },
			"an owner of another gateway":    func(c *event.Catalog) { c.OwnerAgentID = "writer-a" },
			"a skill that is not there":      func(c *event.Catalog) { c.ExecutorSkillRef.Name = "missing" },
			"a publisher that is not there":  func(c *event.Catalog) { c.PublishedByAgentID = "nobody" },
			"a default eta of a half minute": func(c *event.Catalog) { c.DefaultEtaSeconds = 29 },
		} {
			c := catalog("b")
			change(&c)
			_, err := w.gates["b"].Publish(ctx, c)
			var refusal *event.Refusal
			if !errors.As(err, &refusal) {
				t.Fatalf("%s: %v", name, err)
			}
		}
		w.settle()
		_, err = w.require("a", capability)
		w.refusal(err, event.NoRoute)

		published, err := w.gates["b"].Publish(ctx, catalog("b"))
		w.ok(err)
		w.same(published.Index.EligibleAgentIDs, []string{"writer-b"}, "the index")
		w.settle()
		w.same(w.status("a").Capabilities, []event.Index{published.Index}, "the index at another gateway")
		records, err := w.gates["b"].wire.Records().All(ctx)
		w.ok(err)
		if records[event.KeyCatalog+capability] == nil {
			t.Fatalf("the catalog has no record under its key: %q", records)
		}
		e, err := w.require("a", capability)
		w.ok(err)
		w.same(e.ToAgentID, "writer-b", "who is asked")
		if e.Trace.CapabilityPolicyVersion != published.Index.PolicyVersion {
			t.Fatalf("the trace says policy %s, and the index %s", e.Trace.CapabilityPolicyVersion, published.Index.PolicyVersion)
		}
		_, err = w.require("a", capability, "cap.unknown")
		w.refusal(err, event.NoRoute)

		// Both write while they do not hear each other: each key has one writer.
		w.net.Cut("a", "b", true)
		w.net.Cut("b", "a", true)
		second := catalog("a")
		second.CapabilityID = "cap.a"
		_, err = w.gates["a"].Publish(ctx, second)
		w.ok(err)
		w.ok(w.gates["b"].SetAgent(ctx, "writer-b", false))
		w.settle()
		w.net.Cut("a", "b", false)
		w.net.Cut("b", "a", false)
		w.after(heartbeat)
		w.same(w.status("a").Capabilities, w.status("b").Capabilities, "what both see")
		_, err = w.require("a", capability)
		w.refusal(err, event.CapabilityUnavailable)

		// No payload is in the control plane.
		for _, node := range []string{"a", "b"} {
			w.send("a", "writer-a")
			records, err := w.gates[node].wire.Records().All(ctx)
			w.ok(err)
			for key, value := range records {
				if strings.Contains(string(value), "canary-of-a-body") {
					t.Fatalf("%s has a payload", key)
				}
			}
		}
	})
}

// TestSkillDistribution: publishing asks all others to install the skill, and each has to
// confirm the version.
func TestSkillDistribution(t *testing.T) {
	requirements.Covers(t, "AN-7.1", "AN-7.2", "AN-7.3")
	inWorld(t, []string{"a", "b", "c"}, func(w *world) {
		ctx := w.ctx()
		w.ok(w.gates["c"].SetAgent(ctx, "sleeper", false))
		w.settle()
		published, err := w.gates["b"].Publish(ctx, catalog("b"))
		w.ok(err)
		body := published.Task.Body.(*event.TaskCreate)
		w.same(body.TaskType, event.SkillDistribution, "type")
		w.same(body.ToAgents, []string{"writer-a", "writer-c"}, "targets")
		w.settle()

		a := w.agent("a")
		w.ok(a.Accept(ctx, body.TaskID, time.Now().Add(time.Hour), ""))
		w.refusal(a.Complete(ctx, body.TaskID, Outcome{}), event.VersionNotConfirmed)
		w.refusal(a.Complete(ctx, body.TaskID, Outcome{Installed: &event.SkillRef{Name: "delegate-fs", Version: "1.2.9"}}), event.VersionNotConfirmed)
		w.settle()

		// A gateway that completes without it is not believed.
		w.forge("c", func(e *event.Envelope) { e.Kind, e.ToAgentID = event.KindTaskComplete, "writer-b" }, event.TaskComplete{
			TaskID: body.TaskID, CompletedByAgentID: "writer-c", CompletedAt: event.At(time.Now()),
		})
		w.settle()
		w.same(w.refused("b", "c", event.VersionNotConfirmed), 1, "refusals")

		w.ok(a.Complete(ctx, body.TaskID, Outcome{Installed: &event.SkillRef{Name: "delegate-fs", Version: "1.3.0"}}))
		w.settle()
		parts, err := w.gates["b"].Task(ctx, body.TaskID)
		w.ok(err)
		states := map[string]string{}
		for _, k := range parts {
			states[k.AgentID] = k.State
		}
		w.same(states, map[string]string{"writer-a": store.Complete, "writer-c": store.Created}, "parts")
	})
}

// TestReviews: each of the four causes makes one item.
func TestReviews(t *testing.T) {
	requirements.Covers(t, "AN-6.11", "AN-8.1", "AN-8.2", "AN-8.3", "AN-8.4", "AN-9.L2.3", "M-15")
	inWorld(t, []string{"a", "b"}, func(w *world) {
		ctx, b := w.ctx(), w.agent("b")
		_, err := w.gates["b"].Publish(ctx, catalog("b"))
		w.ok(err)
		w.settle()
		ask := func() string {
			e, err := w.require("a", "cap.fs.diff-apply")
			w.ok(err)
			w.settle()
			id := e.Body.(*event.TaskCreate).TaskID
			w.ok(b.Accept(ctx, id, time.Now().Add(10*time.Second), ""))
			w.settle()
			return id
		}

		late := ask()
		w.after(8*time.Second + slaGrace - 3*time.Second)
		w.same(len(w.reviews("a")), 0, "reviews before eta and grace have passed")
		w.after(5 * time.Second)
		w.same(w.reviews("a"), []string{"sla_breach"}, "reviews after")
		list, err := w.gates["a"].Reviews(ctx, 1)
		w.ok(err)
		w.same(list[0].CapabilityID+" "+list[0].DelegationSkillVersion+" "+list[0].ExecutorSkillVersion, "cap.fs.diff-apply 1.3.0 1.3.0", "the item")
		w.same(list[0].SampleCorrIDs, []string{w.part("a", store.Requester, late).CorrID}, "its task")
		w.after(10 * time.Minute)
		w.ok(b.Complete(ctx, late, Outcome{Summary: "late", Value: []byte(`{}`)}))
		w.settle()
		w.same(w.part("a", store.Requester, late).State, store.Complete, "a late task")

		w.ok(b.Fail(ctx, ask(), "dependency_missing", "", true))
		w.settle()
		wrong := ask()
		w.ok(b.Complete(ctx, wrong, Outcome{Value: []byte(`"wrong"`)}))
		w.settle()
		w.same(w.part("a", store.Requester, wrong).State, store.Failed, "a task whose result breaks the contract")
		w.same(w.reviews("a"), []string{"contract_violation", "dependency_missing", "sla_breach"}, "reviews")

		w.ok(w.gates["b"].SetAgent(ctx, "writer-b", false))
		w.settle()
		for n := range 5 {
			_, err := w.require("a", "cap.fs.diff-apply")
			w.refusal(err, event.CapabilityUnavailable)
			w.same(slices.Contains(w.reviews("a"), "capability_unavailable"), n >= routeFailures-1, "a review of the route")
		}
		w.same(len(w.reviews("a")), 4, "reviews")
	})
}

// TestDeadlines: every task comes to an end, on both sides.
func TestDeadlines(t *testing.T) {
	requirements.Covers(t, "AN-1.9")
	inWorld(t, []string{"a", "b"}, func(w *world) {
		e, err := w.gates["a"].CreateTask(w.ctx(), "writer-a", event.TaskCreate{
			ToAgents: []string{"writer-b"}, DeadlineAt: event.At(time.Now().Add(time.Minute)),
		})
		w.ok(err)
		id := e.Body.(*event.TaskCreate).TaskID
		w.settle()
		w.after(time.Minute)
		w.refusal(w.agent("b").Accept(w.ctx(), id, time.Now().Add(time.Hour), ""), event.InvalidState)
		w.same(len(w.inbox("b")), 0, "expired events that the agent sees")
		w.same(w.part("b", store.Executor, id).FailureClass, "timeout", "the executor")
		w.same(w.part("a", store.Requester, id).FailureClass, "timeout", "the requester")

		// An executor that is away: the requester ends it by itself.
		e, err = w.gates["a"].CreateTask(w.ctx(), "writer-a", event.TaskCreate{
			ToAgents: []string{"writer-b"}, DeadlineAt: event.At(time.Now().Add(time.Minute)),
		})
		w.ok(err)
		id = e.Body.(*event.TaskCreate).TaskID
		w.settle()
		w.halt("b")
		w.after(time.Minute + slaGrace)
		w.same(w.part("a", store.Requester, id).FailureClass, "timeout", "the requester")
	})
}

// TestLies: what a peer must not say is refused, counted, and nothing of it is kept; what
// comes after it is taken.
func TestLies(t *testing.T) {
	message := event.Message{ToAgents: []string{"writer-a"}, Priority: event.Normal, Body: "lie"}
	for name, c := range map[string]struct {
		code string
		lie  func(w *world)
	}{
		"in the name of another gateway": {"foreign", func(w *world) { w.forge("b", func(e *event.Envelope) { e.SourceNodeID = "c" }, message) }},
		"another sequence":               {"sequence", func(w *world) { w.forge("b", func(e *event.Envelope) { e.Seq = 77 }, message) }},
		"expired": {"expired", func(w *world) {
			w.forge("b", func(e *event.Envelope) {
				e.CreatedAt, e.ExpiresAt = event.At(time.Now().Add(-2*time.Hour)), event.At(time.Now().Add(-time.Hour))
			}, message)
		}},
		"from the future": {"future", func(w *world) {
			w.forge("b", func(e *event.Envelope) {
				e.CreatedAt, e.ExpiresAt = event.At(time.Now().Add(time.Hour)), event.At(time.Now().Add(2*time.Hour))
			}, message)
		}},
		"no event": {event.InvalidEvent, func(w *world) {
			info, err := w.gates["b"].wire.Outbox().Info(w.ctx())
			w.ok(err)
			w.net.Forge("b", wire.Message{Seq: info.Last + 1, Data: []byte(`{"lie":`)})
		}},
		"too large": {"oversized", func(w *world) {
			info, err := w.gates["b"].wire.Outbox().Info(w.ctx())
			w.ok(err)
			w.net.Forge("b", wire.Message{Seq: info.Last + 1, Data: make([]byte, wire.MaxMessage+1)})
		}},
		"a sequence that cannot be": {"stream", func(w *world) { w.net.Forge("b", wire.Message{Seq: 1 << 60, Data: []byte("{}")}) }},
		"replayed": {"duplicate", func(w *world) {
			old := w.outbox("b")[0]
			w.forge("b", func(e *event.Envelope) { e.EventID = old.EventID }, old.Body)
		}},
		"an id that another gateway used": {"event_id_taken", func(w *world) {
			e := w.send("c", "writer-a")
			w.settle()
			w.ok(w.agent("a").Dismiss(w.ctx(), e.EventID))
			w.forge("b", func(f *event.Envelope) { f.EventID = e.EventID }, message)
		}},
		"accepted by somebody else": {"unknown_reference", func(w *world) {
			e := w.send("a", "writer-c")
			w.forge("b", func(f *event.Envelope) { f.Kind, f.ToAgentID = event.KindAck, "writer-a" }, event.Ack{
				RefEventID: e.EventID, RefKind: event.KindMessage, AckType: event.Accepted,
				AckedByNodeID: "b", AckedByAgentID: "writer-b", AckedAt: event.At(time.Now()),
			})
		}},
		"the result of another's task": {"unknown_reference", func(w *world) {
			id := w.task("a", "c")
			w.forge("b", func(f *event.Envelope) { f.Kind, f.ToAgentID = event.KindTaskComplete, "writer-a" }, event.TaskComplete{
				TaskID: id, CompletedByAgentID: "writer-b", CompletedAt: event.At(time.Now()),
			})
			w.settle()
			w.forge("b", func(f *event.Envelope) { f.Kind, f.ToAgentID = event.KindTaskComplete, "writer-a" }, event.TaskComplete{
				TaskID: id, CompletedByAgentID: "writer-c", CompletedAt: event.At(time.Now()),
			})
			w.settle()
			w.same(w.part("a", store.Requester, id).State, store.Created, "the task")
			w.same(w.refused("a", "b", "foreign"), 1, "a result in another agent's name")
		}},
		"the capability of another gateway": {"record", func(w *world) {
			doc := strings.ReplaceAll(`{"agentId":"X","nodeId":"c","status":"active","updatedAt":"2026-02-25T16:32:00.000Z"}`, "X", "spy")
			w.ok(w.gates["b"].wire.Records().Put(w.ctx(), "agents.spy", []byte(doc)))
			w.after(heartbeat)
			for _, a := range w.status("a").Agents {
				if a.Agent == "spy" {
					w.t.Fatal("the agent was taken")
				}
			}
			w.ok(w.gates["b"].wire.Records().Delete(w.ctx(), "agents.spy"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, []string{"a", "b", "c"}, func(w *world) {
				w.send("b", "writer-a")
				w.settle()
				w.same(len(w.inbox("a")), 1, "events before the lie")
				c.lie(w)
				w.after(heartbeat + time.Second)
				if w.refused("a", "b", c.code) == 0 {
					t.Fatalf("refusals %+v, want one as %s", w.status("a").Refusals, c.code)
				}
				if n := w.refused("a", "b", c.code); n > 10 {
					t.Fatalf("one lie was refused %d times", n)
				}
				w.same(len(w.inbox("a")), 1, "events after the lie")

				w.halt("b") // it finds what its stream has that it did not write
				w.start("b")
				w.settle()
				e := w.send("b", "writer-a")
				w.settle()
				w.same(w.sent("b", e.EventID), "accepted", "an honest event after the lie")
			})
		})
	}
}
