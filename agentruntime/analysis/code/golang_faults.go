package code

import (
	"go/ast"
	gotoken "go/token"
	"strings"
)

// look finds suspicious constructs in a declaration.
func (s *goScan) look(root ast.Node) {
	var path []ast.Node // from the root to the current node
	ast.Inspect(root, func(n ast.Node) bool {
		if n == nil {
			path = path[:len(path)-1]
			return true
		}

		path = append(path, n)
		switch n := n.(type) {
		case *ast.IfStmt:
			s.emptyBranch(n)
		case *ast.ForStmt:
			if n.Cond == nil && n.Init == nil && len(n.Body.List) == 0 {
				s.fault(s.line(n.Pos()), medium, "an endless loop that keeps a processor busy", "wait on a channel, or use select {}")
			}
		case *ast.DeferStmt:
			if inLoop(path) {
				s.fault(s.line(n.Pos()), medium, "a defer in a loop runs only when the function ends", "take the loop's body into a function")
			}
		case *ast.BlockStmt:
			s.afterLeaving(n.List)
		case *ast.CaseClause:
			s.afterLeaving(n.Body)
		case *ast.BinaryExpr:
			s.comparison(n)
		case *ast.KeyValueExpr:
			if k, ok := n.Key.(*ast.Ident); ok && k.Name == "InsecureSkipVerify" && isTrue(n.Value) {
				s.fault(s.line(n.Pos()), high, "switches off the check of TLS certificates", "leave the check on, or set RootCAs")
			}
		case *ast.GoStmt:
			s.addInside(n)
		case *ast.CallExpr:
			s.call(n, root)
		}

		return true
	})
}

func isTrue(x ast.Expr) bool {
	id, ok := x.(*ast.Ident)
	return ok && id.Name == "true"
}

// emptyBranch finds errors that are checked and then ignored.
func (s *goScan) emptyBranch(n *ast.IfStmt) {
	c, ok := n.Cond.(*ast.BinaryExpr)
	if !ok || c.Op != gotoken.NEQ || len(n.Body.List) > 0 || n.Else != nil {
		return
	}
	id, ok := c.X.(*ast.Ident)
	from, to := s.line(n.Body.Pos()), s.line(n.Body.End())
	if ok && strings.HasPrefix(strings.ToLower(id.Name), "err") && !s.commented(from, to) {
		s.fault(s.line(n.Pos()), medium, "an error is checked and then ignored", "return it, handle it, or say why it may be ignored")
	}
}

// inLoop reports whether the innermost loop or function around the last node is a
// loop.
func inLoop(path []ast.Node) bool {
	for i := len(path) - 1; i >= 0; i-- {
		switch path[i].(type) {
		case *ast.ForStmt, *ast.RangeStmt:
			return true
		case *ast.FuncLit, *ast.FuncDecl:
			return false
		}
	}
	return false
}

// afterLeaving finds statements after one that leaves their block.
func (s *goScan) afterLeaving(list []ast.Stmt) {
	for i, stmt := range list[:max(0, len(list)-1)] {
		switch stmt := stmt.(type) {
		case *ast.ReturnStmt:
		case *ast.BranchStmt:
			if stmt.Tok == gotoken.FALLTHROUGH {
				continue
			}
		default:
			continue
		}

		if _, labeled := list[i+1].(*ast.LabeledStmt); !labeled {
			s.fault(s.line(list[i+1].Pos()), medium, "this statement is never reached", "remove it, or the one before it")
		}
		return
	}
}

func (s *goScan) comparison(n *ast.BinaryExpr) {
	if n.Op != gotoken.EQL && n.Op != gotoken.NEQ {
		return
	}
	x, y := small(n.X), small(n.Y)
	switch {
	case n.Op == gotoken.EQL && x != "" && x == y: // != is the usual test for NaN
		s.fault(s.line(n.Pos()), medium, "compares "+cut(x, 64)+" with itself", "")
	case (x == "err" || strings.HasSuffix(x, "Err")) && strings.Contains(y, ".") && !strings.HasSuffix(y, "EOF"):
		s.fault(s.line(n.Pos()), low, "compares an error with "+n.Op.String()+", which a wrapped one fails", "use errors.Is")
	}
}

// small returns the text of a name or a selector of names, "" for anything else.
func small(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		if id, ok := x.X.(*ast.Ident); ok {
			return id.Name + "." + x.Sel.Name
		}
	}
	return ""
}

// addInside finds calls of WaitGroup.Add inside the goroutine that is counted.
func (s *goScan) addInside(n *ast.GoStmt) {
	f, ok := n.Call.Fun.(*ast.FuncLit)
	if !ok || len(f.Body.List) == 0 {
		return
	}
	if e, ok := f.Body.List[0].(*ast.ExprStmt); ok {
		if c, ok := e.X.(*ast.CallExpr); ok && strings.HasSuffix(strings.ToLower(small(c.Fun)), "wg.add") {
			s.fault(s.line(c.Pos()), medium, "Add runs in the goroutine: Wait may be past before it", "call Add before the go statement")
		}
	}
}

func (s *goScan) call(n *ast.CallExpr, root ast.Node) {
	fun := small(n.Fun)
	_, method, _ := strings.Cut(fun, ".")
	if sel, ok := n.Fun.(*ast.SelectorExpr); ok {
		method = sel.Sel.Name
	}

	switch {
	case fun == "panic" && !s.test && !mayPanic(root):
		s.fault(s.line(n.Pos()), low, "panics instead of returning an error", "return an error")
	case (fun == "exec.Command" || fun == "exec.CommandContext") && shellOf(n.Args):
		s.fault(s.line(n.Pos()), high, "runs a command through the shell that is put together from values", "pass program and arguments one by one")
	case fun == "http.Get" || fun == "http.Post":
		s.fault(s.line(n.Pos()), low, fun+" has no time limit", "use an http.Client with a Timeout and a context")
	case strings.HasPrefix(method, "Query") || strings.HasPrefix(method, "Exec"):
		for _, a := range n.Args[:min(2, len(n.Args))] {
			if builtSQL(a) {
				s.fault(s.line(a.Pos()), high, "puts values into the text of an SQL statement", "use placeholders")
			}
		}
	}
}

// mayPanic reports whether a function's name announces that it panics.
func mayPanic(root ast.Node) bool {
	d, ok := root.(*ast.FuncDecl)
	return !ok || strings.HasPrefix(strings.ToLower(d.Name.Name), "must") || d.Name.Name == "init" || d.Name.Name == "main"
}

// shellOf reports whether the arguments start a shell with a command that is not a
// literal.
func shellOf(args []ast.Expr) bool {
	for i := 0; i+2 < len(args); i++ {
		sh, ok := args[i].(*ast.BasicLit)
		if !ok || !strings.HasSuffix(strings.Trim(sh.Value, `"`), "sh") {
			continue
		}
		flag, ok := args[i+1].(*ast.BasicLit)
		_, fixed := args[i+2].(*ast.BasicLit)
		return ok && flag.Value == `"-c"` && !fixed
	}
	return false
}

// builtSQL reports whether an SQL statement is assembled with Sprintf or +.
func builtSQL(x ast.Expr) bool {
	var first ast.Expr
	switch x := x.(type) {
	case *ast.CallExpr:
		if small(x.Fun) == "fmt.Sprintf" && len(x.Args) > 1 {
			first = x.Args[0]
		}
	case *ast.BinaryExpr:
		if x.Op != gotoken.ADD {
			return false
		}

		values := false
		for b, ok := x, true; ok; b, ok = first.(*ast.BinaryExpr) {
			first = b.X
			_, fixed := b.Y.(*ast.BasicLit)
			values = values || !fixed
		}

		if !values {
			return false
		}
	}

	lit, ok := first.(*ast.BasicLit)
	return ok && isSQL(lit.Value)
}

// copiesLock finds locks that are passed by value.
func (s *goScan) copiesLock(d *ast.FuncDecl) {
	if d.Type.Params == nil {
		return
	}
	for _, p := range d.Type.Params.List {
		switch t := small(p.Type); t {
		case "sync.Mutex", "sync.RWMutex", "sync.WaitGroup", "sync.Once":
			s.fault(s.line(p.Pos()), medium, "copies a "+t, "pass a pointer")
		}
	}
}
