package devnet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Programs that are there are not built again; the directory is that of the
// pinned versions.
func TestBuildUsesWhatIsThere(t *testing.T) {
	source, err := sourceDir(t.Context(), "binaries")
	if err != nil {
		t.Fatal(err)
	}
	id, err := versionsID(source, lightningPrograms().tags)
	if err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir()
	want := filepath.Join(cache, id)
	if err := os.MkdirAll(want, 0o755); err != nil {
		t.Fatal(err)
	}
	for name := range lightningPrograms().programs {
		if lightningPrograms().haveAll(want) {
			t.Fatalf("complete without %s", name)
		}
		if err := os.WriteFile(filepath.Join(want, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Build(t.Context(), cache)
	if err != nil || got != want {
		t.Errorf("Build = %s, %v; want %s", got, err, want)
	}
	if content, _ := os.ReadFile(filepath.Join(want, "lnd")); string(content) != "#!/bin/sh\n" {
		t.Error("lnd was built again")
	}
}

func TestVersionsIDFollowsThePins(t *testing.T) {
	source := t.TempDir()
	write := func(name, content string) string {
		if err := os.WriteFile(filepath.Join(source, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		id, _ := versionsID(source, "")
		return id
	}
	if _, err := versionsID(source, ""); err == nil {
		t.Error("an id without go.mod")
	}
	write("go.mod", "a")
	first := write("go.sum", "b")
	if first == "" || write("go.mod", "c") == first || write("go.mod", "a") != first || write("go.sum", "d") == first {
		t.Error("the id does not follow go.mod and go.sum")
	}
}

// The module pins what the fixed recipe needs; a newer btcd breaks lnd.
func TestPinnedVersions(t *testing.T) {
	source, err := sourceDir(t.Context(), "binaries")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(source, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"github.com/btcsuite/btcd v0.24.3-0.20250318170759-4f4ea81776d6",
		"github.com/lightningnetwork/lnd v0.20.1-beta",
		"replace google.golang.org/protobuf => github.com/lightninglabs/protobuf-go-hex-display v1.34.2-hex-display",
		"replace github.com/gogo/protobuf => github.com/gogo/protobuf v1.3.2",
	} {
		if !strings.Contains(string(mod), line+"\n") {
			t.Errorf("go.mod lacks %q", line)
		}
	}
}

func TestLockExcludes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(path)
	if err != nil {
		t.Fatal(err)
	}
	second := make(chan error, 1)
	go func() {
		again, err := lock(path)
		if err == nil {
			again()
		}
		second <- err
	}()
	select {
	case <-second:
		t.Error("two hold the lock")
	default:
	}
	unlock()
	if err := <-second; err != nil {
		t.Error(err)
	}
}
