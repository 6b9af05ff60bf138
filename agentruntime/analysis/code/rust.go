package code

import (
	"path"
	"strings"
)

// rustScan scans Rust.
type rustScan struct{ *walker }

func scanRust(u *unit, _ string) {
	s := &rustScan{newWalker(u)}
	s.walk(func(i int) {
		s.declaration(i)
		s.flow(i)
		s.faultsAt(i)
	})
}

func (s *rustScan) flow(i int) {
	t := s.tokens[i]
	switch {
	case t.is("if"), t.is("while"), t.is("for") && !s.at(i+1).is("<"), t.is("loop"):
		if s.top().fn >= 0 {
			s.branch(i)
		}
	case t.is("=>"), t.is("&&") && !s.at(i-1).is("(") && !s.at(i-1).is(":"), t.is("||") && operand(s.at(i-1)):
		s.branch(i)
	}
}

// operand reports whether a token can end an operand, so that a following || is not
// a closure.
func operand(t token) bool {
	return t.kind == number || t.kind == text || t.is(")") || t.is("]") || t.is("}") ||
		t.kind == name && !t.is("return") && !t.is("move") && !t.is("in") && !t.is("else") && !t.is("match")
}

func (s *rustScan) declaration(i int) {
	t, next := s.tokens[i], s.at(i+1)
	if t.kind != name {
		return
	}

	switch t.text {
	case "fn":
		s.fn(i, next)
	case "struct", "union", "enum", "trait", "mod":
		if next.kind == name {
			s.typed(i, next)
		}
	case "type", "const", "static":
		n := i + 1
		if s.at(n).is("mut") {
			n++
		}
		if s.at(n).kind == name && s.top().fn < 0 && (s.at(n+1).is(":") || s.at(n+1).is("=") || s.at(n+1).is("<")) {
			s.symbol(i, map[string]string{"type": kindType, "const": kindConstant, "static": kindVariable}[t.text], s.member(s.at(n).text))
		}
	case "macro_rules":
		if next.is("!") && s.at(i+2).kind == name {
			s.symbol(i, kindMacro, s.at(i+2).text)
		}
	case "impl":
		s.impl(i)
	case "use":
		s.use(i + 1)
	}
}

// member prefixes the name of an item of an impl with the type.
func (s *rustScan) member(of string) string {
	if top := s.top(); top.name != "" && top.kind != kindModule {
		return top.name + "::" + of
	}
	return of
}

func (s *rustScan) symbol(i int, kind, full string) {
	s.define(s.tokens[i], kind, full)
	s.publish(i)
}

func (s *rustScan) fn(i int, next token) {
	if next.kind != name {
		return // a type
	}
	kind := kindFunction
	if s.top().name != "" && s.top().kind != kindModule {
		kind = kindMethod
	}
	s.function(s.tokens[i], kind, s.member(next.text), i+2)
	s.inTest(i)
	s.publish(i)
}

// inTest marks the body of the definition at i if an attribute makes it a test or
// compiles it only for tests.
func (s *rustScan) inTest(i int) {
	b := s.body(i + 2)
	if sc, ok := s.bodies[b]; ok && s.attribute(i, "test") {
		sc.test = true
		s.bodies[b] = sc
	}
}

func (s *rustScan) typed(i int, next token) {
	t := s.tokens[i]
	kind := map[string]string{"struct": kindStruct, "union": kindStruct, "enum": kindEnum, "trait": kindInterface, "mod": kindModule}[t.text]
	s.block(t, kind, next.text, i+2)
	s.inTest(i)
	if t.is("mod") && s.at(i+2).is(";") {
		s.near = append(s.near, s.module(next.text))
	}
	s.publish(i)
}

// module returns the file of a module that this file declares.
func (s *rustScan) module(of string) string {
	dir, file := path.Split(s.path)
	if stem := strings.TrimSuffix(file, ".rs"); stem != "mod" && stem != "lib" && stem != "main" {
		dir = path.Join(dir, stem)
	}
	return path.Join(dir, of+".rs")
}

// impl opens the block of a type's methods. The type is the name after "for", or
// else the first one.
func (s *rustScan) impl(i int) {
	b := s.body(i + 1)
	if b < 0 || s.top().fn >= 0 {
		return
	}

	of := ""
	angle := 0
	for j := i + 1; j < b; j++ {
		switch t := s.tokens[j]; {
		case t.is("<"):
			angle++
		case t.is(">"):
			angle--
		case t.is("where"):
			j = b
		case angle == 0 && t.is("for"):
			of = ""
		case angle == 0 && t.kind == name && (of == "" || s.at(j-1).is("::")):
			of = t.text
		}
	}

	s.bodies[b] = scope{end: s.other(b), kind: kindClass, name: of, fn: -1}
}

// publish marks the latest symbol as public if pub precedes i.
func (s *rustScan) publish(i int) {
	for n := 1; n <= 6; n++ {
		switch t := s.at(i - n); {
		case t.is("pub"):
			s.symbols[len(s.symbols)-1].public = true
			return
		case t.is(";") || t.is("}") || t.is("{") || t.is("]"):
			return
		}
	}
}

// attribute reports whether an attribute before i mentions the name.
func (s *rustScan) attribute(i int, mention string) bool {
	for n := 0; n < maxAhead && i > 0; n++ {
		i--

		switch t := s.tokens[i]; {
		case t.is("]"):
			begin := s.other(i)
			if begin < i && s.at(begin-1).is("#") {
				for j := begin; j < min(i, begin+maxAhead); j++ {
					if s.tokens[j].is(mention) && !s.seq(j-2, "not", "(") {
						return true
					}
				}
				i = begin
			}
		case t.is(";") || t.is("}") || t.is("{"):
			return false
		}
	}

	return false
}

// use records the path of a use declaration up to its first branch.
func (s *rustScan) use(i int) {
	var b strings.Builder
	for ; b.Len() < 512 && (s.at(i).kind == name && !s.at(i).is("as") || s.at(i).is("::")); i++ {
		b.WriteString(s.tokens[i].text)
	}
	s.importPath(strings.TrimSuffix(b.String(), "::"))
}

// faultsAt looks for suspicious constructs at token i.
func (s *rustScan) faultsAt(i int) {
	t, next := s.tokens[i], s.at(i+1)
	if t.kind != name || s.top().test {
		return
	}

	called := s.at(i-1).is(".") && next.is("(")
	switch {
	case called && t.is("unwrap"):
		s.fault(t.line, low, "unwrap panics where there is no value", "return the error with ?, or handle it")
	case called && t.is("expect"):
		s.fault(t.line, low, "expect panics where there is no value", "return the error with ?, or handle it")
	case next.is("!") && (t.is("todo") || t.is("unimplemented")):
		s.fault(t.line, medium, t.text+"! panics: the code is not finished", "finish it")
	case next.is("!") && t.is("panic"):
		s.fault(t.line, low, "panic! ends the thread", "return an error")
	case t.is("unsafe") && (next.is("{") || next.is("fn") || next.is("impl")):
		s.unsafe(t)
	case t.is("transmute") && (next.is("(") || next.is("::")):
		s.fault(t.line, high, "transmute takes bytes for another type without a check", "use a safe conversion")
	case t.is("static") && next.is("mut"):
		s.fault(t.line, medium, "a mutable static is shared between threads without a lock", "use an atomic, a Mutex or a OnceLock")
	case t.is("danger_accept_invalid_certs") && s.seq(i+1, "(", "true"):
		s.fault(t.line, high, "switches off the check of TLS certificates", "leave the check on, or add the authority's certificate")
	case t.is("let") && s.seq(i+1, "_", "=") && s.locks(i+3):
		s.fault(t.line, medium, "the lock is given back at once", "bind the guard to a name")
	}
}

// unsafe checks for a SAFETY comment above.
func (s *rustScan) unsafe(t token) {
	for n := s.commentsBefore(t.line+1) - 1; n >= 0 && s.comments[n].last >= t.line-4; n-- {
		if strings.Contains(s.comments[n].text, "SAFETY") || strings.Contains(s.comments[n].text, "# Safety") {
			return
		}
	}
	s.fault(t.line, medium, "unsafe without a SAFETY comment", "say why it is sound")
}

// locks reports whether the expression at i ends by taking a lock.
func (s *rustScan) locks(i int) bool {
	for n := 0; n < 32 && !s.at(i).is(";") && i < len(s.tokens); n++ {
		if s.at(i-1).is(".") && (s.at(i).is("lock") || s.at(i).is("write")) && s.seq(i+1, "(", ")") {
			return true
		}
		i++
	}
	return false
}
