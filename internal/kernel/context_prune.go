package kernel

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrRetention: a policy keeps a paid job's journal for too short a time.
var ErrRetention = errors.New("journal is not retained for the dispute window")

// pruneBatch is how much one transaction of Prune deletes: other writers wait
// for no more than that.
const pruneBatch = 500

// Pruned counts what Prune deleted.
type Pruned struct {
	Entries  int // of the journal
	Segments int // of the context of ended threads
}

// Prune deletes what retain_days(N) has kept for its days at now: journal
// entries, and the context of threads that returned. Call it from time to time;
// once an hour is often. It works in batches, each of which is durable; an error
// leaves the rest for the next call.
func (k *Kernel) Prune(ctx context.Context, now time.Time) (done Pruned, err error) {
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			return done, fmt.Errorf("prune: %w", err)
		}
		var entries, threads, segments int
		err := k.Update(ctx, func(tx *Tx) (err error) {
			if entries, err = tx.PruneJournal(now, pruneBatch); err != nil {
				return err
			}
			threads, segments, err = tx.pruneExpired(now, pruneBatch)
			return err
		})
		if err != nil {
			return done, fmt.Errorf("prune: %w", err)
		}
		done.Entries += entries
		done.Segments += segments
		more = entries == pruneBatch || threads > 0
	}
	return done, nil
}

// pruneExpired prunes whole threads whose days are over until about limit
// segments are gone.
func (tx *Tx) pruneExpired(now time.Time, limit int) (threads, segments int, err error) {
	ids, err := tx.strings("SELECT thread_id FROM context_expiring WHERE expires_ms <= ? ORDER BY expires_ms LIMIT ?", now.UnixMilli(), limit)
	if err != nil {
		return 0, 0, err
	}
	for _, id := range ids {
		n, err := tx.pruneContext(id)
		if err != nil {
			return 0, 0, err
		}
		if _, err := tx.Exec("DELETE FROM context_expiring WHERE thread_id = ?", id); err != nil {
			return 0, 0, err
		}
		threads, segments = threads+1, segments+n
		if segments >= limit {
			break
		}
	}
	return threads, segments, nil
}

// CheckPaid refuses, with ErrRetention, a policy for paid jobs that keeps less
// than the dispute window (K-40). The days of an entry count from when it was
// written, so window includes the longest that a job may take.
// prune_on_delivery keeps nothing and is never enough.
func (r Retention) CheckPaid(window time.Duration) error {
	if _, err := ParseRetention(string(r)); err != nil {
		return err
	}
	if r == RetainForever {
		return nil
	}
	if r == PruneOnDelivery || time.Duration(r.days())*24*time.Hour < window {
		return fmt.Errorf("%s, dispute window %s: %w", r, window, ErrRetention)
	}
	return nil
}
