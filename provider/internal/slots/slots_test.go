package slots

import (
	"context"
	"testing"
)

// TestReservedSlots: however many unpaid buyers ask, and whatever they hold, one who has
// paid finds a slot; what is given back is there again.
func TestReservedSlots(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 1, 2: 1, 3: 2, 4: 3, 8: 6, 64: 48} {
		if got := ForUnpaid(n); got != want {
			t.Errorf("of %d slots %d are for unpaid buyers, want %d", n, got, want)
		}
	}

	no, yes := func() bool { return false }, func() bool { return true }
	ended, stop := context.WithCancel(t.Context())
	stop()
	p := New(4)
	var leave []func()
	for range 3 {
		l, ok := p.Try(no)
		if !ok {
			t.Fatal("an unpaid buyer finds no slot")
		}
		leave = append(leave, l)
	}
	if _, ok := p.Try(no); ok {
		t.Error("the reserved slot was taken by an unpaid buyer")
	}
	if _, ok := p.Wait(ended, nil, false); ok {
		t.Error("an unpaid buyer waited for the reserved slot and got it")
	}
	paid, ok := p.Try(yes)
	if !ok {
		t.Fatal("who has paid finds no slot")
	}
	if _, ok := p.Wait(ended, nil, true); ok {
		t.Error("a fifth slot of four")
	}

	paid()
	leave[0]()
	for _, has := range []bool{true, false} {
		l, ok := p.Wait(t.Context(), nil, has)
		if !ok {
			t.Fatalf("a slot that was given back is gone; paid: %v", has)
		}
		leave = append(leave, l)
	}
	canceled := make(chan struct{})
	close(canceled)
	if _, ok := p.Wait(t.Context(), canceled, true); ok {
		t.Error("a slot for a job that was canceled, of none that are free")
	}
}
