package store

import (
	"context"
	"fmt"
	"time"
)

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
func (s *Store) Prune(ctx context.Context, now time.Time) (done Pruned, err error) {
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			return done, fmt.Errorf("prune: %w", err)
		}
		var entries, threads, segments int
		err := s.Update(ctx, func(tx *Tx) (err error) {
			if entries, err = tx.PruneJournal(now, pruneBatch); err != nil {
				return err
			}
			threads, segments, err = tx.PruneExpired(now, pruneBatch)
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
