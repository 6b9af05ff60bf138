package wasm

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lightwork-market/lightwork/agentruntime/internal/wasm/wasmtest"
	"github.com/lightwork-market/lightwork/agentruntime/internal/wasm/wit"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// seedWIT is the shape of the seed's my-tool, with room for more imports.
const seedWIT = `package example:tool@1.0.0;
world my-tool {
  IMPORTS
  record request { text: string, limit: option<u32> }
  record response { n: u32 }
  /// Counts.
  export handle: func(req: request) -> result<response, string>;
}`

func witWith(imports ...string) string {
	text := ""
	for _, i := range imports {
		text += "import " + i + ";\n"
	}
	return strings.Replace(seedWIT, "IMPORTS", text, 1)
}

// folder writes a tool; settings may be empty.
func folder(tb testing.TB, wit string, module []byte, settings string) string {
	tb.Helper()
	dir := filepath.Join(tb.TempDir(), "my-tool")
	files := map[string]string{WITFile: wit, ModuleFile: string(module), SettingsFile: settings}
	if settings == "" {
		delete(files, SettingsFile)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		tb.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	return dir
}

// prepare loads a tool and makes its runner.
func prepare(tb testing.TB, wit string, module wasmtest.Module, settings string) *Runner {
	tb.Helper()
	return runner(tb, folder(tb, wit, module.Encode(), settings), RunnerConfig{StateDir: filepath.Join(tb.TempDir(), "state")})
}

func runner(tb testing.TB, dir string, cfg RunnerConfig) *Runner {
	tb.Helper()
	tool, err := Load(dir)
	if err != nil {
		tb.Fatal(err)
	}
	r, err := NewRunner(tb.Context(), tool, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := r.Close(context.Background()); err != nil {
			tb.Error(err)
		}
	})
	return r
}

const request = `{"text":"x"}`

func TestCall(t *testing.T) {
	requirements.Covers(t, "AP-13.0.1", "AP-13.1.1")
	r := prepare(t, witWith(), wasmtest.Answer(`{"ok":{"n":7}}`), "")
	if got := string(r.tool.InputSchema); !strings.Contains(got, `"required":["text"]`) {
		t.Error("input schema", got)
	}
	if r.tool.Description != "Counts." {
		t.Errorf("description %q", r.tool.Description)
	}
	out, err := r.Call(t.Context(), []byte(request))
	if err != nil || string(out) != `{"n":7}` {
		t.Fatal(string(out), err)
	}
}

func TestToolFailure(t *testing.T) {
	r := prepare(t, witWith(), wasmtest.Answer(`{"err":"no such text"}`), "")
	_, err := r.Call(t.Context(), []byte(request))
	var f *Failure
	if !errors.As(err, &f) || f.Message != "no such text" {
		t.Fatal(err)
	}
}

func TestUndeclaredImportFailsAtLoad(t *testing.T) {
	requirements.Covers(t, "AP-13.1.2")
	fn := func(module, name string) []byte {
		return wasmtest.Reactor(wasmtest.Result(0, 0), wasmtest.Import{Module: module, Name: name}).Encode()
	}
	for _, c := range []struct {
		name           string
		declared       []string
		module, wanted string
		ok             bool
	}{
		{"clock", nil, wasiModule, "clock_time_get", false},
		{"clock declared", []string{"wasi:clocks/wall-clock@0.2.0"}, wasiModule, "clock_time_get", true},
		{"random", nil, wasiModule, "random_get", false},
		{"environment", nil, wasiModule, "environ_get", false},
		{"directory", nil, wasiModule, "path_open", false},
		{"directory with a clock", []string{"wasi:clocks/wall-clock"}, wasiModule, "path_open", false},
		{"the call itself", nil, wasiModule, "fd_read", true},
		{"socket", []string{"wasi:filesystem/types"}, wasiModule, "sock_accept", false},
		{"unknown function", nil, wasiModule, "x", false},
		{"unknown module", nil, "env", "system", false},
		{"store", nil, kvInterface, "get", false},
		{"store declared", []string{"agentos:kv/store@0.1.0"}, kvInterface, "get", true},
		{"store by version", []string{"agentos:kv/store@0.1.0"}, kvInterface + "@0.1.0", "get", true},
		{"store by another version", []string{"agentos:kv/store@0.1.0"}, kvInterface + "@0.2.0", "get", false},
		{"not in the store", []string{"agentos:kv/store@0.1.0"}, kvInterface, "drop", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Load(folder(t, witWith(c.declared...), fn(c.module, c.wanted), ""))
			var refused *ImportError
			switch {
			case c.ok && err != nil:
				t.Fatal(err)
			case !c.ok && (!errors.As(err, &refused) || refused.Module != c.module || refused.Name != c.wanted):
				t.Fatalf("want a refusal of %s, got %v", c.wanted, err)
			}
		})
	}
}

// A memory or table of the host would be a way in.
func TestOnlyFunctionsAreImported(t *testing.T) {
	memory := wasmtest.Section(2, [][]byte{wasmtest.Code([]byte{3}, []byte("env"), []byte{1}, []byte("m"), []byte{kindMemory, 0, 1})})
	module := append([]byte("\x00asm\x01\x00\x00\x00"), memory...)
	_, err := Load(folder(t, witWith(), module, ""))
	var refused *ImportError
	if !errors.As(err, &refused) || refused.Module != "env" {
		t.Fatal(err)
	}
}

func TestNothingProvidesTheNetwork(t *testing.T) {
	for _, id := range []string{"wasi:sockets/tcp@0.2.0", "wasi:http/outgoing-handler", "example:other/thing"} {
		_, err := Load(folder(t, witWith(id), wasmtest.Answer("{}").Encode(), ""))
		if err == nil || !strings.Contains(err.Error(), "cannot be provided") {
			t.Errorf("%s: %v", id, err)
		}
	}
}

func TestGrantsStayWithinTheDeclaration(t *testing.T) {
	requirements.Covers(t, "AP-13.2.2", "APX-8")
	all := []string{
		"wasi:filesystem/types", "wasi:cli/environment", "wasi:cli/stderr",
		"wasi:clocks/wall-clock", "wasi:random/random", kvInterface,
	}
	module := wasmtest.Answer("{}").Encode()
	if _, err := Load(folder(t, witWith(all...), module, `{"grants":{}}`)); err != nil {
		t.Errorf("less than declared: %v", err)
	}
	for i, grant := range []string{
		`"fs":[{"host_path":"/tmp","guest_path":"/d","read_only":true}]`, `"env":{"A":"b"}`, `"stdio":true`,
		`"clock":true`, `"random":true`, `"kv":{"shared":{"n":"read"}}`,
	} {
		settings := `{"grants":{` + grant + `}}`
		if _, err := Load(folder(t, witWith(all...), module, settings)); err != nil {
			t.Errorf("%s declared: %v", grant, err)
		}
		others := append(append([]string{}, all[:i]...), all[i+1:]...)
		if _, err := Load(folder(t, witWith(others...), module, settings)); !errors.Is(err, ErrGrant) {
			t.Errorf("%s not declared: %v", grant, err)
		}
	}
}

func TestSettingsRefused(t *testing.T) {
	module := wasmtest.Answer("{}").Encode()
	for _, settings := range []string{
		`{"grants":{"network":true}}`, `{"limits":{"fuel":1}}`, `[]`, `{"grants":{},"grants":{}}`, `{`,
		`{"limits":{"memory_pages":65536}}`, `{"limits":{"deadline_ms":-1}}`, `{"limits":{"output_bytes":99999999}}`,
		`{"grants":{"fs":[{"host_path":"d","guest_path":"/d"}]}}`,
		`{"grants":{"fs":[{"host_path":"/d","guest_path":"/a/../b"}]}}`,
		`{"grants":{"fs":[{"host_path":"/d","guest_path":"/a"},{"host_path":"/e","guest_path":"/a"}]}}`,
		`{"grants":{"env":{"A=B":"c"}}}`, `{"grants":{"kv":{"shared":{"n":"write"}}}}`,
		`{"grants":{"kv":{"shared":{"../n":"read"}}}}`,
	} {
		if _, err := Load(folder(t, witWith("wasi:filesystem/types", "wasi:cli/environment", kvInterface), module, settings)); err == nil {
			t.Errorf("accepted %s", settings)
		}
	}
}

func TestModuleRefused(t *testing.T) {
	requirements.Covers(t, "K-44")
	component := []byte("\x00asm\x0d\x00\x01\x00")
	_, err := Load(folder(t, witWith(), component, ""))
	if !errors.Is(err, ErrComponent) || !strings.Contains(err.Error(), "wasip1") {
		t.Errorf("component: %v", err)
	}
	for name, module := range map[string][]byte{
		"empty": {}, "text": []byte("(module)"), "other version": []byte("\x00asm\x02\x00\x00\x00"),
		"cut short":   []byte("\x00asm\x01\x00\x00\x00\x02\x7f"),
		"huge number": []byte("\x00asm\x01\x00\x00\x00\x02\xff\xff\xff\xff\xff\xff"),
	} {
		if _, err := Load(folder(t, witWith(), module, "")); !errors.Is(err, ErrNotModule) {
			t.Errorf("%s: %v", name, err)
		}
	}
	dir := folder(t, witWith(), nil, "")
	if err := os.Truncate(filepath.Join(dir, ModuleFile), maxModuleBytes+1); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("large module: %v", err)
	}
}

func TestFilesOfAToolAreRegular(t *testing.T) {
	dir := folder(t, witWith(), nil, "")
	outside := filepath.Join(t.TempDir(), "m")
	if err := os.WriteFile(outside, wasmtest.Answer("{}").Encode(), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, ModuleFile)
	for name, make := range map[string]func() error{
		"link out":  func() error { return os.Symlink(outside, path) },
		"directory": func() error { return os.Mkdir(path, 0o700) },
		"missing":   func() error { return nil },
	} {
		if err := errors.Join(os.RemoveAll(path), make()); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(dir); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestWITRefusedWithItsPlace(t *testing.T) {
	_, err := Load(folder(t, "package a:b;\nworld w { flags f { a } }", wasmtest.Answer("{}").Encode(), ""))
	var at *wit.Error
	if !errors.As(err, &at) || at.Line != 2 {
		t.Fatal(err)
	}
}

func TestExportsRefused(t *testing.T) {
	m := wasmtest.Answer("{}")
	m.Funcs = m.Funcs[1:]
	tool, err := Load(folder(t, witWith(), m.Encode(), ""))
	if err != nil {
		t.Fatal(err)
	}
	_, err = NewRunner(t.Context(), tool, RunnerConfig{StateDir: t.TempDir() + "/s"})
	if err == nil || !strings.Contains(err.Error(), exportAlloc) {
		t.Fatal(err)
	}
}

func TestDigestSeesEveryFile(t *testing.T) {
	seen := map[string]bool{}
	for _, dir := range []string{
		folder(t, witWith(), wasmtest.Answer("{}").Encode(), ""),
		folder(t, witWith()+"\n", wasmtest.Answer("{}").Encode(), ""),
		folder(t, witWith(), wasmtest.Answer("[]").Encode(), ""),
		folder(t, witWith(), wasmtest.Answer("{}").Encode(), "{}"),
	} {
		tool, err := Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		seen[tool.Digest] = true
	}
	if len(seen) != 4 {
		t.Fatal(seen)
	}
}

func TestCacheIsPrivate(t *testing.T) {
	tool, err := Load(folder(t, witWith(), wasmtest.Answer("{}").Encode(), ""))
	if err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	if err := os.Mkdir(filepath.Join(state, "cache"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := NewRunner(t.Context(), tool, RunnerConfig{StateDir: state}); !errors.Is(err, ErrNotPrivate) {
		t.Fatalf("a directory that others may read: %v", err)
	}
	other := t.TempDir()
	if err := os.Symlink(state, filepath.Join(other, "cache")); err != nil {
		t.Fatal(err)
	}
	if _, err := NewRunner(t.Context(), tool, RunnerConfig{StateDir: other}); !errors.Is(err, ErrNotPrivate) {
		t.Fatalf("a link: %v", err)
	}
}

func TestReaderSeesImportsOfAnyKind(t *testing.T) {
	entry := func(kind byte, rest ...byte) []byte {
		return append([]byte{1, 'm', 1, 'n', kind}, rest...)
	}
	doc := append([]byte("\x00asm\x01\x00\x00\x00"), wasmtest.Section(2, [][]byte{
		entry(kindFunc, 0), entry(kindTable, 0x70, 1, 1, 2), entry(kindMemory, 0, 1), entry(kindGlobal, 0x7f, 0), entry(kindTag, 0, 0),
	})...)
	got, err := readImports(doc)
	if err != nil || len(got) != 5 || got[4].kind != kindTag {
		t.Fatal(got, err)
	}
	if _, err := readImports(append(doc, doc[8:]...)); err == nil {
		t.Error("two import sections")
	}
	if _, err := readImports(bytes.Replace(doc, []byte{1, 'n', kindTag}, []byte{1, 'n', 9}, 1)); err == nil {
		t.Error("unknown kind")
	}
}

// TestDefaultDeadline: a module's call may take five minutes where its operator
// says nothing else.
func TestDefaultDeadline(t *testing.T) {
	requirements.Covers(t, "APX-7")
	s, err := parseSettings(nil, declaration{})
	if err != nil || s.Limits.Deadline() != 5*time.Minute {
		t.Errorf("%v, %v", s.Limits.Deadline(), err)
	}
}
