package sales

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/internal/store/row"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/receipts"
)

// Finish moves running to delivering with the result of the current run.
func (s *Store) Finish(ctx context.Context, requestID string, run int, r job.Result, contents [][]byte, out ...job.OutEvent) error {
	return s.update(ctx, func(tx *transaction) error {
		j, err := tx.jobIn(requestID, job.StateDelivering.Before()...)
		if err != nil {
			return err
		}
		if run != j.run {
			return j.conflict(fmt.Sprintf("run %d was overtaken by run %d", run, j.run))
		}

		var planned hashing.Digest
		err = tx.QueryRow("SELECT plan_hash FROM job_runs WHERE request_id = ? AND run = ?", requestID, run).Scan(row.Into(&planned))
		if err != nil {
			return fmt.Errorf("read the run's plan: %w", err)
		}
		if planned != r.PlanHash {
			return j.conflict("the result is of another plan than the run")
		}
		if err := tx.storeParts(j.seq, r, append([][]byte{r.Output}, contents...)); err != nil {
			return err
		}
		if err := tx.checkResult(r); err != nil {
			return err
		}
		if err := tx.addResult(j, r); err != nil {
			return err
		}
		if err := tx.appendJobState(j.seq, job.StateDelivering, job.Reason{}); err != nil {
			return err
		}

		return tx.EnqueueAll(out)
	})
}

// storeParts stores what a result brought, each content for the parts of the job that it
// is: until the last of them is pruned it stays.
func (tx *transaction) storeParts(job int64, r job.Result, contents [][]byte) error {
	for _, content := range contents {
		d, err := tx.AddContent(content)
		if err != nil {
			return err
		}

		parts := []string{receipts.PartBlobs}
		if d == r.OutputHash {
			parts = append(parts, receipts.PartResults)
		}
		if d == r.Replay {
			parts = append(parts, receipts.PartTrajectories)
		}
		if slices.Contains(r.Artifacts, d) {
			parts = append(parts, receipts.PartArtifacts)
		}
		for _, part := range parts {
			if _, err := tx.Exec("INSERT INTO job_contents(job, part, digest) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", job, part, d[:]); err != nil {
				return fmt.Errorf("record content %s: %w", d, err)
			}
		}
	}
	return nil
}

// checkResult makes sure that every byte the result refers to is stored.
func (tx *transaction) checkResult(r job.Result) error {
	if hashing.Bytes(r.Output) != r.OutputHash {
		return fmt.Errorf("output hash is not the output's: %w", row.ErrInvalid)
	}

	for _, d := range append([]hashing.Digest{r.Replay}, r.Artifacts...) {
		ok, err := tx.HasContent(d)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("result refers to %s, which is not stored: %w", d, row.ErrInvalid)
		}
	}
	return nil
}

func (tx *transaction) addResult(j jobRow, r job.Result) error {
	artifacts, err := json.Marshal(r.Artifacts)
	if err != nil {
		return fmt.Errorf("encode artifacts: %w", err)
	}
	_, err = tx.Exec(`INSERT INTO job_results(request_id, run, session_id, output, agreement_hash, plan_hash, trajectory,
			redacted, replay, event_id, event, artifacts, started_ms, finished_ms)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		j.id, j.run, r.SessionID, r.OutputHash[:], row.BlobPtr(r.AgreementHash), r.PlanHash[:], r.Trajectory[:],
		r.Redacted[:], r.Replay[:], r.EventID, r.Event, string(artifacts), r.StartedAt.UnixMilli(), r.FinishedAt.UnixMilli())
	if err != nil {
		return fmt.Errorf("record result: %w", err)
	}
	return nil
}

// SetResultEvent replaces the event of a result that no relay took by a shorter one.
func (s *Store) SetResultEvent(ctx context.Context, requestID, was, eventID string, out job.OutEvent) error {
	return s.update(ctx, func(tx *transaction) error {
		j, err := tx.jobIn(requestID, job.StateDelivering)
		if err != nil {
			return err
		}
		r, err := tx.jobResult(requestID)
		if err != nil {
			return fmt.Errorf("read result: %w", err)
		}
		if r == nil || r.EventID != was {
			return j.conflict("its result has another event")
		}

		_, err = tx.Exec(`INSERT INTO job_result_events(request_id, n, event_id, event, at_ms)
			VALUES (?1, (SELECT coalesce(max(n), 0) + 1 FROM job_result_events WHERE request_id = ?1), ?2, ?3, ?4)`,
			requestID, eventID, out.Event, tx.Now().UnixMilli())
		if err != nil {
			return fmt.Errorf("record the result's event: %w", err)
		}
		if err := tx.Withdraw(was); err != nil {
			return err
		}

		return tx.EnqueueAll([]job.OutEvent{out})
	})
}

// AdoptReceipt makes the chain of receipts go on behind one that our key
// signed and this database does not know. One that is not ahead is fine.
func (s *Store) AdoptReceipt(ctx context.Context, sequence int64, hash hashing.Digest) (adopted bool, err error) {
	err = s.update(ctx, func(tx *transaction) error {
		var tip int64
		err := tx.QueryRow("SELECT sequence FROM receipt_tip").Scan(&tip)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("read last receipt: %w", err)
		}
		if sequence <= tip {
			return nil
		}

		adopted = true
		_, err = tx.Exec("INSERT INTO receipt_heads(sequence, receipt_hash, adopted_ms) VALUES (?, ?, ?)", sequence, hash[:], tx.Now().UnixMilli())
		if err != nil {
			return fmt.Errorf("adopt receipt %d: %w", sequence, err)
		}
		return tx.Audit("receipt_chain_adopted", hash.String(), map[string]int64{"sequence": sequence, "ours": tip})
	})
	return adopted && err == nil, err
}

const tip = "SELECT sequence, receipt_hash FROM receipt_tip"

// nextReceipt has the receipt made that continues the chain.
func (tx *transaction) nextReceipt(issue func(job.Issue) (job.Issued, error)) (job.Issue, job.Issued, error) {
	in := job.Issue{Sequence: 1, At: tx.Now()}
	var last int64
	var previous hashing.Digest
	err := tx.QueryRow(tip).Scan(&last, row.Into(&previous))
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return in, job.Issued{}, fmt.Errorf("read last receipt: %w", err)
	}
	if err == nil {
		in.Sequence, in.Previous = last+1, &previous
	}
	issued, err := issue(in)
	if err != nil {
		return in, issued, fmt.Errorf("issue receipt: %w", err)
	}
	return in, issued, nil
}

func (tx *transaction) issueReceipt(j jobRow, purpose receipts.Purpose, issue func(job.Issue) (job.Issued, error)) error {
	in, issued, err := tx.nextReceipt(issue)
	if err != nil {
		return err
	}
	hash := hashing.Bytes(issued.Receipt)
	_, err = tx.Exec(`INSERT INTO receipts(sequence, request_id, purpose, receipt_id, receipt, receipt_hash, previous_hash, issued_ms)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		in.Sequence, j.id, string(purpose), issued.ReceiptID, issued.Receipt, hash[:], row.BlobPtr(in.Previous), tx.Now().UnixMilli())
	if err != nil {
		return fmt.Errorf("record receipt: %w", err)
	}
	if err := tx.AddCredit(j.id, issued.Excess); err != nil {
		return err
	}

	return tx.EnqueueAll(issued.Out)
}

// endJobThread ends the job's thread, if it has one; a completed one returns
// the job's output.
func (tx *transaction) endJobThread(j jobRow, to journal.ThreadState) error {
	if j.thread == "" {
		return nil
	}
	var result *hashing.Digest
	if to == journal.ThreadCompleted {
		result = new(hashing.Digest)
		err := tx.QueryRow("SELECT output FROM job_results WHERE request_id = ?", j.id).Scan(row.Into(result))
		if err != nil {
			return fmt.Errorf("read result: %w", err)
		}
	}
	return tx.EndThread(j.thread, to, result)
}

// Close moves an open job to a terminal state without a receipt.
func (s *Store) Close(ctx context.Context, requestID string, to job.State, reason job.Reason, credit *job.Credit, out ...job.OutEvent) error {
	return s.update(ctx, func(tx *transaction) error {
		j, err := tx.jobIn(requestID, openStates()...)
		if err != nil {
			return err
		}

		end := journal.ThreadFailed
		switch to {
		case job.StateFailed, job.StateCanceled, job.StateExpired:
		case job.StateSucceeded:
			if j.mode != receipts.ModeFree || !j.state.Leads(to) {
				return j.conflict("cannot succeed without a receipt")
			}
			end = journal.ThreadCompleted
		default:
			return j.conflict("cannot be closed as " + string(to))
		}

		if err := tx.AddCredit(j.id, credit); err != nil {
			return err
		}
		if to != job.StateSucceeded { // what nobody has paid for and no relay has stays here
			if r, err := tx.jobResult(requestID); err != nil {
				return fmt.Errorf("read result: %w", err)
			} else if r != nil {
				if err := tx.Withdraw(r.EventID); err != nil {
					return err
				}
			}
		}

		if err := tx.endJobThread(j, end); err != nil {
			return err
		}
		if err := tx.appendJobState(j.seq, to, reason); err != nil {
			return err
		}
		if err := tx.AddRefund(credit); err != nil {
			return err
		}

		return tx.EnqueueAll(out)
	})
}
