package sales

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/internal/store/pruning"
	"github.com/lightwork-market/lightwork/internal/store/row"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// AddJob commits the quote intent.
func (s *Store) AddJob(ctx context.Context, j job.Job) error {
	return s.update(ctx, func(tx *transaction) error { return tx.addJob(j) })
}

func (tx *transaction) addJob(j job.Job) error {
	relays, err := json.Marshal(j.Relays)
	if err != nil {
		return fmt.Errorf("encode relays: %w", err)
	}
	seq, err := tx.addRequest(j.RequestID, j.Buyer)
	if err != nil {
		return err
	}
	_, err = tx.Exec(`INSERT INTO jobs(request_id, kind, schema_id, job_hash, request, input, relays, mode, policy_id, added_ms)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		j.RequestID, j.Kind, j.SchemaID, j.JobHash[:], j.Request, j.Input, string(relays), string(j.Mode), j.PolicyID[:], j.AddedAt.UnixMilli())
	if err != nil {
		return fmt.Errorf("add job: %w", err)
	}

	for _, c := range j.Charges() {
		if err := tx.addCharge(j.RequestID, c); err != nil {
			return err
		}
	}

	if err := tx.UseCredit(j); err != nil {
		return err
	}
	if err := tx.NameRefund(j); err != nil {
		return err
	}

	return tx.appendJobState(seq, job.StateQuoted, job.Reason{})
}

// Refuse remembers a request that was not admitted.
func (s *Store) Refuse(ctx context.Context, requestID, buyer string, reason job.Reason, out ...job.OutEvent) error {
	return s.update(ctx, func(tx *transaction) error {
		seq, err := tx.addRequest(requestID, buyer)
		if err != nil {
			return err
		}
		if len(reason.Detail) > refusalBytes {
			reason.Detail = strings.ToValidUTF8(reason.Detail[:refusalBytes], "")
		}
		if err := tx.appendJobState(seq, job.StateRefused, reason); err != nil {
			return err
		}
		if err := tx.forgetRefused(seq - job.RefusedMost); err != nil {
			return err
		}

		return tx.EnqueueAll(out)
	})
}

// refusalBytes bounds what is kept of a refusal's words, which may repeat a
// stranger's.
const refusalBytes = 1000

// refusedAtOnce is how many old refusals go with each new one: more than one, so
// that their number falls where it once was high.
const refusedAtOnce = 4

// forgetRefused deletes refusals that nothing depends on any more, and those of
// requests up to the number last. A refusal's number grows with its time.
func (tx *transaction) forgetRefused(last int64) error {
	number := func(rows *sql.Rows, seq *int64) error { return rows.Scan(seq) }
	old, err := row.Column(tx.Tx, number, `SELECT job FROM (SELECT job, at_ms FROM job_history WHERE state = 'refused' ORDER BY at_ms LIMIT ?2)
		WHERE at_ms < ?1 OR job <= ?3`,
		tx.Now().Add(-job.RefusedFor).UnixMilli(), refusedAtOnce, last)
	if err != nil {
		return fmt.Errorf("look for old refusals: %w", err)
	}

	for _, seq := range old {
		for _, query := range []string{"DELETE FROM job_history WHERE job = ?", "DELETE FROM requests WHERE seq = ?"} {
			if _, err := tx.Exec(query, seq); err != nil {
				return fmt.Errorf("forget refusal: %w", err)
			}
		}
	}

	return nil
}

// addRequest returns the request's number.
func (tx *transaction) addRequest(id, buyer string) (seq int64, err error) {
	res, err := tx.Exec("INSERT INTO requests(request_id, buyer, at_ms) VALUES (?, ?, ?)", id, buyer, tx.Now().UnixMilli())
	if sqlite.IsUnique(err) {
		return 0, fmt.Errorf("request %s: %w", id, job.ErrDuplicate)
	}
	if err == nil {
		seq, err = res.LastInsertId()
	}
	if err != nil {
		return 0, fmt.Errorf("add request: %w", err)
	}
	return seq, nil
}

func (tx *transaction) appendJobState(seq int64, to job.State, reason job.Reason) error {
	_, err := tx.Exec(`INSERT INTO job_history(job, n, state, code, detail, at_ms)
		VALUES (?1, (SELECT coalesce(max(n), 0) + 1 FROM job_history WHERE job = ?1), ?, ?, ?, ?)`,
		seq, string(to), string(reason.Code), reason.Detail, tx.Now().UnixMilli())
	if err != nil {
		return fmt.Errorf("record job state %s: %w", to, err)
	}
	return nil
}

// Job returns a job as it stands. Of a refused request only the id, the buyer,
// the state and the reason are known.
func (s *Store) Job(ctx context.Context, requestID string) (j job.Job, err error) {
	err = s.view(ctx, func(tx *transaction) error {
		j, err = tx.job(requestID)
		return err
	})
	return j, err
}

const jobOfPayment = "SELECT request_id FROM charges WHERE payment_hash = ?1 UNION ALL SELECT request_id FROM chosen_hashes WHERE payment_hash = ?1"

// JobByPaymentHash finds the job an invoice belongs to.
func (s *Store) JobByPaymentHash(ctx context.Context, hash payments.Hash) (j job.Job, err error) {
	err = s.view(ctx, func(tx *transaction) error {
		var id string
		if err := tx.QueryRow(jobOfPayment, hash[:]).Scan(&id); err != nil {
			return row.NotFound(err, "job of payment "+hash.String())
		}
		j, err = tx.job(id)
		return err
	})
	return j, err
}

// Jobs lists admitted jobs, newest first; at most limit if limit > 0.
func (s *Store) Jobs(ctx context.Context, limit int) (list []job.Job, err error) {
	if limit <= 0 {
		limit = -1
	}
	err = s.view(ctx, func(tx *transaction) error {
		ids, err := tx.Strings(`SELECT j.request_id FROM requests r JOIN jobs j ON j.request_id = r.request_id
			ORDER BY r.seq DESC LIMIT ?`, limit)
		if err != nil {
			return fmt.Errorf("list jobs: %w", err)
		}

		for _, id := range ids {
			j, err := tx.job(id)
			if err != nil {
				return err
			}
			list = append(list, j)
		}
		return nil
	})
	return list, err
}

// HasPaid reports whether a job of this key was ever paid for.
func (s *Store) HasPaid(ctx context.Context, buyer string) (paid bool, err error) {
	err = s.view(ctx, func(tx *transaction) error {
		return tx.QueryRow("SELECT EXISTS (SELECT 1 FROM requests q JOIN receipts r USING (request_id) WHERE q.buyer = ?1)", buyer).Scan(&paid)
	})
	return paid, err
}

// OpenJobs lists the ids of all jobs that have not ended, oldest first.
func (s *Store) OpenJobs(ctx context.Context) (ids []string, err error) {
	err = s.view(ctx, func(tx *transaction) error {
		ids, err = tx.Strings(openJobIDs)
		return err
	})
	return ids, err
}

func (tx *transaction) job(id string) (job.Job, error) {
	j := job.Job{RequestID: id}
	var at, requested int64
	err := tx.QueryRow(`SELECT c.buyer, c.state, c.code, c.detail, c.at_ms, r.at_ms
		FROM job_current c JOIN requests r ON r.request_id = c.request_id WHERE c.request_id = ?`, id).
		Scan(&j.Buyer, &j.State, &j.Reason.Code, &j.Reason.Detail, &at, &requested)
	if err != nil {
		return j, row.NotFound(err, "job "+id)
	}
	j.StateAt, j.AddedAt = row.FromMs(at), row.FromMs(requested)
	if j.State == job.StateRefused {
		return j, nil
	}
	if err := tx.jobFacts(&j); err != nil {
		return j, fmt.Errorf("read job %s: %w", id, err)
	}

	c, err := tx.charge(id, receipts.PurposeResult)
	if err != nil {
		return j, fmt.Errorf("read charge of job %s: %w", id, err)
	}
	j.Charge = *c
	if j.Mode != receipts.ModeFree {
		if j.Engagement, err = tx.fee(id); err != nil {
			return j, fmt.Errorf("read engagement fee of job %s: %w", id, err)
		}
	}

	pruned, err := pruning.PrunedOf(tx.Tx, id)
	if err != nil {
		return j, err
	}
	for _, p := range pruned {
		j.Pruned = append(j.Pruned, job.PrunedPart(p))
	}

	if hasResult(j.State) {
		if j.Result, err = tx.jobResult(id); err != nil {
			return j, fmt.Errorf("read result of job %s: %w", id, err)
		}
	}

	return j, nil
}

// hasResult reports whether a job in this state can have one.
func hasResult(s job.State) bool {
	return s != job.StateQuoted && s != job.StatePaid && s != job.StateRunning
}

// jobFacts reads what is kept once a job.
func (tx *transaction) jobFacts(j *job.Job) error {
	var (
		relays            string
		added             int64
		deadline          sql.NullInt64
		directive, thread sql.NullString
	)
	err := tx.QueryRow(`
		SELECT j.kind, j.schema_id, j.job_hash, j.request, j.input, j.relays, j.mode,
			j.policy_id, j.added_ms, o.directive_id, o.thread_id, coalesce(u.msats, 0),
			coalesce((SELECT max(run) FROM job_runs x WHERE x.request_id = j.request_id), 0),
			(SELECT min(deadline_ms) FROM job_runs x WHERE x.request_id = j.request_id),
			(SELECT plan_hash FROM job_runs x WHERE x.request_id = j.request_id ORDER BY run DESC LIMIT 1)
		FROM jobs j
			LEFT JOIN job_orders o ON o.request_id = j.request_id
			LEFT JOIN job_credits u ON u.request_id = j.request_id
		WHERE j.request_id = ?`, j.RequestID).
		Scan(&j.Kind, &j.SchemaID, row.Into(&j.JobHash), &j.Request, &j.Input, &relays, &j.Mode,
			row.Into(&j.PolicyID), &added, &directive, &thread, &j.CreditMsats, &j.Run, &deadline, row.Into(&j.PlanHash))
	if err != nil {
		return err
	}
	j.AddedAt, j.Deadline = row.FromMs(added), row.FromNullMs(deadline)
	j.DirectiveID, j.Thread = directive.String, thread.String
	return json.Unmarshal([]byte(relays), &j.Relays)
}

func (tx *transaction) jobResult(id string) (*job.Result, error) {
	var (
		r                 job.Result
		agreement         hashing.Digest
		artifacts         string
		started, finished int64
	)
	err := tx.QueryRow(`SELECT r.session_id, r.output, r.agreement_hash, r.plan_hash, r.trajectory, r.redacted, r.replay,
			coalesce(e.event_id, r.event_id), coalesce(e.event, r.event), r.artifacts, r.started_ms, r.finished_ms
		FROM job_results r LEFT JOIN job_result_events e ON e.request_id = r.request_id
		WHERE r.request_id = ? ORDER BY e.n DESC LIMIT 1`, id).
		Scan(&r.SessionID, row.Into(&r.OutputHash), row.Into(&agreement), row.Into(&r.PlanHash), row.Into(&r.Trajectory), row.Into(&r.Redacted),
			row.Into(&r.Replay), &r.EventID, &r.Event, &artifacts, &started, &finished)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	if !agreement.IsZero() {
		r.AgreementHash = &agreement
	}
	r.StartedAt, r.FinishedAt = row.FromMs(started), row.FromMs(finished)
	if r.Output, err = tx.output(id, r.OutputHash); err != nil {
		return nil, err
	}
	return &r, json.Unmarshal([]byte(artifacts), &r.Artifacts)
}

// output is the content of a job's result; nil once it is pruned.
func (tx *transaction) output(id string, d hashing.Digest) ([]byte, error) {
	data, err := tx.Content(d)
	if !errors.Is(err, row.ErrNotFound) {
		return data, err
	}
	pruned, listErr := pruning.PrunedOf(tx.Tx, id)
	if listErr != nil {
		return nil, listErr
	}
	if slices.ContainsFunc(pruned, func(p pruning.Pruned) bool { return p.Part == receipts.PartResults }) {
		return nil, nil
	}
	return nil, err
}
