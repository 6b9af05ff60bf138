package code

import (
	"slices"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/schemas"
)

// faultsOf analyses a source and lists the beginnings of what is suspected.
func faultsOf(path, source string) []string {
	r := Analyse(&schemas.CodeChunkRequest{
		Task: "t", Chunk: schemas.CodeChunk{Path: path, StartLine: 1, EndLine: 10000, Content: source},
	})
	var all []string
	for _, f := range r.SuspectedFaults {
		all = append(all, f.Severity+": "+f.Description)
	}
	return all
}

// Each rule finds what it is for, and lets the nearest harmless thing pass.
func TestFaults(t *testing.T) {
	for _, tt := range []struct{ path, bad, fault, good string }{
		{"a.go", `exec.Command("bash", "-c", x)`, "high: runs a command", `exec.Command("bash", "-c", "ls")`},
		{"a.go", `db.Exec("DELETE FROM a WHERE b=" + c)`, "high: puts values", `db.Exec("DELETE FROM a " + "WHERE b=?", c)`},
		{"a.go", `db.Query(fmt.Sprintf("select a from b where c=%s", d))`, "high: puts values", `db.Query(fmt.Sprintf("hello %s", d))`},
		{"a.go", `x := tls.Config{InsecureSkipVerify: true}`, "high: switches off", `x := tls.Config{InsecureSkipVerify: v}`},
		{"a.go", "for {\n}", "medium: an endless loop", "for {\n\tf()\n}"},
		{"a.go", "for range x {\n\tdefer f()\n}", "medium: a defer in a loop", "for range x {\n\tfunc() { defer f() }()\n}"},
		{"a.go", "if err != nil {\n}", "medium: an error is checked", "if err != nil {\n\t// may be\n}"},
		{"a.go", "return\nf()", "medium: this statement", "goto x\nx:\nf()"},
		{"a.go", "go func() { wg.Add(1) }()", "medium: Add runs", "wg.Add(1)\ngo func() { f() }()"},
		{"a.go", "if a == a {\n\tf()\n}", "medium: compares a", "if a != a {\n\tf()\n}"},
		{"a.go", "if err == fs.ErrExist {\n\tf()\n}", "low: compares an error", "if err == io.EOF {\n\tf()\n}"},
		{"a.go", "func f(a sync.Mutex) {}", "medium: copies", "func f(a *sync.Mutex) {}"},
		{"a.go", "func f() { panic(1) }", "low: panics", "func mustF() { panic(1) }"},
		{"a.go", `import "crypto/md5"`, "low: imports", `import "crypto/sha256"`},
		{"a.go", `http.Get(u)`, "low: http.Get", `client.Get(u)`},

		{"a.py", "exec(x)", "high: runs a string", "x.exec(y)"},
		{"a.py", "os.system(x)", "high: runs a command", "posix.system"},
		{"a.py", "run(x, shell=True)", "high: runs a command", "run(x, shell=False)"},
		{"a.py", "get(x, verify=False)", "high: switches off", "get(x, verify=path)"},
		{"a.py", "pickle.loads(x)", "medium: unpickles", "json.loads(x)"},
		{"a.py", "yaml.load(x)", "medium: loads YAML", "yaml.load(x, Loader=yaml.CSafeLoader)"},
		{"a.py", "tempfile.mktemp()", "medium: another process", "tempfile.mkstemp()"},
		{"a.py", "hashlib.md5(x)", "low: uses the broken hash", "hashlib.sha256(x)"},
		{"a.py", "x is not 'a'", "low: compares the identity", "x is not None"},
		{"a.py", "x != None", "low: compares with None", "x is None"},
		{"a.py", "try:\n  f()\nexcept:\n  raise", "medium: a bare except", "try:\n  f()\nexcept A:\n  raise"},
		{"a.py", "try:\n  f()\nexcept (A, B) as e:\n  pass", "medium: an exception", "try:\n  f()\nexcept A:\n  g()"},
		{"a.py", "def f(a, b={}): g()", "medium: all calls share", "def f(a, b=()): g()"},
		{"a.py", "def f():\n  return 1\n  g()", "medium: this line", "def f():\n  if a: return 1\n  g()"},

		{"a.js", "new Function(x)", "high: runs a string", "function f() {}"},
		{"a.js", "cp.execSync('rm ' + x)", "high: runs a command", "re.exec(x)"},
		{"a.js", "db.query(`SELECT a FROM b WHERE c=${d}`)", "high: puts values", "db.query('SELECT a FROM b WHERE c=?', d)"},
		{"a.js", "x({rejectUnauthorized: false})", "high: switches off", "x({rejectUnauthorized: true})"},
		{"a.js", "document.write(x)", "medium: writes into the page", "stream.write(x)"},
		{"a.js", "el.innerHTML += x", "medium: puts text", "el.innerHTML = ''"},
		{"a.js", "x.forEach(async (y) => { f(); })", "medium: forEach", "x.map(async (y) => { f(); })"},
		{"a.js", "if (a = b) { f(); }", "medium: assigns", "if ((a = b)) { f(); }"},
		{"a.js", "try { f() } catch {}", "medium: an error", "try { f() } catch { g() }"},
		{"a.js", "p.catch(f); debugger;", "medium: stops", "x.debugger = 1"},
		{"a.js", "setInterval('f()', 1)", "medium: runs a string", "setInterval(f, 1)"},
		{"a.js", "if (x === NaN) { f(); }", "medium: NaN", "if (isNaN(x)) { f(); }"},
		{"a.js", "return 1;\nf();", "medium: this line", "return 1;\n}"},
		{"a.js", "if (a === a) { f(); }", "medium: compares a", "if (b.a === a || a === a >>> 0 || a !== a) { f(); }"},
		{"a.js", "if (a != b) { f(); }", "low: compares with !=", "if (a != null) { f(); }"},
		{"a.js", "var a = 1", "low: declares variables", "let a = 1"},

		{"a.rs", "fn f() { transmute::<A, B>(c); }", "high: transmute", "fn transmute_all() {}"},
		{"a.rs", "fn f() { b.danger_accept_invalid_certs(true); }", "high: switches off", "fn f() { b.danger_accept_invalid_certs(x); }"},
		{"a.rs", "static mut A: u8 = 0;", "medium: a mutable static", "static A: u8 = 0;"},
		{"a.rs", "fn f() { unsafe { g() } }", "medium: unsafe", "fn f() {\n// SAFETY: g asks for nothing.\nunsafe { g() } }"},
		{"a.rs", "fn f() { unimplemented!() }", "medium: unimplemented!", "fn f() { g!() }"},
		{"a.rs", "fn f() { let _ = m.lock().unwrap_or(x); }", "medium: the lock", "fn f() { let _g = m.lock(); }"},
		{"a.rs", "fn f() { x.expect(\"y\"); }", "low: expect", "#[test]\nfn f() { x.expect(\"y\"); }"},
		{"a.rs", "fn f() { panic!() }", "low: panic!", "#[cfg(test)] mod t { fn f() { panic!() } }"},
		{"a.rs", "#[cfg(not(test))] mod t { fn f() { x.unwrap(); } }", "low: unwrap", "fn f() { x.unwrap_or(y); }"},

		{"a.c", "/* FIXME */", "low: a comment", "/* fixmes, TODOS */"},
		{"a.rb", "<<<<<<< ours\nx", "high: a merge conflict", "a <<<<<<< b"},
		{"a.rb", `password = "tr0ub4dor&3"`, "high: a secret", `password = "tr0ub4dor #{x}"`},
		{"a.ts", `const c = {api_key: 'a1b2c3d4e5'}`, "high: a secret", `const c = {api_key_url: 'a1b2c3d4e5', secret: 'placeholder'}`},
		{"a.c", `char *k = "-----BEGIN RSA PRIVATE KEY-----";`, "high: a key", `char *k = "-----BEGIN CERTIFICATE-----";`},
		{"a.c", `f("AKIAABCDEFGHIJKLMNOP")`, "high: a key", `f("AKIAABC")`},
		{"a.py", deepPython(deepNesting + 1), "low: f nests", deepPython(deepNesting)},
		{"a.go", "func f() {" + strings.Repeat("\n", manyLines) + "}", "low: f is", "func f() {" + strings.Repeat("\n", manyLines-1) + "}"},
		{"a.js", "function f() {" + strings.Repeat("a && b;", manyDecisions) + "}", "low: f has", "function f() {" + strings.Repeat("a && b;", manyDecisions-1) + "}"},
		{"a.rs", "fn f() {" + strings.Repeat("if a {}", tooMany) + "}", "medium: f has", "fn f() {" + strings.Repeat("if a {}", 5) + "}"},
	} {
		begins := func(s string) bool { return strings.HasPrefix(s, tt.fault) }
		if all := faultsOf(tt.path, tt.bad); !slices.ContainsFunc(all, begins) {
			t.Errorf("%s: %s: found %q", tt.path, tt.bad, all)
		}
		if all := faultsOf(tt.path, tt.good); slices.ContainsFunc(all, begins) {
			t.Errorf("%s: %s: found %q", tt.path, tt.good, all)
		}
	}
}

func deepPython(n int) string {
	s := "def f():\n"
	for i := range n {
		s += strings.Repeat(" ", i+1) + "if a:\n"
	}
	return s + strings.Repeat(" ", n+1) + "g()\n"
}

// The value of a secret is not repeated in the result.
func TestSecretsAreNotRepeated(t *testing.T) {
	r := Analyse(&schemas.CodeChunkRequest{
		Task: "t", Chunk: schemas.CodeChunk{Path: "a.go", StartLine: 1, EndLine: 9, Content: "package a\n\nvar apiKey = \"canary-123456\"\n"},
	})
	if len(r.SuspectedFaults) != 1 || strings.Contains(print(r), "canary") {
		t.Error(print(r))
	}
}
