// Package clip bounds texts that others wrote.
package clip

import "unicode/utf8"

// Text cuts a text to at most n bytes at a rune's edge.
func Text(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
