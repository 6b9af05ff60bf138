package hashing

import (
	"encoding/binary"
	"unicode/utf16"
	"unicode/utf8"
)

// escapes maps the letter after a backslash to its character; 0 means no escape.
// The reverse is [short], which canonical text uses.
var escapes = [256]byte{
	'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

// short maps a character to the letter of its two-character escape
// (RFC 8785 section 3.2.2.2); 0 means that it has none.
var short = [utf8.RuneSelf]byte{
	'"': '"', '\\': '\\', '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't',
}

const hexDigits = "0123456789abcdef"

// plain says which ASCII characters a string holds without an escape.
var plain = func() (table [256]bool) {
	for c := range byte(utf8.RuneSelf) {
		table[c] = !special(c)
	}
	return table
}()

// special reports whether an ASCII character needs an escape in a string.
func special(c byte) bool { return c < ' ' || c == '"' || c == '\\' }

func (e *engine) stringValue() error {
	e.src.pos++
	e.out = append(e.out, '"')
	if err := e.text(&e.out, true); err != nil {
		return err
	}
	e.out = append(e.out, '"')
	return nil
}

// text appends the content of a string to dst, decoded or in canonical escapes. The
// opening quote was consumed; text consumes the closing one.
func (e *engine) text(dst *[]byte, escaped bool) error {
	s := &e.src
	for {
		run := plainRun(s.buf[s.pos:])
		*dst = append(*dst, s.buf[s.pos:s.pos+run]...)
		s.pos += run
		if s.pos == len(s.buf) {
			return s.fail(ReasonEnd)
		}

		switch c := s.buf[s.pos]; {
		case c == '"':
			s.pos++
			return nil
		case c == '\\':
			r, err := s.escape()
			if err != nil {
				return err
			}
			if escaped {
				*dst = appendRune(*dst, r)
			} else {
				*dst = utf8.AppendRune(*dst, r)
			}
		case c < ' ':
			return s.fail(ReasonControl)
		default:
			return s.fail(ReasonUTF8)
		}
	}
}

// allPlain reports whether all eight bytes of w are plain. Each subtraction below
// sets the top bit of a byte that is special. It borrows from the next byte only when
// a special byte made the result false anyway.
func allPlain(w uint64) bool {
	const each = 0x0101010101010101
	return (w|(w-' '*each)|((w^'"'*each)-each)|((w^'\\'*each)-each))&(utf8.RuneSelf*each) == 0
}

// plainRun returns the length of the longest prefix of b that needs no escape and
// consists of whole, valid UTF-8 characters.
func plainRun(b []byte) int {
	i := 0
	for {
		for len(b)-i >= 8 && allPlain(binary.LittleEndian.Uint64(b[i:])) {
			i += 8
		}
		for i < len(b) && plain[b[i]] {
			i++
		}
		if i == len(b) || b[i] < utf8.RuneSelf {
			return i
		}
		r, size := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
}

// escape reads the escape sequence at the next unread byte, a backslash.
func (s *source) escape() (rune, error) {
	if !s.ahead(2) {
		s.pos = len(s.buf)
		return 0, s.fail(ReasonEnd)
	}
	c := s.buf[s.pos+1]
	if c != 'u' {
		r := escapes[c]
		if r == 0 {
			return 0, s.fail(ReasonEscape)
		}
		s.pos += 2
		return rune(r), nil
	}

	r, ok := s.unit(0)
	if !ok {
		return 0, s.fail(ReasonEscape)
	}
	if !utf16.IsSurrogate(r) {
		s.pos += 6
		return r, nil
	}

	low, ok := s.unit(6)
	if !ok {
		return 0, s.fail(ReasonSurrogate)
	}
	pair := utf16.DecodeRune(r, low)
	if pair == utf8.RuneError {
		return 0, s.fail(ReasonSurrogate)
	}
	s.pos += 12
	return pair, nil
}

// unit reads the UTF-16 code unit \uXXXX that begins at bytes after the next unread
// byte.
func (s *source) unit(at int) (rune, bool) {
	if !s.ahead(at + 6) {
		return 0, false
	}
	b := s.buf[s.pos+at : s.pos+at+6]
	if b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}

	var r rune
	for _, c := range b[2:] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}

	return r, true
}

// appendQuoted appends decoded text as a canonical JSON string.
func appendQuoted(dst, text []byte) []byte {
	dst = append(dst, '"')
	for {
		// The text was decoded here, so it is valid and only a special ends the run.
		run := plainRun(text)
		dst = append(dst, text[:run]...)
		if run == len(text) {
			return append(dst, '"')
		}
		dst = appendRune(dst, rune(text[run]))
		text = text[run+1:]
	}
}

// appendRune appends one character the way canonical text writes it.
func appendRune(dst []byte, r rune) []byte {
	switch {
	case r >= utf8.RuneSelf || !special(byte(r)):
		return utf8.AppendRune(dst, r)
	case short[r] != 0:
		return append(dst, '\\', short[r])
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[r>>4], hexDigits[r&0xf])
}
