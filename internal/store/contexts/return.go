package contexts

import (
	"database/sql"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/curator"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/internal/store/row"
)

// ReturnThread ends a thread, gives its result to the parent thread as a segment
// (AP-5.2.3), and does with its context, and with the journal entries that were
// kept until delivery, what the policy says (AP-5.2.4). A parent that has ended,
// or none, gets nothing: then only the digest of the result stays. ErrConflict
// if the thread has ended, or if a segment that is to be folded has no fold.
func (tx Contexts) ReturnThread(r curator.Returned) error {
	retention, err := journal.RetentionOf(r.Retention)
	if err != nil {
		return fmt.Errorf("return thread: %w", err)
	}
	id, state := string(r.Thread), journal.ThreadCompleted
	if r.Failed {
		state = journal.ThreadFailed
	}
	var digest *hashing.Digest
	if r.Result != nil {
		d := hashing.Bytes(r.Result)
		digest = &d
	}

	if err := tx.EndThread(id, state, digest); err != nil {
		return err
	}
	if r.Result != nil {
		if err := tx.giveResult(id, r); err != nil {
			return err
		}
	}

	switch {
	case retention == journal.RetainForever:
		return nil
	case retention == journal.PruneOnDelivery:
		if err := tx.ConfirmThread(id); err != nil {
			return err
		}
		_, err := tx.pruneContext(id, MaxSegments)
		return err
	}

	if err := tx.foldContext(id, r.Folds); err != nil {
		return err
	}
	return tx.expireContext(id, tx.Now().Add(time.Duration(retention.Days())*24*time.Hour))
}

func (tx Contexts) giveResult(id string, r curator.Returned) error {
	t, err := tx.Thread(id)
	if err != nil || t.Parent == "" {
		return err
	}
	if state, err := tx.StateOf(t.Parent); err != nil || state != journal.ThreadActive {
		return err
	}
	_, err = tx.PutSegment(t.Parent, r.ContentType, r.Result)
	return err
}

// foldContext folds what the thread still has Expanded.
func (tx Contexts) foldContext(id string, folds []curator.Change) error {
	for _, c := range folds {
		if c.To != curator.Folded {
			return fmt.Errorf("return thread: %s to %s: %w", c.ID, c.To, row.ErrInvalid)
		}
	}

	if err := tx.ChangeSegments(id, folds); err != nil {
		return err
	}
	var left int
	err := tx.QueryRow("SELECT count(*) FROM context_current WHERE thread_id = ? AND status = 'Expanded'", id).Scan(&left)
	if err != nil {
		return fmt.Errorf("return thread: %w", err)
	}
	if left > 0 {
		return fmt.Errorf("return thread: %d segments without a fold: %w", left, row.ErrConflict)
	}

	return nil
}

func (tx Contexts) expireContext(id string, at time.Time) error {
	_, err := tx.Exec("INSERT INTO context_expiring(expires_ms, thread_id) VALUES (?, ?)", at.UnixMilli(), id)
	if err != nil {
		return fmt.Errorf("return thread: %w", err)
	}
	return nil
}

// pruneContext ends up to limit segments of an ended thread and deletes the originals
// and summaries that nothing else refers to. It returns how many it ended. That
// they were there, how large they were and their digests stay on record.
func (tx Contexts) pruneContext(id string, limit int) (int, error) {
	segments, err := row.Column(tx.Tx, func(rows *sql.Rows, id *curator.ID) error { return rows.Scan(id) },
		`SELECT id FROM context_segments c WHERE thread_id = ?
			AND NOT EXISTS (SELECT 1 FROM context_states s WHERE s.segment_id = c.id AND s.status = 'Pruned') ORDER BY id LIMIT ?`, id, limit)
	if err != nil {
		return 0, fmt.Errorf("prune context: %w", err)
	}

	for _, s := range segments {
		contents, err := row.Column(tx.Tx, scanDigest, `SELECT content FROM context_segments WHERE id = ?1
			UNION SELECT summary FROM context_states WHERE segment_id = ?1 AND summary IS NOT NULL`, int64(s))
		if err != nil {
			return 0, err
		}
		if err := tx.appendSegmentState(curator.Change{ID: s, To: statusPruned}, nil); err != nil {
			return 0, err
		}

		for _, d := range contents {
			if err := tx.DropContent(d); err != nil {
				return 0, err
			}
		}
	}

	return len(segments), nil
}

// statusPruned is the end of a segment. No curator sees it.
const statusPruned curator.Status = "Pruned"

func scanDigest(rows *sql.Rows, d *hashing.Digest) error { return rows.Scan(row.Into(d)) }

// PruneExpired ends up to limit segments of threads whose days are over. more reports
// that there may be a rest.
func (tx Contexts) PruneExpired(now time.Time, limit int) (segments int, more bool, err error) {
	ids, err := tx.Strings("SELECT thread_id FROM context_expiring WHERE expires_ms <= ? ORDER BY expires_ms LIMIT ?", now.UnixMilli(), limit)
	if err != nil {
		return 0, false, err
	}

	for _, id := range ids {
		n, err := tx.pruneContext(id, limit-segments)
		if segments += n; err != nil {
			return 0, false, err
		}
		if segments == limit { // there may be more of this one
			return segments, true, nil
		}
		if _, err := tx.Exec("DELETE FROM context_expiring WHERE thread_id = ?", id); err != nil {
			return 0, false, err
		}
	}

	return segments, len(ids) == limit, nil
}
