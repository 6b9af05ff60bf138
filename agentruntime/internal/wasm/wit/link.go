package wit

import "slices"

// link replaces every name by its type, so that later steps work on trees.
func (p *parser) link() error {
	for _, u := range p.used {
		if err := p.importType(u); err != nil {
			return err
		}
	}

	// Only the world's exports are called; types that no export uses only have to
	// be well-formed.
	exports, err := p.resolveFuncs(p.world)
	if err != nil {
		return err
	}

	for _, name := range p.expose {
		it := p.doc.Interfaces[name.text]
		if it == nil {
			return name.errorf("no interface %s in this file", name.text)
		}
		more, err := p.resolveFuncs(it)
		if err != nil {
			return err
		}

		for _, f := range more {
			if slices.ContainsFunc(exports, func(other *Func) bool { return other.Name == f.Name }) {
				return name.errorf("func %s is exported twice", f.Name)
			}
		}

		exports = append(exports, more...)
	}

	p.doc.World.Exports = exports
	return nil
}

// importType adds a type of another interface under its alias. A chain of uses must
// be in the order of the file, which is enough in practice.
func (p *parser) importType(u use) error {
	from := p.doc.Interfaces[u.from.text]
	if from == nil {
		return u.from.errorf("no interface %s in this file", u.from.text)
	}
	def := from.Types[u.name.text]
	if def == nil {
		return u.name.errorf("interface %s has no type %s", from.Name, u.name.text)
	}

	// Names in the type refer to the interface that it comes from.
	r := &resolver{scope: from, open: map[*TypeDef]bool{}}
	t, err := r.named(def, u.name, 0)
	if err != nil {
		return err
	}
	return define(u.into, u.alias, &TypeDef{Name: u.alias.text, Type: t, at: u.alias})
}

func (p *parser) resolveFuncs(it *Interface) ([]*Func, error) {
	var all []*Func
	for _, f := range it.Funcs {
		out := *f
		r := &resolver{scope: it, open: map[*TypeDef]bool{}}
		fields, err := r.fields(f.Params, 0)
		if err != nil {
			return nil, err
		}
		out.Params = fields
		if f.Result != nil {
			if out.Result, err = r.resolve(f.Result, 0); err != nil {
				return nil, err
			}
		}

		all = append(all, &out)
	}

	return all, nil
}

// resolver copies a type with its names replaced. It counts the parts that it
// makes: a few records, each of which contains the next one twice, would grow
// exponentially.
type resolver struct {
	scope *Interface
	open  map[*TypeDef]bool // being replaced: meeting one again is recursion
	nodes int
}

func (r *resolver) resolve(t *Type, depth int) (*Type, error) {
	if t == nil {
		return nil, nil
	}
	r.nodes++

	switch {
	case r.nodes > maxNodes:
		return nil, t.at.errorf("a type of more than %d parts", maxNodes)
	case depth > maxDepth:
		return nil, t.at.errorf("types nested deeper than %d", maxDepth)
	case t.Kind == Named:
		def := r.scope.Types[t.Name]
		if def == nil {
			return nil, t.at.errorf("no type %s", t.Name)
		}
		return r.named(def, t.at, depth)
	}

	out := *t
	var err error
	if out.Fields, err = r.fields(t.Fields, depth); err != nil {
		return nil, err
	}
	out.Args = make([]*Type, len(t.Args))

	for i, arg := range t.Args {
		if out.Args[i], err = r.resolve(arg, depth+1); err != nil {
			return nil, err
		}
	}

	return &out, nil
}

func (r *resolver) named(def *TypeDef, at token, depth int) (*Type, error) {
	if r.open[def] {
		return nil, at.errorf("type %s contains itself", def.Name)
	}
	r.open[def] = true
	defer delete(r.open, def)
	return r.resolve(def.Type, depth+1)
}

func (r *resolver) fields(in []Field, depth int) ([]Field, error) {
	out := make([]Field, len(in))
	for i, f := range in {
		t, err := r.resolve(f.Type, depth+1)
		if err != nil {
			return nil, err
		}
		out[i] = Field{Name: f.Name, Docs: f.Docs, Type: t}
	}
	return out, nil
}
