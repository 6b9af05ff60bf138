package sales

import (
	"errors"
	"testing"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/market/job"
)

// A provider is told in its own words that nothing can be committed any more: this
// stops it (P17).
func TestFailedCommitHasTheProvidersName(t *testing.T) {
	if err := nameError(sqlite.ErrCommit); !errors.Is(err, job.ErrStoreFailed) || !errors.Is(err, sqlite.ErrCommit) {
		t.Errorf("a failed commit: %v, want ErrStoreFailed", err)
	}
}
