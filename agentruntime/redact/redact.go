// Package redact hides what looks like a secret in text that is about to be
// kept or shown. It is a second line of defence: nothing may rely on it
// (OS-7.2.1), and a secret that looks like nothing in particular passes.
package redact

import (
	"regexp"
	"strings"
)

// Mask stands where a secret was.
const Mask = "[REDACTED]"

// MaxText bounds the text that is searched; what is longer is cut before.
const MaxText = 64 << 10

// Names of values that are secrets, as whole words between separators: "auth"
// and "session" alone would hide author and session_id as well.
const secretNames = `(?:api[_-]?key|apikey|access[_-]?key|secret(?:[_-]?key)?|client[_-]?secret|private[_-]?key|` +
	`passw(?:or)?d|passphrase|(?:access|refresh|session|auth|id|bearer)[_-]?token|token|authorization|macaroon|preimage|mnemonic|nsec)`

var (
	pem    = regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|$)`)
	scheme = regexp.MustCompile(`(?i)\b(bearer|authorization["']?\s*[:=]\s*["']?basic)(\s+)[A-Za-z0-9._~+/=-]{6,}`)
	jwt    = regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*`)
	nostr  = regexp.MustCompile(`\b(?:nsec1|ncryptsec1)[02-9ac-hj-np-z]{20,}`)
	known  = regexp.MustCompile(`\b(?:sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|AKIA[0-9A-Z]{16}|xox[abprs]-[A-Za-z0-9-]{10,})`)
	user   = regexp.MustCompile(`([a-z][a-z0-9+.-]*://[^/\s:@]*:)[^/\s@]+@`)
	// secret://ID, or the rest of it after "secret:", where a secret was already.
	reference = regexp.MustCompile(`^["']?(?:secret:)?//[A-Z2-7]{26}["']?$`)
	// name=value, name: value, "name":"value"
	named = regexp.MustCompile(`(?i)((?:^|[^A-Za-z0-9])` + secretNames + `["']?\s*[:=]\s*)("(?:[^"\\]|\\.)*"|'[^']*'|[^\s"',;&}\]]+)`)
)

// Text masks secrets in s.
func Text(s string) string {
	if len(s) > MaxText {
		s = s[:MaxText]
	}
	if s == "" || !suspicious(s) {
		return s
	}
	s = pem.ReplaceAllString(s, Mask)
	s = scheme.ReplaceAllString(s, "${1}${2}"+Mask)
	s = jwt.ReplaceAllString(s, Mask)
	s = nostr.ReplaceAllString(s, Mask)
	s = known.ReplaceAllString(s, Mask)
	s = user.ReplaceAllString(s, "${1}"+Mask+"@")
	return named.ReplaceAllStringFunc(s, maskValue)
}

// overlap is longer than a secret whose pattern is of any length is likely to be,
// so that none hides on the edge of two windows.
const overlap = 8 << 10

// Holds reports whether a text of any length holds what looks like a secret.
func Holds(s string) bool {
	for ; ; s = s[MaxText-overlap:] {
		window := s[:min(len(s), MaxText)]
		if Text(window) != window {
			return true
		}
		if len(s) <= MaxText {
			return false
		}
	}
}

// suspicious is a cheap test that most lines fail: every pattern needs one of
// these characters.
func suspicious(s string) bool { return strings.ContainsAny(s, ":=.-_1 ") }

func maskValue(m string) string {
	parts := named.FindStringSubmatch(m)
	value := parts[2]
	if strings.HasPrefix(value, Mask[:len(Mask)-1]) || strings.Contains(value, Mask) || reference.MatchString(value) {
		return m
	}

	switch value[0] {
	case '"', '\'':
		return parts[1] + value[:1] + Mask + value[:1]
	}

	// "Authorization: Bearer [REDACTED]" was masked before; its scheme stays.
	if l := strings.ToLower(value); l == "bearer" || l == "basic" || l == "null" || l == "true" || l == "false" {
		return m
	}
	return parts[1] + Mask
}
