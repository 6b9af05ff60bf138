package provider_test

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/kernel"
	"github.com/lightwork-market/lightwork/receipts"
)

// TestOldBackup (P16): a provider whose database is older than what it has
// signed neither forks its chain of receipts nor sells a job twice.
func TestOldBackup(t *testing.T) {
	w := newWorld(t)
	c := w.customer(t, nil)
	backup := filepath.Join(t.TempDir(), "backup.db")
	stop := w.serve(t, nil)
	sold := func() receipts.Receipt {
		t.Helper()
		p, err := w.follow(t, c, w.place(t, c, receipts.ModeHold, order("")).RequestID, nil).wait()
		check(t, err)
		ev, err := receipts.ParseEvent(p.ReceiptEvent, 1<<20)
		check(t, err)
		r, err := receipts.ParseReceiptEvent(ev)
		check(t, err)
		return r
	}
	sold()
	check(t, w.seller.kernel.Backup(w.ctx, backup))
	last := sold()
	stop()
	if last.Sequence != 2 {
		t.Fatalf("sequence %d", last.Sequence)
	}
	paid := w.balance(t, w.seller)

	dir := t.TempDir()
	_, err := kernel.Restore(w.ctx, dir, backup, kernel.Provider)
	check(t, err)
	k, err := kernel.Open(w.ctx, dir, kernel.Options{})
	check(t, err)
	t.Cleanup(func() { check(t, k.Close()) })
	w.store.Store = k.ProviderStore("paid-job")
	w.serve(t, nil)
	next := sold()
	hash := hashing.Bytes(mustCanonical(t, last))
	if next.Sequence != 3 || next.PreviousReceiptHash == nil || *next.PreviousReceiptHash != hash {
		t.Errorf("after the restore: sequence %d, previous %v, want 3 and %v", next.Sequence, next.PreviousReceiptHash, hash)
	}
	jobs, err := k.ProviderStore("paid-job").Jobs(w.ctx, 0)
	check(t, err)
	if len(jobs) != 2 { // the one of the backup, and the one just sold
		t.Errorf("%d jobs are known after the restore", len(jobs))
	}
	if now := w.balance(t, w.seller); now != paid+rateMsats {
		t.Errorf("the provider has %d msats, had %d", now, paid)
	}
}

func mustCanonical(t *testing.T, r receipts.Receipt) []byte {
	t.Helper()
	raw, err := hashing.CanonicalValue(r)
	check(t, err)
	return bytes.Clone(raw)
}
