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

// Self is the path of this program.
func Self() string {
	exe, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return exe
}

// Program returns how to type one of our programs: its name if it is in the PATH,
// else its path from the current folder.
func Program(name string) string {
	beside := filepath.Join(filepath.Dir(Self()), name)
	if found, err := exec.LookPath(name); err == nil && found == beside {
		return name
	}
	if here := FromHere(beside); here != name {
		return here
	}
	return "./" + name // shells do not search the current folder
}

// FromHere shortens a path below the current folder.
func FromHere(path string) string {
	if wd, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(wd, path); err == nil && !strings.HasPrefix(rel, "..") {
			return rel
		}
	}
	return path
}

// FromHome expands ~/, which shells do not expand in --dir=~/node.
func FromHome(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	return path
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// ShellWord quotes a word for a shell if necessary.
func ShellWord(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// FindVerifier searches beside this program, then in the PATH.
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
