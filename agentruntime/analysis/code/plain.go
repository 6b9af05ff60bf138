package code

import "strings"

// plainScan handles languages without rules of their own. It relies on the usual
// keywords of definitions and on braces around bodies.
type plainScan struct{ *walker }

// plainKinds maps keywords of various languages to the kind of symbol that they
// define.
var plainKinds = map[string]string{
	"class": kindClass, "interface": kindInterface, "struct": kindStruct, "enum": kindEnum, "trait": kindInterface,
	"protocol": kindInterface, "record": kindStruct, "union": kindStruct, "object": kindClass, "contract": kindClass,
	"namespace": kindModule, "module": kindModule, "package": kindModule, "defmodule": kindModule, "typedef": kindType, "type": kindType,
	"def": kindFunction, "fn": kindFunction, "fun": kindFunction, "func": kindFunction, "function": kindFunction,
	"sub": kindFunction, "proc": kindFunction, "defp": kindFunction,
}

// notNamed lists keywords that can precede "(" but are not names of functions.
const notNamed = " if for while switch catch return else do try new throw sizeof match when unless until case foreach elif assert using lock synchronized "

func scanPlain(u *unit, _ string) {
	s := &plainScan{newWalker(u)}
	s.walk(func(i int) {
		t := s.tokens[i]
		switch {
		case t.kind == mark:
			if t.is("&&") || t.is("||") {
				s.branch(i)
			}
		case t.kind != name:
		case strings.Contains(" if elif elsif elseif for foreach while until unless case when catch rescue ", " "+t.text+" "):
			s.branch(i)
		default:
			s.declaration(i)
		}
	})
}

func (s *plainScan) declaration(i int) {
	t, next := s.tokens[i], s.at(i+1)
	kind, ok := plainKinds[t.text]
	begins := t.first || s.at(i-1).kind == name
	switch {
	case t.is("func") && next.is("("): // with a receiver
		if n := s.other(i+1) + 1; s.at(n).kind == name {
			s.function(t, kindMethod, s.at(n).text, n+1)
		}
	case ok && begins && next.kind == name && kind == kindFunction:
		s.function(t, kind, s.qualified(next.text), i+2)
	case ok && begins && next.kind == name && t.text != "typedef" && t.text != "package":
		// "struct point p;" declares no type.
		if b := s.body(i + 2); b >= 0 || s.language.syntax.line[0] == "#" {
			s.block(t, kind, next.text, i+2)
		}
	case t.is("import") || t.is("using") || t.is("require") || t.is("use"):
		s.imported(i)
	case t.is("include") && s.at(i-1).is("#"):
		s.included(i)
	default:
		s.header(i)
	}
}

// header recognizes "type name(...) {", a function of the C family.
func (s *plainScan) header(i int) {
	t, before := s.tokens[i], s.at(i-1)
	if plainKinds[before.text] != "" || !s.at(i+1).is("(") || s.top().fn >= 0 || strings.Contains(notNamed, " "+t.text+" ") {
		return
	}
	typed := before.kind == name && !strings.Contains(notNamed, " "+before.text+" ") || before.is("*") || before.is("&") || before.is(">") || before.is("]") || before.is("::")
	shell := t.first && s.seq(i+1, "(", ")", "{")
	if !typed && !shell && s.top().kind != kindClass {
		return
	}
	end := s.other(i + 1)
	if b := s.body(end + 1); b >= 0 && s.at(end).is(")") {
		s.function(t, kindFunction, s.qualified(t.text), end+1)
	}
}

func (s *plainScan) qualified(of string) string {
	if top := s.top(); top.name != "" && top.kind != kindModule {
		return top.name + "." + of
	}
	return of
}

func (s *plainScan) imported(i int) {
	if !s.tokens[i].first {
		return
	}
	if from := unquote(s.at(i + 1)); from != "" {
		s.importPath(cut(from, 512))
		return
	}

	var b strings.Builder
	for i++; b.Len() < 512 && (s.at(i).kind == name || s.at(i).is(".") || s.at(i).is("::") || s.at(i).is("*")) && !s.at(i).first; i++ {
		if s.at(i).is("static") {
			continue
		}
		b.WriteString(s.tokens[i].text)
	}

	s.importPath(b.String())
}

// included handles #include; "file" in quotes is a file of the repository.
func (s *plainScan) included(i int) {
	if from := unquote(s.at(i + 1)); from != "" && !strings.ContainsAny(from, "\n`$") {
		s.importPath(from)
		s.near = append(s.near, joinPath(s.path, from))
		return
	}
	var b strings.Builder
	for i += 2; b.Len() < 512 && i < len(s.tokens) && !s.at(i).is(">") && !s.at(i).first; i++ {
		b.WriteString(s.tokens[i].text)
	}
	s.importPath(b.String())
}
