package code

import (
	"encoding/json"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/schemas"
)

// maxChunk is the longest content that the schema allows, in bytes of ASCII.
const maxChunk = 512 << 10

// hostile sources are about size bytes long and made to hurt whoever reads
// them twice, or calls himself.
func hostile(size int) map[string]string {
	fill := func(s string) string { return strings.Repeat(s, size/len(s)) }
	both := func(open, close string) string {
		n := size / (len(open) + len(close))
		return strings.Repeat(open, n) + strings.Repeat(close, n)
	}
	return map[string]string{
		"one long line":       fill("x = f(1, \"a\"); "),
		"one long word":       fill("a"),
		"parentheses":         both("(", ")"),
		"braces":              both("{", "}"),
		"open brackets":       fill("[{("),
		"close brackets":      fill(")}]"),
		"wrong brackets":      fill("([)]{(})"),
		"functions inside":    both("func f() { ", "}"),
		"functions, no body":  fill("func f fn f def f function f "),
		"classes":             fill("class a { "),
		"conditions":          fill("if "),
		"conditions inside":   both("if (a) {", "}"),
		"else if":             "func f() { if a {} " + strings.Repeat("else if a {} ", size/14) + "}",
		"operators":           "var x = " + strings.Repeat("-", size-9) + "1",
		"stars":               "var x " + fill("*"),
		"sum":                 "var x = 1" + strings.Repeat("\n +1", 1) + strings.Repeat("+1", size/2-8),
		"list types":          "var x " + strings.Repeat("[]", size/2-8) + "int",
		"channels":            "var x " + strings.Repeat("chan ", size/5-8) + "int",
		"calls":               "var _ = f" + strings.Repeat("()", size/2-8),
		"selectors":           "var _ = f" + strings.Repeat(".f", size/2-8),
		"function types":      "var x " + strings.Repeat("func() ", size/7-4),
		"labels":              "func f() {" + strings.Repeat("a:", size/2-8) + "}",
		"statements":          fill("x()\n"),
		"open string":         `x = "` + fill("a"),
		"open strings":        fill("\"a\n"),
		"quotes":              fill(`'`),
		"escaped quotes":      fill(`'\`),
		"triple quotes":       fill(`"""'`),
		"templates":           fill("`${"),
		"regular expressions": fill("=/[("),
		"slashes":             fill("= / "),
		"raw strings":         fill("r##\"a"),
		"hashes":              fill("#"),
		"raw prefix":          fill("br#"),
		"lifetimes":           fill("'a "),
		"open comments":       fill("/*"),
		"comments":            fill("/**/"),
		"line comments":       fill("//\n"),
		"empty lines":         fill("\n"),
		"catch":               fill("catch{}\n//\n"),
		"indentation":         deeper(size),
		"defaults":            "def f(" + fill("a=[],"),
		"dots":                "from " + fill("."),
		"imports":             fill("import a.b.c, "),
		"impl":                fill("impl<A for B<C "),
		"attributes":          fill("#[a(b)] "),
		"arrows":              fill("const a = (b) => "),
		"excepts":             fill("except a, b, c\n"),
		"markers":             fill("<<<<<<< a\n"),
		"secrets":             fill(`password="aaaaaaaa"` + "\n"),
		"invalid UTF-8":       fill("\xff\xc3(\xa0\xa1 def f\xe2\x28"),
		"zero bytes":          fill("\x00{"),
		"combining":           fill("e\u0301"),
		"symbols of the task": fill("def task_a_b_c(): pass\n"),
	}
}

// deep are the hostile sources that nest, or look so, in Go.
var deep = strings.Split("parentheses, braces, functions inside, conditions inside, else if, operators, stars, sum, list types, "+
	"channels, calls, selectors, function types, labels", ", ")

// deeper is as many blocks inside each other as fit.
func deeper(size int) string {
	var b strings.Builder
	for n := 0; b.Len() < size-2000; n++ {
		b.WriteString(strings.Repeat(" ", n) + "if a:\n")
	}
	return b.String()
}

// No source keeps the analyser for long, makes it grow, or ends it. Most take
// tens of milliseconds; the limits are there to find what grows with the square
// of the length, which would take minutes.
func TestHostileSources(t *testing.T) {
	// What makes the parser of Go call itself is as long as it may be; the rest
	// only as long as shows the square.
	whole := hostile(maxChunk)
	for _, name := range deep {
		if whole[name] == "" {
			t.Fatalf("no source %q", name)
		}
	}
	for name, part := range hostile(maxChunk / 16) {
		for _, language := range []string{"go", "python", "javascript", "rust", "c", "ruby"} {
			content := part
			if language == "go" && slices.Contains(deep, name) {
				content = whole[name]
			}
			t.Run(name+"/"+language, func(t *testing.T) {
				req := &schemas.CodeChunkRequest{
					Task:  "task a b c",
					Chunk: schemas.CodeChunk{Path: "a/b", StartLine: 1, EndLine: maxChunk, Content: content, Language: language},
				}
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				began := time.Now()
				r := Analyse(req)
				took := time.Since(began)
				runtime.ReadMemStats(&after)
				if took > 20*time.Second {
					t.Errorf("took %v", took)
				}
				if grown := int64(after.Sys) - int64(before.Sys); grown > 1<<30 {
					t.Errorf("grew by %d MiB", grown>>20)
				}
				if testing.Verbose() {
					t.Logf("%v, %d MiB allocated, %d MiB grown", took.Round(time.Millisecond), (after.TotalAlloc-before.TotalAlloc)>>20, (after.Sys-before.Sys)>>20)
				}
				valid(t, r, req)
			})
		}
	}
}

// What would make the Go parser call itself deeply is kept from it; what is
// only long is not.
func TestParserIsKeptFromTheDeep(t *testing.T) {
	for _, tt := range []struct {
		content string
		sure    float64
	}{
		{"func f() {\n" + strings.Repeat("x()\n", 20000) + "}", sureParsed},
		{"var x = []int{" + strings.Repeat("1,", 20000) + "}", sureParsed},
		{"var x = " + strings.Repeat("(", maxGoDepth-1) + "1" + strings.Repeat(")", maxGoDepth-1), sureParsed},
		{"var x = " + strings.Repeat("(", maxGoDepth+1) + "1" + strings.Repeat(")", maxGoDepth+1), sureWhole},
		{"var x = 1" + strings.Repeat("+\n1", maxGoChain), sureWhole},
		{"func f() { if a {}" + strings.Repeat(" else if a {}", maxGoChain) + "}", sureWhole},
	} {
		r := Analyse(&schemas.CodeChunkRequest{Task: "t", Chunk: schemas.CodeChunk{Path: "a.go", StartLine: 1, EndLine: 1 << 20, Content: tt.content}})
		if r.Confidence != tt.sure {
			t.Errorf("%.40s: %v, want %v", tt.content, r.Confidence, tt.sure)
		}
	}
}

// valid checks what the schema asks of a result.
func valid(t testing.TB, r *schemas.CodeChunkResult, req *schemas.CodeChunkRequest) {
	t.Helper()
	finished := *r
	finished.Provenance.ProviderPubkey = strings.Repeat("ab", 32)
	doc, err := json.Marshal(finished)
	if err != nil {
		t.Fatal(err)
	}
	schema, _ := schemas.Lookup(string(schemas.CodeChunkAnalysis))
	result, err := schema.ParseResult(doc)
	if err != nil {
		t.Fatal(err)
	}
	asked := &schemas.Request{SchemaID: schemas.CodeChunkAnalysis, Value: req}
	if err := asked.CheckResult(result); err != nil {
		t.Fatal(err)
	}
}

// An order for little gets as little, the gravest and closest first.
func TestOutputConstraints(t *testing.T) {
	content := "# TODO: x\ndef other(): pass\ndef wanted(): eval(x)\n# FIXME\nimport a\nfrom . import b, c\n"
	req := request(t, map[string]any{
		"task":               "look at what is wanted",
		"chunk":              map[string]any{"path": "x/a.py", "start_line": 1, "end_line": 6, "content": content},
		"output_constraints": map[string]any{"max_summary_length": 10, "max_symbols": 1, "max_faults": 1, "max_next_probes": 1},
	})
	r := answer(t, req)
	if r.Summary != "Lines 1 to" || len(r.Symbols) != 1 || r.Symbols[0].Name != "wanted" ||
		len(r.SuspectedFaults) != 1 || r.SuspectedFaults[0].Severity != "high" || len(r.RecommendedNextProbes) != 1 {
		t.Errorf("%+v", r)
	}
}

// What lies behind the last line of the chunk is not reported.
func TestLinesOutsideTheChunk(t *testing.T) {
	r := answer(t, request(t, map[string]any{
		"task": "t", "chunk": map[string]any{"path": "a.py", "start_line": 5, "end_line": 6, "content": "def a():\n  pass\nimport b\ndef b():\n  eval(x)\n"},
	}))
	if len(r.Symbols) != 1 || r.Symbols[0].Line != 5 || len(r.SuspectedFaults) != 0 || strings.Contains(r.Summary, "mports") {
		t.Errorf("%+v", r)
	}
}

func TestLanguageOf(t *testing.T) {
	for _, tt := range []struct{ declared, file, content, want string }{
		{"", "a.go", "", "Go"},
		{"Rust", "a.go", "", "Rust"},
		{"  TSX ", "a", "", "TypeScript"},
		{"", "a/b.mjs", "", "JavaScript"},
		{"cobol", "a.go", "", "cobol"},
		{"", "Makefile", "# a # b", "plain text"},
		{"", "a.xyz", "", ".xyz file"},
		{"go python", "a.go", "", "go python"},
	} {
		if got := languageOf(tt.declared, tt.file, tt.content); got.name != tt.want {
			t.Errorf("%q, %s: %s, want %s", tt.declared, tt.file, got.name, tt.want)
		}
	}
}

// FuzzAnalyse gives every language the same source: no panic, the same result
// twice, and one that the schema accepts.
func FuzzAnalyse(f *testing.F) {
	for _, content := range hostile(8 << 10) {
		f.Add(content[:200], "a")
	}
	for _, s := range []string{"func (", "def f(", "class A { f(", "impl A for", "`${`${", "'''", "r#\"", "b'", "'", "/*", "x = /[/", "const a = async", "\\"} {
		f.Add(s, "task")
	}
	f.Fuzz(func(t *testing.T, content, task string) {
		for _, language := range []string{"go", "python", "typescript", "rust", "c", "ruby"} {
			req := &schemas.CodeChunkRequest{
				Task:  task,
				Chunk: schemas.CodeChunk{Path: "a/b.x", StartLine: 7, EndLine: 7 + int64(strings.Count(content, "\n")), Content: content, Language: language},
			}
			r := Analyse(req)
			valid(t, r, req)
			if again := Analyse(req); !reflect.DeepEqual(r, again) {
				t.Fatalf("%s: two results", language)
			}
		}
	})
}
