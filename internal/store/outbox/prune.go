package outbox

import "fmt"

// PruneJob deletes up to limit events of a sold job, by the number of its request, that
// prove nothing: feedback, what tells of the job's life, and copies of what its result
// has. The job's events must be marked as pruned. It returns how many it deleted.
func (tx Outbox) PruneJob(job int64, limit int) (int, error) {
	type event struct {
		seq int64
		id  string
	}
	rows, err := tx.Query("SELECT seq, event_id FROM prunable_events WHERE job = ? ORDER BY seq LIMIT ?", job, limit)
	if err != nil {
		return 0, fmt.Errorf("look for events to prune: %w", err)
	}
	defer rows.Close()

	var list []event
	for rows.Next() {
		var e event
		if err := rows.Scan(&e.seq, &e.id); err != nil {
			return 0, fmt.Errorf("look for events to prune: %w", err)
		}
		list = append(list, e)
	}
	if err := rows.Err(); err != nil {
		return 0, fmt.Errorf("look for events to prune: %w", err)
	}

	for _, e := range list {
		for _, del := range []struct {
			query string
			arg   any
		}{
			{"DELETE FROM outbox_open WHERE seq = ?1 AND created_ms = (SELECT created_ms FROM outbox WHERE seq = ?1)", e.seq},
			{"DELETE FROM outbox_answers WHERE event = ?", e.seq},
			{"DELETE FROM event_signatures WHERE event_id = ?", e.id},
			{"DELETE FROM outbox WHERE seq = ?", e.seq},
		} {
			if _, err := tx.Exec(del.query, del.arg); err != nil {
				return 0, fmt.Errorf("prune event %s: %w", e.id, err)
			}
		}
	}
	return len(list), nil
}
