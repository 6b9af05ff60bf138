package hashing

import (
	"bytes"
	"testing"
)

// Eight bytes at a time find the same end as one at a time, wherever in them a
// character stands.
func TestPlainRunEndsAtEveryCharacter(t *testing.T) {
	for c := range 256 {
		for at := range 20 {
			b := bytes.Repeat([]byte{'a'}, 24)
			b[at] = byte(c)
			want := at
			if plain[c] {
				want = len(b)
			}
			if got := plainRun(b); got != want {
				t.Fatalf("byte %#x at %d: a run of %d", c, at, got)
			}
		}
	}
	for x := range byte(128) {
		for y := range byte(128) { // side by side
			if got, want := plainRun([]byte{'a', 'a', 'a', x, y, 'a', 'a', 'a'}) == 8, plain[x] && plain[y]; got != want {
				t.Fatalf("%q and %q are plain: %v", x, y, got)
			}
		}
	}
}
