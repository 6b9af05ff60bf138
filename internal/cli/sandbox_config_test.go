package cli

import (
	"fmt"
	"os/exec"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lightwork-market/lightwork/internal/testclass"
)

// TestOffersThatCannotBeConfined: what needs the sandbox is withdrawn where it
// does not work, and what does not need it is sold.
func TestOffersThatCannotBeConfined(t *testing.T) {
	needsHiding(t, "--mount")
	runScripts(t, testscript.Params{Files: []string{"testdata/named/unconfined.txtar"}})
}

// TestLevelsAreNamed: a buyer knows before and after a job how firmly it is confined.
func TestLevelsAreNamed(t *testing.T) {
	needsHiding(t, "--mount")
	needsHiding(t, "--user", "--map-root-user", "--mount")
	runScripts(t, testscript.Params{Files: []string{"testdata/named/levels.txtar"}})
}

// needsHiding needs what takes a program's control groups from it.
func needsHiding(t *testing.T, namespaces ...string) {
	t.Helper()
	hidden := exec.Command("unshare", append(namespaces, "mount", "-t", "tmpfs", "none", "/sys/fs/cgroup")...)
	if out, err := hidden.CombinedOutput(); err != nil {
		testclass.Unavailable(t, fmt.Sprintf("control groups cannot be hidden from a program here: %v: %s", err, out))
	}
}
