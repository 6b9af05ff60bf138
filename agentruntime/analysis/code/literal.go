package code

import (
	"strings"
	"unicode/utf8"
)

// maxShort bounds, in bytes, the literals that count only if they are terminated:
// each attempt reads up to this far.
const maxShort = 4096

// quotedLen returns the length of a literal that starts and ends with the quote (of
// one or three characters) and in which a backslash escapes the next character. For
// an unterminated literal it is the negated length up to the end of the line or, if
// the literal may contain line breaks, of the source.
func quotedLen(s, quote string, lines bool) int {
	for i := len(quote); i < len(s); i++ {
		switch {
		case s[i] == '\\':
			i++
		case s[i] == '\n' && !lines:
			return -i
		case strings.HasPrefix(s[i:], quote):
			return i + len(quote)
		}
	}
	return -len(s)
}

// raw returns the length of a literal that ends at the first end after begin bytes.
func raw(s string, begin int, end string) int {
	if n := strings.Index(s[begin:], end); n >= 0 {
		return begin + n + len(end)
	}
	return -len(s)
}

func goLiteral(src string, at int, _ token) int {
	switch s := src[at:]; s[0] {
	case '"', '\'':
		return quotedLen(s, s[:1], false)
	case '`':
		return raw(s, 1, "`")
	}
	return 0
}

// plainLiteral handles languages without rules of their own.
func plainLiteral(src string, at int, _ token) int {
	switch s := src[at:]; s[0] {
	case '"':
		return quotedLen(s, `"`, false)
	case '\'':
		// In prose and in some languages this is an apostrophe.
		return max(0, quotedLen(s[:min(len(s), maxShort)], "'", false))
	}
	return 0
}

func pythonLiteral(src string, at int, _ token) int {
	s := src[at:]
	prefix := 0
	for prefix < len(s) && prefix < 2 && strings.IndexByte("rbfuRBFUtT", s[prefix]) >= 0 {
		prefix++
	}
	if prefix == len(s) || s[prefix] != '"' && s[prefix] != '\'' {
		return 0
	}
	quote := s[prefix : prefix+1]
	long := strings.Repeat(quote, 3)
	n := 0
	if body := s[prefix:]; strings.HasPrefix(body, long) {
		n = quotedLen(body, long, true)
	} else {
		n = quotedLen(body, quote, false)
	}

	if n < 0 {
		return n - prefix
	}
	return n + prefix
}

// regexpAfter lists the keywords after which a slash starts a regular expression.
const regexpAfter = " return typeof case in of delete void throw new else do await yield instanceof "

func scriptLiteral(src string, at int, before token) int {
	switch s := src[at:]; s[0] {
	case '"', '\'':
		return quotedLen(s, s[:1], false)
	case '`':
		return template(s)
	case '/':
		operand := before.kind == number || before.kind == text || before.is(")") || before.is("]") || before.is("}") ||
			before.kind == name && !strings.Contains(regexpAfter, " "+before.text+" ")
		if !operand {
			return regexpLen(s)
		}
	}

	return 0
}

// template returns the length of a template literal, including all ${...} in it.
func template(s string) int {
	// The stack holds an entry for each open literal (a backtick) and each open ${
	// (a brace).
	stack := []byte{'`'}
	for i := 1; i < len(s); i++ {
		inText := stack[len(stack)-1] == '`'
		switch c := s[i]; {
		case inText && c == '\\':
			i++
		case c == '`' && inText, c == '}' && !inText:
			stack = stack[:len(stack)-1]
			if len(stack) == 0 {
				return i + 1
			}
		case inText && strings.HasPrefix(s[i:], "${"):
			stack = append(stack, '{')
			i++
		case !inText && (c == '`' || c == '{'):
			stack = append(stack, c)
		case !inText && (c == '"' || c == '\''):
			i += max(1, quotedLen(s[i:min(len(s), i+maxShort)], s[i:i+1], false)) - 1
		case !inText && c == '/' && strings.IndexByte("(,=:[!&|?{;", s[i-1]) >= 0:
			i += max(1, regexpLen(s[i:])) - 1
		}
	}

	return -len(s)
}

// regexpLen is 0 if the line ends first: then the slash is a division.
func regexpLen(s string) int {
	class := false
	for i := 1; i < min(len(s), maxShort); i++ {
		switch c := s[i]; {
		case c == '\n':
			return 0
		case c == '\\':
			i++
		case c == '[':
			class = true
		case c == ']':
			class = false
		case c == '/' && !class:
			return i + 1 + nameLen(s[i+1:])
		}
	}

	return 0
}

func rustLiteral(src string, at int, _ token) int {
	s := src[at:]
	if s[0] == '\'' {
		return rustQuote(s)
	}
	prefix := 0
	for prefix < len(s) && prefix < 2 && strings.IndexByte("bcr", s[prefix]) >= 0 {
		prefix++
	}

	n := 0
	switch body := s[prefix:]; {
	case prefix > 0 && s[prefix-1] == 'r':
		hashes := len(body) - len(strings.TrimLeft(body, "#"))
		if !strings.HasPrefix(body[hashes:], `"`) {
			return 0
		}
		n = raw(body, hashes+1, `"`+body[:hashes])
	case strings.HasPrefix(body, `"`):
		n = quotedLen(body, `"`, true)
	case strings.HasPrefix(body, "'") && prefix == 1:
		n = quotedLen(body, "'", false)
	default:
		return 0
	}

	if n < 0 {
		return n - prefix
	}
	return n + prefix
}

// rustQuote tells a character, 'a', from a lifetime, 'a. Lifetimes count as
// literals too.
func rustQuote(s string) int {
	if len(s) > 1 && s[1] == '\\' {
		return quotedLen(s, "'", false)
	}
	_, size := utf8.DecodeRuneInString(s[1:])
	if strings.HasPrefix(s[1+size:], "'") && size > 0 {
		return size + 2
	}
	return 1 + nameLen(s[1:])
}
