// Package clip shortens untrusted texts.
package clip

import "unicode/utf8"

// Text shortens a text to at most n bytes without splitting a character.
func Text(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
