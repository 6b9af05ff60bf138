package testclass

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// ended is how a test ended.
type ended struct {
	testing.TB
	failed, skipped bool
}

func (e *ended) Helper()               {}
func (e *ended) Fatalf(string, ...any) { e.failed = true; runtime.Goexit() }
func (e *ended) Skipf(string, ...any)  { e.skipped = true; runtime.Goexit() }
func (e *ended) Skip(...any)           { e.skipped = true; runtime.Goexit() }

// end plays a test to its end.
func end(t *testing.T, test func(testing.TB)) *ended {
	t.Helper()
	e, done := &ended{TB: t}, make(chan struct{})
	go func() { defer close(done); test(e) }()
	<-done
	return e
}

// report gives the test a report of its own.
func report(t *testing.T) (read func() string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(EnvReport, path)
	return func() string {
		doc, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all, err := Read(doc)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := Print(&b, all); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
}

func TestMissingFailsInCIAndIsListedElsewhere(t *testing.T) {
	for ci, fails := range map[string]bool{"": false, "true": true} {
		read := report(t)
		t.Setenv("CI", ci)
		e := end(t, func(t testing.TB) { Require(t, "sh", "lightwork-compass") })
		if e.failed != fails || e.skipped == fails {
			t.Errorf("CI=%s: failed %v, skipped %v", ci, e.failed, e.skipped)
		}
		want := "  lightwork-compass is not installed   -> apt-get install lightwork-compass\n      internal/testclass " + t.Name()
		if table := read(); !strings.Contains(table, want) {
			t.Errorf("CI=%s: the table is\n%s", ci, table)
		}
	}
}

func TestUnavailableIsListedInCIToo(t *testing.T) {
	read := report(t)
	t.Setenv("CI", "true")
	e := end(t, func(t testing.TB) { Unavailable(t, "the kernel has no Landlock\nmore") })
	if table := read(); e.failed || !e.skipped || !strings.Contains(table, "unavailable here:\n  the kernel has no Landlock\n      internal/testclass ") {
		t.Errorf("failed %v, skipped %v\n%s", e.failed, e.skipped, table)
	}
}

func TestLongIsPlayedInPartAndWhole(t *testing.T) {
	for long, want := range map[string]int{"": 3, "1": 300} {
		read := report(t)
		t.Setenv(envLong, long)
		if n := Size(t, 3, 300, "soak"); n != want {
			t.Errorf("%s=%s plays %d", envLong, long, n)
		}
		if table := read(); strings.Contains(table, "3 of 300   -> make soak") == (long == "1") {
			t.Errorf("%s=%s:\n%s", envLong, long, table)
		}
	}
	e := end(t, func(t testing.TB) { t.Setenv(envLong, ""); Size(t, 0, 300, "soak") })
	if !e.skipped {
		t.Error("a test of which nothing is played is not left out")
	}
}

func TestTheSameSeedDrawsTheSame(t *testing.T) {
	draw := func(seed string) uint64 {
		t.Setenv(EnvSeed, seed)
		return Lot(t).Uint64()
	}
	first, again := draw("a"), draw("a")
	chance, other := draw(""), draw("")
	if first != again || first == draw("b") || chance == other {
		t.Error("a seed does not decide what is drawn")
	}
}

func TestTableNamesNotTooMany(t *testing.T) {
	var all []Entry
	for i := range 30 {
		all = append(all, Entry{Class: Required, Test: strings.Repeat("x", i+1), Why: "gone"})
	}
	var b strings.Builder
	if err := Print(&b, all); err != nil || !strings.Contains(b.String(), "and 19 more") {
		t.Errorf("%v\n%s", err, b.String())
	}
}
