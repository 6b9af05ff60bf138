package code

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"path"
	"strings"
)

// goScan walks the syntax tree of a Go chunk.
type goScan struct {
	*unit
	files *gotoken.FileSet
	above int // lines added above the chunk
	test  bool
	// wrapped says that the file's only function was added around the chunk.
	wrapped bool
}

// maxGoDepth bounds the nesting of brackets and maxGoChain the tokens of one
// statement that the parser gets, because it recurses on both.
const (
	maxGoDepth = 200
	maxGoChain = 5000
)

// scanGo parses the chunk as a file, as declarations or as statements. If all three
// fail, the chunk is scanned like any language with braces.
func scanGo(u *unit, content string) {
	if u.shallow() && u.whole() {
		for _, wrap := range [...][2]string{{"", ""}, {"package p\n", ""}, {"package p\n" + wrapper, "\n}"}} {
			files := gotoken.NewFileSet()
			file, err := parser.ParseFile(files, "", wrap[0]+content+wrap[1], parser.ParseComments|parser.SkipObjectResolution)
			if err == nil {
				u.parsed = true
				s := &goScan{unit: u, files: files, above: strings.Count(wrap[0], "\n"), test: u.isTest(), wrapped: wrap[1] != ""}
				s.file(file, wrap[0] == "")
				return
			}
		}
	}

	scanPlain(u, content)
}

// wrapper starts the function that is added around statements.
const wrapper = "func _() {\n"

// shallow reports whether the chunk cannot exhaust the parser's stack.
func (u *unit) shallow() bool {
	depth, chain := 0, 0
	for i, t := range u.tokens {
		switch t.text {
		case "(", "[", "{":
			if depth++; depth > maxGoDepth {
				return false
			}
		case ")", "]", "}":
			depth--
		case ",", ";", ":=", "=":
			chain = 0
			continue
		}

		if t.first && endsStatement(u.at(i-1)) {
			chain = 0
		}
		if chain++; chain > maxGoChain {
			return false
		}
	}

	return true
}

// endsStatement reports whether Go inserts a semicolon after this token at the end
// of a line.
func endsStatement(t token) bool {
	switch t.text {
	case ")", "]", "}", "++", "--":
		return true
	}
	return t.kind != mark
}

func (s *goScan) line(p gotoken.Pos) int { return s.files.Position(p).Line - 1 - s.above }

func (s *goScan) file(f *ast.File, named bool) {
	if named {
		s.container = f.Name.Name
	}
	for _, i := range f.Imports {
		s.imported(strings.Trim(i.Path.Value, "\"`"), s.line(i.Pos()))
	}

	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			s.fn(d)
		case *ast.GenDecl:
			s.general(d)
		}
	}
}

// imported recognizes imports of the file's own module: the import path and the
// file's path share a folder.
func (s *goScan) imported(from string, line int) {
	s.importPath(from)
	if top, _, ok := strings.Cut(s.path, "/"); ok {
		if _, rest, ok := strings.Cut("/"+from+"/", "/"+top+"/"); ok && top != "" && strings.Contains(from, ".") {
			s.near = append(s.near, path.Join(top, rest))
		}
	}

	switch from {
	case "crypto/md5", "crypto/sha1", "crypto/des", "crypto/rc4":
		if !s.test {
			s.fault(line, low, "imports "+from+", which is broken", "use crypto/sha256 or an AEAD")
		}
	}
}

// fn records a function or method.
func (s *goScan) fn(d *ast.FuncDecl) {
	sym := symbol{
		name: d.Name.Name, kind: kindFunction, line: s.line(d.Pos()), last: s.line(d.End()), doc: sentence(d.Doc.Text()),
		public: d.Name.IsExported(), decisions: 1,
	}
	if d.Recv != nil && len(d.Recv.List) == 1 {
		sym.kind = kindMethod
		sym.name = receiver(d.Recv.List[0].Type) + "." + sym.name
	}

	s.copiesLock(d)
	if d.Body == nil {
		s.symbols = append(s.symbols, sym)
		return
	}
	sym.decisions, sym.depth = measure(d.Body)
	if !s.wrapped {
		s.symbols = append(s.symbols, sym)
	}
	s.look(d)
}

func receiver(t ast.Expr) string {
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.ParenExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return "?"
		}
	}
}

// general records types, constants and variables.
func (s *goScan) general(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			kind := kindType
			switch spec.Type.(type) {
			case *ast.StructType:
				kind = kindStruct
			case *ast.InterfaceType:
				kind = kindInterface
			}
			s.named(spec.Name, kind, spec, spec.Doc, d.Doc)
		case *ast.ValueSpec:
			kind := kindVariable
			if d.Tok == gotoken.CONST {
				kind = kindConstant
			}
			var only *ast.CommentGroup // of a declaration without parentheses
			if !d.Lparen.IsValid() {
				only = d.Doc
			}
			for _, n := range spec.Names {
				s.named(n, kind, spec, spec.Doc, only, spec.Comment)
			}
			for _, v := range spec.Values {
				s.look(v)
			}
		}
	}
}

func (s *goScan) named(n *ast.Ident, kind string, spec ast.Node, docs ...*ast.CommentGroup) {
	if n.Name == "_" {
		return
	}
	sym := symbol{
		name: n.Name, kind: kind, line: s.line(n.Pos()), last: s.line(spec.End()),
		public: n.IsExported(), decisions: 1,
	}

	for _, d := range docs {
		if sym.doc == "" {
			sym.doc = sentence(d.Text())
		}
	}

	s.symbols = append(s.symbols, sym)
}

// measure returns 1 + the number of decisions in a body, and their deepest nesting.
func measure(body *ast.BlockStmt) (decisions, depth int) {
	decisions = 1
	var nest []ast.Node // the enclosing decisions, nil for other nodes
	inside := 0
	ast.Inspect(body, func(n ast.Node) bool {
		if n == nil {
			if top := nest[len(nest)-1]; top != nil {
				inside--
			}
			nest = nest[:len(nest)-1]
			return true
		}

		nest = append(nest, nil)
		switch n := n.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			decisions++
			nest[len(nest)-1] = n
			inside++
		case *ast.CaseClause:
			if n.List != nil {
				decisions++
			}
		case *ast.CommClause:
			if n.Comm != nil {
				decisions++
			}
		case *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
			nest[len(nest)-1] = n
			inside++
		case *ast.BinaryExpr:
			if n.Op == gotoken.LAND || n.Op == gotoken.LOR {
				decisions++
			}
		}

		depth = max(depth, inside)
		return true
	})
	return decisions, depth
}
