package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/internal/store/outbox"
	"github.com/lightwork-market/lightwork/internal/store/row"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/provider"
)

// ProviderStore keeps the jobs that the node sells.
type ProviderStore struct {
	k       *Store
	profile string
}

var _ provider.Store = (*ProviderStore)(nil)

// ProviderStore returns the store of jobs. profile is that of their threads.
func (k *Store) ProviderStore(profile string) *ProviderStore {
	return &ProviderStore{k: k, profile: profile}
}

func (s *ProviderStore) update(ctx context.Context, fn func(tx *Tx) error) error {
	return providerErr(s.k.Update(ctx, fn))
}

func (s *ProviderStore) view(ctx context.Context, fn func(tx *Tx) error) error {
	return providerErr(s.k.View(ctx, fn))
}

// providerErr gives the store's errors the names that the provider knows. A
// unique value that is taken means that a step was done before, or for another.
func providerErr(err error) error {
	switch {
	case err == nil, errors.Is(err, job.ErrNotFound), errors.Is(err, job.ErrDuplicate), errors.Is(err, job.ErrConflict),
		errors.Is(err, job.ErrCreditSpent), errors.Is(err, job.ErrRefundTaken),
		errors.Is(err, job.ErrRefundOfAnother):
		return err
	case errors.Is(err, row.ErrNotFound):
		return fmt.Errorf("%w: %w", job.ErrNotFound, err)
	case errors.Is(err, row.ErrConflict), errors.Is(err, row.ErrDuplicate), sqlite.IsUnique(err):
		return fmt.Errorf("%w: %w", job.ErrConflict, err)
	case errors.Is(err, sqlite.ErrCommit), errors.Is(err, sqlite.ErrReadOnly):
		return fmt.Errorf("%w: %w", job.ErrStoreFailed, err)
	}

	return err
}

// PutContents stores bytes under their digests.
func (s *ProviderStore) PutContents(ctx context.Context, contents ...[]byte) error {
	return s.update(ctx, func(tx *Tx) error { return tx.putAll(contents) })
}

func (tx *Tx) putAll(contents [][]byte) error {
	for _, c := range contents {
		if _, err := tx.PutContent(c); err != nil {
			return err
		}
	}
	return nil
}

// Content returns the bytes with this digest.
func (s *ProviderStore) Content(ctx context.Context, d hashing.Digest) (data []byte, err error) {
	err = s.view(ctx, func(tx *Tx) error {
		data, err = tx.Content(d)
		return err
	})
	return data, err
}

// Enqueue queues events of no job.
func (s *ProviderStore) Enqueue(ctx context.Context, out ...job.OutEvent) error {
	return s.update(ctx, func(tx *Tx) error { return tx.enqueueAll(out) })
}

func (tx *Tx) enqueueAll(out []job.OutEvent) error {
	for _, e := range out {
		err := tx.Enqueue(outbox.OutEvent{
			EventID: e.EventID, Event: e.Event, RequestID: e.RequestID, Relays: e.Relays, Required: e.Required,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// PendingEvents lists queued events that some relay has yet to confirm.
func (s *ProviderStore) PendingEvents(ctx context.Context, maxAge time.Duration, limit int) (list []job.Pending, err error) {
	err = s.view(ctx, func(tx *Tx) error {
		pending, err := tx.Pending(tx.Now().Add(-maxAge), limit)
		list = pendingOf(pending)
		return err
	})
	return list, err
}

// Unsent counts the queued events that fewer relays confirmed than must.
func (s *ProviderStore) Unsent(ctx context.Context, maxAge time.Duration) (n int, err error) {
	err = s.view(ctx, func(tx *Tx) error {
		err := tx.QueryRow(`SELECT count(*) FROM outbox_open p JOIN outbox_current c ON c.seq = p.seq
			WHERE p.created_ms > ? AND c.oks < c.required_oks`, tx.Now().Add(-maxAge).UnixMilli()).Scan(&n)
		if err != nil {
			return fmt.Errorf("count unsent events: %w", err)
		}
		return nil
	})
	return n, err
}

// DueEvents lists the pending events that are to be offered again now.
func (s *ProviderStore) DueEvents(ctx context.Context, maxAge time.Duration, limit int) (list []job.Pending, err error) {
	err = s.view(ctx, func(tx *Tx) error {
		due, err := tx.Due(tx.Now().Add(-maxAge), limit)
		list = pendingOf(due)
		return err
	})
	return list, err
}

func pendingOf(events []outbox.Pending) (list []job.Pending) {
	for _, p := range events {
		list = append(list, job.Pending{
			OutEvent: job.OutEvent{
				EventID: p.EventID, Event: p.Event, RequestID: p.RequestID, Relays: p.Relays, Required: p.Required, Sig: p.Sig,
			},
			Confirmed: p.Confirmed, Attempts: p.Attempts, QueuedAt: p.QueuedAt,
		})
	}
	return list
}

// AddAcks records what relays said.
func (s *ProviderStore) AddAcks(ctx context.Context, acks ...job.Ack) error {
	return s.update(ctx, func(tx *Tx) error {
		for _, a := range acks {
			if err := tx.AddAck(outbox.Ack(a)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Acks lists what relays said of the events of one job.
func (s *ProviderStore) Acks(ctx context.Context, requestID string) (list []job.Ack, err error) {
	err = s.view(ctx, func(tx *Tx) error {
		acks, err := tx.Acks(requestID)
		for _, a := range acks {
			list = append(list, job.Ack(a))
		}
		return err
	})
	return list, err
}

// Confirmed counts the relays that said OK to an event.
func (s *ProviderStore) Confirmed(ctx context.Context, eventID string) (n int, err error) {
	err = s.view(ctx, func(tx *Tx) error {
		n, err = tx.Confirmed(eventID)
		return err
	})
	return n, err
}

const record = "SELECT succeeded, failed, coalesce(latency_ms / nullif(timed, 0), 0) FROM job_record"

// Stats is this node's own record. Latency runs from a job's first start.
func (s *ProviderStore) Stats(ctx context.Context) (st job.Stats, err error) {
	err = s.view(ctx, func(tx *Tx) error {
		err := tx.QueryRow(record).Scan(&st.Succeeded, &st.Failed, &st.AvgLatencyMs)
		if err != nil {
			return fmt.Errorf("count ended jobs: %w", err)
		}
		return nil
	})
	return st, err
}

// PendingCount counts the queued events that some relay has yet to confirm.
func (s *ProviderStore) PendingCount(ctx context.Context) (n int, err error) {
	err = s.view(ctx, func(tx *Tx) error {
		if err := tx.QueryRow("SELECT count(*) FROM outbox_open").Scan(&n); err != nil {
			return fmt.Errorf("count queued events: %w", err)
		}
		return nil
	})
	return n, err
}
