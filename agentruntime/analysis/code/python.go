package code

import (
	"path"
	"strings"
)

// pythonScan reads logical lines, which begin outside brackets.
type pythonScan struct {
	*unit
	open []pythonScope
	// ended is the column of a statement that leaves its block, -1 if there is
	// none.
	ended int
}

// pythonScope is a block. It ends before the next logical line that is not indented
// deeper than col.
type pythonScope struct {
	col   int
	kind  string
	name  string
	sym   int // symbol that grows with the block, -1: none
	fn    int // innermost function, -1: none
	depth int
}

// pythonBranches are the keywords that add a path through a function.
const pythonBranches = " if elif for while except case and or "

func scanPython(u *unit, _ string) {
	p := &pythonScan{unit: u, open: []pythonScope{{col: -1, sym: -1, fn: -1}}, ended: -1}
	depth := 0
	for i, t := range u.tokens {
		if t.first && depth == 0 {
			p.line(i)
		}

		switch {
		case t.kind == mark && strings.Contains("([{", t.text):
			depth++
		case t.kind == mark && strings.Contains(")]}", t.text):
			depth = max(0, depth-1)
		case t.kind == name && strings.Contains(pythonBranches, " "+t.text+" "):
			if fn := p.top().fn; fn >= 0 {
				p.symbols[fn].decisions++
			}
		}

		p.faultsAt(i)
	}

	p.close(-1, len(u.tokens))
}

func (p *pythonScan) top() *pythonScope { return &p.open[len(p.open)-1] }

// close ends the blocks that do not contain a line at this column, which begins at
// token i.
func (p *pythonScan) close(col, i int) {
	for len(p.open) > 1 && p.top().col >= col {
		if s := p.top(); s.sym >= 0 {
			p.symbols[s.sym].last = p.tokens[i-1].last
		}
		p.open = p.open[:len(p.open)-1]
	}
}

// line handles one logical line.
func (p *pythonScan) line(i int) {
	begin := p.tokens[i]
	p.close(begin.col, i)
	p.unreachable(begin)
	if begin.is("async") {
		i++
	}
	t := p.at(i)
	if p.at(i+1).is("=") || p.at(i+1).is(".") && !t.is("from") || p.at(i+1).is(":") && !t.is("else") && !t.is("try") && !t.is("finally") && !t.is("except") {
		p.assignment(i)
		return
	}

	switch t.text {
	case "def", "class":
		p.definition(begin, i)
	case "import":
		p.imported(i + 1)
	case "from":
		p.from(i + 1)
	case "if", "elif", "else", "for", "while", "try", "except", "finally", "with", "match", "case":
		p.block(begin.col)
	case "return", "raise", "continue", "break":
		p.ended = begin.col
	}
}

// block opens a block of control flow.
func (p *pythonScan) block(col int) {
	s := *p.top()
	s.col, s.kind, s.sym, s.depth = col, control, -1, s.depth+1
	p.open = append(p.open, s)
	if s.fn >= 0 {
		f := &p.symbols[s.fn]
		f.depth = max(f.depth, s.depth)
	}
}

// assignment records variables and constants of the module.
func (p *pythonScan) assignment(i int) {
	t := p.tokens[i]
	if p.top().col >= 0 || t.kind != name || p.at(i+1).is(".") {
		return
	}
	kind := kindVariable
	if t.text == strings.ToUpper(t.text) {
		kind = kindConstant
	}
	p.symbols[p.define(t, kind, t.text)].public = !strings.HasPrefix(t.text, "_")
}

// definition handles the def or class at i, on a line that begins with begin.
func (p *pythonScan) definition(begin token, i int) {
	n := p.at(i + 1)
	if n.kind != name {
		return
	}
	around := *p.top()
	full, kind := n.text, kindFunction
	if p.tokens[i].is("class") {
		kind = kindClass
	} else if around.kind == kindClass {
		kind = kindMethod
	}

	if around.kind == kindClass {
		full = around.name + "." + n.text
	}
	sym := p.define(begin, kind, full)
	s := &p.symbols[sym]
	s.public = !strings.HasPrefix(n.text, "_")
	if doc := p.docstring(i); doc != "" {
		s.doc = doc
	}
	scope := pythonScope{col: begin.col, kind: kind, name: full, sym: sym, fn: around.fn, depth: around.depth}
	if kind != kindClass {
		scope.fn, scope.depth = sym, 0
		p.mutableDefaults(i + 2)
	}

	p.open = append(p.open, scope)
}

// docstring returns the first sentence of the literal at the start of the body of
// the definition at i.
func (p *pythonScan) docstring(i int) string {
	for n := 0; n < maxAhead && i < len(p.tokens); n++ {
		t := p.tokens[i]
		if t.is("(") || t.is("[") {
			i = p.other(i) + 1
			continue
		}
		if i++; t.is(":") {
			if next := p.at(i); next.kind == text && next.first {
				return sentence(strings.Trim(next.text, `rRuU"'`))
			}
			return ""
		}
	}

	return ""
}

// imported handles "import a.b as c, d".
func (p *pythonScan) imported(i int) {
	for i < len(p.tokens) && !p.tokens[i].first {
		var module string
		module, i = p.dotted(i)
		p.importPath(module)
		for i < len(p.tokens) && !p.tokens[i].first && !p.tokens[i].is(",") {
			i++
		}
		if !p.at(i).is(",") {
			return
		}
		i++
	}
}

// from handles "from .a.b import c"; leading dots mean a file of the repository.
func (p *pythonScan) from(i int) {
	dots := 0
	for ; p.at(i).is(".") || p.at(i).is("...") || p.at(i).is(".."); i++ {
		dots += len(p.at(i).text)
	}
	module, end := p.dotted(i)
	p.importPath(strings.Repeat(".", min(dots, 8)) + module)
	if dots == 0 {
		return
	}
	dir := path.Dir(p.path)
	for range min(dots-1, 16) {
		dir = path.Dir(dir)
	}
	if module == "" && p.at(end).is("import") {
		module, _ = p.dotted(end + 1) // "from . import c"
	}
	if module != "" {
		p.near = append(p.near, path.Join(dir, strings.ReplaceAll(module, ".", "/")+".py"))
	}
}

// dotted reads a dotted name and returns the index after it.
func (p *pythonScan) dotted(i int) (string, int) {
	var b strings.Builder
	for ; p.at(i).kind == name && !p.at(i).is("import") && !p.at(i).is("as") || b.Len() > 0 && p.at(i).is("."); i++ {
		if b.Len() > 512 || b.Len() > 0 && p.at(i).kind == name && p.at(i-1).kind == name {
			break
		}
		b.WriteString(p.tokens[i].text)
	}
	return b.String(), i
}
