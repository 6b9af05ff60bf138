package code

import (
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/lightwork-market/lightwork/schemas"
)

// Severities of faults.
const (
	low    = "low"
	medium = "medium"
	high   = "high"
)

// rank orders severities and priorities, the most severe first.
func rank(severity string) int { return strings.Index(high+medium+low, severity) }

// Kinds of symbols.
const (
	kindFunction  = "function"
	kindMethod    = "method"
	kindClass     = "class"
	kindStruct    = "struct"
	kindInterface = "interface"
	kindEnum      = "enum"
	kindType      = "type"
	kindModule    = "module"
	kindConstant  = "constant"
	kindVariable  = "variable"
	kindMacro     = "macro"
)

// symbol is a definition in the chunk. Lines count from 0 in the chunk.
type symbol struct {
	name, kind string
	line, last int
	doc        string // first sentence of its documentation
	public     bool
	// For functions, decisions is 1 + the number of branches of control flow, and
	// depth is their deepest nesting.
	decisions, depth int
}

func (s *symbol) callable() bool { return s.kind == kindFunction || s.kind == kindMethod }

func (s *symbol) lines() int { return s.last - s.line + 1 }

// unit collects the findings about a chunk.
type unit struct {
	*source
	path      string
	language  *language
	container string // package or module that the chunk declares
	symbols   []symbol
	imports   []string // as written
	near      []string // files of the repository that the chunk names
	faults    []schemas.SuspectedFault
	// parsed says that a grammar of the language accepted the chunk.
	parsed bool
}

// fault records a suspicion; line counts from 0.
func (u *unit) fault(line int, severity, description, suggestion string) {
	u.faults = append(u.faults, schemas.SuspectedFault{
		Line: int64(line), Severity: severity, Description: description, Suggestion: suggestion,
	})
}

// define adds a symbol of one line and returns its index.
func (u *unit) define(t token, kind, name string) int {
	u.symbols = append(u.symbols, symbol{name: name, kind: kind, line: t.line, last: t.line, decisions: 1, doc: u.docAbove(t.line)})
	return len(u.symbols) - 1
}

func (u *unit) importPath(path string) {
	if path != "" {
		u.imports = append(u.imports, path)
	}
}

// isTest reports whether the whole file is a test.
func (u *unit) isTest() bool {
	file := u.path[strings.LastIndexByte(u.path, '/')+1:]
	return strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "test_") || strings.HasSuffix(file, "_test.py") ||
		strings.Contains(file, ".test.") || strings.Contains(file, ".spec.") ||
		strings.HasPrefix(u.path, "tests/") || strings.Contains(u.path, "/tests/")
}

// docAbove returns the first sentence of the comment directly above a line.
// Attributes and decorators may stand between them.
func (u *unit) docAbove(line int) string {
	above := u.commentsBefore(line)
	at := above - 1
	if at < 0 || !u.comments[at].first || !u.adjoins(u.comments[at].last, line) {
		return ""
	}
	for n := 0; n < maxAhead && at > 0 && u.comments[at-1].first && u.comments[at-1].last == u.comments[at].line-1; n++ {
		at--
	}
	var b strings.Builder
	for ; at < above && b.Len() < 2*maxDoc; at++ {
		b.WriteString(commentText(u.comments[at].text) + " ")
	}
	return sentence(b.String())
}

// adjoins reports whether only attributes are between two lines.
func (u *unit) adjoins(above, line int) bool {
	i := sort.Search(len(u.tokens), func(i int) bool { return u.tokens[i].line > above })
	next := u.at(i)
	return above == line-1 || above >= line-3 && (next.is("@") || next.is("#")) && next.line == above+1
}

// commentsBefore counts the comments that end before a line.
func (u *unit) commentsBefore(line int) int {
	return sort.Search(len(u.comments), func(i int) bool { return u.comments[i].last >= line })
}

// commented reports whether a comment ends on these lines.
func (u *unit) commented(from, to int) bool { return u.commentsBefore(to+1) > u.commentsBefore(from) }

// commentText strips the comment markers.
func commentText(s string) string {
	var b strings.Builder
	for line := range strings.Lines(cut(s, 4*maxDoc)) {
		b.WriteString(strings.TrimSpace(strings.TrimLeft(strings.TrimSuffix(strings.TrimSpace(line), "*/"), "/*#!- \t")) + " ")
	}
	return b.String()
}

// maxDoc bounds a sentence of documentation, in bytes.
const maxDoc = 160

// sentence returns the beginning of s up to the first full stop, on one line.
func sentence(s string) string {
	s = strings.Join(strings.Fields(cut(s, 4*maxDoc)), " ")
	if i := strings.Index(s, ". "); i >= 0 {
		s = s[:i+1]
	}
	return cut(s, maxDoc)
}

// cut shortens s to at most n bytes without splitting a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// describe summarizes a symbol; lines are those of the file.
func (s *symbol) describe(start int64) string {
	var parts []string
	if s.doc != "" {
		parts = append(parts, s.doc)
	}
	if s.lines() > 1 {
		parts = append(parts, fmt.Sprintf("Lines %d to %d.", start+int64(s.line), start+int64(s.last)))
	}
	if s.callable() && s.decisions > 1 {
		parts = append(parts, fmt.Sprintf("Cyclomatic complexity %d, nesting %d.", s.decisions, s.depth))
	}
	return strings.Join(parts, " ")
}
