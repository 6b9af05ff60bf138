//go:build lnd

package crashmatrix

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/lightwork-market/lightwork/internal/devnet"
)

// What the Makefile says through the environment.
const (
	envAll  = "LIGHTWORK_CRASH_MATRIX" // "all", or points by name; a fifth that the seed chooses if empty
	envLoop = "LIGHTWORK_CRASH_LOOP"   // how many jobs the random loop buys
)

// binDir holds the two real programs, built once.
var binDir string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "lightwork-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	const module = "github.com/lightwork-market/lightwork/cmd/"
	if out, err := exec.Command("go", "build", "-o", dir+"/", module+"lightwork", module+"lightwork-verify").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the programs: %v\n%s", err, out)
		return 1
	}
	// Not a part of any test's time limit: the first time it takes minutes.
	if _, err := devnet.Build(context.Background(), ""); err != nil {
		fmt.Fprintln(os.Stderr, "build lnd:", err)
		return 1
	}
	binDir = dir
	return m.Run()
}
