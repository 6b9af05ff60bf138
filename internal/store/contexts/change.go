package contexts

import (
	"database/sql"
	"errors"
	"fmt"
	"math"

	"github.com/lightwork-market/lightwork/agentruntime/curator"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/store/row"
)

// ChangeSegments moves segments of one thread between tiers, each as a new row.
// ErrConflict if one is not where its change starts from, or would be folded
// without a summary; ErrInvalid if a change breaks a rule of its form;
// curator.ErrExcerpt if a summary repeats the original. A caller that gets an
// error must give up its transaction.
func (tx Contexts) ChangeSegments(thread string, changes []curator.Change) error {
	for _, c := range changes {
		if err := tx.changeSegment(thread, c); err != nil {
			return fmt.Errorf("change segment %s: %w", c.ID, err)
		}
	}
	return nil
}

func (tx Contexts) changeSegment(thread string, c curator.Change) error {
	asked := !c.AskedFor.IsZero()
	if !isTier(c.To) || c.To == c.From && !asked || math.IsNaN(c.Relevance) || c.Relevance < 0 || c.Relevance > 1 {
		return fmt.Errorf("from %q to %q at %v: %w", c.From, c.To, c.Relevance, row.ErrInvalid)
	}
	var (
		status  curator.Status
		summary hashing.Digest
	)
	err := tx.QueryRow("SELECT status, summary FROM context_current WHERE id = ? AND thread_id = ? AND status <> 'Pruned'", int64(c.ID), thread).
		Scan(&status, row.Into(&summary))
	if errors.Is(err, sql.ErrNoRows) {
		return row.ErrNotFound
	}
	if err != nil {
		return err
	}
	if status != c.From {
		return fmt.Errorf("it is %s, not %s: %w", status, c.From, row.ErrConflict)
	}

	if c.Summary != "" {
		if summary, err = tx.putSummary(thread, c); err != nil {
			return err
		}
	}

	if summary.IsZero() {
		if c.To == curator.Folded {
			return fmt.Errorf("folded without a summary: %w", row.ErrConflict)
		}
		return tx.appendSegmentState(c, nil)
	}
	return tx.appendSegmentState(c, &summary)
}

func isTier(s curator.Status) bool {
	return s == curator.Expanded || s == curator.Folded || s == curator.Evicted
}

// putSummary stores a summary beside the original, never in its place. It is
// checked here too, so that no way into the store takes an excerpt (AP-6.4.1).
func (tx Contexts) putSummary(thread string, c curator.Change) (hashing.Digest, error) {
	original, err := tx.SegmentContent(thread, c.ID)
	if err != nil {
		return hashing.Digest{}, err
	}
	if err := curator.CheckSummary(c.Summary, original); err != nil {
		return hashing.Digest{}, err
	}
	return tx.AddContent([]byte(c.Summary))
}
