// Package pruning keeps what is promised of each sold job, and what was pruned of it.
package pruning

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/internal/store/outbox"
	"github.com/lightwork-market/lightwork/internal/store/row"
	"github.com/lightwork-market/lightwork/receipts"
)

//go:embed schema.sql
var tables string

// Schema makes the tables of the area.
func Schema() string { return tables + row.AppendOnly("job_pruned", "job_disputes") }

// Store is the database as the stage uses it that prunes. Each method is one short
// transaction, so that no other writer waits for more than that.
type Store struct{ db *row.DB }

// New is the store in a database.
func New(db *row.DB) Store { return Store{db} }

// Limits bound one transaction.
const (
	markRows    = 8 // of each part
	sweepRows   = 32
	sweepBytes  = 1 << 20
	sweepPieces = 4
	// lookAgain is how long a job that is not over is left alone.
	lookAgain = time.Hour
)

// due is a part of a job whose promise is over.
type due struct {
	job            int64
	until, endedMs int64
	guarded        bool
}

// candidates are the parts whose promise is over at now, the oldest first.
const candidates = `SELECT k.job, k.until_ms, k.ended_ms,
		EXISTS (SELECT 1 FROM guarded_jobs g WHERE g.request_id = (SELECT r.request_id FROM requests r WHERE r.seq = k.job))
	FROM job_keeps k WHERE k.part = ? AND k.until_ms <= ? ORDER BY k.until_ms LIMIT ?`

func scanDue(rows *sql.Rows, d *due) error {
	return rows.Scan(&d.job, &d.until, &d.endedMs, &d.guarded)
}

// later is when to look at a part again that stays although its promise is over; 0 if it
// goes now. What is configured now may be longer than what was promised.
func (d due) later(now time.Time, window, keep receipts.Keep) int64 {
	if least := d.endedMs + int64(max(window, keep)); least > now.UnixMilli() {
		return least
	}
	if d.guarded {
		return now.Add(lookAgain).UnixMilli()
	}
	return 0
}

// Mark notes of some parts that they are pruned, before any of their contents goes. It
// returns how many, and whether there may be more. It returns a *[ClockError] for a clock
// that is not to be believed.
func (s Store) Mark(ctx context.Context, keep receipts.Retention) (marked int, more bool, err error) {
	err = s.db.Update(ctx, func(tx *row.Tx) error {
		marked, more = 0, false
		if err := checkClock(tx); err != nil {
			return err
		}
		if err := setClock(tx); err != nil {
			return err
		}

		for _, part := range receipts.Parts() {
			of := keep.Of(part)
			if of == 0 {
				continue // for ever
			}
			list, err := row.Column(tx, scanDue, candidates, part, tx.Now().UnixMilli(), markRows)
			if err != nil {
				return fmt.Errorf("look for what may be pruned: %w", err)
			}

			more = more || len(list) == markRows
			for _, d := range list {
				n, err := settle(tx, part, d, receipts.Keep(keep.DisputeMs), of)
				if err != nil {
					return err
				}
				marked += n
			}
		}
		return nil
	})
	return marked, more, err
}

// TrustClock is the operator's word that the clock is right, however far it has moved.
func (s Store) TrustClock(ctx context.Context) error { return s.db.Update(ctx, setClock) }

// settle marks one part as pruned, or puts it off.
func settle(tx *row.Tx, part string, d due, window, keep receipts.Keep) (int, error) {
	if at := d.later(tx.Now(), window, keep); at > 0 {
		_, err := tx.Exec("UPDATE job_keeps SET until_ms = ? WHERE part = ? AND until_ms = ? AND job = ?", at, part, d.until, d.job)
		if err != nil {
			return 0, fmt.Errorf("put off what stays: %w", err)
		}
		return 0, nil
	}

	_, err := tx.Exec("INSERT INTO job_pruned(job, part, at_ms) VALUES (?, ?, ?)", d.job, part, tx.Now().UnixMilli())
	if err != nil {
		return 0, fmt.Errorf("mark %s of job %d as pruned: %w", part, d.job, err)
	}
	return 1, nil
}

// Sweep deletes some of what is marked, blobs apart. It returns the bytes of contents,
// and whether there is more.
func (s Store) Sweep(ctx context.Context) (bytes int64, more bool, err error) {
	err = s.db.Update(ctx, func(tx *row.Tx) error {
		bytes, more = 0, false
		var part string
		var job int64
		err := tx.QueryRow("SELECT part, job FROM pruned_open WHERE part <> ? LIMIT 1", receipts.PartBlobs).Scan(&part, &job)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("look for what is marked: %w", err)
		}

		more = true
		rows, n := 0, 0
		switch part {
		case receipts.PartJournals:
			n, err = journal.Journal{Tx: tx}.PruneJob(job, sweepRows)
		case receipts.PartEvents:
			n, err = outbox.Outbox{Tx: tx}.PruneJob(job, sweepRows)
		default:
			n, bytes, err = dropContents(tx, part, job)
		}
		if rows += n; err != nil || rows > 0 {
			return err
		}
		return closePart(tx, part, job)
	})
	return bytes, more, err
}

// dropContents deletes contents of a part, up to a bound of rows and bytes, and returns
// how many rows went.
func dropContents(tx *row.Tx, part string, job int64) (n int, bytes int64, err error) {
	type content struct {
		digest      hashing.Digest
		size, freed int64 // in all, and with its row
	}
	list, err := row.Column(tx, func(rows *sql.Rows, c *content) error {
		return rows.Scan(row.Into(&c.digest), &c.size, &c.freed)
	}, `SELECT j.digest, coalesce(c.size, 0), coalesce(length(c.bytes), 0)
			FROM job_contents j LEFT JOIN contents c ON c.digest = j.digest WHERE j.job = ? AND j.part = ? LIMIT ?`, job, part, sweepRows)
	if err != nil {
		return 0, 0, fmt.Errorf("read contents of job %d: %w", job, err)
	}

	freed := int64(0)
	for _, c := range list {
		if freed += c.freed; n > 0 && freed > sweepBytes {
			break
		}
		_, err := tx.Exec("DELETE FROM job_contents WHERE job = ? AND part = ? AND digest = ?", job, part, c.digest[:])
		if err == nil {
			err = journal.Journal{Tx: tx}.DropContent(c.digest)
		}
		if err != nil {
			return 0, 0, fmt.Errorf("drop a content of job %d: %w", job, err)
		}
		n, bytes = n+1, bytes+c.size
	}
	return n, bytes, nil
}

func closePart(tx *row.Tx, part string, job int64) error {
	if _, err := tx.Exec("DELETE FROM pruned_open WHERE part = ? AND job = ?", part, job); err != nil {
		return fmt.Errorf("end the pruning of job %d: %w", job, err)
	}
	return nil
}

// Blobs are those of one job that blob servers no longer need to have: no other job's
// are the same.
type Blobs struct {
	Job     int64
	Digests []hashing.Digest
}

// NextBlobs returns the marked blobs of the next job after the one of that number; nil
// if there is none.
func (s Store) NextBlobs(ctx context.Context, after int64) (next *Blobs, err error) {
	err = s.db.View(ctx, func(tx *row.Tx) error {
		b := Blobs{}
		err := tx.QueryRow("SELECT job FROM pruned_open WHERE part = ? AND job > ? ORDER BY job LIMIT 1", receipts.PartBlobs, after).Scan(&b.Job)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("look for blobs that are marked: %w", err)
		}

		b.Digests, err = row.Column(tx, func(rows *sql.Rows, d *hashing.Digest) error { return rows.Scan(row.Into(d)) },
			`SELECT digest FROM job_contents j WHERE job = ?1 AND part = ?2
				AND NOT EXISTS (SELECT 1 FROM job_contents o WHERE o.digest = j.digest AND o.part = ?2 AND o.job <> ?1)`, b.Job, receipts.PartBlobs)
		next = &b
		return err
	})
	return next, err
}

// SweepBlobs deletes what is here of a job's blobs, once no blob server has them any
// more. more reports that there is a rest.
func (s Store) SweepBlobs(ctx context.Context, job int64) (bytes int64, more bool, err error) {
	err = s.db.Update(ctx, func(tx *row.Tx) (err error) {
		var n int
		n, bytes, err = dropContents(tx, receipts.PartBlobs, job)
		if more = n > 0; err != nil || more {
			return err
		}
		return closePart(tx, receipts.PartBlobs, job)
	})
	return bytes, more, err
}

// SweepPieces deletes some of what large contents left that were deleted. more reports
// that there is a rest.
func (s Store) SweepPieces(ctx context.Context) (more bool, err error) {
	err = s.db.Update(ctx, func(tx *row.Tx) error {
		n, err := journal.Journal{Tx: tx}.DropPieces(sweepPieces)
		more = n > 0
		return err
	})
	return more, err
}

// Reclaim gives free pages of the file back, some at a time, and returns how many it
// gave back. It leaves a spare for what comes, which would make the file grow again.
func (s Store) Reclaim(ctx context.Context) (pages int, err error) {
	err = s.db.Update(ctx, func(tx *row.Tx) error {
		pages = 0
		var free, all int
		if err := tx.QueryRow("SELECT freelist_count, page_count FROM pragma_freelist_count, pragma_page_count").Scan(&free, &all); err != nil {
			return fmt.Errorf("count free pages: %w", err)
		}
		most := min(free-min(all/spareShare, sparePages), reclaimPages)
		if most <= 0 {
			return nil
		}

		began := time.Now()
		rows, err := tx.Query(fmt.Sprintf("PRAGMA incremental_vacuum(%d)", most))
		if err != nil {
			return fmt.Errorf("give free pages back: %w", err)
		}
		defer rows.Close()

		for rows.Next() { // a page for each row
			if pages++; time.Since(began) > reclaimTime {
				return nil
			}
		}
		return rows.Err()
	})
	return pages, err
}

// Bounds of [Store.Reclaim].
const (
	// reclaimPages is how many pages one transaction gives back, reclaimTime how long it
	// goes on: to find a page among very many free ones takes a while.
	reclaimPages = 64
	reclaimTime  = 5 * time.Millisecond
	// spareShare is the part of the file that may stay free, sparePages at most: 128 MiB.
	spareShare = 16
	sparePages = 32 << 10
)

// SetDispute notes that a job is disputed, or no longer. Of a disputed job nothing goes.
func (s Store) SetDispute(ctx context.Context, requestID string, open bool) error {
	return s.db.Update(ctx, func(tx *row.Tx) error {
		res, err := tx.Exec(`INSERT INTO job_disputes(job, n, open, at_ms)
			SELECT r.seq, (SELECT coalesce(max(n), 0) + 1 FROM job_disputes d WHERE d.job = r.seq), ?2, ?3
			FROM requests r JOIN jobs USING (request_id) WHERE r.request_id = ?1`, requestID, open, tx.Now().UnixMilli())
		if err != nil {
			return fmt.Errorf("note a dispute: %w", err)
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, fmt.Errorf("job %s: %w", requestID, row.ErrNotFound))
		}
		return nil
	})
}

// Pruned is a part of a job that its provider has pruned.
type Pruned struct {
	Part string
	At   time.Time
}

// PrunedOf lists what was pruned of a job, by its request.
func PrunedOf(tx *row.Tx, requestID string) ([]Pruned, error) {
	list, err := row.Column(tx, func(rows *sql.Rows, p *Pruned) error {
		var at int64
		err := rows.Scan(&p.Part, &at)
		p.At = row.FromMs(at)
		return err
	}, "SELECT p.part, p.at_ms FROM job_pruned p JOIN requests r ON r.seq = p.job WHERE r.request_id = ? ORDER BY p.part", requestID)
	if err != nil {
		return nil, fmt.Errorf("read what was pruned of job %s: %w", requestID, err)
	}
	return list, nil
}
