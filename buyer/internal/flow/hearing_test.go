package flow

import (
	"strconv"
	"testing"
)

// TestSeenIsBounded: a provider that talks without end fills no memory.
func TestSeenIsBounded(t *testing.T) {
	h := hearing{seen: map[string]bool{}}
	for i := range 3 * seenMax {
		id := strconv.Itoa(i)
		if h.see(id); !h.seen[id] || len(h.seen) > seenMax {
			t.Fatalf("event %d: %d are kept", i, len(h.seen))
		}
	}
}
