// Package sales keeps what a provider sells: requests, jobs, charges, runs, results
// and receipts.
package sales

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/internal/store/money"
	"github.com/lightwork-market/lightwork/internal/store/outbox"
	"github.com/lightwork-market/lightwork/internal/store/row"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/provider"
)

//go:embed schema.sql
var tables string

// Schema makes the tables of the area.
func Schema() string {
	return tables + row.AppendOnly("jobs", "charges", "charge_invoices", "charge_acceptances", "charge_payments", "chosen_hashes",
		"job_orders", "job_runs", "job_results", "job_result_events", "receipts", "receipt_heads", "policy_runs")
}

// Store keeps the jobs that a node sells, with the events that it owes to relays and
// what it owes to buyers.
type Store struct {
	outbox.Queue
	money.Refunds
	db      *row.DB
	profile string
}

var _ provider.Store = (*Store)(nil)

// New is the store of jobs in a database. profile is that of their threads.
func New(db *row.DB, profile string) *Store {
	db = db.NameErrors(nameError)
	return &Store{Queue: outbox.NewQueue(db), Refunds: money.NewRefunds(db), db: db, profile: profile}
}

// transaction is one over all that a step of a job may change.
type transaction struct {
	*row.Tx
	journal.Journal
	outbox.Outbox
	money.Debts
}

func (s *Store) update(ctx context.Context, fn func(tx *transaction) error) error {
	return s.db.Update(ctx, func(tx *row.Tx) error { return fn(in(tx)) })
}

func (s *Store) view(ctx context.Context, fn func(tx *transaction) error) error {
	return s.db.View(ctx, func(tx *row.Tx) error { return fn(in(tx)) })
}

func in(tx *row.Tx) *transaction {
	return &transaction{Tx: tx, Journal: journal.Journal{Tx: tx}, Outbox: outbox.Outbox{Tx: tx}, Debts: money.Debts{Tx: tx}}
}

// nameError gives the store's errors the names that the provider knows. A
// unique value that is taken means that a step was done before, or for another.
func nameError(err error) error {
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
func (s *Store) PutContents(ctx context.Context, contents ...[]byte) error {
	return s.update(ctx, func(tx *transaction) error { return tx.PutContents(contents) })
}

// Content returns the bytes with this digest.
func (s *Store) Content(ctx context.Context, d hashing.Digest) (data []byte, err error) {
	err = s.view(ctx, func(tx *transaction) error {
		data, err = tx.Content(d)
		return err
	})
	return data, err
}

const record = "SELECT succeeded, failed, coalesce(latency_ms / nullif(timed, 0), 0) FROM job_record"

// Stats is this node's own record. Latency runs from a job's first start.
func (s *Store) Stats(ctx context.Context) (st job.Stats, err error) {
	err = s.view(ctx, func(tx *transaction) error {
		err := tx.QueryRow(record).Scan(&st.Succeeded, &st.Failed, &st.AvgLatencyMs)
		if err != nil {
			return fmt.Errorf("count ended jobs: %w", err)
		}
		return nil
	})
	return st, err
}

// Earnings adds up what came for sales.
func (s *Store) Earnings(ctx context.Context, p money.Period) ([]money.Sum, error) {
	return money.Earnings(ctx, s.db, p)
}
