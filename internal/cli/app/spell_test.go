package app

import (
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/internal/display"
)

func TestSpell(t *testing.T) {
	const p = "PROGRAM" // where the test binary lies
	for _, c := range []struct{ config, hint, want string }{
		{"lightwork.yaml", "lightwork doctor checks the relays", p + " doctor checks the relays"},
		{"n/lightwork.yaml", "run lightwork doctor", "run " + p + " -c n/lightwork.yaml doctor"},
		{"my file.yaml", "lightwork buyer resume abc", p + " -c 'my file.yaml' buyer resume abc"},
		{"n/lightwork.yaml", "lightwork init writes one", p + " init --dir n writes one"},
		{"n/lightwork.yaml", "lightwork schemas list and lightwork --help", p + " schemas list and " + p + " --help"},
		{"n/lightwork.yaml", "bin/lightwork doctor is spelt already", "bin/lightwork doctor is spelt already"},
		{"n/lightwork.yaml", "the lightwork node", "the lightwork node"},
		{"", "lightwork doctor", p + " doctor"},
	} {
		g := &Globals{Config: c.config}
		if got := strings.ReplaceAll(g.Spell(c.hint), display.Program("lightwork"), p); got != c.want {
			t.Errorf("%q with %q: %q, want %q", c.hint, c.config, got, c.want)
		}
	}
}
