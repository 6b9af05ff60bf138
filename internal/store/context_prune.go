package store

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// pruneBatch is how much one transaction of Prune deletes: other writers wait
// for no more than that. They do not wait while the entries are looked for, pruneLook of
// them at once.
const (
	pruneBatch = 32
	pruneLook  = 64 * pruneBatch
)

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
		n, err := s.pruneEntries(ctx, now)
		done.Entries += n
		if err != nil {
			return done, fmt.Errorf("prune: %w", err)
		}
		more = n == pruneLook
	}

	for more := true; more; {
		var segments int
		err := s.Update(ctx, func(tx *Tx) (err error) {
			segments, more, err = tx.PruneExpired(now, pruneBatch)
			return err
		})
		if err != nil {
			return done, fmt.Errorf("prune: %w", err)
		}
		done.Segments += segments
	}

	return done, nil
}

// pruneEntries deletes up to pruneLook entries of the journal and returns how many.
func (s *Store) pruneEntries(ctx context.Context, now time.Time) (done int, err error) {
	var expired []int64
	err = s.View(ctx, func(tx *Tx) (err error) {
		expired, err = tx.ExpiredEntries(now, pruneLook)
		return err
	})
	if err != nil {
		return 0, err
	}

	for batch := range slices.Chunk(expired, pruneBatch) {
		var n int
		err := s.Update(ctx, func(tx *Tx) (err error) {
			n, err = tx.PruneEntries(now, batch)
			return err
		})
		if done += n; err != nil {
			return done, err
		}
	}
	return done, nil
}
