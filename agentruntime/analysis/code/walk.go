package code

import "strings"

// scope is the part of the chunk between two braces, or the expression that is the
// body of an arrow function.
type scope struct {
	end   int // index of the token that ends it
	kind  string
	name  string // of the type or module, as a prefix for its members
	fn    int    // index of the innermost function's symbol, -1: none
	depth int    // nesting of control flow in that function
	test  bool   // inside a test
}

// walker reads the tokens of a language with braces.
type walker struct {
	*unit
	open   []scope
	bodies map[int]scope // the scope that starts with the brace at this index
}

// control is the kind of scope that control flow enters conditionally.
const control = "control"

func newWalker(u *unit) *walker {
	return &walker{unit: u, bodies: map[int]scope{}, open: []scope{{end: len(u.tokens), fn: -1, test: u.isTest()}}}
}

// walk calls visit for each token, inside its scope.
func (w *walker) walk(visit func(i int)) {
	for i, t := range w.tokens {
		for len(w.open) > 1 && w.top().end <= i {
			w.open = w.open[:len(w.open)-1]
		}
		visit(i)
		// The scope of an arrow function without braces begins at its first token.
		if s, ok := w.bodies[i]; ok {
			w.push(s)
		} else if t.is("{") {
			w.push(scope{end: w.other(i), fn: -1})
		}
	}
}

func (w *walker) top() *scope { return &w.open[len(w.open)-1] }

// push opens a scope; unset fields are taken from the enclosing one.
func (w *walker) push(s scope) {
	around := *w.top()
	s.test = s.test || around.test
	if s.fn < 0 {
		s.fn, s.depth = around.fn, around.depth
	}
	if s.kind == control {
		s.depth = around.depth + 1
	}
	if s.fn >= 0 {
		f := &w.symbols[s.fn]
		f.depth = max(f.depth, s.depth)
	}

	w.open = append(w.open, s)
}

// branch counts a decision in the enclosing function, and its nesting if a block
// follows.
func (w *walker) branch(i int) {
	if fn := w.top().fn; fn >= 0 {
		w.symbols[fn].decisions++
	}
	if w.tokens[i].kind == name {
		if b := w.body(i + 1); b >= 0 {
			w.bodies[b] = scope{kind: control, fn: -1}
			w.setEnd(b)
		}
	}
}

// function records a function whose parameters or body follow token i.
func (w *walker) function(t token, kind, name string, i int) {
	sym := w.define(t, kind, name)
	if b := w.body(i); b >= 0 {
		w.extend(sym, b, scope{fn: sym})
	}
}

// extend makes the braces at b the body of a symbol.
func (w *walker) extend(sym, b int, s scope) {
	w.bodies[b] = s
	w.setEnd(b)
	w.symbols[sym].last = w.tokens[w.bodies[b].end].last
}

func (w *walker) setEnd(b int) {
	s := w.bodies[b]
	s.end = w.other(b)
	w.bodies[b] = s
}

// block records a type or module, whose name prefixes those of its members.
func (w *walker) block(t token, kind, name string, i int) {
	sym := w.define(t, kind, name)
	if b := w.body(i); b >= 0 {
		w.extend(sym, b, scope{kind: kind, name: name, fn: -1})
	}
}

// unquote returns the text between the quotes of a literal.
func unquote(t token) string {
	if t.kind != text {
		return ""
	}
	s := strings.TrimLeft(t.text, "rbfucRBFU#")
	return strings.Trim(strings.TrimRight(s, "#"), "\"'`")
}
