// Package testclass sorts tests into three classes, so that no test is skipped
// silently.
//
//   - A required test needs only programs that anybody can install. If one is missing,
//     the test fails in CI; on a user's machine it is skipped and listed.
//   - A long test runs completely in make long; every other run does a part of it.
//   - An unavailable test needs something that the machine or the network lacks, such
//     as a feature of the kernel or a registry that answers. It is listed with its
//     reason.
//
// Tests record what they skipped in the file named by LIGHTWORK_TEST_REPORT, which
// cmd/report prints as one table.
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
	envLong   = "LIGHTWORK_LONG"        // not empty: long tests run completely
	EnvSeed   = "LIGHTWORK_SEED"        // chooses the part of long tests; any text
)

// debianPackages has the package of programs whose package has another name.
var debianPackages = map[string]string{"ip": "iproute2", "ldd": "libc-bin", "node": "nodejs", "go": "golang", "sh": "dash", "ls": "coreutils"}

// Require skips or fails a test if a required program is not installed.
func Require(t testing.TB, programs ...string) {
	t.Helper()
	for _, program := range programs {
		RequireOneOf(t, program)
	}
}

// RequireOneOf skips or fails a test if none of several programs is installed. The
// user is told to install the first one.
func RequireOneOf(t testing.TB, programs ...string) {
	t.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err == nil {
			return
		}
	}
	NotInstalled(t, programs[0])
}

// NotInstalled skips or fails a test that did not find a program itself.
func NotInstalled(t testing.TB, program string) {
	t.Helper()
	name := program
	if other, ok := debianPackages[name]; ok {
		name = other
	}
	missing(t, program+" is not installed", "apt-get install "+name)
}

// missing skips a test that lacks something which the command in remedy installs.
// In CI the test fails, because nobody would notice there that it was skipped.
func missing(t testing.TB, what, remedy string) {
	t.Helper()
	record(t, Required, what, remedy)
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s (%s), and in CI a required test must run", what, remedy)
	}
	t.Skipf("%s (%s)", what, remedy)
}

// Unavailable skips a test that lacks something which no command installs. The
// reason must be clear to readers who see only the table.
func Unavailable(t testing.TB, reason string) {
	t.Helper()
	record(t, Unreachable, reason, "")
	t.Skip(reason)
}

// Whole reports whether long tests run completely in this run.
func Whole() bool { return os.Getenv(envLong) != "" }

// Size returns how much of a long test to run: whole in make long, else part. A
// part of 0 skips the test. target is the make target that runs it completely.
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

// Lot returns a source of random choices, seeded with LIGHTWORK_SEED. Without it
// the seed is random. The test's log always has the seed.
func Lot(t testing.TB) *rand.Rand {
	t.Helper()
	seed := Seed()
	t.Logf("%s=%s", EnvSeed, seed)
	return rand.New(rand.NewChaCha8(sha256.Sum256([]byte(seed + " " + t.Name()))))
}

// Seed returns the seed from the environment, or a random one.
func Seed() string {
	if seed := strings.TrimSpace(os.Getenv(EnvSeed)); seed != "" {
		return seed
	}
	return fmt.Sprintf("%016x", rand.Uint64())
}
