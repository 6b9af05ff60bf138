// Package display formats values for people: untrusted text so that it cannot
// control a terminal, amounts, ids, keys and times.
package display

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/lightwork-market/lightwork/receipts"
)

// OneLine makes untrusted text safe and puts it on one line. It does not shorten
// it: tables clip text only for a screen, and readers of a pipe may search for
// every word.
func OneLine(s string) string { return strings.ReplaceAll(Printable(s), "\n", " ") }

// Cut makes untrusted text safe, on one line, with at most n characters.
func Cut(s string, n int) string {
	text := []rune(OneLine(s))
	if len(text) > n {
		text = append(text[:n-1], '…')
	}
	return string(text)
}

// steers reports whether a character controls a terminal or changes the direction
// of text.
func steers(r rune) bool {
	return unicode.IsControl(r) || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// Printable replaces characters that could control a terminal. Newlines stay.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case r == '\t':
			return ' '
		case steers(r):
			return '\ufffd'
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
}

// Short shortens an id or hash for a table.
func Short(s string) string {
	s = strings.TrimPrefix(s, "sha256:")
	if len(s) > 12 {
		return s[:12]
	}
	return s
}

// Msats formats an amount.
func Msats(n int64) string {
	if n%1000 == 0 {
		return fmt.Sprintf("%d sat", n/1000)
	}
	return fmt.Sprintf("%d msats", n)
}

// Count formats a number of things: "1 file", "2 files".
func Count(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// ShortReceipt shortens a receipt id for a table; commands accept the beginning of
// an id.
func ShortReceipt(id string) string { return id[:min(len(id), 17)] }

// Modes formats payment modes.
func Modes(modes []receipts.Mode) string {
	words := make([]string, len(modes))
	for i, m := range modes {
		words[i] = Cut(string(m), 10)
	}
	return strings.Join(words, ", ")
}

// LocalTime converts the UTC time of a document to local time, without seconds.
func LocalTime(stamp string) string {
	at, err := time.Parse(time.RFC3339, stamp)
	if err != nil {
		return Printable(stamp)
	}
	return at.Local().Format("2006-01-02 15:04")
}

// NPub formats a key as npub.
func NPub(hex string) string {
	text, err := receipts.Npub(hex)
	if err != nil {
		return hex
	}
	return text
}

// Clip shortens a text to n columns.
func Clip(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	if n <= 0 {
		return ""
	}
	r := []rune(s)
	return string(r[:n-1]) + "…"
}
