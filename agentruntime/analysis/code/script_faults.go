package code

import "strings"

// faultsAt looks for suspicious constructs at token i.
func (s *scriptScan) faultsAt(i int) {
	t, before, next := s.tokens[i], s.at(i-1), s.at(i+1)

	switch {
	case t.kind == mark:
		s.operator(i)
	case t.kind != name:
	case before.is("."):
		s.property(i)
	case t.is("eval") && next.is("(") && !before.is("function"), t.is("Function") && before.is("new"):
		s.fault(t.line, high, "runs a string as code", "parse the value, for example with JSON.parse")
	case t.is("var") && next.kind == name && !s.hasVar:
		s.hasVar = true
		s.fault(t.line, low, "declares variables with var, which ignores blocks", "use const or let")
	case t.is("debugger") && (next.is(";") || next.first):
		s.fault(t.line, medium, "stops in the debugger", "remove the statement")
	case t.is("catch"):
		s.catch(i)
	case t.is("if") && next.is("("): // in a while this is common
		s.condition(i + 1)
	case (t.is("setTimeout") || t.is("setInterval")) && next.is("(") && s.at(i+2).kind == text:
		s.fault(t.line, medium, "runs a string as code with "+t.text, "pass a function")
	case t.is("rejectUnauthorized") && s.seq(i+1, ":", "false"):
		s.fault(t.line, high, "switches off the check of TLS certificates", "leave the check on, or give the authority's certificate")
	case t.is("dangerouslySetInnerHTML"):
		s.fault(t.line, medium, "puts text into the page as HTML", "set text content, or clean the HTML first")
	case (t.is("exec") || t.is("execSync")) && next.is("(") && s.built(i+2):
		s.shell(t)
	case t.is("return") && !next.first && s.at(i+2).is(";") && s.at(i+3).first && s.at(i+3).col == t.col && t.first && s.plainNext(i+3):
		s.fault(s.at(i+3).line, medium, "this line is never reached", "remove it, or the return before it")
	}
}

func (s *scriptScan) plainNext(i int) bool {
	t := s.at(i)
	return t.kind == name && !t.is("case") && !t.is("default") && !t.is("function")
}

func (s *scriptScan) shell(t token) {
	s.fault(t.line, high, "runs a command through the shell that is put together from values", "use execFile with a list of arguments")
}

// built reports whether the expression at i is a string with inserted values.
func (s *scriptScan) built(i int) bool {
	t := s.at(i)
	return t.kind == text && (strings.Contains(t.text, "${") || s.at(i+1).is("+"))
}

func (s *scriptScan) property(i int) {
	t, next := s.tokens[i], s.at(i+1)
	switch {
	case (t.is("innerHTML") || t.is("outerHTML")) && (next.is("=") || next.is("+=")) && s.at(i+2).text != `""` && s.at(i+2).text != "''":
		s.fault(t.line, medium, "puts text into the page as HTML", "set textContent, or clean the HTML first")
	case (t.is("write") || t.is("writeln")) && s.seq(i-2, "document"):
		s.fault(t.line, medium, "writes into the page as HTML", "change the document by its nodes")
	case (t.is("exec") || t.is("execSync")) && next.is("(") && s.built(i+2):
		s.shell(t)
	case t.is("forEach") && s.seq(i+1, "(", "async"):
		s.fault(t.line, medium, "forEach does not wait for an async function", "use for...of with await, or Promise.all with map")
	case (t.is("query") || t.is("execute")) && next.is("(") && s.built(i+2) && isSQL(s.at(i+2).text):
		s.fault(t.line, high, "puts values into the text of an SQL statement", "use placeholders")
	}
}

func (s *scriptScan) operator(i int) {
	t, before, next := s.tokens[i], s.at(i-1), s.at(i+1)
	equality := t.is("==") || t.is("!=") || t.is("===") || t.is("!==")
	switch {
	case equality && (next.is("NaN") || before.is("NaN")):
		s.fault(t.line, medium, "NaN equals nothing, not even itself", "use Number.isNaN")
	case (t.is("==") || t.is("===")) && s.lone(i-1) && s.lone(i+1) && before.text == next.text:
		s.fault(t.line, medium, "compares "+cut(before.text, 64)+" with itself", "")
	case (t.is("==") || t.is("!=")) && !next.is("null") && !before.is("null"):
		s.fault(t.line, low, "compares with "+t.text+", which converts types", "use "+t.text+"=")
	}
}

// lone reports whether the operand at i is a single name. Only == is suspicious: a
// name that differs from itself is the usual test for NaN.
func (s *scriptScan) lone(i int) bool {
	left, right := s.at(i-1), s.at(i+1)
	return s.at(i).kind == name &&
		(left.kind == mark && !left.is(".") && !left.is("?.") && !left.is("#") || left.is("return") || left.kind == comment) &&
		(right.kind == mark && strings.Contains(" ) ; && || { } ? , == === ", " "+right.text+" ") || right.first)
}

// catch finds handlers that do nothing.
func (s *scriptScan) catch(i int) {
	b := s.body(i + 1)
	if b >= 0 && s.at(b+1).is("}") && s.pair[b] == b+1 && !s.commented(s.tokens[b].line, s.tokens[b+1].line) {
		s.fault(s.tokens[i].line, medium, "an error is silently ignored", "handle it, log it, or say why it may be ignored")
	}
}

// condition finds assignments in the condition at i.
func (s *scriptScan) condition(i int) {
	end := min(s.other(i), i+maxAhead)
	for j := i + 1; j < end; j++ {
		t := s.tokens[j]
		if t.is("(") || t.is("{") {
			j = s.other(j) // doubled parentheses mark an intended assignment
			continue
		}
		if t.is("=") {
			s.fault(t.line, medium, "assigns in a condition", "compare with ===, or assign before")
			return
		}
	}
}
