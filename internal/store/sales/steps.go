package sales

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/internal/store/row"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/receipts"
)

// jobRow is what the steps of a job decide by.
type jobRow struct {
	seq    int64 // of its request
	id     string
	state  job.State
	mode   receipts.Mode
	thread string // "" before the job was ordered
	run    int
}

// jobIn reads a job that must be in one of the states: the compare of a
// compare-and-set, which the one writer makes atomic with what follows.
func (tx *transaction) jobIn(id string, states ...job.State) (jobRow, error) {
	j := jobRow{id: id}
	var mode, thread sql.NullString
	err := tx.QueryRow(`SELECT c.seq, c.state, j.mode, o.thread_id,
			coalesce((SELECT max(run) FROM job_runs x WHERE x.request_id = c.request_id), 0)
		FROM job_current c
			LEFT JOIN jobs j ON j.request_id = c.request_id
			LEFT JOIN job_orders o ON o.request_id = c.request_id
		WHERE c.request_id = ?`, id).
		Scan(&j.seq, &j.state, &mode, &thread, &j.run)
	if err != nil {
		return j, row.NotFound(err, "job "+id)
	}
	j.mode, j.thread = receipts.Mode(mode.String), thread.String
	if !slices.Contains(states, j.state) {
		return j, fmt.Errorf("job %s is %s: %w", id, j.state, job.ErrConflict)
	}
	return j, nil
}

// openStates are those in which something still happens.
func openStates() []job.State { return job.StateFailed.Before() }

func (j jobRow) conflict(why string) error {
	return fmt.Errorf("job %s (%s, %s): %s: %w", j.id, j.mode, j.state, why, job.ErrConflict)
}

// paysFirst reports whether the job may not run before it is paid.
func (j jobRow) paysFirst() bool { return j.mode == receipts.ModeHold || j.mode == receipts.ModePrepay }

// SetPaid moves quoted to paid: payment, directive and thread at once.
func (s *Store) SetPaid(ctx context.Context, requestID string, p job.Payment, d job.Directive, thread string) error {
	return s.update(ctx, func(tx *transaction) error {
		j, c, err := tx.openCharge(requestID, receipts.PurposeResult)
		switch {
		case err != nil:
			return err
		case !j.state.Leads(job.StatePaid):
			return j.conflict("is paid, or past that")
		case !j.paysFirst():
			return j.conflict("is not paid first")
		}

		if err := tx.addPayment(j, c, p); err != nil {
			return err
		}
		if err := s.order(tx, j, d, thread); err != nil {
			return err
		}

		return tx.appendJobState(j.seq, job.StatePaid, job.Reason{})
	})
}

// order records the go-ahead: the directive, consumed once, and the thread.
func (s *Store) order(tx *transaction, j jobRow, d job.Directive, thread string) error {
	err := tx.RecordDirective(journal.Directive{ID: d.ID, Key: d.Key, ApprovedBy: d.ApprovedBy, RequestID: j.id})
	if err != nil {
		return err
	}
	if err := tx.OpenThread(thread, s.profile); err != nil {
		return err
	}

	_, err = tx.Exec("INSERT INTO job_orders(request_id, directive_id, thread_id) VALUES (?, ?, ?)", j.id, d.ID, thread)
	if err != nil {
		return fmt.Errorf("record order: %w", err)
	}
	return nil
}

// Start begins the next run of a job and returns its number. Every run has the
// deadline of the first: a restart extends nothing.
func (s *Store) Start(ctx context.Context, requestID string, d *job.Directive, thread string, plan job.Plan, out ...job.OutEvent) (run int, err error) {
	err = s.update(ctx, func(tx *transaction) error {
		j, err := tx.jobIn(requestID, job.StateRunning.Before()...)
		if err != nil {
			return err
		}
		if err := s.goAhead(tx, j, d, thread); err != nil {
			return err
		}

		run = j.run + 1
		_, err = tx.Exec(`INSERT INTO job_runs(request_id, run, at_ms, deadline_ms, plan_hash)
			VALUES (?1, ?2, ?3, coalesce((SELECT min(deadline_ms) FROM job_runs WHERE request_id = ?1), ?4), ?5)`,
			requestID, run, tx.Now().UnixMilli(), plan.Deadline.UnixMilli(), plan.Hash[:])
		if err != nil {
			return fmt.Errorf("record run: %w", err)
		}
		if err := tx.appendJobState(j.seq, job.StateRunning, job.Reason{}); err != nil {
			return err
		}

		return tx.EnqueueAll(out)
	})
	if err != nil {
		return 0, err
	}
	return run, nil
}

// goAhead checks that the job was ordered, or orders it: unpaid jobs start by
// policy, on a directive that comes with the start.
func (s *Store) goAhead(tx *transaction, j jobRow, d *job.Directive, thread string) error {
	if j.state != job.StateQuoted {
		if d != nil || thread != "" && thread != j.thread {
			return j.conflict("was ordered before")
		}
		return nil
	}
	if j.paysFirst() || d == nil {
		return j.conflict("may not start yet")
	}
	return s.order(tx, j, *d, thread)
}
