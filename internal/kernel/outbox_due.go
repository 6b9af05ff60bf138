package kernel

import (
	"fmt"
	"time"
)

// An event that is still open after a relay's answer is offered again after
// retryFirst, and after twice as long with each further answer, up to 43 min.
const (
	retryFirst     = 5 * time.Second
	retryDoublings = 9
)

// postpone says when an open event is due again after so many answers. An event that is not open any
// more is left alone.
func (tx *Tx) postpone(answers int, created, seq int64) error {
	due := tx.now.Add(retryFirst << min(max(answers-1, 0), retryDoublings))
	_, err := tx.Exec("UPDATE outbox_open SET due_ms = ? WHERE created_ms = ? AND seq = ?", due.UnixMilli(), created, seq)
	if err != nil {
		return fmt.Errorf("postpone queued event: %w", err)
	}
	return nil
}

// Due lists the open events that were queued after since and are to be offered
// now, the longest due first.
func (tx *Tx) Due(since time.Time, limit int) ([]PendingEvent, error) {
	return tx.open("p.due_ms <= ? AND p.created_ms > ? ORDER BY p.due_ms, p.created_ms, p.seq LIMIT ?",
		tx.now.UnixMilli(), since.UnixMilli(), limit)
}
