package code

import (
	"path"
	"strings"
)

// scriptScan scans JavaScript and TypeScript.
type scriptScan struct {
	*walker
	hasVar bool // a var was reported; one report per chunk is enough
}

// scriptBranches are the keywords that add a path through a function; do, else,
// try, finally and switch only add nesting.
const scriptBranches = " if for while case catch "

func scanScript(u *unit, _ string) {
	s := &scriptScan{walker: newWalker(u)}
	s.walk(func(i int) {
		s.declaration(i)
		s.flow(i)
		s.faultsAt(i)
	})
}

func (s *scriptScan) flow(i int) {
	t := s.tokens[i]
	switch {
	case s.at(i-1).is(".") || s.at(i-1).is("?."): // a property may have any name
	case t.kind == name && strings.Contains(scriptBranches, " "+t.text+" ") && !s.at(i+1).is(":"):
		s.branch(i)
	case t.is("&&") || t.is("||") || t.is("??"):
		s.branch(i)
	case t.is("?") && !s.at(i+1).is(":") && !s.at(i+1).is(")") && !s.at(i+1).is(",") && !s.at(i+1).is(";"):
		s.branch(i)
	}
}

func (s *scriptScan) declaration(i int) {
	t, next := s.tokens[i], s.at(i+1)
	if t.kind != name || s.at(i-1).is(".") || s.at(i-1).is("?.") || next.is(":") {
		return
	}

	top := s.top()
	switch t.text {
	case "function":
		n := i + 1
		if next.is("*") {
			n++
		}
		if s.at(n).kind == name {
			s.function(t, kindFunction, s.at(n).text, n+1)
			s.publish(i)
		}
	case "class", "interface", "enum", "namespace":
		if next.kind == name && !next.is("extends") {
			s.block(t, map[string]string{"class": kindClass, "interface": kindInterface, "enum": kindEnum, "namespace": kindModule}[t.text], next.text, i+2)
			s.publish(i)
		}
	case "type":
		if next.kind == name && (s.at(i+2).is("=") || s.at(i+2).is("<")) {
			s.define(t, kindType, next.text)
			s.publish(i)
		}
	case "const", "let", "var":
		s.variable(i)
	case "import", "export", "require":
		s.imported(i)
	default:
		if top.kind == kindClass && top.name != "" {
			s.member(i, top.name)
		}
	}
}

// publish marks the latest symbol as public if export precedes i.
func (s *scriptScan) publish(i int) {
	for n := 1; n <= 4; n++ {
		switch before := s.at(i - n); {
		case before.is("export"):
			s.symbols[len(s.symbols)-1].public = true
			return
		case !before.is("default") && !before.is("async") && !before.is("abstract") && !before.is("declare"):
			return
		}
	}
}

// variable handles const, let and var. It records a function if one is assigned,
// and otherwise a symbol if it is outside all functions.
func (s *scriptScan) variable(i int) {
	n := s.at(i + 1)
	if n.kind != name {
		return
	}

	equals := i + 2
	for k := 0; k < 32 && equals < len(s.tokens) && !s.tokens[equals].is("=") && !s.tokens[equals].is(";"); k++ {
		if s.tokens[equals].is("(") || s.tokens[equals].is("{") {
			equals = s.other(equals)
		}
		equals++
	}

	if s.at(equals).is("=") && s.assigned(i, n, kindFunction, n.text, equals+1) {
		s.publish(i)
		return
	}
	if s.top().fn < 0 && s.top().kind != control {
		kind := kindVariable
		if s.tokens[i].is("const") {
			kind = kindConstant
		}
		s.define(s.tokens[i], kind, n.text)
		s.publish(i)
	}
}

// assigned records a function if a function expression begins at token i.
func (s *scriptScan) assigned(begin int, n token, kind, full string, i int) bool {
	if s.at(i).is("async") {
		i++
	}
	if s.at(i).is("function") {
		s.function(s.tokens[begin], kind, full, i+1)
		return true
	}

	switch {
	case s.at(i).is("("):
		i = s.other(i) + 1
	case s.at(i).kind == name:
		i++
	default:
		return false
	}

	for k := 0; k < 32 && s.at(i-1).is(")") && !s.at(i).is("=>") && (k > 0 || s.at(i).is(":")); k++ {
		i++ // the result type
		if s.at(i).is(";") || s.at(i).is("{") || i >= len(s.tokens) {
			break
		}
		if s.at(i + 1).is("=>") {
			i++
			break
		}
	}

	if !s.at(i).is("=>") {
		return false
	}
	sym := s.define(s.tokens[begin], kind, full)
	if s.at(i + 1).is("{") {
		s.extend(sym, i+1, scope{fn: sym})
		return true
	}
	end := s.expressionEnd(i+1, s.tokens[begin].col)
	s.bodies[i] = scope{fn: sym, end: end}
	s.symbols[sym].last = s.at(end - 1).last
	return true
}

// expressionEnd returns the index after the expression that begins at i. It ends at
// a ";", a ",", a closing bracket, or a line that is not indented deeper than col.
func (s *scriptScan) expressionEnd(i, col int) int {
	for n := 0; n < maxAhead && i < len(s.tokens); n++ {
		switch t := s.tokens[i]; {
		case t.is(";") || t.is(",") || t.is(")") || t.is("]") || t.is("}"), t.first && t.col <= col:
			return i
		case t.is("(") || t.is("[") || t.is("{"):
			i = s.other(i)
		}
		i++
	}
	return min(i, len(s.tokens))
}

// member handles a member of a class.
func (s *scriptScan) member(i int, class string) {
	t, next := s.tokens[i], s.at(i+1)
	full := class + "." + t.text
	switch {
	case strings.Contains(" if for while switch catch return super new ", " "+t.text+" "):
	case next.is("("):
		if s.at(s.other(i+1)+1).is("{") || s.at(s.other(i+1)+1).is(":") {
			s.function(t, kindMethod, full, i+1)
			s.symbols[len(s.symbols)-1].public = !s.at(i-1).is("private") && !s.at(i-1).is("#")
		}
	case next.is("="):
		s.assigned(i, t, kindMethod, full, i+2)
	}
}

// imported handles import, export ... from and require. A path that begins with a
// dot is a file of the repository.
func (s *scriptScan) imported(i int) {
	at := i + 1
	if s.at(at).is("(") {
		at++
	} else {
		for n := 0; n < maxAhead && s.at(at).kind == name || s.at(at).is("{") || s.at(at).is("*") || s.at(at).is(","); n++ {
			if s.at(at).is("{") {
				at = s.other(at)
			}
			if at++; s.at(at - 1).is("from") {
				break
			}
		}
		if s.at(at-1).is("from") == s.tokens[i].is("require") || s.tokens[i].is("export") && !s.at(at-1).is("from") {
			return
		}
	}

	from := unquote(s.at(at))
	if strings.ContainsAny(from, "\n`$") {
		return
	}
	s.importPath(from)
	if strings.HasPrefix(from, ".") {
		file := path.Join(path.Dir(s.path), from)
		if path.Ext(file) == "" {
			file += path.Ext(s.path)
		}
		s.near = append(s.near, file)
	}
}
