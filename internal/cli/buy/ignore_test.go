package buy

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/internal/testclass"
)

// files writes files below a folder, each with its name as content unless it says
// otherwise.
func files(t *testing.T, folder string, names ...string) {
	t.Helper()
	for _, name := range names {
		name, content, ok := strings.Cut(name, "=")
		if !ok {
			content = name
		}
		name = filepath.Join(folder, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

// runGit runs git as a user would, with a configuration of the test's own.
func runGit(t *testing.T, folder string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{
		"-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main",
	}, args...)...)
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %s: %v\n%s", args, err, out)
	}
}

func TestNotIgnored(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		testclass.Unavailable(t, "no git")
	}
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", os.Getenv("HOME"))
	t.Setenv("GIT_DIR", "/nowhere") // of an outer git

	for name, tt := range map[string]struct {
		make  func(t *testing.T, dir string)
		below string
		want  []string
	}{
		"no repository, and ignore files": {make: func(t *testing.T, dir string) {
			files(t, dir, "main.go", "a/b.log", "a/.gitignore=!keep.log", "a/keep.log", "node_modules/x/y.js", ".env", ".gitignore=*.log\nnode_modules/\n.env\n")
		}, want: []string{".gitignore", "a/.gitignore", "a/keep.log", "main.go"}},
		"a repository": {make: func(t *testing.T, dir string) {
			files(t, dir, "main.go", "dist/app.js", "dist/new.js", "gone", "secret", "new.go", ".gitignore=dist\n")
			runGit(t, dir, "init", "-q")
			runGit(t, dir, "add", "-f", "main.go", "dist/app.js", "gone", ".gitignore")
			files(t, dir, ".git/info/exclude=secret\n")
			if err := os.Remove(filepath.Join(dir, "gone")); err != nil {
				t.Fatal(err)
			}
		}, want: []string{".gitignore", "dist/app.js", "main.go", "new.go"}},
		"a folder below, with the rules above it": {make: func(t *testing.T, dir string) {
			files(t, dir, "sub/a.go", "sub/a.o", "other", ".gitignore=*.o\n")
			runGit(t, dir, "init", "-q")
		}, below: "sub", want: []string{"a.go"}},
		"a folder that is ignored itself": {make: func(t *testing.T, dir string) {
			files(t, dir, "dist/a.js", "dist/b.map", "dist/.gitignore=*.map\n", ".gitignore=dist\n")
			runGit(t, dir, "init", "-q")
		}, below: "dist", want: []string{".gitignore", "a.js"}},
		"submodules and further work trees": {make: func(t *testing.T, dir string) {
			library := t.TempDir()
			files(t, library, "lib.go", ".gitignore=*.o\n")
			runGit(t, library, "init", "-q")
			runGit(t, library, "add", ".")
			runGit(t, library, "commit", "-qm", "x")
			first := filepath.Join(t.TempDir(), "first")
			files(t, first, "main.go")
			runGit(t, first, "init", "-q")
			runGit(t, first, "add", ".")
			runGit(t, first, "submodule", "--quiet", "add", library, "lib")
			runGit(t, first, "commit", "-qm", "x")
			runGit(t, first, "worktree", "add", "-q", filepath.Join(dir, "tree"))
			runGit(t, filepath.Join(dir, "tree"), "submodule", "--quiet", "update", "--init")
			files(t, filepath.Join(dir, "tree"), "lib/lib.o", "lib/new.go")
		}, below: "tree", want: []string{".gitmodules", "lib/.gitignore", "lib/lib.go", "lib/new.go", "main.go"}},
		"nothing of the folder's configuration is run": {make: func(t *testing.T, dir string) {
			files(t, dir, "main.go", ".git/HEAD=ref: refs/heads/main\n", ".git/objects/x", ".git/refs/x",
				".git/config=[core]\n\trepositoryformatversion = 0\n\tfsmonitor = touch "+filepath.Join(dir, "run")+"\n")
		}, want: []string{"main.go"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			os.Unsetenv("GIT_DIR")
			tt.make(t, dir)
			os.Setenv("GIT_DIR", "/nowhere")
			keep, err := notIgnored(t.Context(), filepath.Join(dir, tt.below))
			if diff := cmp.Diff(tt.want, slices.Sorted(maps.Keys(keep))); diff != "" || err != nil {
				t.Errorf("%v\n%s", err, diff)
			}
			if _, err := os.Stat(filepath.Join(dir, "run")); err == nil {
				t.Error("a program of the folder was run")
			}
		})
	}
}

func TestNotIgnoredWithoutGit(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := notIgnored(context.Background(), t.TempDir()); !errors.Is(err, errNoGit) {
		t.Error(err)
	}
}
