// Package retention is the stage of a provider's node that prunes what the quotes do not
// promise any longer.
package retention

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/store/pruning"
	"github.com/lightwork-market/lightwork/receipts"
)

// Stage prunes. It works in short transactions, and after each it leaves the database to
// others for as long as the transaction took. What it has to do is in the database alone:
// a run that ended anywhere is continued by the next.
type Stage struct {
	store pruning.Store
	keep  receipts.Retention
	// removeBlob asks the blob servers to delete a blob; nil: blobs wait for a node that
	// speaks to them.
	removeBlob func(context.Context, hashing.Digest) error
	log        *slog.Logger
	turn       sync.Mutex // one run at a time
}

// New makes the stage. removeBlob may be nil.
func New(store pruning.Store, keep receipts.Retention, removeBlob func(context.Context, hashing.Digest) error, log *slog.Logger) *Stage {
	return &Stage{store: store, keep: keep, removeBlob: removeBlob, log: log}
}

// Report is what a run did.
type Report struct {
	Parts int   `json:"parts"` // of jobs, marked as pruned
	Bytes int64 `json:"bytes"` // of contents that no job needs any more, or that another still needs
	Pages int   `json:"pages"` // of the database that were given back
	// BlobsWait: blobs are marked, and blob servers have them still.
	BlobsWait bool `json:"blobs_wait"`
	// Clock: nothing was pruned, because the clock is not to be believed.
	Clock *pruning.ClockError `json:"clock,omitempty"`
}

// TrustClock is the operator's word that the clock is right, however far it has moved.
func (s *Stage) TrustClock(ctx context.Context) error { return s.store.TrustClock(ctx) }

// Run prunes all that may go now: it marks, then deletes, then frees. By a clock that is
// not to be believed it prunes nothing and returns a *[pruning.ClockError].
func (s *Stage) Run(ctx context.Context) (done Report, err error) {
	s.turn.Lock()
	defer s.turn.Unlock()

	for _, step := range []func(context.Context, *Report) (more bool, err error){s.mark, s.sweep} {
		if err := paced(ctx, &done, step); err != nil {
			return done, err
		}
	}
	if err := s.sweepBlobs(ctx, &done); err != nil {
		return done, err
	}
	for _, step := range []func(context.Context, *Report) (more bool, err error){s.sweepPieces, s.reclaim} {
		if err := paced(ctx, &done, step); err != nil {
			return done, err
		}
	}
	return done, nil
}

// paced repeats a step until it has nothing more to do.
func paced(ctx context.Context, done *Report, step func(context.Context, *Report) (bool, error)) error {
	for {
		began := time.Now()
		more, err := step(ctx, done)
		if err != nil || !more {
			return err
		}
		select {
		case <-time.After(time.Since(began)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *Stage) mark(ctx context.Context, done *Report) (bool, error) {
	n, more, err := s.store.Mark(ctx, s.keep)
	done.Parts += n
	errors.As(err, &done.Clock)
	return more, err
}

func (s *Stage) sweep(ctx context.Context, done *Report) (bool, error) {
	n, more, err := s.store.Sweep(ctx)
	done.Bytes += n
	return more, err
}

func (s *Stage) sweepPieces(ctx context.Context, _ *Report) (bool, error) {
	return s.store.SweepPieces(ctx)
}

// reclaim goes on while it finds a free page.
func (s *Stage) reclaim(ctx context.Context, done *Report) (bool, error) {
	n, err := s.store.Reclaim(ctx)
	done.Pages += n
	return n > 0, err
}

// sweepBlobs has the blob servers delete what is marked, and then deletes it here. Blobs
// that a server did not delete wait for the next run.
func (s *Stage) sweepBlobs(ctx context.Context, done *Report) error {
	for after := int64(0); ; {
		b, err := s.store.NextBlobs(ctx, after)
		if err != nil || b == nil {
			return err
		}
		after = b.Job

		if err := s.remove(ctx, b.Digests); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			done.BlobsWait = true
			s.log.Warn("blobs are to be pruned, and blob servers have them still", "err", err)
			return nil
		}
		err = paced(ctx, done, func(ctx context.Context, done *Report) (bool, error) {
			n, more, err := s.store.SweepBlobs(ctx, b.Job)
			done.Bytes += n
			return more, err
		})
		if err != nil {
			return err
		}
	}
}

var errNoServers = errors.New("only a running node speaks to blob servers")

func (s *Stage) remove(ctx context.Context, list []hashing.Digest) error {
	for _, d := range list {
		if s.removeBlob == nil {
			return errNoServers
		}
		if err := s.removeBlob(ctx, d); err != nil {
			return fmt.Errorf("blob %s: %w", d, err)
		}
	}
	return nil
}
