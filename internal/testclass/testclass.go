// Package testclass sorts tests into three classes, so that none passes by being
// left out in silence.
//
//   - A required test needs nothing but programs that anybody can install. Where one
//     is missing, the test fails in CI; on a user's machine it is left out and listed.
//   - A long test is played whole by make long; every other run plays a slice of it.
//   - An unavailable test needs what the machine or the network does not have, such as
//     a feature of the kernel or a registry that answers. It is listed with its reason.
//
// Tests write what they left out to the file that LIGHTWORK_TEST_REPORT names, and
// cmd/report prints that file as one table.
package testclass

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The settings of a run.
const (
	EnvReport = "LIGHTWORK_TEST_REPORT" // the file to which tests append what they left out
	EnvLong   = "LIGHTWORK_LONG"        // not empty: long tests are played whole
	EnvSeed   = "LIGHTWORK_SEED"        // chooses the slice of long tests; any text
)

// debianPackages names the packages of programs that are called otherwise.
var debianPackages = map[string]string{"ip": "iproute2", "ldd": "libc-bin", "node": "nodejs", "go": "golang", "sh": "dash", "ls": "coreutils"}

// Require ends a test that needs a program which is not installed here.
func Require(t testing.TB, programs ...string) {
	t.Helper()
	for _, program := range programs {
		RequireOneOf(t, program)
	}
}

// RequireOneOf ends a test that needs one of several programs, of which none is
// installed here. The first is what a user is told to install.
func RequireOneOf(t testing.TB, programs ...string) {
	t.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err == nil {
			return
		}
	}
	NotInstalled(t, programs[0])
}

// NotInstalled ends a test that has looked for a program by itself and not found it.
func NotInstalled(t testing.TB, program string) {
	t.Helper()
	name := program
	if other, ok := debianPackages[name]; ok {
		name = other
	}
	Missing(t, program+" is not installed", "apt-get install "+name)
}

// Missing ends a test for want of something that can be installed by the command in
// remedy. In CI the test fails, for nobody would see there that it did not run.
func Missing(t testing.TB, what, remedy string) {
	t.Helper()
	record(t, Required, what, remedy)
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s (%s), and in CI a required test must run", what, remedy)
	}
	t.Skipf("%s (%s)", what, remedy)
}

// Unavailable ends a test for want of something that no command installs. The reason
// is for somebody who reads nothing but the table.
func Unavailable(t testing.TB, reason string) {
	t.Helper()
	record(t, Unreachable, reason, "")
	t.Skip(reason)
}

// Whole says whether long tests are played whole in this run.
func Whole() bool { return os.Getenv(EnvLong) != "" }

// Size is how much of a long test this run plays: the whole of it in make long, else
// the part, which may be 0 and then ends the test. The target is what plays it whole.
func Size(t testing.TB, part, whole int, target string) int {
	t.Helper()
	if Whole() {
		return whole
	}
	record(t, Long, fmt.Sprintf("%d of %d", part, whole), "make "+target)
	if part == 0 {
		t.Skipf("make %s runs it", target)
	}
	return part
}

// Lot draws what a test leaves to chance. The same LIGHTWORK_SEED draws the same; a
// run without one chooses its own. The log of the test has it either way.
func Lot(t testing.TB) *rand.Rand {
	t.Helper()
	seed := Seed()
	t.Logf("%s=%s", EnvSeed, seed)
	return rand.New(rand.NewChaCha8(sha256.Sum256([]byte(seed + " " + t.Name()))))
}

// Seed is the seed that the environment sets, or one of chance.
func Seed() string {
	if seed := strings.TrimSpace(os.Getenv(EnvSeed)); seed != "" {
		return seed
	}
	return fmt.Sprintf("%016x", rand.Uint64())
}
