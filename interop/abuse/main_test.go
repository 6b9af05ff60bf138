// Package abuse_test plays the attackers of the market: strangers with a
// WebSocket and a wallet who meet a running Lightwork. Relay, ledger, provider
// and buyer are processes of the real program, on loopback and in play money.
package abuse_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// program is the real lightwork, built once for all tests.
var program string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "lightwork-abuse-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "lightwork")
	build := exec.Command("go", "build", "-o", program, "github.com/lightwork-market/lightwork/cmd/lightwork")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build lightwork: %v\n%s", err, out)
		return 1
	}
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
