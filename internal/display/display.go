// Package display writes values for a person: text from outside so that it cannot
// steer a terminal, amounts, ids, keys and times.
package display

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/lightwork-market/lightwork/receipts"
)

// OneLine makes one line of text from outside. A table clips it where a screen ends,
// and nowhere else: who reads a listing from a pipe may look for any word of it.
func OneLine(s string) string { return strings.ReplaceAll(Printable(s), "\n", " ") }

// Cut makes one line of text from outside, of at most n characters.
func Cut(s string, n int) string {
	text := []rune(OneLine(s))
	if len(text) > n {
		text = append(text[:n-1], '…')
	}
	return string(text)
}

// steers reports whether a terminal takes a character for a command, or for one to
// turn the text around it.
func steers(r rune) bool {
	return unicode.IsControl(r) || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// Printable replaces what could steer a terminal: text from outside goes
// through it before it is shown. Newlines stay.
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

// Short cuts an id or hash for a table.
func Short(s string) string {
	s = strings.TrimPrefix(s, "sha256:")
	if len(s) > 12 {
		return s[:12]
	}
	return s
}

// Msats writes an amount for people.
func Msats(n int64) string {
	if n%1000 == 0 {
		return fmt.Sprintf("%d sat", n/1000)
	}
	return fmt.Sprintf("%d msats", n)
}

// Count writes a number of things: "1 file", "2 files".
func Count(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// ShortReceipt cuts a receipt id for a table; commands take the beginning of one.
func ShortReceipt(id string) string { return id[:min(len(id), 17)] }

// Modes lists ways to pay.
func Modes(modes []receipts.Mode) string {
	words := make([]string, len(modes))
	for i, m := range modes {
		words[i] = Cut(string(m), 10)
	}
	return strings.Join(words, ", ")
}

// LocalTime shows the time of a document, which is in UTC, as this machine's: to
// the minute, as there is no room for more.
func LocalTime(stamp string) string {
	at, err := time.Parse(time.RFC3339, stamp)
	if err != nil {
		return Printable(stamp)
	}
	return at.Local().Format("2006-01-02 15:04")
}

// NPub is a key as people write it.
func NPub(hex string) string {
	text, err := receipts.Npub(hex)
	if err != nil {
		return hex
	}
	return text
}

// Clip cuts a text to n columns.
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
