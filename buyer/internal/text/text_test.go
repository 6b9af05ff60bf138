package text_test

import (
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/buyer/internal/text"
)

// TestClean: what strangers write cannot move a terminal's cursor, is valid, and is
// no longer than can be shown.
func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"two\nlines":       "two\nlines",
		"\x1b[2Jgone\ttab": " [2Jgone tab",
		"half \xff rune":   "half  rune",
	} {
		if got := text.Clean(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
	if got := text.Clean(strings.Repeat("x", 5000)); len(got) != 2000 {
		t.Errorf("%d bytes are left", len(got))
	}
}
