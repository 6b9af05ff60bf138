package spending_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/lightwork-market/lightwork/internal/spending"
	"github.com/lightwork-market/lightwork/payments"
)

const file = "spending-stopped"

// TestSwitch: the word counts for whoever looks at the folder, and the first reason stays.
func TestSwitch(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s, other := spending.In(dir), spending.In(dir)
	if err := s.Stop("an agent\x1b[2J went wild"); err != nil {
		t.Fatal(err)
	}
	if err := other.Stop("again"); err != nil {
		t.Fatal(err)
	}

	err := other.Check()
	var stopped *spending.Stopped
	if !errors.Is(err, payments.ErrSpendingStopped) || !errors.As(err, &stopped) || stopped.At.IsZero() || !strings.Contains(err.Error(), "an agent") {
		t.Fatalf("%v", err)
	}
	left, _ := os.ReadDir(dir)
	if len(left) != 1 {
		t.Errorf("%d files", len(left))
	}

	if err := s.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := s.Resume(); err != nil {
		t.Error(err)
	}
	if err := other.Check(); err != nil {
		t.Error(err)
	}
}

// TestUnreadableIsStopped: only a folder that is there, without the file, lets money go.
func TestUnreadableIsStopped(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"no folder":       func(dir string) error { return os.Remove(dir) },
		"a file for it":   func(dir string) error { return errors.Join(os.Remove(dir), os.WriteFile(dir, nil, 0o600)) },
		"an empty word":   func(dir string) error { return os.WriteFile(filepath.Join(dir, file), nil, 0o600) },
		"another word":    func(dir string) error { return os.WriteFile(filepath.Join(dir, file), []byte("go on"), 0o600) },
		"a long word":     func(dir string) error { return os.WriteFile(filepath.Join(dir, file), make([]byte, 1<<20), 0o600) },
		"a folder":        func(dir string) error { return os.Mkdir(filepath.Join(dir, file), 0o700) },
		"a loop of links": func(dir string) error { return os.Symlink(file, filepath.Join(dir, file)) },
		"a name too often": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, file), []byte(`{"at":1,"at":2}`), 0o600)
		},
	} {
		dir := filepath.Join(t.TempDir(), "data")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		s := spending.In(dir)
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}

		if err := spoil(dir); err != nil {
			t.Fatal(err)
		}
		err := s.Check()
		if !errors.Is(err, payments.ErrSpendingStopped) || !strings.Contains(err.Error(), "cannot be read") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestStopTogether: several at once leave one whole word, which nobody sees half.
func TestStopTogether(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			s := spending.In(dir)
			if err := s.Stop("all at once"); err != nil {
				t.Error(err)
			}
			if err := s.Check(); err == nil || !strings.Contains(err.Error(), "all at once") {
				t.Errorf("%v", err)
			}
		})
	}
	wg.Wait()
}

func FuzzWord(f *testing.F) {
	f.Add([]byte(`{"at":"2026-11-28T00:00:00Z","why":"x"}`))
	f.Add([]byte(`{"at":5}`))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := spending.In(dir).Check(); !errors.Is(err, payments.ErrSpendingStopped) || len(err.Error()) > 2000 {
			t.Errorf("%v", err)
		}
	})
}
