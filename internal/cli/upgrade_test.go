package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/internal/store"
)

// unreleased are the migrations of a program from before the first release.
var unreleased = []string{"CREATE TABLE a(x)", "INSERT INTO a VALUES ('kept')"}

// TestOlderDatabase: a command says what brings an older database up to date, or
// that nothing does, whatever it says of others that it cannot read.
func TestOlderDatabase(t *testing.T) {
	reads := [][]string{{"jobs", "list"}, {"buyer", "list"}, {"agents", "audit"}}
	for _, c := range []struct {
		name       string
		migrations []string
		commands   [][]string
		want       []string
	}{
		{"older", nil, reads[2:], []string{"is not up to date yet: ", "provider run brings the provider's up to date", "buyer resume the buyer's"}},
		{"unreleased", unreleased, append(reads, []string{"buyer", "resume"}, []string{"provider", "debts"}), []string{
			"database was made by a version before the first release: ", "node.db has schema version 2, and the first is ",
			"finish its jobs and take its money out with the program that made it", " backup keeps a copy", "node.data_dir",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			conf := filepath.Join(dir, "lightwork.yaml")
			var said bytes.Buffer
			if code := Run(t.Context(), "dev", []string{"init", "--dir", dir, "--wallet", "none", "--relay", "ws://127.0.0.1:1"}, nil, &said, &said); code != advice.ExitOK {
				t.Fatal(said.String())
			}
			for _, role := range []string{"provider", "buyer"} {
				withSchema(t, filepath.Join(dir, "data", role), c.migrations)
			}
			for _, args := range c.commands {
				said.Reset()
				code := Run(t.Context(), "dev", append([]string{"-c", conf}, args...), nil, &said, &said)
				if code != advice.ExitFailed {
					t.Errorf("%v ends with %d", args, code)
				}
				for _, want := range c.want {
					if !strings.Contains(said.String(), want) {
						t.Errorf("%v: no %q in\n%s", args, want, said.String())
					}
				}
			}
		})
	}
}

// TestBackupOfOlderDatabase: the copy that a cautious operator wants before an
// upgrade is made by the new program too, of the database as it is; the new program
// does not put it in the place of one that it can use.
func TestBackupOfOlderDatabase(t *testing.T) {
	dir := t.TempDir()
	conf, backup := filepath.Join(dir, "lightwork.yaml"), filepath.Join(dir, "copy.db")
	var said bytes.Buffer
	if code := Run(t.Context(), "dev", []string{"init", "--dir", dir, "--wallet", "none", "--relay", "ws://127.0.0.1:1"}, nil, &said, &said); code != advice.ExitOK {
		t.Fatal(said.String())
	}
	withSchema(t, filepath.Join(dir, "data", "buyer"), unreleased)
	if code := Run(t.Context(), "dev", []string{"-c", conf, "backup", "--role", "buyer", "--out", backup}, nil, &said, &said); code != advice.ExitOK {
		t.Fatalf("backup ends with %d: %s", code, said.String())
	}
	looked := filepath.Join(dir, "looked.db") // what is opened is no backup any more
	if err := sqlite.Copy(t.Context(), backup, looked); err != nil {
		t.Fatal(err)
	}
	db, err := sqlite.Open(t.Context(), looked, sqlite.Options{Migrations: unreleased})
	if err != nil {
		t.Fatalf("the copy: %v", err)
	}
	var kept string
	if err := db.View(t.Context(), func(tx *sqlite.Tx) error { return tx.QueryRow("SELECT x FROM a").Scan(&kept) }); err != nil || kept != "kept" {
		t.Errorf("the copy has %q, %v", kept, err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}

	said.Reset()
	code := Run(t.Context(), "dev", []string{"-c", conf, "restore", "--role", "buyer", "--from", backup}, nil, &said, &said)
	if code != advice.ExitFailed || !strings.Contains(said.String(), "before the first release") || !strings.Contains(said.String(), "hint: name another backup") {
		t.Errorf("restore ends with %d: %s", code, said.String())
	}
}

// TestDatabaseTrouble: what can be done about a damaged database, or a disk that
// is full, is said with every command.
func TestDatabaseTrouble(t *testing.T) {
	dir := t.TempDir()
	conf := filepath.Join(dir, "lightwork.yaml")
	var said bytes.Buffer
	if code := Run(t.Context(), "dev", []string{"init", "--dir", dir, "--wallet", "none", "--relay", "ws://127.0.0.1:1"}, nil, &said, &said); code != advice.ExitOK {
		t.Fatal(said.String())
	}
	for _, role := range []string{"provider", "buyer"} {
		withSchema(t, filepath.Join(dir, "data", role), nil)
		if err := os.WriteFile(filepath.Join(dir, "data", role, store.FileName), bytes.Repeat([]byte("no database "), 1000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"jobs", "list"}, {"buyer", "list"}, {"buyer", "resume"}, {"provider", "debts"}, {"backup", "--role", "buyer", "--out", filepath.Join(dir, "copy.db")}} {
		said.Reset()
		if code := Run(t.Context(), "dev", append([]string{"-c", conf}, args...), nil, &said, &said); code != advice.ExitFailed || !strings.Contains(said.String(), "hint: the file is damaged: keep a copy") {
			t.Errorf("%v ends with %d: %s", args, code, said.String())
		}
	}

	said.Reset()
	full := fmt.Errorf("write: %w", syscall.ENOSPC)
	if app.Report(&said, &app.Globals{}, full); !strings.Contains(said.String(), "hint: the disk is full: make room") {
		t.Error(said.String())
	}
}

// withSchema makes a database in dir with these migrations.
func withSchema(t *testing.T, dir string, migrations []string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	db, err := sqlite.Open(t.Context(), filepath.Join(dir, store.FileName), sqlite.Options{Migrations: migrations})
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}
