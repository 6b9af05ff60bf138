package wire

import (
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/internal/requirements"
)

func TestNames(t *testing.T) {
	requirements.Covers(t, "OS-0.1", "OS-4.2.0.1")
	for id, want := range map[string]bool{
		"a": true, "com.example.agent-1_x": true, "A9": true, strings.Repeat("a", 200): true,
		"": false, ".a": false, "-a": false, "_a": false, "a/b": false, "a b": false, "ä": false, "a\n": false, strings.Repeat("a", 201): false,
	} {
		if ValidAgentID(id) != want {
			t.Errorf("agent id %q: %t", id, !want)
		}
	}
	for name, want := range map[string]bool{
		"a": true, "_a": true, "a.b-c_d": true, strings.Repeat("a", 128): true,
		"": false, ".a": false, "a/b": false, strings.Repeat("a", 129): false,
	} {
		if ValidToolName(name) != want {
			t.Errorf("tool name %q: %t", name, !want)
		}
	}
	for id, want := range map[ToolID]bool{"a.b/c": true, "c": false, "/c": false, "a/": false, "a/b/c": false, "": false} {
		if _, _, ok := id.Split(); ok != want {
			t.Errorf("tool id %q: %t", id, ok)
		}
	}
	if agent, name, _ := JoinToolID("a.b", "c").Split(); agent != "a.b" || name != "c" {
		t.Errorf("split %q %q", agent, name)
	}
}

func TestVersions(t *testing.T) {
	for v, want := range map[string]bool{
		"1.0.0": true, "0.0.1-rc.1+build.5": true, "10.20.30": true,
		"": false, "1": false, "1.0": false, "01.0.0": false, "1.0.0-": false, "v1.0.0": false, "1.0.0\n": false,
		"1.0.0-" + strings.Repeat("a", 100): false,
	} {
		if ValidVersion(v) != want {
			t.Errorf("version %q: %t", v, !want)
		}
	}
}
