package config

import (
	"testing"

	"github.com/lightwork-market/lightwork/agentruntime/sandbox"
)

// TestLeastConfinement: less than full confinement is named in so many words, or
// the file is refused.
func TestLeastConfinement(t *testing.T) {
	for text, want := range map[string]sandbox.Level{"": sandbox.LevelFull, "full": sandbox.LevelFull, "limits": sandbox.LevelLimits, "landlock": sandbox.LevelLandlock} {
		s := Sandbox{LeastConfinement: text}
		if bad := s.check(); bad != nil || s.Least() != want {
			t.Errorf("%q: %v, %v", text, bad, s.Least())
		}
	}
	for _, text := range []string{"none", "Full", "landlock "} {
		if bad := (Sandbox{LeastConfinement: text}).check(); bad == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
