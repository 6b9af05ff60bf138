package code

import (
	"fmt"
	"regexp"
	"strings"
)

// Limits above which a function is suspicious.
const (
	manyDecisions = 15
	tooMany       = 30
	manyLines     = 100
	deepNesting   = 5
)

// secretName matches names of variables that hold secrets.
var secretName = regexp.MustCompile(`(?i)^[a-z0-9_.-]*(passw(or)?d|secret|api_?key|access_?key|private_?key|auth_?token|access_?token)s?$`)

// secretValue matches the formats of well-known keys.
var secretValue = regexp.MustCompile(`^(AKIA[0-9A-Z]{16}|gh[pousr]_[0-9A-Za-z]{36}|sk_live_[0-9A-Za-z]{16,}|xox[abp]-[0-9A-Za-z-]{10,}|nsec1[0-9a-z]{58})`)

var sqlText = regexp.MustCompile(`(?i)^.{0,4}\s*(select\s.*\sfrom|insert\s+into|update\s.*\sset|delete\s+from)\b`)

func isSQL(literal string) bool { return sqlText.MatchString(cut(literal, 512)) }

// common finds suspicious constructs that occur in every language.
func (u *unit) common(content string) {
	for _, c := range u.comments {
		u.markers(c)
	}

	for i, t := range u.tokens {
		if t.kind == text {
			u.secret(i)
		}
	}

	u.conflicts(content)
	for i := range u.symbols {
		if u.symbols[i].callable() {
			u.size(&u.symbols[i])
		}
	}
}

// markers finds notes of open work in comments.
func (u *unit) markers(c token) {
	line := c.line
	for l := range strings.Lines(c.text) {
		for _, m := range [...]string{"TODO", "FIXME", "XXX", "HACK"} {
			if i := strings.Index(l, m); i >= 0 && !letterAt(l, i-1) && !letterAt(l, i+len(m)) {
				u.fault(line, low, "a comment marks open work: "+m, "finish it, or track it")
				break
			}
		}
		line++
	}
}

func letterAt(s string, i int) bool {
	return i >= 0 && i < len(s) && (s[i] == '_' || s[i] >= 'a' && s[i] <= 'z' || s[i] >= 'A' && s[i] <= 'Z')
}

// secret checks a literal: its form, and the name that it is assigned to.
func (u *unit) secret(i int) {
	value := unquote(u.tokens[i])

	named := ""
	for j := i - 1; j >= max(0, i-4); j-- {
		if t := u.tokens[j]; t.kind == name {
			named = t.text
			break
		} else if t.kind == text { // a key of a map
			named = unquote(t)
			break
		} else if !t.is("=") && !t.is(":=") && !t.is(":") && !t.is("=>") && !t.is("&") {
			break
		}
	}

	assigned := u.at(i-1).kind == mark && len(named) <= 64 && secretName.MatchString(named)
	switch {
	case strings.HasPrefix(value, "-----BEGIN ") && strings.Contains(cut(value, 64), "PRIVATE KEY"), secretValue.MatchString(value):
		u.fault(u.tokens[i].line, high, "a key is written into the source", "withdraw the key; read it from a file or the environment")
	case assigned && random(value) && !u.isTest():
		u.fault(u.tokens[i].line, high, "a secret seems to be written into the source", "read it from a file or the environment")
	}
}

// random reports whether a value may be a real secret: it is long enough, is not
// just words, and contains no template, path or escape.
func random(value string) bool {
	return len(value) >= 8 && strings.ContainsAny(value, "0123456789!@#^*+=") && !strings.ContainsAny(value, " \n\\${}<>%:")
}

func (u *unit) conflicts(content string) {
	line := 0
	for l := range strings.Lines(content) {
		if strings.HasPrefix(l, "<<<<<<< ") || strings.HasPrefix(l, ">>>>>>> ") {
			u.fault(line, high, "a merge conflict is not resolved", "choose one side and remove the markers")
		}
		line++
	}
}

func (u *unit) size(s *symbol) {
	named := cut(s.name, 128)
	switch {
	case s.decisions > tooMany:
		u.fault(s.line, medium, fmt.Sprintf("%s has cyclomatic complexity %d", named, s.decisions), "split it")
	case s.decisions > manyDecisions:
		u.fault(s.line, low, fmt.Sprintf("%s has cyclomatic complexity %d", named, s.decisions), "split it")
	}

	if s.depth > deepNesting {
		u.fault(s.line, low, fmt.Sprintf("%s nests control flow %d deep", named, s.depth), "return early, or take the inner part out")
	}
	if s.lines() > manyLines {
		u.fault(s.line, low, fmt.Sprintf("%s is %d lines long", named, s.lines()), "split it")
	}
}
