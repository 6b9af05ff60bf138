package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/internal/kernel"
	"github.com/lightwork-market/lightwork/internal/sqlite"
)

// TestOlderDatabase: a command that only reads says what brings an older database
// up to date, whatever it says of others that it cannot read.
func TestOlderDatabase(t *testing.T) {
	for _, c := range []struct {
		name       string
		migrations []string
		want       []string
	}{
		{"older", []string{"CREATE TABLE a(x)"}, []string{"is not up to date yet: ", "provider run brings the provider's up to date", "buyer resume the buyer's"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			conf := filepath.Join(dir, "lightwork.yaml")
			var said bytes.Buffer
			if code := run(t.Context(), []string{"init", "--dir", dir, "--wallet", "none", "--relay", "ws://127.0.0.1:1"}, nil, &said, &said); code != exitOK {
				t.Fatal(said.String())
			}
			for _, role := range []string{"provider", "buyer"} {
				withSchema(t, filepath.Join(dir, "data", role), c.migrations)
			}
			for _, args := range [][]string{
				{"jobs", "list"},
				{"buyer", "list"},
				{"agents", "audit"},
				{"backup", "--role", "buyer", "--out", filepath.Join(dir, "copy.db")},
			} {
				said.Reset()
				code := run(t.Context(), append([]string{"-c", conf}, args...), nil, &said, &said)
				if code != exitFailed {
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

// withSchema makes a database in dir with these migrations.
func withSchema(t *testing.T, dir string, migrations []string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	db, err := sqlite.Open(t.Context(), filepath.Join(dir, kernel.FileName), sqlite.Options{Migrations: migrations})
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}
