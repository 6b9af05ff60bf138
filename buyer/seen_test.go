package buyer

import (
	"strconv"
	"testing"
)

// TestSeenIsBounded: a provider that talks without end fills no memory.
func TestSeenIsBounded(t *testing.T) {
	f := (&Client{}).newFollower("request", nil)
	for i := range 3 * seenMax {
		id := strconv.Itoa(i)
		if f.see(id); !f.seen[id] || len(f.seen) > seenMax {
			t.Fatalf("event %d: %d are kept", i, len(f.seen))
		}
	}
}
