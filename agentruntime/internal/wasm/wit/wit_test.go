package wit

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

const seed = `/// A tool.
package example:my-tool@1.0.0;

interface types {
  enum mode { fast, slow }
  type words = list<string>;
  record inner { w: words, p: tuple<u8, s64>, m: mode }
}

world my-tool {
  use types.{inner, mode as speed};
  import wasi:filesystem/types@0.2.0;
  import agentos:kv/store; /* a comment */
  record request {
    /// What to do.
    what: string,
    %list: option<inner>,
    ok: bool, c: char, f: f64,
    r: result<_, string>,
    s: speed,
  }
  record response { n: u64 }
  /// Does it.
  /// All of it.
  export handle: func(req: request) -> result<response, string>;
}
`

func parse(t *testing.T, src string) *Document {
	t.Helper()
	doc, err := Parse(src)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestParse(t *testing.T) {
	doc := parse(t, seed)
	if got := doc.Package.String(); got != "example:my-tool@1.0.0" {
		t.Error(got)
	}
	if got := fmt.Sprint(doc.World.Imports); got != "[wasi:filesystem/types@0.2.0 agentos:kv/store]" {
		t.Error(got)
	}
	f := doc.World.Exports[0]
	if f.Name != "handle" || f.Docs != "Does it.\nAll of it." || !f.Fallible() || !f.WrapsOneRecord() {
		t.Fatalf("%+v", f)
	}
}

func TestSchemas(t *testing.T) {
	f := parse(t, seed).World.Exports[0]
	in, err := f.InputSchema()
	if err != nil {
		t.Fatal(err)
	}
	const inner = `{"additionalProperties":false,"properties":{` +
		`"m":{"enum":["fast","slow"],"type":"string"},` +
		`"p":{"items":false,"minItems":2,"prefixItems":[{"maximum":255,"minimum":0,"type":"integer"},` +
		`{"maximum":9223372036854775807,"minimum":-9223372036854775808,"type":"integer"}],"type":"array"},` +
		`"w":{"items":{"type":"string"},"type":"array"}},"required":["w","p","m"],"type":"object"}`
	want := `{"additionalProperties":false,"properties":{` +
		`"c":{"maxLength":1,"minLength":1,"type":"string"},"f":{"type":"number"},` +
		`"list":{"anyOf":[` + inner + `,{"type":"null"}]},"ok":{"type":"boolean"},` +
		`"r":{"oneOf":[{"additionalProperties":false,"properties":{"ok":{"type":"null"}},"required":["ok"],"type":"object"},` +
		`{"additionalProperties":false,"properties":{"err":{"type":"string"}},"required":["err"],"type":"object"}]},` +
		`"s":{"enum":["fast","slow"],"type":"string"},` +
		`"what":{"description":"What to do.","type":"string"}},` +
		`"required":["what","ok","c","f","r","s"],"type":"object"}`
	if string(in) != want {
		t.Errorf("got  %s\nwant %s", in, want)
	}
	out, err := f.OutputSchema()
	if err != nil || !strings.Contains(string(out), `"n":{"maximum":18446744073709551615`) {
		t.Error(string(out), err)
	}
}

// Names in JSON are those that a job type could have.
func TestInputOfSeveralParameters(t *testing.T) {
	f := parse(t, `package a:b; world w { record r { x: u8 } enum speed { very-fast, slow }
		export handle: func(request-xml: string, n: option<u8>, s: speed) -> r; }`).World.Exports[0]
	in, err := f.InputSchema()
	if err != nil || !strings.Contains(string(in), `"required":["request_xml","s"]`) || !strings.Contains(string(in), `"enum":["very_fast","slow"]`) {
		t.Error(string(in), err)
	}
}

func TestExportedInterface(t *testing.T) {
	doc := parse(t, `package a:b; interface i { record r { x: u8 } handle: func(q: r) -> r; } world w { export i; }`)
	if f := doc.World.Exports[0]; f.Name != "handle" || f.Params[0].Type.Kind != Record {
		t.Fatal(f)
	}
}

func TestOutputMustBeARecord(t *testing.T) {
	for _, result := range []string{"", "-> string", "-> result<string, string>", "-> result<r>", "-> result<r, u8>", "-> result", "-> list<r>"} {
		f := parse(t, `package a:b; world w { record r { x: u8 } export handle: func()`+result+`; }`).World.Exports[0]
		var at *Error
		if _, err := f.OutputSchema(); !errors.As(err, &at) {
			t.Errorf("%q: %v", result, err)
		}
	}
}

// Each document is refused at the place marked with "^", which is taken out
// before the document is parsed.
func TestRefusedWithPosition(t *testing.T) {
	const head = "package a:b;\n"
	world := func(s string) string { return head + "world w {\n" + s + "\n}" }
	for _, c := range []struct{ name, src, reason string }{
		{"empty", "^", "want \"package\""},
		{"no world", head + "interface i {}^", "no world"},
		{"two worlds", head + "world a {} world ^b {}", "second world"},
		{"package of one name", "package a^;", "namespace"},
		{"no end", head + "world w {^", "unexpected end"},
		{"semicolon", world("import a:b/c\n^}"), `want ";"`},
		{"variant", world("^variant v { a }"), "not supported"},
		{"flags", world("^flags f { a }"), "not supported"},
		{"resource", world("^resource r;"), "not supported"},
		{"include", world("^include a:b/c;"), "not supported"},
		{"gate", world("^@since(version = 1.0.0) import a:b/c;"), "unexpected"},
		{"inline import", world("import ^f: func();"), "only interfaces"},
		{"import of a package", world("import ^a:b;"), "only interfaces"},
		{"imported twice", world("import a:b/c; import ^a:b/c@1.0.0;"), "twice"},
		{"version", world("import a:b/c@^x;"), "version"},
		{"no such type", world("export f: func(a: ^x);"), "no type x"},
		{"no such interface", world("export ^i;"), "no interface i"},
		{"use of nothing", world("use ^i.{a};"), "no interface i"},
		{"use of no type", head + "interface i {} world w { use i.{^a}; }", "no type a"},
		{"type twice", world("record r { x: u8 } record ^r { x: u8 }"), "twice"},
		{"field twice", world("record r { x: u8, ^x: u8 }"), "twice"},
		{"case twice", world("enum e { x, ^x }"), "twice"},
		{"func twice", world("export f: func(); export ^f: func();"), "twice"},
		{"exported twice", head + "interface i { f: func(); } world w { export f: func(); export ^i; }", "twice"},
		{"empty enum", world("^enum e { }"), "without cases"},
		{"built-in name", world("type ^u8 = u16;"), "built-in"},
		{"itself", world("record r { x: list<^r> } export f: func(a: r);"), "contains itself"},
		{"each other", world("record r { x: s } record s { x: ^r } export f: func(a: r);"), "contains itself"},
		{"list of nothing", world("type t = list^;"), `want "<"`},
		{"list of two", world("type t = ^list<u8, u8>;"), "cannot have 2"},
		{"empty tuple", world("type t = ^tuple<>;"), "cannot have 0"},
		{"hole in a list", world("type t = list<^_>;"), "want a name"},
		{"name", world("type ^a--b = u8;"), "malformed name"},
		{"name with a digit", world("type ^a-1 = u8;"), "malformed name"},
		{"long name", world("type ^" + strings.Repeat("a", maxIdent+1) + " = u8;"), "longer"},
		{"odd character", world("^$"), "unexpected '$'"},
		{"comment", world("^/* "), "unterminated comment"},
		{"not UTF-8", "^\xff", "not UTF-8"},
		{"deep", world("type t = " + strings.Repeat("list<", maxDepth+1) + "^u8" + strings.Repeat(">", maxDepth+1) + ";"), "nested deeper"},
		{"large", "^" + strings.Repeat(" ", MaxBytes+1), "the limit is"},
		{"tokens", head + strings.Repeat(";", maxTokens-5) + "^;", "more than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, after, _ := strings.Cut(c.src, "^")
			_, err := Parse(before + after)
			var at *Error
			if !errors.As(err, &at) {
				t.Fatal("not refused with a position:", err)
			}
			line := strings.Count(before, "\n") + 1
			column := len(before) - strings.LastIndexByte(before, '\n')
			if at.Line != line || at.Column != column || !strings.Contains(at.Reason, c.reason) {
				t.Errorf("want %d:%d %q, got %v", line, column, c.reason, err)
			}
		})
	}
}

// Every record holds the next one eight times: few lines, many parts.
func TestTypesDoNotExplode(t *testing.T) {
	var src strings.Builder
	src.WriteString("package a:b; world w { record r0 { x: u8 }\n")
	for i := range 4 {
		fmt.Fprintf(&src, "record r%d {", i+1)
		for j := range 8 {
			fmt.Fprintf(&src, "f%c: r%d, ", 'a'+j, i)
		}
		src.WriteString("}\n")
	}
	src.WriteString("export handle: func(a: r2) -> r0; }")
	parse(t, src.String())
	_, err := Parse(strings.Replace(src.String(), "a: r2)", "a: r4)", 1))
	var at *Error
	if !errors.As(err, &at) || !strings.Contains(at.Reason, "parts") {
		t.Fatal(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(seed)
	for _, name := range []string{"../../../examples/wasm/count/tool.wit", "../../../examples/wasm/upper/tool.wit", "../../../examples/wasm/embed/tool.wit"} {
		if text, err := os.ReadFile(name); err == nil {
			f.Add(string(text))
		}
	}
	f.Add("package a:b; interface i { f: func(a: tuple<u8, result<_, string>>) -> option<char>; } world w { export i; }")
	f.Fuzz(func(t *testing.T, src string) {
		doc, err := Parse(src)
		if err != nil {
			var at *Error
			if !errors.As(err, &at) || at.Line < 1 || at.Column < 1 {
				t.Fatalf("no position: %v", err)
			}
			return
		}
		for _, fn := range doc.World.Exports {
			in, err := fn.InputSchema()
			if err != nil || !json.Valid(in) {
				t.Fatal(err)
			}
			if out, err := fn.OutputSchema(); err == nil && !json.Valid(out) {
				t.Fatal(string(out))
			}
		}
	})
}
