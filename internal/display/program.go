package display

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/lightwork-market/lightwork/internal/advice"
)

// Self is this program's own file.
func Self() string {
	exe, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return exe
}

// Program is how to type a program of ours: its name if the path finds it,
// else where it lies from here.
func Program(name string) string {
	beside := filepath.Join(filepath.Dir(Self()), name)
	if found, err := exec.LookPath(name); err == nil && found == beside {
		return name
	}
	if here := FromHere(beside); here != name {
		return here
	}
	return "./" + name // a shell does not look here
}

// FromHere shortens a path that lies below the current folder.
func FromHere(path string) string {
	if wd, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(wd, path); err == nil && !strings.HasPrefix(rel, "..") {
			return rel
		}
	}
	return path
}

// FromHome reads ~/ as a shell does where it stands alone; it does not in
// --dir=~/node.
func FromHome(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	return path
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// ShellWord quotes a word for a shell if it has to be.
func ShellWord(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// FindVerifier looks beside this program, then in the path.
func FindVerifier() (string, error) {
	beside := filepath.Join(filepath.Dir(Self()), "lightwork-verify")
	if _, err := os.Stat(beside); err == nil {
		return beside, nil
	}
	found, err := exec.LookPath("lightwork-verify")
	if err != nil {
		return "", advice.Hint(errors.New("lightwork-verify is neither beside this program nor in the PATH"), "make build makes both")
	}
	return found, nil
}
