package wit

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// token is an identifier, a version ("@1.2.3" without the @) or punctuation.
type token struct {
	text         string
	line, column int
	ident        bool
	escaped      bool   // written %name: never a keyword
	docs         string // of the preceding /// lines
}

func (t token) errorf(format string, args ...any) *Error {
	return &Error{Line: t.line, Column: t.column, Reason: fmt.Sprintf(format, args...)}
}

type lexer struct {
	src          string
	pos          int
	line, column int
	docs         strings.Builder
}

// tokenize splits a document. The last token is empty and marks the end.
func tokenize(src string) ([]token, error) {
	l := &lexer{src: src, line: 1, column: 1}
	if len(src) > MaxBytes {
		return nil, l.position().errorf("%d bytes, the limit is %d", len(src), MaxBytes)
	}
	if !utf8.ValidString(src) {
		return nil, l.position().errorf("not UTF-8")
	}

	var all []token
	for {
		t, err := l.next()
		if err != nil {
			return nil, err
		}
		if all = append(all, t); t.text == "" {
			return all, nil
		}
		if len(all) > maxTokens {
			return nil, t.errorf("more than %d tokens", maxTokens)
		}
	}
}

func (l *lexer) position() token { return token{line: l.line, column: l.column} }

func (l *lexer) advance(n int) string {
	text := l.src[l.pos : l.pos+n]
	l.pos += n
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		l.line += strings.Count(text, "\n")
		l.column = len(text) - i
	} else {
		l.column += n
	}
	return text
}

func (l *lexer) next() (token, error) {
	if err := l.space(); err != nil {
		return token{}, err
	}
	t := l.position()
	t.docs = strings.TrimSpace(l.docs.String())
	l.docs.Reset()

	rest := l.src[l.pos:]
	switch {
	case rest == "":
		return t, nil
	case strings.HasPrefix(rest, "->"):
		t.text = l.advance(2)
	case strings.IndexByte("{}()<>:;,=/.@_", rest[0]) >= 0:
		t.text = l.advance(1)
	case rest[0] == '%' || isLetter(rest[0]):
		return l.identifier(t)
	case isDigit(rest[0]):
		// Only a version may start with a digit; the parser checks where.
		t.text = l.advance(length(rest, func(c byte) bool { return isLetter(c) || isDigit(c) || c == '.' || c == '-' || c == '+' }))
	default:
		r, _ := utf8.DecodeRuneInString(rest)
		return t, t.errorf("unexpected %q", r)
	}

	return t, nil
}

// identifier reads a kebab-case name: words of letters and digits joined by single
// hyphens, each starting with a letter.
func (l *lexer) identifier(t token) (token, error) {
	if l.src[l.pos] == '%' {
		t.escaped = true
		l.advance(1)
	}

	n := length(l.src[l.pos:], func(c byte) bool { return isLetter(c) || isDigit(c) || c == '-' })

	// "a->" is a name and an arrow.
	if strings.HasSuffix(l.src[l.pos:l.pos+n], "-") && strings.HasPrefix(l.src[l.pos+n:], ">") {
		n--
	}
	if n > maxIdent {
		return t, t.errorf("a name longer than %d bytes", maxIdent)
	}
	t.text, t.ident = l.advance(n), true

	for word := range strings.SplitSeq(t.text, "-") {
		if word == "" || !isLetter(word[0]) {
			return t, t.errorf("malformed name %q", t.text)
		}
	}

	return t, nil
}

// space skips whitespace and comments; doc comments are kept for the next token.
func (l *lexer) space() error {
	for l.pos < len(l.src) {
		rest := l.src[l.pos:]
		switch {
		case strings.IndexByte(" \t\r\n", rest[0]) >= 0:
			l.advance(1)
		case strings.HasPrefix(rest, "//"):
			line, _, _ := strings.Cut(rest, "\n")
			l.advance(len(line))
			if text, isDoc := strings.CutPrefix(line, "///"); isDoc {
				if l.docs.Len()+len(text) > maxDocs {
					return l.position().errorf("a doc comment longer than %d bytes", maxDocs)
				}
				l.docs.WriteString(strings.TrimSpace(text) + "\n")
			}
		case strings.HasPrefix(rest, "/*"):
			end := strings.Index(rest[2:], "*/")
			if end < 0 {
				return l.position().errorf("unterminated comment")
			}
			l.advance(end + 4)
		default:
			return nil
		}
	}

	return nil
}

func length(s string, ok func(byte) bool) int {
	n := 0
	for n < len(s) && ok(s[n]) {
		n++
	}
	return n
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
