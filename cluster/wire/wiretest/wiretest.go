// Package wiretest is the suite that every message wire passes.
package wiretest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/cluster/wire"
)

// The node ids of the two gateways that Open connects.
const (
	NodeA = "gate-a"
	NodeB = "gate-b"
)

// Open makes the wires of two new gateways that are peers of each other. Their end is
// the test's.
type Open func(t *testing.T) (a, b wire.Wire)

// Run runs the suite.
func Run(t *testing.T, open Open) {
	t.Run("sequence", func(t *testing.T) { sequence(t, open) })
	t.Run("read", func(t *testing.T) { read(t, open) })
	t.Run("reset", func(t *testing.T) { reset(t, open) })
	t.Run("purge", func(t *testing.T) { purge(t, open) })
	t.Run("records", func(t *testing.T) { records(t, open) })
	t.Run("cursors", func(t *testing.T) { cursors(t, open) })
	t.Run("wake", func(t *testing.T) { wake(t, open) })
	t.Run("limits", func(t *testing.T) { limits(t, open) })
}

// within bounds one step of a test.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func refused(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
}

// between makes the messages with the sequences from first to last.
func between(first, last uint64) []wire.Message {
	var all []wire.Message
	for seq := first; seq <= last; seq++ {
		all = append(all, wire.Message{Seq: seq, ID: fmt.Sprintf("evt_%d:1", seq), Data: fmt.Appendf(nil, `{"seq":%d}`, seq)})
	}
	return all
}

func same(t *testing.T, got, want []wire.Message) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d messages, want %d: %v", len(got), len(want), got)
	}
	for i, m := range want {
		if got[i].Seq != m.Seq || got[i].ID != m.ID || !bytes.Equal(got[i].Data, m.Data) {
			t.Fatalf("message %+v, want %+v", got[i], m)
		}
	}
}

func dial(t *testing.T, w wire.Wire, node string) wire.Remote {
	t.Helper()
	r, err := w.Dial(within(t), node)
	ok(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func sequence(t *testing.T, open Open) {
	a, _ := open(t)
	ctx, out := within(t), a.Outbox()
	_, err := out.Info(ctx)
	refused(t, err, wire.ErrNoStream)
	ok(t, out.Reset(ctx, "epoch-1", 1))
	info, err := out.Info(ctx)
	ok(t, err)
	if want := (wire.Info{Epoch: "epoch-1", First: 1}); info != want {
		t.Fatalf("an empty stream is %+v, want %+v", info, want)
	}

	ok(t, out.Append(ctx, between(1, 3)))
	for _, seq := range []uint64{5, 9} {
		var wrong *wire.SequenceError
		if err := out.Append(ctx, between(seq, seq)); !errors.As(err, &wrong) || wrong.Last != 3 || wrong.Seq != seq {
			t.Fatalf("message %d after 3: %v", seq, err)
		}
	}

	// Another message in the place of one that is there.
	other := []wire.Message{{Seq: 2, ID: "evt_other:1", Data: []byte(`{}`)}}
	if err := out.Append(ctx, other); !errors.As(err, new(*wire.SequenceError)) {
		t.Fatalf("a second message 2: %v", err)
	}

	info, err = out.Info(ctx)
	ok(t, err)
	if want := (wire.Info{Epoch: "epoch-1", First: 1, Last: 3, Kept: 3}); info != want {
		t.Fatalf("the stream is %+v, want %+v", info, want)
	}
	got, err := out.Read(ctx, 1, 10)
	ok(t, err)
	same(t, got, between(1, 3))
}

func read(t *testing.T, open Open) {
	a, b := open(t)
	ctx, r := within(t), dial(t, b, NodeA)
	_, err := r.Info(ctx)
	refused(t, err, wire.ErrNoStream)
	ok(t, a.Outbox().Reset(ctx, "epoch-1", 1))
	ok(t, a.Outbox().Append(ctx, between(1, 300)))

	for _, c := range []struct {
		from, first, last uint64
		count             int
	}{{1, 1, 7, 7}, {8, 8, 107, 100}, {299, 299, 300, 50}, {0, 1, 2, 2}} {
		got, err := r.Read(ctx, c.from, c.count)
		ok(t, err)
		same(t, got, between(c.first, c.last))
	}
	got, err := r.Read(ctx, 301, 10)
	ok(t, err)
	same(t, got, nil)

	_, err = b.Dial(ctx, "gate-nobody")
	refused(t, err, wire.ErrUnknownPeer)
}

func reset(t *testing.T, open Open) {
	a, b := open(t)
	ctx, out, r := within(t), a.Outbox(), dial(t, b, NodeA)
	ok(t, out.Reset(ctx, "epoch-1", 1))
	ok(t, out.Append(ctx, between(1, 3)))
	ok(t, out.Reset(ctx, "epoch-2", 41))
	if err := out.Append(ctx, between(4, 4)); !errors.As(err, new(*wire.SequenceError)) {
		t.Fatalf("message 4 of a stream that begins at 41: %v", err)
	}
	ok(t, out.Append(ctx, between(41, 42)))

	info, err := r.Info(ctx)
	ok(t, err)
	if want := (wire.Info{Epoch: "epoch-2", First: 41, Last: 42, Kept: 2}); info != want {
		t.Fatalf("the stream is %+v, want %+v", info, want)
	}
	got, err := r.Read(ctx, 1, 10)
	ok(t, err)
	same(t, got, between(41, 42))
}

func purge(t *testing.T, open Open) {
	a, b := open(t)
	ctx, out, r := within(t), a.Outbox(), dial(t, b, NodeA)
	ok(t, out.Reset(ctx, "epoch-1", 1))
	ok(t, out.Append(ctx, between(1, 10)))
	ok(t, out.Purge(ctx, 4))
	info, err := r.Info(ctx)
	ok(t, err)
	if want := (wire.Info{Epoch: "epoch-1", First: 5, Last: 10, Kept: 6}); info != want {
		t.Fatalf("the stream is %+v, want %+v", info, want)
	}
	got, err := r.Read(ctx, 1, 100)
	ok(t, err)
	same(t, got, between(5, 10))

	ok(t, out.Purge(ctx, 10))
	info, err = out.Info(ctx)
	ok(t, err)
	if want := (wire.Info{Epoch: "epoch-1", First: 11, Last: 10}); info != want {
		t.Fatalf("the purged stream is %+v, want %+v", info, want)
	}
	ok(t, out.Append(ctx, between(11, 11)))
}

func records(t *testing.T, open Open) {
	a, b := open(t)
	ctx, own, r := within(t), a.Records(), dial(t, b, NodeA)
	ok(t, own.Put(ctx, "agents.writer", []byte(`{"v":1}`)))
	ok(t, own.Put(ctx, "capabilities.catalog.cap.fs.diff-apply", []byte(`{"v":2}`)))
	ok(t, own.Put(ctx, "agents.writer", []byte(`{"v":3}`)))

	all, err := r.Records(ctx)
	ok(t, err)
	if len(all) != 2 || string(all["agents.writer"]) != `{"v":3}` || string(all["capabilities.catalog.cap.fs.diff-apply"]) != `{"v":2}` {
		t.Fatalf("the peer reads %q", all)
	}

	ok(t, own.Delete(ctx, "agents.writer"))
	ok(t, own.Delete(ctx, "agents.nobody"))
	for name, list := range map[string]func(context.Context) (map[string][]byte, error){"own": own.All, "peer's": r.Records} {
		if all, err := list(ctx); err != nil || len(all) != 1 {
			t.Fatalf("%s view has %q, %v", name, all, err)
		}
	}

	// Each writes its own records only.
	all, err = b.Records().All(ctx)
	ok(t, err)
	if len(all) != 0 {
		t.Fatalf("the other gateway has %q", all)
	}
}

func cursors(t *testing.T, open Open) {
	a, b := open(t)
	ctx, r := within(t), dial(t, b, NodeA)
	all, err := a.Cursors(ctx)
	ok(t, err)
	if len(all) != 0 {
		t.Fatalf("cursors before any: %q", all)
	}

	ok(t, r.PutCursor(ctx, []byte(`{"lastSeq":1}`)))
	ok(t, r.PutCursor(ctx, []byte(`{"lastSeq":2}`)))
	all, err = a.Cursors(ctx)
	ok(t, err)
	if len(all) != 1 || string(all[NodeB]) != `{"lastSeq":2}` {
		t.Fatalf("cursors are %q", all)
	}
}

// wake waits for the value after an append and after a record; one that comes without
// reason does no harm, so only a missing one fails.
func wake(t *testing.T, open Open) {
	a, b := open(t)
	ctx, r := within(t), dial(t, b, NodeA)
	ok(t, a.Outbox().Reset(ctx, "epoch-1", 1))
	_, err := r.Info(ctx) // by now the peer is reached
	ok(t, err)

	for seq := uint64(1); seq <= 3; seq++ {
		ok(t, a.Outbox().Append(ctx, between(seq, seq)))
		for {
			got, err := r.Read(ctx, seq, 1)
			ok(t, err)
			if len(got) == 1 {
				break
			}
			select {
			case <-r.Wake():
			case <-ctx.Done():
				t.Fatal("the append woke nobody")
			}
		}
	}
	select {
	case <-r.Wake():
	case <-ctx.Done():
		t.Fatal("three appends woke nobody")
	}
}

func limits(t *testing.T, open Open) {
	a, b := open(t)
	ctx, out, r := within(t), a.Outbox(), dial(t, b, NodeA)
	ok(t, out.Reset(ctx, "epoch-1", 1))
	largest := wire.Message{Seq: 1, ID: "evt_1:1", Data: bytes.Repeat([]byte("x"), wire.MaxMessage)}
	ok(t, out.Append(ctx, []wire.Message{largest}))
	got, err := r.Read(ctx, 1, 10)
	ok(t, err)
	same(t, got, []wire.Message{largest})

	larger := wire.Message{Seq: 2, ID: "evt_2:1", Data: bytes.Repeat([]byte("x"), wire.MaxMessage+1)}
	refused(t, out.Append(ctx, []wire.Message{larger}), wire.ErrTooLarge)
	ok(t, out.Append(ctx, between(2, 2)))

	refused(t, a.Records().Put(ctx, "agents.large", make([]byte, wire.MaxRecord+1)), wire.ErrTooLarge)
	for _, key := range []string{"", ">", "*", "agents.>", "agents.*", ".agents", "agents.", "a..b", "a b", "a\n", "ä"} {
		refused(t, a.Records().Put(ctx, key, []byte("{}")), wire.ErrKey)
		refused(t, a.Records().Delete(ctx, key), wire.ErrKey)
	}
	refused(t, r.PutCursor(ctx, make([]byte, wire.MaxCursor+1)), wire.ErrTooLarge)
}
