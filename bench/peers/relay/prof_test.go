package relay_test

import (
	"os"
	"runtime/pprof"
)

func prof(name string) func() {
	p := os.Getenv("RELAY_PROF")
	if p == "" {
		return func() {}
	}
	f, _ := os.Create(p + "/" + name + ".prof")
	pprof.StartCPUProfile(f)
	return func() { pprof.StopCPUProfile(); f.Close() }
}
