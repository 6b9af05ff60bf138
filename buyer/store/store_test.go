package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/buyer/store"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
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

// TestOrderBetweenTwoProviders: an order whose last request has failed, and that may ask
// another provider, is gone on with.
func TestOrderBetweenTwoProviders(t *testing.T) {
	s, err := store.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p := buyer.Purchase{
		RequestID: strings.Repeat("a", 64), Provider: strings.Repeat("b", 64), SchemaID: "oa.embedding.v1", JobHash: hashing.Bytes([]byte("job")),
		Request: []byte("{}"), AddedAt: time.Now(),
	}
	if err := s.Store().AddOrder(t.Context(), []byte("{}"), p); err != nil {
		t.Fatal(err)
	}
	if err := s.Store().CloseUnpaid(t.Context(), p.RequestID, buyer.StateFailed, "no_answer: silent"); err != nil {
		t.Fatal(err)
	}

	ids, err := s.Unfinished(t.Context())
	if err != nil || len(ids) != 1 || ids[0] != p.RequestID {
		t.Errorf("%v are unfinished, %v", ids, err)
	}
	if err := s.Store().EndOrder(t.Context(), p.RequestID); err != nil {
		t.Fatal(err)
	}
	if ids, err = s.Unfinished(t.Context()); err != nil || len(ids) != 0 {
		t.Errorf("%v are unfinished once the order has ended, %v", ids, err)
	}
}

// TestRestore: a backup takes the place of a database that a killed process left with
// its log, and what others have open is refused by a name.
func TestRestore(t *testing.T) {
	folder, backup := t.TempDir(), filepath.Join(t.TempDir(), "backup.db")
	open, err := store.Open(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if err := open.Backup(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	p := buyer.Purchase{
		RequestID: strings.Repeat("a", 64), Provider: strings.Repeat("b", 64), SchemaID: "oa.embedding.v1", JobHash: hashing.Bytes([]byte("job")),
		Request: []byte("{}"), AddedAt: time.Now(),
	}
	if err := open.Store().AddPurchase(t.Context(), p); err != nil {
		t.Fatal(err)
	}

	killed := t.TempDir()
	if err := os.CopyFS(killed, os.DirFS(folder)); err != nil { // as a kill leaves it
		t.Fatal(err)
	}
	if _, err := store.Restore(t.Context(), folder, backup); !errors.Is(err, store.ErrInUse) {
		t.Errorf("restored under a process that has it open: %v", err)
	}
	kept, err := store.Restore(t.Context(), killed, backup)
	if err != nil || kept == "" {
		t.Fatalf("kept %q, %v", kept, err)
	}
	restored, err := store.Open(t.Context(), killed)
	if err != nil {
		t.Fatal(err)
	}
	defer restored.Close()
	if ids, err := restored.Unfinished(t.Context()); err != nil || len(ids) != 0 {
		t.Errorf("%v are in the backup, %v", ids, err)
	}
}

// TestDatabaseOfAProvider is refused: its own backups would be refused afterwards.
func TestDatabaseOfAProvider(t *testing.T) {
	k := storetest.Open(t)
	storetest.Must(t, k.Sales("p").AddJob(t.Context(), storetest.Job("a", "hold")))
	folder := k.Dir
	storetest.Must(t, k.Close())
	if _, err := store.Open(t.Context(), folder); !errors.Is(err, store.ErrForeign) {
		t.Error(err)
	}
	k.Reopen(t)
}
