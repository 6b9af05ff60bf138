package wasm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"sync"
	"testing"

	. "github.com/lightwork-market/lightwork/agentruntime/internal/wasm/wasmtest"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

func wasi(name string, params int) Import {
	types := bytes.Repeat([]byte{I32}, params)
	if name == "clock_time_get" {
		types = []byte{I32, I64, I32}
	}
	return Import{Module: wasiModule, Name: name, Params: types, Results: []byte{I32}}
}

// raw calls handle and returns the bytes that it gave.
func raw(t *testing.T, r *Runner, input string) []byte {
	t.Helper()
	out, err := r.run(t.Context(), funcHandle, []byte(input))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// drop ends a host call whose result does not matter.
var drop = Op(0x1a)

// storeAt is i32.store at a fixed place of what code leaves.
func storeAt(place int32, code []byte) []byte { return Code(Const(place), code, Op(0x36, 2, 0)) }

// counting returns its calls as 4 bytes: in a global, and in memory at 8.
func counting() Module {
	m := Reactor(Code(
		Op(0x23, 0), Const(1), Op(0x6a), Op(0x24, 0),
		storeAt(8, Code(Const(8), Op(0x28, 2, 0), Const(1), Op(0x6a))),
		storeAt(12, Op(0x23, 0)),
		Result(8, 8)))
	m.Global = true
	return m
}

func TestEveryCallIsFresh(t *testing.T) {
	requirements.Covers(t, "AP-13.3.2")
	r := prepare(t, witWith(), counting(), "")
	for range 3 {
		if got := raw(t, r, "{}"); !bytes.Equal(got, []byte{1, 0, 0, 0, 1, 0, 0, 0}) {
			t.Fatal("state of an earlier call", got)
		}
	}
}

// A new instance must not find what an old one left in recycled memory.
func TestMemoryStartsEmpty(t *testing.T) {
	secret := strings.Repeat("canary!!", 1000)
	r := prepare(t, witWith(), Reactor(Result(0, 2<<16-1)), "")
	first := raw(t, r, secret)
	if !bytes.Contains(first, []byte(secret)) {
		t.Fatal("the input is not where the test wants it")
	}
	if bytes.Contains(raw(t, r, "x"), []byte("canary!")) {
		t.Fatal("one call sees the input of another")
	}
}

func TestConcurrentCalls(t *testing.T) {
	r := prepare(t, witWith(), Reactor(Code(
		Get(0), Op(0xad), Const64(32), Op(0x86), Get(1), Op(0xad), Op(0x84))), "") // its input is its output
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			input := strings.Repeat(string(rune('a'+i)), 1000)
			out, err := r.run(t.Context(), funcHandle, []byte(input))
			if err != nil || string(out) != input {
				t.Errorf("%q %v", out, err)
			}
		})
	}
	wg.Wait()
}

// entropy returns 8 bytes of the clock and 8 random ones.
func entropy() Module {
	return Reactor(Code(
		Const(0), Const64(1), Const(64), Call(0), drop,
		Const(72), Const(8), Call(1), drop,
		Result(64, 16)), wasi("clock_time_get", 3), wasi("random_get", 2))
}

func TestDeterminism(t *testing.T) {
	requirements.Covers(t, "AP-13.3.1", "AP-B.8")
	declared := witWith("wasi:clocks/wall-clock", "wasi:random/random")
	fixed := prepare(t, declared, entropy(), "")
	first := raw(t, fixed, "{}")
	if again := raw(t, fixed, "{}"); !bytes.Equal(first, again) {
		t.Error("two calls differ", first, again)
	}
	if other := raw(t, prepare(t, declared, entropy(), ""), "{}"); !bytes.Equal(first, other) {
		t.Error("two runners differ", first, other)
	}
	granted := prepare(t, declared, entropy(), `{"grants":{"clock":true,"random":true}}`)
	a, b := raw(t, granted, "{}"), raw(t, granted, "{}")
	if bytes.Equal(a[:8], first[:8]) || bytes.Equal(a[8:], b[8:]) {
		t.Error("granted, but still fixed", a, b)
	}
}

func TestNoAmbientAuthority(t *testing.T) {
	requirements.Covers(t, "AP-13.1.3", "AP-13.1.4")
	t.Setenv("CANARY", "leaks")
	declared := witWith("wasi:filesystem/types", "wasi:cli/environment", "wasi:cli/stderr")
	probe := Reactor(Code(
		storeAt(100, Code(Const(64), Const(68), Call(0))), // number and bytes of the environment
		storeAt(104, Code(Const(3), Const(72), Call(1))),  // is a directory open?
		storeAt(16, Const(InputAt)), storeAt(20, Const(2)),
		Const(2), Const(16), Const(1), Const(24), Call(2), drop, // standard error
		Result(64, 48)), wasi("environ_sizes_get", 2), wasi("fd_prestat_get", 2), wasi("fd_write", 4))

	out := raw(t, prepare(t, declared, probe, ""), "hi")
	if n := binary.LittleEndian.Uint32(out); n != 0 {
		t.Error("environment variables", n)
	}
	if e := binary.LittleEndian.Uint32(out[40:]); e != 8 { // EBADF
		t.Error("a directory is open", e)
	}

	var stderr bytes.Buffer
	dir := folder(t, declared, probe.Encode(), "")
	raw(t, runner(t, dir, RunnerConfig{StateDir: t.TempDir(), Stderr: &stderr}), "hi")
	if stderr.Len() > 0 {
		t.Error("standard error without a grant", stderr.String())
	}
	dir = folder(t, declared, probe.Encode(), `{"grants":{"env":{"A":"b"},"stdio":true}}`)
	out = raw(t, runner(t, dir, RunnerConfig{StateDir: t.TempDir(), Stderr: &stderr}), "hi")
	if n := binary.LittleEndian.Uint32(out); n != 1 || stderr.String() != "hi" {
		t.Error("granted", n, stderr.String())
	}
}

// Hostile modules end with an error, and the next call works.
func TestHostileModules(t *testing.T) {
	requirements.Covers(t, "AP-13.3.3")
	recursive := Reactor(Code(Get(0), Get(1), Call(1)))
	trapAtStart := Answer("{}")
	trapAtStart.Funcs = append(trapAtStart.Funcs, Func{Body: Op(0x00)})
	trapAtStart.Start = 2
	wrongAlloc := Answer("{}")
	wrongAlloc.Funcs[0].Body = Const(-1)
	wrongTypes := Answer("{}")
	wrongTypes.Funcs[1].Params = []byte{I32}
	for _, c := range []struct {
		name   string
		module Module
		input  string
		want   error
	}{
		{"trap", Reactor(Op(0x00)), "{}", ErrTrap},
		{"trap at start", trapAtStart, "{}", ErrTrap},
		{"recursion", recursive, "{}", ErrTrap},
		{"division by zero", Reactor(Code(Const(1), Const(0), Op(0x6d), drop, Result(0, 0))), "{}", ErrTrap},
		{"memory out of bounds", Reactor(Code(Const(-4), Op(0x28, 2, 0), drop, Result(0, 0))), "{}", ErrTrap},
		{"exit", Reactor(Code(Const(0), Call(0), Result(0, 0)), Import{Module: wasiModule, Name: "proc_exit", Params: []byte{I32}}), "{}", ErrTrap},
		{"alloc outside", wrongAlloc, "{}", ErrOutput},
		{"input larger than the memory", Answer("{}"), strings.Repeat("x", 3<<16), ErrOutput},
		{"result outside", Reactor(Result(2<<16, 1)), "{}", ErrOutput},
		{"result across the end", Reactor(Result(2<<16-1, 2)), "{}", ErrOutput},
		{"result wraps", Reactor(Result(0xffffffff, 1000)), "{}", ErrOutput},
		{"huge result", Reactor(Result(0, 0xffffffff)), "{}", ErrOutputTooLarge},
		{"other types", wrongTypes, "{}", ErrOutput},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := prepare(t, witWith(), c.module, "")
			for range 2 {
				if _, err := r.run(t.Context(), funcHandle, []byte(c.input)); !errors.Is(err, c.want) {
					t.Fatalf("want %v, got %v", c.want, err)
				}
			}
		})
	}
}

func TestMemoryIsCapped(t *testing.T) {
	requirements.Covers(t, "APX-10")
	// memory.grow by 1 page until it fails; then the number of pages.
	grow := Reactor(Code(
		Op(0x03, 0x40), Const(1), Op(0x40, 0), Const(-1), Op(0x47), Op(0x0d, 0, 0x0b),
		storeAt(64, Op(0x3f, 0)), Result(64, 4)))
	r := prepare(t, witWith(), grow, `{"limits":{"memory_pages":20}}`)
	if n := binary.LittleEndian.Uint32(raw(t, r, "{}")); n != 20 {
		t.Errorf("%d pages", n)
	}
	big := Answer("{}")
	big.MinPages = 21
	tool, err := Load(folder(t, witWith(), big.Encode(), `{"limits":{"memory_pages":20}}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewRunner(t.Context(), tool, RunnerConfig{StateDir: t.TempDir()}); err == nil {
		t.Error("a module that starts over its limit")
	}
}

// command is a module that writes output to standard output and ends with code.
func command(output string, code int32, times int32) Module {
	return Module{
		MinPages: 1, Data: map[uint32][]byte{OutputAt: []byte(output)},
		Imports: []Import{wasi("fd_write", 4), {Module: wasiModule, Name: "proc_exit", Params: []byte{I32}}},
		Funcs: []Func{{Export: exportStart, Locals: 1, Body: Code(
			storeAt(0, Const(OutputAt)), storeAt(4, Const(int32(len(output)))),
			Const(times), Set(0),
			Op(0x03, 0x40),
			Const(1), Const(0), Const(1), Const(8), Call(0), drop,
			Get(0), Const(1), Op(0x6b), Op(0x22, 0), Op(0x0d, 0, 0x0b),
			Const(code), Call(1))}},
	}
}

func TestCommand(t *testing.T) {
	r := prepare(t, witWith(), command(`{"ok":{"n":1}}`, 0, 1), "")
	if out, err := r.Call(t.Context(), []byte(request)); err != nil || string(out) != `{"n":1}` {
		t.Error(string(out), err)
	}
	if _, err := prepare(t, witWith(), command(`{"ok":{"n":1}}`, 3, 1), "").Call(t.Context(), []byte(request)); !errors.Is(err, ErrTrap) {
		t.Error("exit code 3:", err)
	}
	flood := prepare(t, witWith(), command(strings.Repeat("x", 1000), 0, 100), `{"limits":{"output_bytes":5000}}`)
	if _, err := flood.Call(t.Context(), []byte(request)); !errors.Is(err, ErrOutputTooLarge) {
		t.Error("flood:", err)
	}
}

func TestDecodeOutput(t *testing.T) {
	for _, c := range []struct {
		doc      string
		fallible bool
		want     string // "" is ErrOutput, "!" a Failure
	}{
		{`{"ok":{"n":1}}`, true, `{"n":1}`},
		{`{"err":"no"}`, true, "!"},
		{`{"n":1}`, false, `{"n":1}`},
		{`{"n":1}`, true, ""},
		{`{"ok":{},"err":"no"}`, true, ""},
		{`{"ok":{},"ok":{}}`, true, ""},
		{`{"ok":1}`, true, ""},
		{`{"ok":null}`, true, ""},
		{`{"err":null}`, true, ""},
		{`{"err":1}`, true, ""},
		{`{"OK":{}}`, true, ""},
		{`{}`, true, ""},
		{`[]`, false, ""},
		{`{} {}`, false, ""},
		{"{\"a\":\"\xff\"}", false, ""},
		{``, false, ""},
	} {
		out, err := decodeOutput([]byte(c.doc), c.fallible)
		var failure *Failure
		switch c.want {
		case "":
			if !errors.Is(err, ErrOutput) {
				t.Errorf("%s: %s %v", c.doc, out, err)
			}
		case "!":
			if !errors.As(err, &failure) {
				t.Errorf("%s: %v", c.doc, err)
			}
		default:
			if err != nil || string(out) != c.want {
				t.Errorf("%s: %s %v", c.doc, out, err)
			}
		}
	}
}

func TestMetadata(t *testing.T) {
	const world = `package agentos:tool@0.1.0;
interface types {
  record tool-metadata { name: string, description: string, semantic-description: string, request-tag: string,
    request-schema: string, response-schema: string, input-json-schema: string }
  record tool-result { success: bool, payload: string }
}
world tool {
  use types.{tool-metadata, tool-result};
  import agentos:kv/store@0.1.0;
  export get-metadata: func() -> tool-metadata;
  export handle: func(request-xml: string) -> tool-result;
}`
	m := Answer(`{"success":true,"payload":"<a/>"}`)
	const doc = `{"name":"my-tool","description":"d","semantic_description":"s"}`
	m.Data[2<<15] = []byte(doc)
	m.Funcs = append(m.Funcs, Func{
		Export: funcMetadata, Params: []byte{I32, I32}, Results: []byte{I64},
		Body: Result(2<<15, uint32(len(doc))),
	})
	requirements.Covers(t, "APX-1")
	r := prepare(t, world, m, "")
	meta, ok, err := r.Metadata(t.Context())
	if err != nil || !ok || meta.Description != "d" || meta.SemanticDescription != "s" {
		t.Error(meta, ok, err)
	}
	if !strings.Contains(string(r.tool.InputSchema), "request_xml") {
		t.Error(string(r.tool.InputSchema))
	}
	if out, err := r.Call(t.Context(), []byte(`{"request_xml":"<b/>"}`)); err != nil || !strings.Contains(string(out), "<a/>") {
		t.Error(string(out), err)
	}
}
