package server

import (
	"strings"
	"testing"
	"time"
)

// TestBroadQueryComesLater has a new connection that asks for much and one that
// has asked before and wants little.
func TestBroadQueryComesLater(t *testing.T) {
	ts := newQueryQueue()
	fresh, known := ts.join("10.0.0.1"), ts.join("10.0.0.2")
	now := time.Now()
	known.spent.add(now, 5*time.Millisecond)
	broad := &queryWait{of: fresh, expected: 20 * time.Millisecond, granted: make(chan struct{})}
	small := &queryWait{of: known, expected: time.Millisecond, granted: make(chan struct{})}
	ts.waiting, ts.free = []*queryWait{broad}, 1
	if ts.grant(now); ts.free != 1 {
		t.Error("a broad query got the last slot")
	}
	ts.waiting, ts.free = []*queryWait{broad, small}, 2
	ts.grant(now)
	if ts.free != 1 || len(ts.waiting) != 1 || ts.waiting[0] != broad {
		t.Errorf("%d slots are free and %d wait, want the small query to have come first", ts.free, len(ts.waiting))
	}
}

func TestForgeryIsFined(t *testing.T) {
	r := start(t, Config{Limits: Limits{MessageBurst: 7}})
	r.srv.cfg.Limits.MessagesPerSecond = 0 // nothing is added during the test
	p := r.dial()
	forged := note(t, "forged", 0)
	forged.Sig = strings.Repeat("1", 128)
	p.publish(forged)
	p.expect("OK false invalid: bad signature")
	p.publish(note(t, "next", 0))
	p.expect("OK false rate-limited: slow down")
	r.dial().put(note(t, "another client", 0))
}
