package wit

// parser walks once over the tokens of a document. It recurses only for types, to a
// bounded depth.
type parser struct {
	tokens []token
	doc    *Document
	world  *Interface // holds the types and functions of the world itself
	expose []token    // interfaces of this file that the world exports
	used   []use
}

// use is "use from.{name as alias}" inside an interface or the world.
type use struct {
	into        *Interface
	from        token
	name, alias token
}

// Parse parses a document. Its errors are of type *Error.
func Parse(src string) (*Document, error) {
	tokens, err := tokenize(src)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens, doc: &Document{Interfaces: map[string]*Interface{}}}
	if err := p.document(); err != nil {
		return nil, err
	}
	if err := p.link(); err != nil {
		return nil, err
	}

	return p.doc, nil
}

func (p *parser) peek() token { return p.tokens[0] }

func (p *parser) take() token {
	t := p.tokens[0]
	if t.text != "" { // the end marker stays
		p.tokens = p.tokens[1:]
	}
	return t
}

// accept consumes the next token if it is the punctuation or keyword s.
func (p *parser) accept(s string) bool {
	if t := p.peek(); t.text == s && !t.escaped {
		p.take()
		return true
	}
	return false
}

func (p *parser) expect(s string) error {
	if !p.accept(s) {
		return p.unexpected(p.peek(), "%q", s)
	}
	return nil
}

func (p *parser) unexpected(t token, format string, args ...any) error {
	want := t.errorf(format, args...).Reason
	if t.text == "" {
		return t.errorf("unexpected end, want %s", want)
	}
	return t.errorf("unexpected %q, want %s", t.text, want)
}

func (p *parser) name() (token, error) {
	t := p.take()
	if !t.ident {
		return t, p.unexpected(t, "a name")
	}
	return t, nil
}

func (p *parser) document() error {
	if err := p.packageLine(); err != nil {
		return err
	}

	for p.peek().text != "" {
		t := p.take()
		var err error
		switch t.text {
		case "interface":
			err = p.interfaceItem()
		case "world":
			err = p.worldItem(t)
		default:
			err = p.unexpected(t, "interface or world")
		}

		if err != nil {
			return err
		}
	}

	if p.doc.World == nil {
		return p.peek().errorf("no world")
	}
	return nil
}

func (p *parser) packageLine() error {
	if err := p.expect("package"); err != nil {
		return err
	}

	id, err := p.id()
	switch {
	case err != nil:
		return err
	case id.Namespace == "" || id.Interface != "":
		return p.peek().errorf("a package is named namespace:name")
	}

	p.doc.Package = id
	return p.expect(";")
}

// id parses name, ns:pkg or ns:pkg/name, the latter two optionally with @version.
func (p *parser) id() (ID, error) {
	first, err := p.name()
	if err != nil {
		return ID{}, err
	}
	if !p.accept(":") {
		return ID{Interface: first.text}, nil
	}

	id := ID{Namespace: first.text}
	pkg, err := p.name()
	if err != nil {
		return ID{}, err
	}
	id.Package = pkg.text
	if p.accept("/") {
		name, err := p.name()
		if err != nil {
			return ID{}, err
		}
		id.Interface = name.text
	}

	if p.accept("@") {
		v := p.take()
		if v.text == "" || !isDigit(v.text[0]) || len(v.text) > maxIdent {
			return ID{}, p.unexpected(v, "a version")
		}
		id.Version = v.text
	}

	return id, nil
}

func (p *parser) interfaceItem() error {
	name, err := p.name()
	if err != nil {
		return err
	}
	if p.doc.Interfaces[name.text] != nil {
		return name.errorf("interface %s is declared twice", name.text)
	}

	it := &Interface{Name: name.text, Types: map[string]*TypeDef{}}
	p.doc.Interfaces[name.text] = it
	if err := p.expect("{"); err != nil {
		return err
	}

	for !p.accept("}") {
		t := p.take()
		done, err := p.typeItem(it, t)
		if err == nil && !done {
			if !t.ident {
				return p.unexpected(t, "a type, a func or %q", "}")
			}
			err = p.funcItem(it, t)
		}
		if err != nil {
			return err
		}
	}

	return nil
}

func (p *parser) worldItem(at token) error {
	name, err := p.name()
	if err != nil {
		return err
	}
	if p.doc.World != nil {
		return name.errorf("a second world: a tool has one")
	}

	p.doc.World = &World{Name: name.text, Docs: at.docs}
	p.world = &Interface{Types: map[string]*TypeDef{}}
	if err := p.expect("{"); err != nil {
		return err
	}

	for !p.accept("}") {
		t := p.take()
		done, err := p.typeItem(p.world, t)
		switch {
		case done || err != nil:
		case t.text == "import" && !t.escaped:
			err = p.importItem()
		case t.text == "export" && !t.escaped:
			err = p.exportItem(t)
		default:
			err = p.unexpected(t, "import, export, a type or %q", "}")
		}

		if err != nil {
			return err
		}
	}

	return nil
}

func (p *parser) importItem() error {
	at := p.peek()
	id, err := p.id()
	if err != nil {
		return err
	}
	if p.peek().text == ":" || id.Interface == "" {
		return at.errorf("only interfaces can be imported")
	}

	for _, other := range p.doc.World.Imports {
		if other.Unversioned() == id.Unversioned() {
			return at.errorf("%s is imported twice", id.Unversioned())
		}
	}

	p.doc.World.Imports = append(p.doc.World.Imports, id)
	return p.expect(";")
}

func (p *parser) exportItem(export token) error {
	name, err := p.name()
	if err != nil {
		return err
	}
	if p.peek().text != ":" {
		p.expose = append(p.expose, name)
		return p.expect(";")
	}

	if name.docs == "" {
		name.docs = export.docs
	}
	return p.funcItem(p.world, name)
}

// funcItem parses ": func(a: t) -> t;" after a name.
func (p *parser) funcItem(it *Interface, name token) error {
	for _, other := range it.Funcs {
		if other.Name == name.text {
			return name.errorf("func %s is declared twice", name.text)
		}
	}

	f := &Func{Name: name.text, Docs: name.docs, at: name}
	it.Funcs = append(it.Funcs, f)

	for _, s := range []string{":", "func", "("} {
		if err := p.expect(s); err != nil {
			return err
		}
	}

	var err error
	if f.Params, err = p.fields(")"); err != nil {
		return err
	}
	if p.accept("->") {
		if f.Result, err = p.typeExpr(0); err != nil {
			return err
		}
	}

	return p.expect(";")
}
