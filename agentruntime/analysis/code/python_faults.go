package code

import "strings"

// faultsAt looks for suspicious constructs at token i.
func (p *pythonScan) faultsAt(i int) {
	t, before, next := p.tokens[i], p.at(i-1), p.at(i+1)
	if t.kind == mark {
		if (t.is("==") || t.is("!=")) && (next.is("None") || before.is("None")) {
			p.fault(t.line, low, "compares with None by "+t.text, "use \"is None\" or \"is not None\"")
		}
		return
	}
	if t.kind != name {
		return
	}

	called := next.is("(") && !before.is("def") && !before.is("class")
	switch {
	case t.is("except") && t.first:
		p.except(i)
	case called && !before.is(".") && (t.is("eval") || t.is("exec")):
		p.fault(t.line, high, "runs a string as code with "+t.text, "parse the value, for example with ast.literal_eval")
	case called && p.seq(i-2, "os", ".") && (t.is("system") || t.is("popen")):
		p.fault(t.line, high, "runs a command through the shell", "use subprocess.run with a list of arguments")
	case p.seq(i, "shell", "=", "True"):
		p.fault(t.line, high, "runs a command through the shell", "pass a list of arguments without shell=True")
	case p.seq(i, "verify", "=", "False"):
		p.fault(t.line, high, "switches off the check of TLS certificates", "leave verify on, or name the authority's file")
	case called && (p.seq(i-2, "pickle", ".") || p.seq(i-2, "marshal", ".")) && (t.is("load") || t.is("loads")):
		p.fault(t.line, medium, "unpickles data, which can run code", "read untrusted data in a format without code, such as JSON")
	case called && p.seq(i-2, "yaml", ".") && t.is("load") && !p.mentions(i+1, "SafeLoader"):
		p.fault(t.line, medium, "loads YAML with constructors", "use yaml.safe_load")
	case called && p.seq(i-2, "tempfile", ".") && t.is("mktemp"):
		p.fault(t.line, medium, "another process can take the temporary name first", "use tempfile.NamedTemporaryFile")
	case called && p.seq(i-2, "hashlib", ".") && (t.is("md5") || t.is("sha1")):
		p.fault(t.line, low, "uses the broken hash "+t.text, "use hashlib.sha256")
	case t.is("is") && (p.literalOperand(i+1) || p.at(i+1).is("not") && p.literalOperand(i+2)):
		p.fault(t.line, low, "compares the identity of a literal", "use == or !=")
	}
}

func (p *pythonScan) literalOperand(i int) bool {
	return p.at(i).kind == number || p.at(i).kind == text && p.at(i).text != ""
}

// except finds handlers that catch everything or do nothing.
func (p *pythonScan) except(i int) {
	t := p.tokens[i]
	if p.at(i + 1).is(":") {
		p.fault(t.line, medium, "a bare except catches everything, the interrupt of the user too", "name the exceptions that are expected")
	}
	end := i + 1
	for n := 0; n < maxAhead && end < len(p.tokens) && !p.tokens[end].is(":") && !p.tokens[end].first; n++ {
		end++
	}
	if p.at(end).is(":") && p.at(end+1).is("pass") {
		p.fault(t.line, medium, "an exception is silently ignored", "handle it, log it, or say why it may be ignored")
	}
}

// mutableDefaults checks the parameter list at i, if there is one.
func (p *pythonScan) mutableDefaults(i int) {
	if p.at(i).is("[") { // type parameters
		i = p.other(i) + 1
	}
	if !p.at(i).is("(") {
		return
	}

	end := min(p.other(i), i+maxAhead)
	for i++; i < end; i++ {
		t := p.tokens[i]
		if t.is("=") && (p.at(i+1).is("[") || p.at(i+1).is("{") ||
			p.seq(i+1, "list", "(") || p.seq(i+1, "dict", "(") || p.seq(i+1, "set", "(")) {
			p.fault(t.line, medium, "all calls share one mutable default argument", "default to None and make the value in the function")
		}
		if t.is("(") || t.is("[") || t.is("{") {
			i = p.other(i)
		}
	}
}

// mentions reports whether the bracketed group at i contains the name.
func (p *pythonScan) mentions(i int, name string) bool {
	for end := min(p.other(i), i+maxAhead); i < end; i++ {
		if strings.HasSuffix(p.tokens[i].text, name) {
			return true
		}
	}
	return false
}

// unreachable is called with the first token of each logical line.
func (p *pythonScan) unreachable(t token) {
	if p.ended >= 0 && t.col == p.ended && !t.is("elif") && !t.is("else") && !t.is("except") && !t.is("finally") && !t.is("case") {
		p.fault(t.line, medium, "this line is never reached", "remove it, or the statement before it")
	}
	p.ended = -1
}
