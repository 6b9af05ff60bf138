package wasmhost

import (
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/internal/wasm/wasmtest"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// BenchmarkCall is a call in a worker that waits for it.
func BenchmarkCall(b *testing.B) {
	p, all := testPool(b, tools(b, "{}", map[string]wasmtest.Module{"good": wasmtest.Answer(`{"ok":{"n":2}}`)}), 1)
	if _, err := call(b, p, all["good"], "{}", time.Minute); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := call(b, p, all["good"], "{}", time.Minute); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRunaway measures how long after its deadline a runaway call has
// ended, its worker reaped (PT-6), and what the next call then takes.
func BenchmarkRunaway(b *testing.B) {
	const deadline = 50 * time.Millisecond
	p, all := testPool(b, tools(b, "{}", map[string]wasmtest.Module{"loop": loopWhenAsked()}), 1)
	var late, next time.Duration
	for b.Loop() {
		if _, err := call(b, p, all["loop"], "{}", time.Minute); err != nil {
			b.Fatal(err)
		}
		begin := time.Now()
		if _, err := call(b, p, all["loop"], slow, deadline); code(err) != wire.CodeTimeout {
			b.Fatal(err)
		}
		late += time.Since(begin) - deadline
		begin = time.Now()
		if _, err := call(b, p, all["loop"], "{}", time.Minute); err != nil {
			b.Fatal(err)
		}
		next += time.Since(begin)
	}
	b.ReportMetric(float64(late.Microseconds())/float64(b.N), "µs-late/op")
	b.ReportMetric(float64(next.Microseconds())/float64(b.N), "µs-next-call/op")
}
