package sales_test

import (
	"errors"
	"testing"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
	"github.com/lightwork-market/lightwork/market/job"
)

// A provider is told in its own words that nothing can be committed any more:
// these stop it (P17).
func TestStoreThatCannotCommit(t *testing.T) {
	k := storetest.Open(t)
	ro, err := store.Open(t.Context(), k.Dir, store.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer ro.Close()
	err = ro.Sales("p").PutContents(t.Context(), []byte("x"))
	if !errors.Is(err, job.ErrStoreFailed) || !errors.Is(err, sqlite.ErrReadOnly) {
		t.Errorf("read-only: %v, want ErrStoreFailed", err)
	}
}
