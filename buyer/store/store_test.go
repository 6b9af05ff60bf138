package store_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/buyer/store"
	"github.com/lightwork-market/lightwork/hashing"
)

// TestUnfinishedAfterARestart: what was placed is there again, and no longer to be gone
// on with once it has ended; a backup has it too.
func TestUnfinishedAfterARestart(t *testing.T) {
	folder := t.TempDir()
	open := func(folder string) *store.DB {
		t.Helper()
		s, err := store.Open(t.Context(), folder)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	p := buyer.Purchase{
		RequestID: strings.Repeat("a", 64), Provider: strings.Repeat("b", 64), SchemaID: "oa.embedding.v1", JobHash: hashing.Bytes([]byte("job")),
		Request: []byte("{}"), AddedAt: time.Now(),
	}

	s := open(folder)
	if err := s.Store().AddPurchase(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(t.Context(), folder); err == nil {
		t.Fatal("the same folder was opened twice")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s = open(folder)
	defer s.Close()
	ids, err := s.Unfinished(t.Context())
	if err != nil || len(ids) != 1 || ids[0] != p.RequestID {
		t.Fatalf("%v are unfinished, %v", ids, err)
	}
	copied := t.TempDir()
	if err := s.Backup(t.Context(), filepath.Join(copied, "node.db")); err != nil {
		t.Fatal(err)
	}

	if err := s.Store().CloseUnpaid(t.Context(), p.RequestID, buyer.StateFailed, "nobody answered"); err != nil {
		t.Fatal(err)
	}
	if ids, err = s.Unfinished(t.Context()); err != nil || len(ids) != 0 {
		t.Errorf("%v are unfinished, %v", ids, err)
	}
	if err := s.Store().CloseUnpaid(t.Context(), p.RequestID, buyer.StateFailed, "again"); !errors.Is(err, buyer.ErrConflict) {
		t.Errorf("closed twice: %v", err)
	}

	backup := open(copied)
	defer backup.Close()
	if ids, err = backup.Unfinished(t.Context()); err != nil || len(ids) != 1 {
		t.Errorf("%v are unfinished in the backup, %v", ids, err)
	}
}
