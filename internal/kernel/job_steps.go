package kernel

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/internal/store/row"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// jobRow is what the steps of a job decide by.
type jobRow struct {
	seq    int64 // of its request
	id     string
	state  job.State
	mode   receipts.Mode
	hash   payments.Hash
	bolt11 string
	thread string // "" before the job was ordered
	run    int
}

// jobIn reads a job that must be in one of the states: the compare of a
// compare-and-set, which the one writer makes atomic with what follows.
func (tx *Tx) jobIn(id string, states ...job.State) (jobRow, error) {
	j := jobRow{id: id}
	var mode, bolt11, thread sql.NullString
	err := tx.QueryRow(`SELECT c.seq, c.state, j.mode, coalesce(j.payment_hash, h.payment_hash), i.bolt11, o.thread_id,
			coalesce((SELECT max(run) FROM job_runs x WHERE x.request_id = c.request_id), 0)
		FROM job_current c
			LEFT JOIN jobs j ON j.request_id = c.request_id
			LEFT JOIN job_invoices i ON i.request_id = c.request_id
			LEFT JOIN chosen_hashes h ON h.request_id = c.request_id
			LEFT JOIN job_orders o ON o.request_id = c.request_id
		WHERE c.request_id = ?`, id).
		Scan(&j.seq, &j.state, &mode, row.Into(&j.hash), &bolt11, &thread, &j.run)
	if err != nil {
		return j, row.NotFound(err, "job "+id)
	}
	j.mode, j.bolt11, j.thread = receipts.Mode(mode.String), bolt11.String, thread.String
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

// SetInvoice records the invoice of a job that has none, and the payment hash if the
// wallet chose it.
func (s *ProviderStore) SetInvoice(ctx context.Context, requestID, bolt11 string, chosen payments.Hash, out ...job.OutEvent) error {
	return s.update(ctx, func(tx *Tx) error {
		j, err := tx.jobIn(requestID, openStates()...)
		switch {
		case err != nil:
			return err
		case j.bolt11 == bolt11 && bolt11 != "":
			return nil
		case j.bolt11 != "":
			return j.conflict("has another invoice")
		case j.mode == receipts.ModeFree:
			return j.conflict("needs no invoice")
		case j.hash.IsZero() == chosen.IsZero():
			return j.conflict("has a payment hash and was given another, or has none")
		}
		_, err = tx.Exec("INSERT INTO job_invoices(request_id, bolt11, at_ms) VALUES (?, ?, ?)", requestID, bolt11, tx.now.UnixMilli())
		if err != nil {
			return fmt.Errorf("record invoice: %w", err)
		}
		if err := tx.chooseHash(j, chosen); err != nil {
			return err
		}
		return tx.enqueueAll(out)
	})
}

// chooseHash records the payment hash that the wallet chose, unless it chose none.
func (tx *Tx) chooseHash(j jobRow, chosen payments.Hash) error {
	if chosen.IsZero() {
		return nil
	}
	var known bool
	if err := tx.QueryRow(paymentHashKnown, chosen[:]).Scan(&known); err != nil {
		return fmt.Errorf("look for the payment hash: %w", err)
	}
	if known {
		return j.conflict("the wallet chose the payment hash of another payment")
	}
	if _, err := tx.Exec("INSERT INTO chosen_hashes(request_id, payment_hash) VALUES (?, ?)", j.id, chosen[:]); err != nil {
		return fmt.Errorf("record payment hash: %w", err)
	}
	return tx.Correlate(j.id, journal.NamePaymentHash, chosen.String())
}

const paymentHashKnown = `SELECT EXISTS (SELECT 1 FROM jobs WHERE payment_hash = ?1) OR EXISTS (SELECT 1 FROM job_engagements WHERE payment_hash = ?1)
	OR EXISTS (SELECT 1 FROM chosen_hashes WHERE payment_hash = ?1)`

// SetAcceptance records the buyer's acceptance event; the first stays. A job
// that has ended takes none: its receipt already says whether there was one.
func (s *ProviderStore) SetAcceptance(ctx context.Context, requestID string, event []byte) error {
	return s.update(ctx, func(tx *Tx) error {
		if _, err := tx.jobIn(requestID, openStates()...); err != nil {
			return err
		}
		_, err := tx.Exec("INSERT INTO job_acceptances(request_id, event, at_ms) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
			requestID, event, tx.now.UnixMilli())
		if err != nil {
			return fmt.Errorf("record acceptance: %w", err)
		}
		return nil
	})
}

// SetPaid moves quoted to paid: payment, directive and thread at once.
func (s *ProviderStore) SetPaid(ctx context.Context, requestID string, p job.Payment, d job.Directive, thread string) error {
	return s.update(ctx, func(tx *Tx) error {
		j, err := tx.jobIn(requestID, job.StatePaid.Before()...)
		if err != nil {
			return err
		}
		if !j.paysFirst() {
			return j.conflict("is not paid first")
		}
		if err := tx.addJobPayment(j, p); err != nil {
			return err
		}
		if err := s.order(tx, j, d, thread); err != nil {
			return err
		}
		return tx.appendJobState(j.seq, job.StatePaid, job.Reason{})
	})
}

func (tx *Tx) addJobPayment(j jobRow, p job.Payment) error {
	if p.Hash != j.hash {
		return j.conflict("the payment is for another invoice")
	}
	var preimage []byte
	if !p.Preimage.IsZero() {
		preimage = p.Preimage[:]
	}
	_, err := tx.Exec(`INSERT INTO job_payments(request_id, payment_hash, state, paid_msats, settle_by_ms, recorded_ms, outpoints, preimage)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, j.id, p.Hash[:], string(p.State), p.PaidMsats, row.Ms(p.SettleBy), tx.now.UnixMilli(), p.Outpoints, preimage)
	if err != nil {
		return fmt.Errorf("record payment: %w", err)
	}
	return nil
}

// order records the go-ahead: the directive, consumed once, and the thread.
func (s *ProviderStore) order(tx *Tx, j jobRow, d job.Directive, thread string) error {
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
func (s *ProviderStore) Start(ctx context.Context, requestID string, d *job.Directive, thread string, plan job.Plan, out ...job.OutEvent) (run int, err error) {
	err = s.update(ctx, func(tx *Tx) error {
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
			requestID, run, tx.now.UnixMilli(), plan.Deadline.UnixMilli(), plan.Hash[:])
		if err != nil {
			return fmt.Errorf("record run: %w", err)
		}
		if err := tx.appendJobState(j.seq, job.StateRunning, job.Reason{}); err != nil {
			return err
		}
		return tx.enqueueAll(out)
	})
	if err != nil {
		return 0, err
	}
	return run, nil
}

// goAhead checks that the job was ordered, or orders it: unpaid jobs start by
// policy, on a directive that comes with the start.
func (s *ProviderStore) goAhead(tx *Tx, j jobRow, d *job.Directive, thread string) error {
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
