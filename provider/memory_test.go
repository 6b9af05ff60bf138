package provider_test

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/receipts"
)

// TestOldBackup (P16): a provider whose database is older than what it has
// signed neither forks its chain of receipts nor sells a job twice.
func TestOldBackup(t *testing.T) {
	w := markettest.New(t)
	c := w.NewCustomer(t, nil)
	backup := filepath.Join(t.TempDir(), "backup.db")
	stop := w.Serve(t, nil)
	sold := func() receipts.Receipt {
		t.Helper()
		p, err := w.Follow(t, c, w.Place(t, c, receipts.ModeHold, markettest.SandboxInput("")).RequestID, nil).Wait()
		markettest.Check(t, err)
		ev, err := receipts.ParseEvent(p.ReceiptEvent, 1<<20)
		markettest.Check(t, err)
		r, err := receipts.ParseReceiptEvent(ev)
		markettest.Check(t, err)
		return r
	}
	sold()
	markettest.Check(t, w.Seller.DB.Backup(w.Ctx, backup))
	last := sold()
	stop()
	if last.Sequence != 2 {
		t.Fatalf("sequence %d", last.Sequence)
	}
	paid := w.Balance(t, w.Seller)

	dir := t.TempDir()
	_, err := store.Restore(w.Ctx, dir, backup, store.Provider)
	markettest.Check(t, err)
	k, err := store.Open(w.Ctx, dir, store.Options{})
	markettest.Check(t, err)
	t.Cleanup(func() { markettest.Check(t, k.Close()) })
	w.Store.Store = k.Sales("paid-job")
	w.Serve(t, nil)
	next := sold()
	hash := hashing.Bytes(mustCanonical(t, last))
	if next.Sequence != 3 || next.PreviousReceiptHash == nil || *next.PreviousReceiptHash != hash {
		t.Errorf("after the restore: sequence %d, previous %v, want 3 and %v", next.Sequence, next.PreviousReceiptHash, hash)
	}
	jobs, err := k.Sales("paid-job").Jobs(w.Ctx, 0)
	markettest.Check(t, err)
	if len(jobs) != 2 { // the one of the backup, and the one just sold
		t.Errorf("%d jobs are known after the restore", len(jobs))
	}
	if now := w.Balance(t, w.Seller); now != paid+markettest.RateMsats {
		t.Errorf("the provider has %d msats, had %d", now, paid)
	}
}

func mustCanonical(t *testing.T, r receipts.Receipt) []byte {
	t.Helper()
	raw, err := hashing.CanonicalValue(r)
	markettest.Check(t, err)
	return bytes.Clone(raw)
}
