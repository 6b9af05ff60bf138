package outside

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/internal/testclass"
)

// unreachable is how npm says that there is no registry, or that it is out of order.
var unreachable = regexp.MustCompile(`ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|ERR_SOCKET_TIMEOUT|\bE(429|5\d\d)\b`)

// attempts is how often npm is asked before its registry counts as unreachable.
const attempts = 3

// NPM runs npm in dir, for at most five minutes. A registry that cannot be reached,
// asked several times, makes the test unavailable; npm itself is required.
func NPM(t *testing.T, dir string, args ...string) {
	t.Helper()
	testclass.Require(t, "npm", "node")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()

	for attempt := 1; ; attempt++ {
		cmd := exec.CommandContext(ctx, "npm", args...)
		cmd.Dir = dir
		cmd.WaitDelay = time.Second // a child of npm's may hold the output open
		out, err := cmd.CombinedOutput()
		if err == nil {
			return
		}
		failure := unreachable.Find(out)
		if failure == nil {
			t.Fatalf("npm %s in %s: %v\n%s", strings.Join(args, " "), dir, err, out)
		}
		if attempt == attempts {
			t.Logf("%s", out)
			testclass.Unavailable(t, fmt.Sprintf("npm's registry does not answer (%s)", failure))
		}
	}
}

// Tests of one package may install the same project at once.
var installing sync.Mutex

// Install gives a project the packages of its lockfile, once.
func Install(t *testing.T, project string) {
	t.Helper()
	installing.Lock()
	defer installing.Unlock()

	want, err := os.ReadFile(filepath.Join(project, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}

	// Written last, so that an interrupted installation is done again.
	mark := filepath.Join(project, "node_modules", ".lightwork-installed")
	have, err := os.ReadFile(mark)
	if err == nil && string(have) == string(want) {
		return
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	NPM(t, project, "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	if err := os.WriteFile(mark, want, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Compile copies the named folders of an npm project, and its package files, to
// a folder of the test's own, so that no build of the checkout is taken for one
// of these sources, and builds them there.
func Compile(t *testing.T, project string, folders ...string) (dir string) {
	t.Helper()

	dir = t.TempDir()
	for _, name := range folders {
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join(project, name))); err != nil {
			t.Fatal(err)
		}
	}

	for _, name := range []string{"package.json", "package-lock.json", "tsconfig.json"} {
		doc, err := os.ReadFile(filepath.Join(project, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), doc, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}

	NPM(t, dir, "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	NPM(t, dir, "run", "build")
	return dir
}

// Node starts a script, as "ndk/buy.mjs", of a project that it installs first.
// The script gets the options as one JSON argument.
func Node(t *testing.T, script string, options map[string]string) *Process {
	t.Helper()
	Install(t, filepath.Dir(script))
	doc, err := json.Marshal(options)
	if err != nil {
		t.Fatal(err)
	}
	return Start(t, exec.Command("node", script, string(doc)))
}

// Lines reads what a script wrote: {"what": ..., ...} a line.
func Lines(t *testing.T, text string) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(text) {
		var one map[string]any
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatal(fmt.Errorf("%q: %w", line, err))
		}
		all = append(all, one)
	}
	return all
}
