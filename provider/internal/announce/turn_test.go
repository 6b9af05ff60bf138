package announce

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestEachAnnouncementHasASecond: of two with one date a relay may keep the older.
func TestEachAnnouncementHasASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a turn
		dates := map[int64]bool{}
		for range 5 {
			if err := a.begin(t.Context()); err != nil {
				t.Fatal(err)
			}
			dates[time.Now().Unix()] = true
			time.Sleep(300 * time.Millisecond)
			a.end()
		}
		if len(dates) != 5 {
			t.Errorf("%d dates", len(dates))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := a.begin(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("ended: %v", err)
		}
		if !a.mu.TryLock() {
			t.Error("it holds the turn")
		}
	})
}
