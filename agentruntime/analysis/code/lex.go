package code

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// syntax describes how a language writes comments and literals.
type syntax struct {
	line  []string // starts of comments that end with the line
	block bool     // /* */ is a comment
	nest  bool     // and such comments nest
	// literal returns the length of the literal that begins at src[at], 0 if none
	// does. For an unterminated literal it returns the length to skip, negated.
	literal func(src string, at int, before token) int
}

// lexer splits a source into tokens. It never fails: an unexpected character
// becomes an operator.
type lexer struct {
	syntax
	src     string
	at      int
	lineNo  int
	col     int
	fresh   bool // only spaces so far on this line
	out     source
	current token // the latest token that is not a comment
}

// lex tokenizes a source, which must be valid UTF-8.
func lex(src string, s syntax) *source {
	l := &lexer{syntax: s, src: src, fresh: true, current: token{kind: comment}}
	for l.at < len(l.src) {
		l.next()
	}
	l.out.lines = strings.Count(src, "\n") + 1
	if src == "" || strings.HasSuffix(src, "\n") {
		l.out.lines--
	}
	l.out.pairs()
	return &l.out
}

func (l *lexer) next() {
	rest := l.src[l.at:]
	r, size := utf8.DecodeRuneInString(rest)

	switch {
	case rest[0] == '\n':
		l.at++
		l.newLine()
	case rest[0] == '\\' && len(rest) > 1 && rest[1] == '\n':
		l.at += 2
		l.newLine()
		l.fresh = false // the line continues
	case rest[0] == '\t':
		l.at++
		l.col = (l.col/8 + 1) * 8
	case unicode.IsSpace(r) || r == '\uFEFF' || r < ' ':
		l.at += size
		l.col += size
	case l.commentAt(rest):
	case l.literalAt():
	case r >= '0' && r <= '9':
		l.emit(number, numberLen(rest))
	case nameRune(r):
		l.emit(name, nameLen(rest))
	default:
		l.emit(mark, markLen(rest, size))
	}
}

func (l *lexer) newLine() {
	l.lineNo++
	l.col = 0
	l.fresh = true
}

// emit appends a token of the next n bytes.
func (l *lexer) emit(k kind, n int) {
	t := token{kind: k, text: l.src[l.at : l.at+n], line: l.lineNo, col: l.col, first: l.fresh}
	l.lineNo += strings.Count(t.text, "\n")
	t.last = l.lineNo
	l.at += n
	l.col += n
	if k == comment {
		l.out.comments = append(l.out.comments, t)
		return
	}
	l.fresh = false
	l.current = t
	l.out.tokens = append(l.out.tokens, t)
}

func (l *lexer) commentAt(rest string) bool {
	for _, begin := range l.line {
		if strings.HasPrefix(rest, begin) {
			n := strings.IndexByte(rest, '\n')
			if n < 0 {
				n = len(rest)
			}
			l.emit(comment, n)
			return true
		}
	}

	if !l.block || !strings.HasPrefix(rest, "/*") {
		return false
	}
	n := blockLen(rest, l.nest)
	if n < 0 {
		n = len(rest)
		l.out.unclosed = true
	}

	l.emit(comment, n)
	return true
}

// blockLen returns the length of a block comment, -1 if it is not terminated.
func blockLen(rest string, nest bool) int {
	depth := 1
	for i := 2; i+1 < len(rest); i++ {
		switch {
		case rest[i] == '*' && rest[i+1] == '/':
			if depth--; depth == 0 {
				return i + 2
			}
			i++
		case nest && rest[i] == '/' && rest[i+1] == '*':
			depth++
			i++
		}
	}

	return -1
}

func (l *lexer) literalAt() bool {
	n := l.literal(l.src, l.at, l.current)
	if n < 0 {
		n = -n
		l.out.unclosed = true
	}
	if n == 0 {
		return false
	}
	l.emit(text, n)
	return true
}

func nameRune(r rune) bool {
	return r == '_' || r == '$' || unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r)
}

func nameLen(s string) int {
	if n := strings.IndexFunc(s, func(r rune) bool { return !nameRune(r) }); n >= 0 {
		return n
	}
	return len(s)
}

// numberLen includes letters, for suffixes and exponents, but a point only before a
// digit, so that 1..2 is a range.
func numberLen(s string) int {
	for i := range len(s) {
		c := s[i]
		point := c == '.' && i+1 < len(s) && s[i+1] >= '0' && s[i+1] <= '9'
		if !point && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return i
		}
	}
	return len(s)
}

// Operators of several characters. Those of angle brackets only are missing,
// because they may close two lists of type arguments.
const (
	marks3 = "=== !== ... ..= **= ??= &&= ||="
	marks2 = ":= == != <= >= => -> :: && || ?? ?. ++ -- += -= *= /= %= |= &= ^= ** // .. |> <-"
)

// markLen returns the length of an operator; size is the length of its first
// character.
func markLen(s string, size int) int {
	for _, m := range [...]struct {
		n   int
		all string
	}{{3, marks3}, {2, marks2}} {
		if len(s) >= m.n && !strings.Contains(s[:m.n], " ") && strings.Contains(m.all, s[:m.n]) {
			return m.n
		}
	}
	return size
}
