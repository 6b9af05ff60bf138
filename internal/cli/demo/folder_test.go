package demo

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/internal/sqlite"
)

// TestDemoFolder: a demo takes nothing of another's folder while that demo, or a
// node of its, runs there, and never its keys.
func TestDemoFolder(t *testing.T) {
	d := Cmd{Out: filepath.Join(t.TempDir(), "out")}
	dir, moved, unlock, err := d.folder()
	if err != nil || moved != "" {
		t.Fatal(moved, err)
	}
	if _, err := node.WriteSetup(dir, config.Setup{ProviderWallet: "play", BuyerWallet: "play", Relay: "ws://127.0.0.1:1", PlayURL: "http://127.0.0.1:1", PerMinuteMsats: 1}); err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(filepath.Join(dir, "keys", "provider.key"))
	if err != nil {
		t.Fatal(err)
	}
	keeps := func(in string) {
		t.Helper()
		if now, err := os.ReadFile(filepath.Join(in, "keys", "provider.key")); err != nil || !bytes.Equal(now, key) {
			t.Errorf("the provider's key in %s: %v", in, err)
		}
	}
	if _, _, _, err := d.folder(); err == nil || !strings.Contains(err.Error(), "another demo is running in "+dir) {
		t.Errorf("a second demo: %v", err)
	}
	keeps(dir)
	unlock()

	// Every kind of process that may run there.
	store, err := sqlite.Open(t.Context(), filepath.Join(dir, "node.db"), sqlite.Options{ExclusiveLock: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := d.folder(); err == nil || !strings.Contains(err.Error(), dir+" is in use") {
		t.Errorf("a demo in the folder of a running node: %v", err)
	}
	keeps(dir)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}

	for n := 1; n <= 2; n++ {
		_, moved, unlock, err = d.folder()
		if err != nil {
			t.Fatal(err)
		}
		defer unlock()
		if n == 1 {
			if want := dir + "-1"; moved != want {
				t.Errorf("moved to %q, want %q", moved, want)
			}
			keeps(moved)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
			t.Errorf("the folder is not empty: %v, %v", left, err)
		}
		unlock()
	}

	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := (Cmd{Out: full}).folder(); err == nil || !strings.Contains(err.Error(), "not from a demo") {
		t.Errorf("somebody's folder: %v", err)
	}
}
