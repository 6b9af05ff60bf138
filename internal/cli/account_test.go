package cli

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lightwork-market/lightwork/internal/testclass"
)

// TestAnotherAccount: an agent under an account of its own starts beside a data
// folder that is the node's alone, and comes to nothing that is not its own.
func TestAnotherAccount(t *testing.T) {
	if os.Geteuid() != 0 {
		testclass.Unavailable(t, "only root starts an agent under another account")
	}
	sdk, err := filepath.Abs("../../sdk/python")
	if err != nil {
		t.Fatal(err)
	}

	// Its socket is in a folder that all may pass through. A node that is killed leaves it.
	sockets := func() []string {
		found, err := filepath.Glob("/run/lightwork-*")
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	before := sockets()
	t.Cleanup(func() {
		for _, dir := range sockets() {
			if !slices.Contains(before, dir) {
				os.RemoveAll(dir)
			}
		}
	})
	runScripts(t, testscript.Params{Files: []string{"testdata/named/account.txtar"}, Setup: func(e *testscript.Env) error {
		e.Setenv("SDK", sdk)
		return nil
	}})
}
