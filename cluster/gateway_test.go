package cluster

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/cluster/event"
	"github.com/lightwork-market/lightwork/cluster/store"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

// TestMessageAndReply: a message is injected once, accepted, answered, and only then
// processed, each on the outbox of the gateway that says so.
func TestMessageAndReply(t *testing.T) {
	requirements.Covers(t, "AN-0.1", "AN-0.3", "AN-0.4", "AN-0.5", "AN-0.6", "AN-5.3", "AN-5.5", "AN-9.L1.2", "K-31")
	inWorld(t, []string{"a", "b", "c"}, func(w *world) {
		e := w.send("a", "writer-b")
		w.same(e.ToAgentID, "writer-b", "the only recipient")
		w.settle()
		w.same(len(w.inbox("b")), 1, "events at the recipient")
		w.same(len(w.inbox("c")), 0, "events at another gateway")
		w.same(w.sent("a", e.EventID), "accepted", "delivery")

		_, err := w.agent("b").Reply(w.ctx(), e.EventID, "done")
		w.ok(err)
		w.settle()
		w.same(w.sent("a", e.EventID), "processed", "delivery")
		reply := w.inbox("a")
		w.same(len(reply), 1, "replies")
		w.same(reply[0].CorrID, e.CorrID, "corrId of the reply")
		w.ok(w.agent("a").Dismiss(w.ctx(), reply[0].EventID))
		w.same(len(w.inbox("a"))+len(w.inbox("b")), 0, "events that wait")

		w.same(w.kinds("a"), []string{"message", "ack accepted"}, "outbox of the sender")
		w.same(w.kinds("b"), []string{"ack accepted", "reply", "ack processed"}, "outbox of the receiver")
		w.same(len(w.outbox("c")), 0, "events of a gateway that has no part in it")

		two := w.send("a", "writer-b", "writer-c")
		w.same(two.ToAgentID, "", "the only recipient of two")
		_, err = w.agent("b").Reply(w.ctx(), e.EventID, "again")
		w.refusal(err, event.InvalidState)
	})
}

// TestTask: create, accept, update, complete, and each view of it.
func TestTask(t *testing.T) {
	requirements.Covers(t, "AN-4.2", "AN-4.7", "AN-4.13", "AN-9.L1.3", "K-33", "K-35", "K-36")
	inWorld(t, []string{"a", "b"}, func(w *world) {
		ctx, b := w.ctx(), w.agent("b")
		id := w.task("a", "b")
		w.settle()
		w.refusal(b.Advance(ctx, id, 10, "early", time.Time{}), event.InvalidState)
		w.refusal(b.Complete(ctx, id, Outcome{Summary: "early"}), event.InvalidState)
		w.ok(b.Accept(ctx, id, time.Now().Add(time.Hour), "a plan"))
		w.settle()
		w.same(w.part("a", store.Requester, id).State, store.Taken, "state at the requester")
		w.ok(b.Advance(ctx, id, 60, "half", time.Time{}))
		w.settle()
		w.same(w.part("a", store.Requester, id).Progress, 60, "progress at the requester")
		w.ok(b.Complete(ctx, id, Outcome{Summary: "all done", Ref: "artifact://x"}))
		w.refusal(b.Fail(ctx, id, "timeout", "late", false), event.InvalidState)
		parts, err := w.gates["a"].WaitTask(ctx, id)
		w.ok(err)
		w.same(parts[0].State+" "+parts[0].Summary, "complete all done", "the end")
		w.same(w.kinds("b"), []string{"ack accepted", "task_accept", "task_update", "task_complete", "ack processed"}, "outbox of the executor")

		// A second outcome changes nothing.
		w.forge("b", func(e *event.Envelope) { e.Kind, e.ToAgentID = event.KindTaskFailed, "writer-a" }, event.TaskFailed{
			TaskID: id, FailedByAgent: "writer-b", FailureClass: "timeout", FailedAt: event.At(time.Now()),
		})
		w.settle()
		w.same(w.part("a", store.Requester, id).State, store.Complete, "after a second outcome")
		w.same(w.refused("a", "b", "task_ended"), 1, "second outcomes counted")

		failing := w.task("a", "b")
		w.settle()
		w.ok(b.Fail(ctx, failing, "dependency_missing", "no input", false))
		w.settle()
		w.same(w.part("a", store.Requester, failing).FailureClass, "dependency_missing", "class")
		if kinds := w.kinds("b"); !slices.Equal(kinds[len(kinds)-2:], []string{"task_failed", "ack failed_terminal"}) {
			t.Fatalf("outbox of the executor %v", kinds)
		}
	})
}

// TestEverybody: "all" is the agents that are active when the message is published.
func TestEverybody(t *testing.T) {
	requirements.Covers(t, "AN-3.3", "AN-1.6", "K-32")
	inWorld(t, []string{"a", "b", "c"}, func(w *world) {
		ctx := w.ctx()
		w.ok(w.gates["c"].SetAgent(ctx, "sleeper", false))
		w.settle()
		e := w.send("a", "all")
		w.same(e.Body.(*event.Message).ToAgents, []string{"writer-b", "writer-c"}, "stored recipients")
		w.ok(w.gates["c"].SetAgent(ctx, "late", true))
		w.settle()
		w.same(len(w.inbox("b")), 1, "events at b")
		late, err := w.gates["c"].Agent(ctx, "late")
		w.ok(err)
		list, err := late.Inbox(ctx)
		w.ok(err)
		w.same(len(list), 0, "events at an agent that joined later")

		_, err = w.gates["a"].Send(ctx, "writer-a", event.Message{ToAgents: []string{"b"}})
		w.refusal(err, event.InvalidTargets)
		if !strings.Contains(err.Error(), "is a gateway") {
			t.Fatal(err)
		}
		_, err = w.gates["a"].Send(ctx, "writer-b", event.Message{ToAgents: []string{"writer-c"}})
		w.refusal(err, event.InvalidTargets)

		last := uint64(0)
		for range 20 {
			e := w.send("a", "writer-b")
			if e.Seq <= last {
				t.Fatalf("sequence %d after %d", e.Seq, last)
			}
			last = e.Seq
		}
		w.halt("a")
		w.start("a")
		if e := w.send("a", "writer-b"); e.Seq <= last {
			t.Fatalf("sequence %d after %d and a restart", e.Seq, last)
		}
	})
}

// TestAckForAccept: in the minimal profile an acknowledgement that says an eta stands for
// task_accept, and one that says none for the delivery alone.
func TestAckForAccept(t *testing.T) {
	requirements.Covers(t, "AN-4.6")
	inWorld(t, []string{"a", "b"}, func(w *world) {
		id := w.task("a", "b")
		w.settle()
		w.same(w.part("a", store.Requester, id).State, store.Created, "after the delivery")
		eta := event.At(time.Now().Add(time.Hour))
		w.forge("b", func(e *event.Envelope) { e.Kind, e.ToAgentID = event.KindAck, "writer-a" }, event.Ack{
			RefEventID: w.part("a", store.Requester, id).EventID, RefKind: event.KindTaskCreate, AckType: event.Accepted,
			AckedByNodeID: "b", AckedByAgentID: "writer-b", AckedAt: event.At(time.Now()), EtaAt: eta,
		})
		w.settle()
		k := w.part("a", store.Requester, id)
		w.same(k.State+" "+event.At(k.EtaAt).String(), store.Taken+" "+eta.String(), "after the acknowledgement with an eta")
	})
}

// TestFullQueue: an agent that takes nothing holds the cursor of who sends to it, and
// loses nothing; others are not held by it for ever.
func TestFullQueue(t *testing.T) {
	inWorld(t, []string{"a", "b"}, func(w *world) {
		w.ok(w.gates["b"].books.db.Update(w.ctx(), func(tx *store.Tx) error {
			for i := range uint64(10_000) {
				now := event.At(tx.Now)
				e, err := event.New(event.Envelope{
					EventID: event.NewID("evt_", tx.Now), Kind: event.KindMessage, SourceNodeID: "x", SourceAgentID: "y",
					CreatedAt: now, ExpiresAt: event.At(tx.Now.Add(time.Hour)),
				}, event.Message{ToAgents: []string{"writer-b"}, Priority: event.Normal})
				if err != nil {
					return err
				}
				e.Seq = i + 1
				if _, _, err := (store.Inbox{Tx: tx}).Inject(e, "writer-b"); err != nil {
					return err
				}
			}
			return nil
		}))
		e := w.send("a", "writer-b")
		w.settle()
		w.same(w.cursor("b", "a").LastSeq, 0, "cursor while the queue is full")
		w.same(w.sent("a", e.EventID), "open", "delivery while the queue is full")
		w.ok(w.agent("b").Dismiss(w.ctx(), w.inbox("b")[0].EventID))
		w.after(heartbeat)
		w.same(w.sent("a", e.EventID), "accepted", "delivery after the agent took one")

		_, err := w.gates["b"].Send(w.ctx(), "writer-b", event.Message{ToAgents: []string{"writer-b"}})
		w.refusal(err, event.Overloaded)
	})
}
