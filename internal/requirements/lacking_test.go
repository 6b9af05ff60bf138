package requirements

import (
	"runtime"
	"testing"
)

// ended is how a test ended.
type ended struct {
	testing.TB
	failed, skipped bool
}

func (e *ended) Helper()               {}
func (e *ended) Fatalf(string, ...any) { e.failed = true; runtime.Goexit() }
func (e *ended) Skip(...any)           { e.skipped = true; runtime.Goexit() }

func TestLacking(t *testing.T) {
	for ci, fails := range map[string]bool{"": false, "true": true} {
		t.Setenv("CI", ci)
		e, done := &ended{TB: t}, make(chan struct{})
		go func() { defer close(done); Lacking(e, "no compass") }()
		<-done
		if e.failed != fails || e.skipped == fails {
			t.Errorf("CI=%s: failed %v, skipped %v", ci, e.failed, e.skipped)
		}
	}
}
