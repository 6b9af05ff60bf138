package pruning

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/internal/store/row"
)

// How far the clock may move between two prunings.
const (
	// clockAhead leaves a node that was off for a long weekend alone.
	clockAhead = 72 * time.Hour
	// clockBack is what the time service may correct.
	clockBack = time.Minute
)

// ClockError means that the clock has moved as no clock does: what is pruned by a wrong
// one was promised, and is gone. Nothing is pruned until the clock is right, or
// TrustClock is called.
type ClockError struct {
	Now   time.Time `json:"now"`
	Known time.Time `json:"known"` // by the last pruning, or the newest request before the first
}

// Error implements error.
func (e *ClockError) Error() string {
	moved := e.Now.Sub(e.Known).Round(time.Second)
	if moved < 0 {
		return fmt.Sprintf("nothing is pruned: the clock says %s, %s before the last time that the database knows, %s",
			e.Now.Format(time.RFC3339), -moved, e.Known.Format(time.RFC3339))
	}
	return fmt.Sprintf("nothing is pruned: the clock says %s, %s after the last time that the database knows, %s, which is more than %s",
		e.Now.Format(time.RFC3339), moved, e.Known.Format(time.RFC3339), clockAhead)
}

// clockKey has the clock of the last pruning among the small values. The jobs that end
// count from it if their clock is behind.
const clockKey = "prune_clock_ms"

// checkClock returns a *[ClockError] for a clock that has moved too far.
func checkClock(tx *row.Tx) error {
	var known int64
	err := tx.QueryRow("SELECT CAST(value AS INTEGER) FROM meta WHERE key = ?", clockKey).Scan(&known)
	if errors.Is(err, sql.ErrNoRows) {
		err = tx.QueryRow("SELECT at_ms FROM requests ORDER BY seq DESC LIMIT 1").Scan(&known)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("read the clock of the last pruning: %w", err)
	}

	last := row.FromMs(known)
	if moved := tx.Now().Sub(last); moved < -clockBack || moved > clockAhead {
		return &ClockError{Now: tx.Now(), Known: last}
	}
	return nil
}

// setClock notes the clock for the next pruning.
func setClock(tx *row.Tx) error {
	_, err := tx.Exec("INSERT INTO meta(key, value) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = ?2", clockKey, fmt.Sprint(tx.Now().UnixMilli()))
	if err != nil {
		return fmt.Errorf("note the clock: %w", err)
	}
	return nil
}
