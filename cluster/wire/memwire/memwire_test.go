package memwire

import (
	"errors"
	"testing"

	"github.com/lightwork-market/lightwork/cluster/wire"
	"github.com/lightwork-market/lightwork/cluster/wire/wiretest"
)

func TestConformance(t *testing.T) {
	wiretest.Run(t, func(*testing.T) (a, b wire.Wire) {
		n := New()
		return n.Join(wiretest.NodeA), n.Join(wiretest.NodeB)
	})
}

// TestFaults: what a simulation does to the wire, the gateways see.
func TestFaults(t *testing.T) {
	n, ctx := New(), t.Context()
	a, b := n.Join("a"), n.Join("b")
	r, err := b.Dial(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Outbox().Reset(ctx, "one", 1); err != nil {
		t.Fatal(err)
	}
	messages := []wire.Message{{Seq: 1}, {Seq: 2}, {Seq: 3}}
	if err := a.Outbox().Append(ctx, messages); err != nil {
		t.Fatal(err)
	}

	n.Cut("b", "a", true)
	if _, err := r.Info(ctx); !errors.Is(err, wire.ErrUnreachable) {
		t.Fatalf("across a cut: %v", err)
	}
	n.Cut("b", "a", false)
	n.Drop("a", 2)
	if got, err := r.Read(ctx, 1, 9); err != nil || len(got) != 2 || got[1].Seq != 3 {
		t.Fatalf("read %v, %v", got, err)
	}
	if info, _ := r.Info(ctx); info.Kept != 2 || info.First != 1 || info.Last != 3 {
		t.Fatalf("info %+v", info)
	}

	n.Fail("a", wire.ErrFull)
	if err := a.Outbox().Append(ctx, []wire.Message{{Seq: 4}}); !errors.Is(err, wire.ErrFull) {
		t.Fatalf("append to a full disk: %v", err)
	}
	n.Forge("a", wire.Message{Seq: 4, Data: make([]byte, wire.MaxMessage+1)})
	if got, err := r.Read(ctx, 3, 9); !errors.Is(err, wire.ErrTooLarge) || len(got) != 1 {
		t.Fatalf("read %v, %v", got, err)
	}
	n.Rename("a", "two")
	if info, _ := r.Info(ctx); info.Epoch != "two" {
		t.Fatalf("info %+v", info)
	}
	n.Lose("a")
	if _, err := r.Info(ctx); !errors.Is(err, wire.ErrNoStream) {
		t.Fatalf("info of a lost stream: %v", err)
	}
}
