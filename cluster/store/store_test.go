package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/cluster/event"
)

func open(t *testing.T) (*DB, *time.Time) {
	t.Helper()
	now := time.Date(2026, 2, 25, 16, 0, 0, 0, time.UTC)
	db, err := Open(t.Context(), filepath.Join(t.TempDir(), "cluster.db"), Options{Node: "a", Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db, &now
}

func update(t *testing.T, db *DB, fn func(tx *Tx) error) {
	t.Helper()
	if err := db.Update(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

func message(t *testing.T, now time.Time, source string, attempt int) *event.Event {
	t.Helper()
	e, err := event.New(event.Envelope{
		EventID: event.NewID("evt_", now), Kind: event.KindMessage, SourceNodeID: source, SourceAgentID: "writer",
		CreatedAt: event.At(now), ExpiresAt: event.At(now.Add(time.Hour)), Trace: event.Trace{Attempt: attempt},
	}, event.Message{ToAgents: []string{"reader"}, Priority: event.Normal})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestForeignDatabase: a gateway does not speak with another's outbox.
func TestForeignDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cluster.db")
	for _, c := range []struct {
		node string
		want error
	}{{"a", nil}, {"b", ErrForeign}, {"a", nil}} {
		db, err := Open(context.Background(), path, Options{Node: c.node, Now: time.Now})
		if !errors.Is(err, c.want) {
			t.Fatalf("opened by %s: %v, want %v", c.node, err, c.want)
		}
		if err == nil {
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestUndone: an event whose transaction fails leaves no sequence, no delivery, no task.
func TestUndone(t *testing.T) {
	db, now := open(t)
	boom := errors.New("boom")
	err := db.Update(t.Context(), func(tx *Tx) error {
		e := message(t, *now, "a", 1)
		if err := (Outbox{tx}).Append(e); err != nil {
			return err
		}
		if err := (Outbox{tx}).Await(e, map[string]string{"reader": "b"}, *now); err != nil {
			return err
		}
		if _, _, err := (Inbox{tx}).Inject(e, "reader"); err != nil {
			return err
		}
		return boom
	})
	if !errors.Is(err, boom) {
		t.Fatal(err)
	}
	update(t, db, func(tx *Tx) error {
		p, err := Outbox{tx}.Place()
		if p.Next != 1 {
			t.Errorf("the next sequence is %d", p.Next)
		}
		if due, _ := (Outbox{tx}).Due(10); len(due) > 0 {
			t.Errorf("due is %v", due)
		}
		if queue, _ := (Inbox{tx}).Queue("reader", 10); len(queue) > 0 {
			t.Errorf("the queue is %v", queue)
		}
		return err
	})
}

// TestLedger: one row for an event and a recipient, until the event has expired.
func TestLedger(t *testing.T) {
	db, now := open(t)
	e := message(t, *now, "b", 1)
	update(t, db, func(tx *Tx) error {
		if err := (Inbox{tx}).SetCursor(Cursor{Source: "b", Epoch: "one"}); err != nil {
			return err
		}
		for i, want := range []struct{ again, news bool }{{false, true}, {true, false}} {
			if again, news, err := (Inbox{tx}).Inject(e, "reader"); err != nil || again != want.again || news != want.news {
				t.Errorf("injection %d: again %v, news %v, %v", i, again, news, err)
			}
		}
		second := *e
		second.Trace.Attempt = 2
		if again, news, err := (Inbox{tx}).Inject(&second, "reader"); err != nil || !again || !news {
			t.Errorf("the second attempt: again %v, news %v, %v", again, news, err)
		}
		foreign := *e
		foreign.SourceNodeID = "c"
		if _, _, err := (Inbox{tx}).Inject(&foreign, "reader"); !errors.Is(err, ErrTaken) {
			t.Errorf("another gateway's: %v", err)
		}
		done, err := Inbox{tx}.Finish(e.EventID, "reader")
		if again, _ := (Inbox{tx}).Finish(e.EventID, "reader"); !done || again {
			t.Errorf("finished %v, and again %v", done, again)
		}
		return err
	})

	held := func() (n int64) {
		update(t, db, func(tx *Tx) error {
			c, err := Inbox{tx}.Cursor("b")
			n = c.Held
			return err
		})
		return n
	}
	if held() != 1 {
		t.Fatalf("the source holds %d rows", held())
	}
	*now = now.Add(2 * time.Hour)
	update(t, db, func(tx *Tx) error { return Inbox{tx}.Forget(tx.Now, 10) })
	if held() != 0 {
		t.Fatalf("the source holds %d rows after the expiry", held())
	}
}

// TestBoundsOfWhatPeersLeave: incidents, tombstones and refusals of a peer are bounded.
func TestBoundsOfWhatPeersLeave(t *testing.T) {
	db, _ := open(t)
	update(t, db, func(tx *Tx) error {
		for i := range uint64(maxIncidents + 50) {
			if err := (Inbox{tx}).Report("b", "gap", fmt.Sprint(i)); err != nil {
				return err
			}
			if err := (Inbox{tx}).Bury("b", 10*i+1, 10*i+2); err != nil {
				return err
			}
			if err := (Inbox{tx}).Refuse("b", "foreign"); err != nil {
				return err
			}
		}
		for table, want := range map[string]int{"incidents": maxIncidents, "tombstones": maxTombstones, "refusals": 1} {
			var n int
			if _, err := tx.one([]any{&n}, "SELECT count(*) FROM "+table); err != nil || n != want {
				t.Errorf("%s has %d rows, want %d: %v", table, n, want, err)
			}
		}
		list, err := Inbox{tx}.Incidents(1)
		if err != nil || list[0].Detail != fmt.Sprint(maxIncidents+49) {
			t.Errorf("the latest incident is %v, %v", list, err)
		}
		buried, err := Inbox{tx}.Buried("b", 10*maxIncidents+2)
		if err != nil || !buried {
			t.Errorf("buried %v, %v", buried, err)
		}
		return err
	})
}

// TestTaskEndsOnce: a task that has ended stays as it is.
func TestTaskEndsOnce(t *testing.T) {
	db, now := open(t)
	update(t, db, func(tx *Tx) error {
		k := Task{Role: Requester, TaskID: "t", AgentID: "reader", EventID: "e", DeadlineAt: now.Add(time.Hour)}
		for i, want := range []bool{true, false} {
			if isNew, err := (Tasks{tx}).Begin(k); err != nil || isNew != want {
				t.Errorf("begin %d: %v, %v", i, isNew, err)
			}
		}
		for _, step := range []struct {
			state string
			want  bool
		}{{Taken, true}, {Complete, true}, {Failed, false}, {Taken, false}} {
			k.State = step.state
			if moved, err := (Tasks{tx}).Set(k); err != nil || moved != step.want {
				t.Errorf("to %s: %v, %v", step.state, moved, err)
			}
		}
		k, _, err := Tasks{tx}.Find(Requester, "t", "reader")
		if k.State != Complete {
			t.Errorf("the task is %s", k.State)
		}
		return err
	})
}

// TestAckOfStrangers: only the recipient's gateway can accept, and an acknowledgement
// never goes back.
func TestAckOfStrangers(t *testing.T) {
	db, now := open(t)
	e := message(t, *now, "a", 1)
	update(t, db, func(tx *Tx) error {
		if err := (Outbox{tx}).Append(e); err != nil {
			return err
		}
		if err := (Outbox{tx}).Await(e, map[string]string{"reader": "b"}, *now); err != nil {
			return err
		}
		for _, c := range []struct {
			node, agent, word string
			awaited, changed  bool
		}{
			{"c", "reader", event.Accepted, false, false},
			{"b", "other", event.Processed, false, false},
			{"b", "reader", event.Accepted, true, true},
			{"b", "reader", event.Processed, true, true},
			{"b", "reader", event.Accepted, true, false},
		} {
			awaited, changed, err := Outbox{tx}.Ack(&event.Ack{RefEventID: e.EventID, AckType: c.word, AckedByNodeID: c.node, AckedByAgentID: c.agent})
			if err != nil || awaited != c.awaited || changed != c.changed {
				t.Errorf("%s of %s at %s: awaited %v, changed %v, %v", c.word, c.agent, c.node, awaited, changed, err)
			}
		}
		return nil
	})
}
