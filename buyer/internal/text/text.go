// Package text makes the words of others fit to be shown and stored.
package text

import (
	"strings"
	"unicode"
)

// Clean makes the words of others fit to be shown and stored: valid UTF-8, no
// control characters but newlines, bounded.
func Clean(s string) string {
	const most = 2000
	if len(s) > most {
		s = s[:most]
	}
	return strings.Map(func(r rune) rune {
		if r == '\n' {
			return r
		}
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, ""))
}
