package payments

import (
	"strings"
	"unicode"
)

// Printable shortens a stranger's text to limit runes on one line and removes characters
// that could control a terminal.
func Printable(s string, limit int) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		if n == limit {
			b.WriteString("...")
			break
		}
		if unicode.IsSpace(r) {
			r = ' '
		}
		if unicode.IsPrint(r) && r != unicode.ReplacementChar {
			b.WriteRune(r)
			n++
		}
	}

	return b.String()
}
