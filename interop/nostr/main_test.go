// Package nostr_test lets unmodified Nostr clients and relays meet a running
// Lightwork: they buy from its provider, sell to its buyer, read its relay, and
// serve its client. All of it is on loopback and in play money.
package nostr_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// program is the real lightwork, built once for all tests.
var program string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "lightwork-interop-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "lightwork")
	build := exec.Command("go", "build", "-tags", "libsecp256k1", "-o", program, "github.com/lightwork-market/lightwork/cmd/lightwork")
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

// install gives a project the packages of its lockfile. It skips the test where
// there is no npm; a failing one is a failure.
func install(t *testing.T, project string) {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("npm is not installed, and the clients come from it")
	}
	if err := installed(project); err != nil {
		t.Fatal(err)
	}
}

func installed(project string) error {
	want, err := os.ReadFile(filepath.Join(project, "package-lock.json"))
	if err != nil {
		return err
	}
	// Written last, so that an interrupted installation is done again.
	mark := filepath.Join(project, "node_modules", ".lightwork-installed")
	have, err := os.ReadFile(mark)
	switch {
	case err == nil && string(have) == string(want):
		return nil
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return err
	}
	cmd := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = project
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci in %s: %w\n%s", project, err, out)
	}
	return os.WriteFile(mark, want, 0o600)
}

// outside starts one of the programs in JavaScript, as "ndk/buy.mjs".
func outside(t *testing.T, script string, options map[string]string) *process {
	t.Helper()
	install(t, filepath.Dir(script))
	doc, err := json.Marshal(options)
	if err != nil {
		t.Fatal(err)
	}
	return start(t, "", exec.Command("node", script, string(doc)))
}

// said reads the lines that an outside program wrote: {"what": ..., ...} each.
func said(t *testing.T, lines string) []map[string]any {
	t.Helper()
	var all []map[string]any
	for line := range strings.Lines(lines) {
		var one map[string]any
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, one)
	}
	return all
}
