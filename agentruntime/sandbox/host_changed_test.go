package sandbox

import (
	"os"
	"path/filepath"
	"testing"
)

// TestHostWatch: files with other stamps are read again, and only what they hold
// makes another toolchain.
func TestHostWatch(t *testing.T) {
	stamps, doc, reads := []string{"a"}, "first", 0
	w := hostWatch{doc: []byte("first"), stamps: []string{"a"}}
	step := func(what string, want bool, wantReads int) {
		t.Helper()
		got, err := w.changed(func() []string { return stamps }, func() ([]byte, error) {
			reads++
			return []byte(doc), nil
		})
		if err != nil || got != want || reads != wantReads {
			t.Errorf("%s: changed %v after %d reads, want %v after %d (%v)", what, got, reads, want, wantReads, err)
		}
	}

	step("nothing happened", false, 0)
	stamps = []string{"b"}
	step("touched", false, 1)
	stamps, doc = []string{"c"}, "second"
	step("upgraded", true, 2)
	step("looked at again", true, 2)
	stamps, doc = []string{"d"}, "first"
	step("brought back", false, 3)
}

// TestStampOf: a stamp tells a file that was replaced by one of the same size.
func TestStampOf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tool")
	if got := stampOf("tool", path); got != "" {
		t.Errorf("a file that is not there has the stamp %q", got)
	}
	write := func(name string) {
		if err := os.WriteFile(name, []byte("same"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(path)
	before := stampOf("tool", path)
	write(path + ".new")
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	if after := stampOf("tool", path); after == before || before == "" {
		t.Errorf("stamps %q and %q", before, after)
	}
}

// TestHostIsAsItWas: nobody has upgraded it during this test.
func TestHostIsAsItWas(t *testing.T) {
	if changed, err := HostChanged(); changed || err != nil {
		t.Errorf("changed %v, %v", changed, err)
	}
}
