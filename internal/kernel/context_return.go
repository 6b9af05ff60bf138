package kernel

import (
	"database/sql"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/curator"
	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/hashing"
)

// RetentionOf reads a profile's policy. ErrInvalid if it is none.
func RetentionOf(r pipeline.Retention) (Retention, error) {
	if r.Policy == pipeline.RetainDays {
		return ParseRetention(string(RetainDays(r.Days)))
	}
	return ParseRetention(string(r.Policy))
}

// ReturnThread ends a thread, gives its result to the parent thread as a segment
// (AP-5.2.3), and does with its context, and with the journal entries that were
// kept until delivery, what the policy says (AP-5.2.4). A parent that has ended,
// or none, gets nothing: then only the digest of the result stays. ErrConflict
// if the thread has ended, or if a segment that is to be folded has no fold.
func (tx *Tx) ReturnThread(r curator.Returned) error {
	retention, err := RetentionOf(r.Retention)
	if err != nil {
		return fmt.Errorf("return thread: %w", err)
	}
	id, state := string(r.Thread), ThreadCompleted
	if r.Failed {
		state = ThreadFailed
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
	case retention == RetainForever:
		return nil
	case retention == PruneOnDelivery:
		if err := tx.confirmThread(id); err != nil {
			return err
		}
		_, err := tx.pruneContext(id)
		return err
	}
	if err := tx.foldContext(id, r.Folds); err != nil {
		return err
	}
	return tx.expireContext(id, tx.now.Add(time.Duration(retention.days())*24*time.Hour))
}

func (tx *Tx) giveResult(id string, r curator.Returned) error {
	t, err := tx.Thread(id)
	if err != nil || t.Parent == "" {
		return err
	}
	if state, err := tx.threadState(t.Parent); err != nil || state != ThreadActive {
		return err
	}
	_, err = tx.PutSegment(t.Parent, r.ContentType, r.Result)
	return err
}

// confirmTo confirms what was sent to a handler on a thread, confirmThread all
// messages of a thread: it has returned, so whoever they were for has them.
func (tx *Tx) confirmTo(thread, handler string) error {
	return tx.confirmAll("thread_id = ? AND direction = 'Outbound' AND handler = ?", thread, handler)
}

func (tx *Tx) confirmThread(thread string) error { return tx.confirmAll("thread_id = ?", thread) }

func (tx *Tx) confirmAll(which string, args ...any) error {
	entries, err := tx.numbers("SELECT seq FROM journal WHERE retention = 'prune_on_delivery' AND "+which, args...)
	if err != nil {
		return fmt.Errorf("confirm delivery: %w", err)
	}
	for _, seq := range entries {
		if err := tx.ConfirmDelivery(seq); err != nil {
			return err
		}
	}
	return nil
}

// foldContext folds what the thread still has Expanded.
func (tx *Tx) foldContext(id string, folds []curator.Change) error {
	for _, c := range folds {
		if c.To != curator.Folded {
			return fmt.Errorf("return thread: %s to %s: %w", c.ID, c.To, ErrInvalid)
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
		return fmt.Errorf("return thread: %d segments without a fold: %w", left, ErrConflict)
	}
	return nil
}

func (tx *Tx) expireContext(id string, at time.Time) error {
	_, err := tx.Exec("INSERT INTO context_expiring(expires_ms, thread_id) VALUES (?, ?)", at.UnixMilli(), id)
	if err != nil {
		return fmt.Errorf("return thread: %w", err)
	}
	return nil
}

// pruneContext ends every segment of an ended thread and deletes the originals
// and summaries that nothing else refers to. It returns how many it ended. That
// they were there, how large they were and their digests stay on record.
func (tx *Tx) pruneContext(id string) (int, error) {
	segments, err := tx.Segments(id, 0)
	if err != nil {
		return 0, err
	}
	for _, s := range segments {
		contents, err := tx.digests(`SELECT content FROM context_segments WHERE id = ?1
			UNION SELECT summary FROM context_states WHERE segment_id = ?1 AND summary IS NOT NULL`, int64(s.ID))
		if err != nil {
			return 0, err
		}
		if err := tx.appendSegmentState(curator.Change{ID: s.ID, To: statusPruned}, nil); err != nil {
			return 0, err
		}
		for _, d := range contents {
			if err := tx.dropContent(d); err != nil {
				return 0, err
			}
		}
	}
	return len(segments), nil
}

// statusPruned is the end of a segment. No curator sees it.
const statusPruned curator.Status = "Pruned"

// numbers runs a query of one column of numbers.
func (tx *Tx) numbers(query string, args ...any) ([]int64, error) {
	return column(tx, func(rows *sql.Rows, n *int64) error { return rows.Scan(n) }, query, args...)
}

// digests runs a query of one column of digests.
func (tx *Tx) digests(query string, args ...any) ([]hashing.Digest, error) {
	return column(tx, func(rows *sql.Rows, d *hashing.Digest) error { return rows.Scan(into(d)) }, query, args...)
}

func column[T any](tx *Tx, scan func(rows *sql.Rows, v *T) error, query string, args ...any) ([]T, error) {
	rows, err := tx.Query(query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []T
	for rows.Next() {
		var v T
		if err := scan(rows, &v); err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, rows.Err()
}
