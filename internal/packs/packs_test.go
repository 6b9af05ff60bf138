package packs

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/market/tree"
)

// TestPartsAreHereAfterARestart: a pack is read by another Store, is there once, and goes
// when nobody has read it for long.
func TestPartsAreHereAfterARestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "packs")
	add := func(name string) tree.Summary {
		t.Helper()
		s, err := New(dir).Add(func(put func([]byte) error) (tree.Summary, error) {
			err := errors.Join(put([]byte(name+"1")), put([]byte(name+"22")))
			return tree.Summary{Digest: hashing.Bytes([]byte(name)), Size: 2, Entries: 1}, err
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := add("a")
	for i, want := range []string{"a1", "a22"} {
		if part, err := New(dir).Part(s.Digest, i); err != nil || !bytes.Equal(part, []byte(want)) {
			t.Errorf("part %d is %q: %v", i, part, err)
		}
	}
	if again, err := New(dir).Summary(s.Digest); err != nil || again != s {
		t.Errorf("the summary is %+v: %v", again, err)
	}
	for _, i := range []int{-1, 2} {
		if _, err := New(dir).Part(s.Digest, i); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("part %d: %v", i, err)
		}
	}

	old := time.Now().Add(-keep - time.Hour)
	if err := os.Chtimes(filepath.Join(dir, s.Digest.Hex()), old, old); err != nil {
		t.Fatal(err)
	}
	other := add("b")
	if _, err := New(dir).Part(s.Digest, 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a pack that nobody reads: %v", err)
	}
	if _, err := New(dir).Summary(s.Digest); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the summary of a pack that nobody reads: %v", err)
	}
	add("c") // removes the index that was left
	if left, _ := os.ReadDir(dir); len(left) != 4 {
		t.Errorf("%d files are left, want two for each of two packs", len(left))
	}
	if _, err := New(dir).Part(other.Digest, 0); err != nil {
		t.Error(err)
	}
}

// TestFailedPackLeavesNothing: what could not be packed is not there.
func TestFailedPackLeavesNothing(t *testing.T) {
	dir, no := t.TempDir(), errors.New("no")
	_, err := New(dir).Add(func(put func([]byte) error) (tree.Summary, error) {
		return tree.Summary{}, errors.Join(put([]byte("x")), no)
	})
	if left, _ := os.ReadDir(dir); !errors.Is(err, no) || len(left) != 0 {
		t.Errorf("%v; %d files are left", err, len(left))
	}
}
