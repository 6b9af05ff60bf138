package wasm

import (
	"testing"

	"github.com/tetratelabs/wazero"

	. "github.com/lightwork-market/lightwork/agentruntime/internal/wasm/wasmtest"
)

// BenchmarkTightLoop counts a million rounds down, with and without a check
// for the end of the context: why a Runner does not interrupt (K-43).
func BenchmarkTightLoop(b *testing.B) {
	m := Reactor(Code(
		Const(1_000_000), Set(2),
		Op(0x03, 0x40), Get(2), Const(1), Op(0x6b), Op(0x22, 2), Op(0x0d, 0, 0x0b), Result(0, 0))).Encode()
	for name, check := range map[string]bool{"unchecked": false, "checked": true} {
		b.Run(name, func(b *testing.B) {
			rt := wazero.NewRuntimeWithConfig(b.Context(), wazero.NewRuntimeConfig().WithCloseOnContextDone(check))
			defer rt.Close(b.Context())
			instance, err := rt.Instantiate(b.Context(), m)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := instance.ExportedFunction(funcHandle).Call(b.Context(), 0, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
