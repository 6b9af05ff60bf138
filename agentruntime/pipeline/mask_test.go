package pipeline

import (
	"fmt"
	"strings"
	"testing"
)

// A secret that begins with another leaves nothing behind.
func TestMaskOfSecretsThatBeginAlike(t *testing.T) {
	t.Parallel()
	v := &vault{}
	longest := ""
	for i := range 20 {
		longest = "correct-horse" + strings.Repeat("-battery", i)
		if _, err := v.hide(fmt.Appendf(nil, "%q", longest)); err != nil {
			t.Fatal(err)
		}
	}
	if got := v.mask("it said " + longest + "."); got != "it said "+SecretMask+"." {
		t.Errorf("%s", got)
	}
}
