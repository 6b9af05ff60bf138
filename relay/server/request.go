package server

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/relay/nip01"
)

const (
	// loadChunk bounds the events that are in memory for one client at once,
	// besides its queue.
	loadChunk = 64
	// queryBudget bounds the work for one REQ, and sliceBudget that for one of
	// its filters: then others have their turn.
	queryBudget = 2 * time.Second
	sliceBudget = time.Second
	// entryTime is the expected time for a row or an index entry. It only needs to
	// separate small queries from large ones.
	entryTime = 20 * time.Microsecond
)

// errTooMuch is returned for a query beyond its budget.
var errTooMuch = errors.New("the query takes too long, ask for less")

// storedEvent is a loaded row.
type storedEvent struct {
	id  string // hex
	raw []byte
}

// request is the work for one REQ. One goroutine owns it.
type request struct {
	srv  *Server
	by   *queryClient
	keys []string      // the client's authenticated keys
	left time.Duration // of queryBudget
}

func (s *Server) request(by *queryClient, keys []string) *request {
	return &request{s, by, keys, queryBudget}
}

// observe records what the request took of the database.
func (r *request) observe(message string) {
	r.srv.metrics.queries.WithLabelValues(message).Observe((queryBudget - r.left).Seconds())
}

// view waits for the client's turn and runs fn in a read transaction. entries is how
// many rows and index entries fn is expected to read. The wait does not count against
// the budget.
func (r *request) view(ctx context.Context, entries int, fn func(tx *sqlite.Tx) error) error {
	if r.left <= 0 {
		return errTooMuch
	}
	if err := r.srv.queries.acquire(ctx, r.by, time.Duration(entries)*entryTime); err != nil {
		return err
	}

	start := time.Now()
	defer func() {
		took := time.Since(start)
		r.left -= took
		r.srv.queries.release(r.by, took)
	}()

	ctx, cancel := context.WithTimeoutCause(ctx, min(r.left, sliceBudget), errTooMuch)
	defer cancel()

	err := r.srv.store.db.View(ctx, fn) // interrupts its queries when ctx ends
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// find returns the newest rows of the filter, no more than its limit and the
// relay's.
func (r *request) find(ctx context.Context, f *nostr.Filter) ([]row, error) {
	limit := r.srv.cfg.Limits.MaxLimit
	if f.Limit > 0 {
		limit = min(limit, f.Limit)
	}
	if f.LimitZero {
		return nil, nil
	}
	q, err := r.scan(f, limit)
	if err != nil {
		return nil, err
	}
	err = r.view(ctx, q.cost(), q.run)
	if err != nil {
		return nil, fmt.Errorf("find events: %w", err)
	}
	return q.found, nil
}

// scan prepares a scan for the events that this client may read.
func (r *request) scan(f *nostr.Filter, limit int) (*scan, error) {
	q, err := newScan(f, limit, time.Now())
	if err != nil {
		return nil, err
	}
	return q, q.hidePrivate(r.srv.cfg.PrivateKinds, r.keys)
}

// load reads rows that find returned. One that is gone by now is left out, and
// one that only shares a tag's index key.
func (r *request) load(ctx context.Context, rows []row, f *nostr.Filter) ([]storedEvent, error) {
	events := make([]storedEvent, 0, len(rows))
	err := r.view(ctx, len(rows), func(tx *sqlite.Tx) error {
		for _, row := range rows {
			found, err := tx.Query("SELECT raw FROM events WHERE seq = ?", row.seq)
			if err != nil {
				return err
			}
			if found.Next() {
				var raw []byte
				if err := found.Scan(&raw); err != nil {
					return err
				}
				events = append(events, storedEvent{hex.EncodeToString([]byte(row.id)), raw})
			}

			if err := found.Close(); err != nil {
				return err
			}
		}

		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load events: %w", err)
	}
	if len(f.Tags) == 0 {
		return events, nil
	}

	return slices.DeleteFunc(events, func(e storedEvent) bool {
		ev, err := nip01.ParseEvent(e.raw, storedLimits)
		return err != nil || !f.Matches(&ev)
	}), nil
}
