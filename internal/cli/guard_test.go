package cli

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/agentruntime/guard"
)

// TestGuardTakesOverEarly: a guard is this program, and ends before what is slow
// to initialise has its turn. The linker sorts packages by what they import and
// by name, so that an import too many in package guard moves it behind hundreds.
func TestGuardTakesOverEarly(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	control, supervisor, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	supervisor.Close() // so that it ends at once
	cmd := exec.Command(program)
	cmd.Env = []string{guard.Env + "=1", "GODEBUG=inittrace=1"}
	cmd.ExtraFiles = []*os.File{control} // guard.ControlFD
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || !strings.Contains(string(out), "init os @") {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, late := range []string{"path/filepath", "google.golang.org/protobuf/reflect/protodesc", "github.com/santhosh-tekuri/jsonschema", "github.com/lightningnetwork/lnd"} {
		if strings.Contains(string(out), "init "+late) {
			t.Errorf("%s is initialised before a guard takes over", late)
		}
	}
}
