// Package clip shortens untrusted texts.
package clip

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

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

// Line shortens a text to n characters on one line and removes characters that could
// control a terminal.
func Line(text string, n int) string {
	var b strings.Builder
	for _, r := range text {
		if n == 0 {
			b.WriteString("...")
			break
		}
		if unicode.IsSpace(r) {
			r = ' '
		}
		if unicode.IsPrint(r) && r != unicode.ReplacementChar {
			b.WriteRune(r)
			n--
		}
	}
	return b.String()
}
