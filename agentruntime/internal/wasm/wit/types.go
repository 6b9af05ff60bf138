package wit

// typeItem parses a record, enum, type or use item. done is false if t starts none
// of these.
func (p *parser) typeItem(it *Interface, t token) (done bool, err error) {
	if t.escaped {
		return false, nil
	}

	switch t.text {
	case "use":
		return true, p.useItem(it)
	case "record", "enum", "type":
	case "variant", "flags", "resource", "include":
		// A function of that name is followed by a colon.
		if p.peek().text == ":" {
			return false, nil
		}
		return true, t.errorf("%s is not supported", t.text)
	default:
		return false, nil
	}

	if p.peek().text == ":" {
		return false, nil
	}
	name, err := p.name()
	if err != nil {
		return true, err
	}

	def := &TypeDef{Name: name.text, at: name}
	switch t.text {
	case "record":
		def.Type, err = p.record(t)
	case "enum":
		def.Type, err = p.enum(t)
	default:
		def.Type, err = p.alias()
	}

	if err != nil {
		return true, err
	}
	return true, define(it, name, def)
}

func define(it *Interface, name token, def *TypeDef) error {
	if primitives[name.text] != 0 {
		return name.errorf("%s is the name of a built-in type", name.text)
	}
	if it.Types[name.text] != nil {
		return name.errorf("type %s is declared twice", name.text)
	}
	it.Types[name.text] = def
	return nil
}

func (p *parser) record(at token) (*Type, error) {
	if err := p.expect("{"); err != nil {
		return nil, err
	}
	fields, err := p.fields("}")
	return &Type{Kind: Record, Fields: fields, at: at}, err
}

func (p *parser) enum(at token) (*Type, error) {
	if err := p.expect("{"); err != nil {
		return nil, err
	}

	t := &Type{Kind: Enum, at: at}
	seen := map[string]bool{}
	for !p.accept("}") {
		name, err := p.name()
		if err != nil {
			return nil, err
		}
		if seen[name.text] {
			return nil, name.errorf("case %s is declared twice", name.text)
		}

		seen[name.text] = true
		t.Cases = append(t.Cases, name.text)
		if !p.accept(",") && p.peek().text != "}" {
			return nil, p.unexpected(p.peek(), "%q or %q", ",", "}")
		}
	}

	if len(t.Cases) == 0 {
		return nil, at.errorf("an enum without cases")
	}
	return t, nil
}

func (p *parser) alias() (*Type, error) {
	if err := p.expect("="); err != nil {
		return nil, err
	}
	t, err := p.typeExpr(0)
	if err != nil {
		return nil, err
	}
	return t, p.expect(";")
}

// fields parses "name: type, ..." up to the closing token.
func (p *parser) fields(end string) ([]Field, error) {
	var all []Field
	seen := map[string]bool{}
	for !p.accept(end) {
		name, err := p.name()
		if err != nil {
			return nil, err
		}
		if seen[name.text] {
			return nil, name.errorf("%s is declared twice", name.text)
		}

		seen[name.text] = true
		if err := p.expect(":"); err != nil {
			return nil, err
		}
		t, err := p.typeExpr(0)
		if err != nil {
			return nil, err
		}
		all = append(all, Field{Name: name.text, Docs: name.docs, Type: t})
		if !p.accept(",") && p.peek().text != end {
			return nil, p.unexpected(p.peek(), "%q or %q", ",", end)
		}
	}

	return all, nil
}

// useItem parses "from.{a, b as c};". Only interfaces of the same file can be used.
func (p *parser) useItem(it *Interface) error {
	from, err := p.name()
	if err != nil {
		return err
	}

	for _, s := range []string{".", "{"} {
		if err := p.expect(s); err != nil {
			return err
		}
	}

	for !p.accept("}") {
		name, err := p.name()
		if err != nil {
			return err
		}
		u := use{into: it, from: from, name: name, alias: name}
		if p.accept("as") {
			if u.alias, err = p.name(); err != nil {
				return err
			}
		}

		p.used = append(p.used, u)
		if !p.accept(",") && p.peek().text != "}" {
			return p.unexpected(p.peek(), "%q or %q", ",", "}")
		}
	}

	return p.expect(";")
}

// arity is the number of types in the angle brackets.
var arity = map[string]struct {
	kind     Kind
	min, max int
}{
	"list": {List, 1, 1}, "option": {Option, 1, 1}, "tuple": {Tuple, 1, 32}, "result": {Result, 0, 2},
}

func (p *parser) typeExpr(depth int) (*Type, error) {
	t, err := p.name()
	if err != nil {
		return nil, err
	}
	if depth > maxDepth {
		return nil, t.errorf("types nested deeper than %d", maxDepth)
	}
	if kind := primitives[t.text]; kind != 0 && !t.escaped {
		return &Type{Kind: kind, at: t}, nil
	}

	form, generic := arity[t.text]
	if !generic || t.escaped {
		return &Type{Kind: Named, Name: t.text, at: t}, nil
	}
	out := &Type{Kind: form.kind, at: t}
	if p.peek().text == "<" || form.min > 0 {
		if out.Args, err = p.arguments(depth, form.kind == Result); err != nil {
			return nil, err
		}
	}

	if n := len(out.Args); n < form.min || n > form.max {
		return nil, t.errorf("%s cannot have %d types", t.text, n)
	}
	if out.Kind == Result {
		for len(out.Args) < 2 {
			out.Args = append(out.Args, nil)
		}
	}

	return out, nil
}

// arguments parses "<t, ...>"; in a result, "_" means no type.
func (p *parser) arguments(depth int, hole bool) ([]*Type, error) {
	if err := p.expect("<"); err != nil {
		return nil, err
	}

	var all []*Type
	for !p.accept(">") {
		var t *Type
		if !hole || !p.accept("_") {
			var err error
			if t, err = p.typeExpr(depth + 1); err != nil {
				return nil, err
			}
		}
		all = append(all, t)
		if !p.accept(",") && p.peek().text != ">" {
			return nil, p.unexpected(p.peek(), "%q or %q", ",", ">")
		}
	}

	return all, nil
}
