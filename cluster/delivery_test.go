package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/cluster/event"
	"github.com/lightwork-market/lightwork/cluster/store"
	"github.com/lightwork-market/lightwork/cluster/wire"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

// cursor is how far a gateway has read another.
func (w *world) cursor(node, source string) PeerStatus {
	w.t.Helper()
	for _, p := range w.status(node).Peers {
		if p.Node == source {
			return p
		}
	}
	return PeerStatus{Node: source}
}

// incidents counts those of one kind that a gateway has of another.
func (w *world) incidents(node, of, what string) (n int) {
	w.t.Helper()
	for _, i := range w.status(node).Incidents {
		if i.Node == of && i.What == what {
			n++
		}
	}
	return n
}

// TestSentAgain: while no acknowledgement comes the event is sent again, with the same id
// and a new sequence, and is injected once. The receiver says again that it accepted.
func TestSentAgain(t *testing.T) {
	requirements.Covers(t, "AN-1.8", "AN-3.4", "AN-6.10", "K-27", "K-30", "ANX-3")
	inWorld(t, []string{"a", "b"}, func(w *world) {
		w.net.Cut("a", "b", true) // b hears a, and a does not hear b
		e := w.send("a", "writer-b")
		w.after(19 * time.Second)
		w.same(len(w.outbox("a")), 1, "events before the timeout")
		w.after(2 * time.Second)
		w.same(len(w.outbox("a")), 2, "events after it")
		w.same(w.incidents("a", "a", "unaccepted"), 1, "incidents")
		w.after(time.Minute)
		all := w.outbox("a")
		for i, again := range all {
			if again.EventID != e.EventID || again.CorrID != e.CorrID || again.Trace.Attempt != i+1 || again.Seq != uint64(i+1) {
				t.Fatalf("attempt %d is %+v", i+1, again.Envelope)
			}
		}
		w.same(len(w.inbox("b")), 1, "injections")
		w.same(w.sent("a", e.EventID), "open", "delivery")

		w.net.Cut("a", "b", false)
		w.settle()
		w.same(w.sent("a", e.EventID), "accepted", "delivery")
		n := len(w.outbox("a"))
		w.after(time.Hour)
		w.same(len(w.outbox("a")), n, "events once it was accepted")
		w.same(len(w.inbox("b")), 1, "injections after an hour")
	})
}

// TestAckLost: an acknowledgement that the wire lost is said again when the event comes
// again, and then ends the attempts.
func TestAckLost(t *testing.T) {
	inWorld(t, []string{"a", "b"}, func(w *world) {
		w.net.Cut("a", "b", true)
		e := w.send("a", "writer-b")
		w.settle()
		w.net.Drop("b", w.outbox("b")[0].Seq)
		w.after(acceptTimeout)
		w.net.Cut("a", "b", false)
		w.after(gapTimeout + 5*time.Second)
		w.same(w.sent("a", e.EventID), "accepted", "delivery")
		w.same(len(w.inbox("b")), 1, "injections")
		n := len(w.outbox("a"))
		w.after(10 * time.Minute)
		w.same(len(w.outbox("a")), n, "events once it was accepted")
	})
}

// TestGivenUp: after fifteen attempts the sender gives up, and a task so sent fails.
func TestGivenUp(t *testing.T) {
	requirements.Covers(t, "ANX-1")
	inWorld(t, []string{"a", "b"}, func(w *world) {
		w.halt("b")
		id := w.task("a", "b")
		w.after(90 * time.Minute)
		k := w.part("a", store.Requester, id)
		w.same(k.State+" "+k.FailureClass, "failed transport_error", "the task")
		kinds := w.kinds("a")
		w.same(len(kinds), maxAttempts+1, "events")
		w.same(kinds[maxAttempts], "dead_letter", "the last event")
		w.start("b")
		w.settle()
		w.same(len(w.inbox("b")), 0, "what waits for the agent that was away")
		w.same(w.part("b", store.Executor, id).State, store.Failed, "the task at the executor")
	})
}

// TestGaps: each kind of gap holds the cursor for thirty seconds, and then the policy
// decides.
func TestGaps(t *testing.T) {
	requirements.Covers(t, "AN-6.1", "AN-6.2", "AN-6.5", "AN-6.6", "AN-6.8", "AN-9.L2.1")
	for _, policy := range []GapPolicy{Skip, Tombstone} {
		for name, damage := range map[string]func(w *world, seq uint64){
			"a hole": func(w *world, seq uint64) {
				w.send("a", "writer-b")
				w.settle()
				w.net.Drop("a", seq)
			},
			"the beginning": func(w *world, seq uint64) {
				w.send("a", "writer-b")
				w.settle()
				w.ok(w.gates["a"].wire.Outbox().Purge(w.ctx(), seq))
			},
			"the end": func(w *world, seq uint64) { w.net.Drop("a", seq) },
		} {
			t.Run(string(policy)+" "+name, func(t *testing.T) {
				inWorld(t, []string{"a", "b", "c"}, func(w *world) {
					w.halt("b")
					w.gates["b"].cfg.GapPolicy = policy
					w.start("b")
					w.send("a", "writer-b")
					w.settle()
					w.net.Cut("b", "a", true)
					lost := w.send("a", "writer-b")
					w.settle()
					damage(w, lost.Seq)
					w.net.Cut("b", "a", false)
					w.settle()
					w.same(w.cursor("b", "a").LastSeq, lost.Seq-1, "cursor before the gap")
					w.same(w.cursor("c", "b").GapTo, 0, "gaps of another pair")
					w.after(20 * time.Second)
					w.same(w.incidents("b", "a", "gap"), 0, "incidents before the timeout")
					w.same(w.cursor("b", "a").LastSeq, lost.Seq-1, "cursor at 24 s")
					w.after(9 * time.Second)
					w.same(w.incidents("b", "a", "gap"), 1, "incidents after the timeout")
					if got := w.cursor("b", "a").LastSeq; got < lost.Seq {
						t.Fatalf("cursor at %d after the timeout", got)
					}

					// The source finds the damage and publishes anew. A tombstone stays.
					w.after(30 * time.Second) // the attempts that come by themselves
					w.halt("a")
					w.start("a")
					w.settle()
					w.same(w.refused("b", "a", "tombstone") > 0, policy == Tombstone, "events that are buried")
				})
			})
		}
	}
}

// TestStreamLostOrRestored: what the wire loses is published anew, under a new epoch, and
// injected once.
func TestStreamLostOrRestored(t *testing.T) {
	requirements.Covers(t, "K-28")
	for name, damage := range map[string]func(w *world){
		"lost":      func(w *world) { w.net.Lose("a") },
		"a hole":    func(w *world) { w.net.Drop("a", 2) },
		"ahead":     func(w *world) { w.net.Forge("a", wire.Message{Seq: 4, ID: "x:1", Data: []byte("{}")}) },
		"another":   func(w *world) { w.net.Rename("a", "route-epoch-x") },
		"falsified": func(w *world) { w.net.Forge("a", wire.Message{Seq: 3, ID: "x:1", Data: []byte("{}")}) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, []string{"a", "b"}, func(w *world) {
				for range 3 {
					w.send("a", "writer-b")
				}
				w.settle()
				before := w.status("a").Epoch
				w.halt("a")
				damage(w)
				w.start("a")
				w.settle()
				w.after(40 * time.Second)
				if w.status("a").Epoch == before {
					t.Fatal("the epoch is the same")
				}
				w.same(w.incidents("a", "a", "new_epoch"), 1, "incidents")
				w.same(len(w.inbox("b")), 3, "injections")
				w.send("a", "writer-b")
				w.settle()
				w.same(len(w.inbox("b")), 4, "injections after another event")
				w.same(w.cursor("b", "a").Epoch, w.status("a").Epoch, "epoch of the cursor")
			})
		})
	}
}

// TestRestoredDatabase: an old copy of the database is put back, so that the stream is
// ahead of it.
func TestRestoredDatabase(t *testing.T) {
	inWorld(t, []string{"a", "b"}, func(w *world) {
		w.send("a", "writer-b")
		w.settle()
		w.halt("a")
		copied := copyFolder(w, w.gates["a"].cfg.Folder)
		w.start("a")
		w.send("a", "writer-b")
		w.settle()
		w.halt("a")
		w.gates["a"].cfg.Folder = copied
		w.start("a")
		w.settle()
		e := w.send("a", "writer-b")
		w.settle()
		w.same(w.sent("a", e.EventID), "accepted", "delivery after the old database was put back")
		w.same(len(w.inbox("b")), 3, "injections")
	})
}

// copyFolder is what a crash leaves of a folder.
func copyFolder(w *world, folder string) string {
	w.t.Helper()
	to, err := os.MkdirTemp(folder, "copy-")
	w.ok(err)
	for _, name := range []string{"cluster.db", "cluster.db-wal"} {
		doc, err := os.ReadFile(filepath.Join(folder, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		w.ok(err)
		w.ok(os.WriteFile(filepath.Join(to, name), doc, 0o600))
	}
	return to
}

// TestAcceptedIsDurable: at the moment at which the sender sees the acknowledgement, what
// the receiver has on its disk has the event.
func TestAcceptedIsDurable(t *testing.T) {
	requirements.Covers(t, "AN-5.4", "K-29")
	inWorld(t, []string{"a", "b"}, func(w *world) {
		e := w.send("a", "writer-b")
		for w.sent("a", e.EventID) != "accepted" {
			<-w.gates["a"].books.change()
		}
		copied := copyFolder(w, w.gates["b"].cfg.Folder)
		w.halt("b")
		w.gates["b"].cfg.Folder = copied
		w.start("b")
		w.same(len(w.inbox("b")), 1, "events after the crash")
		w.settle()
		w.same(len(w.inbox("b")), 1, "events after the stream was read again")
	})
}

// dying is a wire that fails everything after some calls, as for a process that dies
// there: the database has what was committed before, and nothing after.
type dying struct {
	wire.Wire
	left *atomic.Int64 // of the publisher and the readers, at once
}

var errDead = fmt.Errorf("the process is dead: %w", wire.ErrUnreachable)

func (d dying) spend() error {
	if d.left.Add(-1) < 0 {
		return errDead
	}
	return nil
}

func (d dying) Outbox() wire.Outbox { return dyingOutbox{d.Wire.Outbox(), d} }

func (d dying) Dial(ctx context.Context, node string) (wire.Remote, error) {
	r, err := d.Wire.Dial(ctx, node)
	return dyingRemote{r, d}, err
}

type dyingOutbox struct {
	wire.Outbox
	d dying
}

func (o dyingOutbox) Append(ctx context.Context, m []wire.Message) error {
	if err := o.d.spend(); err != nil {
		return err
	}
	err := o.Outbox.Append(ctx, m)
	if dead := o.d.spend(); dead != nil { // the stream has it, and the answer does not come
		return dead
	}
	return err
}

func (o dyingOutbox) Reset(ctx context.Context, epoch string, first uint64) error {
	if err := o.d.spend(); err != nil {
		return err
	}
	return o.Outbox.Reset(ctx, epoch, first)
}

type dyingRemote struct {
	wire.Remote
	d dying
}

func (r dyingRemote) Read(ctx context.Context, from uint64, count int) ([]wire.Message, error) {
	if err := r.d.spend(); err != nil {
		return nil, err
	}
	return r.Remote.Read(ctx, from, count)
}

func (r dyingRemote) PutCursor(ctx context.Context, cursor []byte) error {
	if err := r.d.spend(); err != nil {
		return err
	}
	return r.Remote.PutCursor(ctx, cursor)
}

// TestDiesBetween: a gateway dies between its database and the wire, at each place, and
// comes back. Everything is delivered, once.
func TestDiesBetween(t *testing.T) {
	requirements.Covers(t, "AN-6.4")
	for k := range 14 {
		inWorld(t, []string{"a", "b"}, func(w *world) {
			var left atomic.Int64
			left.Store(int64(k))
			for _, node := range []string{"a", "b"} {
				w.halt(node)
				w.gates[node].cfg.Wire = nil
				w.gates[node].through = func(real wire.Wire) wire.Wire { return dying{real, &left} }
				w.start(node)
			}
			var sent []string
			for range 3 {
				sent = append(sent, w.send("a", "writer-b").EventID)
			}
			id := w.task("a", "b")
			w.after(5 * time.Second)
			for _, node := range []string{"a", "b"} {
				w.halt(node)
				w.gates[node].through = nil
				w.gates[node].cfg.Folder = copyFolder(w, w.gates[node].cfg.Folder)
				w.start(node)
			}
			w.after(time.Minute)
			w.same(len(w.inbox("b")), 4, fmt.Sprintf("injections after a death at %d", k))
			for _, eventID := range sent {
				w.same(w.sent("a", eventID), "accepted", fmt.Sprintf("delivery after a death at %d", k))
			}
			w.ok(w.agent("b").Accept(w.ctx(), id, time.Now().Add(time.Hour), ""))
			w.ok(w.agent("b").Complete(w.ctx(), id, Outcome{Summary: "x"}))
			_, err := w.gates["a"].WaitTask(w.ctx(), id)
			w.ok(err)
			last := uint64(0)
			for _, e := range w.outbox("b") {
				if last++; e.Seq != last {
					t.Fatalf("sequence %d after %d", e.Seq, last-1)
				}
			}
		})
	}
}

// TestCompaction: a cursor that counts holds the events that it has not read; one whose
// lease has run out does not.
func TestCompaction(t *testing.T) {
	requirements.Covers(t, "AN-6.7", "AN-6.9")
	inWorld(t, []string{"a", "b", "c"}, func(w *world) {
		w.send("a", "writer-b")
		w.settle()
		first := func() uint64 {
			info, err := w.gates["a"].wire.Outbox().Info(w.ctx())
			w.ok(err)
			return info.First
		}

		// A reader that stands still, and says so again and again.
		w.halt("c")
		stuck := func(epoch string) {
			w.ok(putCursor(w, "c", event.Cursor{
				ConsumerNodeID: "c", SourceNodeID: "a", LastSeq: 0, UpdatedAt: event.At(time.Now()), Status: event.Active,
				LeaseExpiresAt: event.At(time.Now().Add(cursorLease)), Epoch: epoch,
			}))
		}
		epoch := w.status("a").Epoch
		w.halt("a")
		w.halt("b")
		w.after(keepFor + time.Hour)
		stuck(epoch)
		w.start("a")
		w.after(2 * time.Minute)
		w.same(first(), 1, "first sequence while a reader that counts stands still")
		w.after(cursorLease + time.Minute)
		w.same(first(), 2, "first sequence once its lease has run out")

		// One that says it has read what nobody can have.
		w.ok(putCursor(w, "c", event.Cursor{
			ConsumerNodeID: "c", SourceNodeID: "a", LastSeq: 1 << 40, UpdatedAt: event.At(time.Now()), Status: event.Active,
			LeaseExpiresAt: event.At(time.Now().Add(cursorLease)), Epoch: w.status("a").Epoch,
		}))
		w.after(time.Minute)
		if w.refused("a", "c", "cursor") == 0 {
			t.Fatal("a cursor beyond the stream was taken")
		}
	})
}
