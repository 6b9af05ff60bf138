package wasm

import (
	"errors"
	"testing"

	"github.com/lightwork-market/lightwork/agentruntime/internal/wasm/wasmtest"
)

// Whatever places a module names, the host answers or refuses.
func FuzzReactorPlaces(f *testing.F) {
	f.Add(int32(wasmtest.InputAt), uint64(wasmtest.OutputAt)<<32|2, []byte("{}"))
	f.Add(int32(-1), ^uint64(0), []byte(""))
	f.Add(int32(2<<16-1), uint64(2<<16)<<32, []byte("xx"))
	f.Fuzz(func(t *testing.T, alloc int32, packed uint64, input []byte) {
		m := wasmtest.Reactor(wasmtest.Const64(int64(packed)))
		m.Funcs[0].Body = wasmtest.Const(alloc)
		r := prepare(t, witWith(), m, "")
		out, err := r.run(t.Context(), funcHandle, input)
		switch {
		case err == nil:
			if uint32(packed) != uint32(len(out)) {
				t.Fatalf("%d bytes for %x", len(out), packed)
			}
		case !errors.Is(err, ErrOutput) && !errors.Is(err, ErrOutputTooLarge):
			t.Fatal(err)
		}
	})
}

func FuzzDecodeOutput(f *testing.F) {
	for _, doc := range []string{`{"ok":{"n":1}}`, `{"err":"x"}`, `{"ok":{},"ok":{}}`, `{"err":null}`, `[]`, "{\"\xff\":1}"} {
		f.Add([]byte(doc), true)
		f.Add([]byte(doc), false)
	}
	f.Fuzz(func(t *testing.T, doc []byte, fallible bool) {
		out, err := decodeOutput(doc, fallible)
		var failure *Failure
		switch {
		case err == nil && (len(out) < 2 || out[0] != '{'):
			t.Fatalf("%q is no object", out)
		case err != nil && !errors.Is(err, ErrOutput) && !errors.As(err, &failure):
			t.Fatal(err)
		}
	})
}

func FuzzReadImports(f *testing.F) {
	f.Add(wasmtest.Answer("{}").Encode())
	f.Add(entropy().Encode())
	f.Add([]byte("\x00asm\x0d\x00\x01\x00"))
	f.Add([]byte("\x00asm\x01\x00\x00\x00\x02\xff\xff\xff\xff\x0f"))
	f.Fuzz(func(t *testing.T, module []byte) {
		imports, err := readImports(module)
		if err != nil && !errors.Is(err, ErrNotModule) && !errors.Is(err, ErrComponent) {
			t.Fatal(err)
		}
		if len(imports) > maxImports {
			t.Fatal(len(imports))
		}
	})
}
