// Package journal keeps what passed through the pipeline and what it worked for:
// threads, journal entries, contents, directives, the audit trail and the names of
// jobs. Tables are append-only; the status of a thing is its newest row.
package journal

import (
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/store/row"
)

//go:embed schema.sql
var tables string

// Schema makes the tables of the area.
func Schema() string {
	return tables + row.AppendOnly("threads", "thread_states", "audit", "directives", "correlation")
}

// Journal is a transaction as far as it is about what passed through the pipeline.
type Journal struct{ *row.Tx }

// Direction is which way a message went past its handler.
type Direction string

// The directions of AP-7.2.2. A tool call is Outbound, its result Inbound.
const (
	Inbound  Direction = "Inbound"
	Outbound Direction = "Outbound"
)

// Entry is one message that passed through the pipeline (AP-7.2).
type Entry struct {
	Seq         int64     // set by AppendJournal; rises, never reused
	At          time.Time // set by AppendJournal
	Thread      string
	Direction   Direction
	Handler     string
	PayloadTag  string
	PayloadHash hashing.Digest
	Retention   Retention
	RequestID   string // the job it belongs to, or ""; AppendJournal finds the one of the thread itself
	CallID      string // pairs a call with its result, or ""
}

// AppendJournal records a message by the hash of its payload.
func (tx Journal) AppendJournal(e Entry) (Entry, error) {
	return tx.appendJournal(e, false)
}

// appendJournal records a message; keeps is true of an entry that came with its
// payload, which stays as long.
func (tx Journal) appendJournal(e Entry, keeps bool) (Entry, error) {
	r, err := ParseRetention(string(e.Retention))
	if err != nil {
		return e, err
	}
	if e.PayloadHash.IsZero() {
		return e, fmt.Errorf("journal entry without payload hash: %w", row.ErrInvalid)
	}

	var expires sql.NullInt64
	if n := r.Days(); n > 0 {
		expires = row.Ms(tx.Now().Add(time.Duration(n) * 24 * time.Hour))
	}
	root, below, err := jobThreads(e.Thread)
	if err != nil {
		return e, err
	}
	e.At = tx.Now()

	// One statement: a message passes no sooner than this is done.
	res, err := tx.Exec(`INSERT INTO journal(seq, at_ms, thread_id, direction, handler, payload_tag, payload_hash, retention,
			expires_ms, keeps, call_id, request_id)
		VALUES (1 + max(coalesce((SELECT max(seq) FROM journal), 0), (SELECT seq FROM journal_deleted)),
			?, ?, ?, ?, ?, ?, ?, ?, ?, ?, coalesce(?,
			(SELECT request_id FROM job_orders WHERE thread_id = ?), (SELECT request_id FROM job_orders WHERE thread_id = ?)))`,
		tx.Now().UnixMilli(), e.Thread, string(e.Direction), e.Handler, e.PayloadTag, e.PayloadHash[:], string(r),
		expires, keeps, row.Text(e.CallID), row.Text(e.RequestID), row.Text(below), root)
	if err == nil {
		e.Seq, err = res.LastInsertId()
	}
	if err == nil && e.Seq%journalBlock == 0 {
		_, err = tx.Exec(`INSERT OR IGNORE INTO journal_threads(thread_id, seq)
			SELECT thread_id, seq FROM journal WHERE seq > ? ORDER BY thread_id, seq`, e.Seq-journalBlock)
	}

	if err != nil {
		return e, fmt.Errorf("append journal entry: %w", err)
	}
	return e, nil
}

// journalBlock is how many entries get into the index of threads at a time. No
// number is left out, so that none of a block's last is; journal_by_thread has it too.
const journalBlock = 1024

// jobThreads are the threads that a job of a thread's may have been made for. A
// job's thread is root.job[ID], so only the first two of a path are looked at,
// however deep it is; below is "" for a root.
func jobThreads(id string) (root, below string, err error) {
	end := labelLen(id)
	if end == 0 {
		return "", "", fmt.Errorf("thread id %.80q: %w", id, row.ErrInvalid)
	}
	if end == len(id) {
		return id, "", nil
	}

	n := labelLen(id[end+1:])
	if n == 0 {
		return "", "", fmt.Errorf("thread id %.80q: %w", id, row.ErrInvalid)
	}
	return id[:end], id[:end+1+n], nil
}

// AppendJournalPayload records a message with its payload, which is stored as a
// content for as long as an entry refers to it.
func (tx Journal) AppendJournalPayload(e Entry, payload []byte) (_ Entry, err error) {
	if e.PayloadHash, err = tx.AddContent(payload); err != nil {
		return e, err
	}
	return tx.appendJournal(e, true)
}

// Filter chooses entries; empty fields choose all.
type Filter struct {
	Thread    string
	Session   string // a thread with all below it
	TagPrefix string // of the payload tag
	RequestID string
	CallID    string
	After     int64 // only entries with a higher Seq
	Limit     int   // 0 means all
	Newest    bool  // with a Limit: the last ones, not the first
}

// onThread are the entries of a thread, inSession those of a thread and of all
// below it: '/' is what comes after the dot. It takes the thread's id three times.
const (
	onThread  = "seq IN (SELECT seq FROM journal_by_thread WHERE thread_id = ?)"
	inSession = "seq IN (SELECT seq FROM journal_by_thread WHERE thread_id = ? OR thread_id > ? || '.' AND thread_id < ? || '/')"
)

// Entries returns the chosen entries in order.
func (tx Journal) Entries(f Filter) ([]Entry, error) {
	query := `SELECT seq, at_ms, thread_id, direction, handler, payload_tag, payload_hash, retention, request_id, call_id
		FROM journal WHERE seq > ?`

	args := []any{f.After}
	for _, c := range []struct{ which, value string }{
		{onThread, f.Thread}, {"request_id = ?", f.RequestID}, {"call_id = ?", f.CallID},
	} {
		if c.value != "" {
			query += " AND " + c.which
			args = append(args, c.value)
		}
	}

	if f.Session != "" {
		query += " AND " + inSession
		args = append(args, f.Session, f.Session, f.Session)
	}

	if f.TagPrefix != "" {
		query += " AND substr(payload_tag, 1, ?) = ?"
		args = append(args, len(f.TagPrefix), f.TagPrefix)
	}

	query += " ORDER BY seq"
	if f.Newest {
		query += " DESC"
	}
	if f.Limit > 0 {
		query += " LIMIT " + strconv.Itoa(f.Limit)
	}
	rows, err := tx.Query(query, args...)
	if err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	defer rows.Close()

	var list []Entry
	for rows.Next() {
		e, err := scanJournal(rows)
		if err != nil {
			return nil, fmt.Errorf("read journal: %w", err)
		}
		list = append(list, e)
	}

	if f.Newest {
		slices.Reverse(list)
	}
	return list, rows.Err()
}

func scanJournal(rows *sql.Rows) (Entry, error) {
	var (
		e             Entry
		ms            int64
		request, call sql.NullString
	)
	err := rows.Scan(&e.Seq, &ms, &e.Thread, &e.Direction, &e.Handler, &e.PayloadTag, row.Into(&e.PayloadHash), &e.Retention, &request, &call)
	e.At, e.RequestID, e.CallID = row.FromMs(ms), request.String, call.String
	return e, err
}

// ConfirmDelivery says that the handler has the message: an entry with
// PruneOnDelivery is deleted, any other stays. ErrNotFound if there is no such
// entry.
func (tx Journal) ConfirmDelivery(seq int64) error {
	var r Retention
	var hash hashing.Digest
	err := tx.QueryRow("SELECT retention, payload_hash FROM journal WHERE seq = ?", seq).Scan(&r, row.Into(&hash))
	if err != nil {
		return row.NotFound(err, "journal entry "+strconv.FormatInt(seq, 10))
	}
	if r != PruneOnDelivery {
		return nil
	}
	return tx.deleteEntry(seq, hash)
}

// expired are the entries whose days are over. Those of a job that has not ended stay: its
// trajectory is not yet fixed (K-40).
const expired = `FROM journal
	WHERE expires_ms <= ? AND NOT EXISTS (SELECT 1 FROM open_jobs o WHERE o.request_id = journal.request_id)
		AND NOT EXISTS (SELECT 1 FROM requests r JOIN job_keeps k ON k.job = r.seq AND k.part = 'journals' WHERE r.request_id = journal.request_id)`

// ExpiredEntries lists the entries whose days are over at now, at most limit of them. It
// may look through many that are kept for their jobs.
func (tx Journal) ExpiredEntries(now time.Time, limit int) ([]int64, error) {
	list, err := row.Column(tx.Tx, func(rows *sql.Rows, seq *int64) error { return rows.Scan(seq) },
		"SELECT seq "+expired+" ORDER BY expires_ms LIMIT ?", now.UnixMilli(), limit)
	if err != nil {
		return nil, fmt.Errorf("look for expired entries: %w", err)
	}
	return list, nil
}

// PruneEntries deletes those of the entries whose days are over at now, with the contents
// that nothing else refers to. It returns how many.
func (tx Journal) PruneEntries(now time.Time, entries []int64) (n int, err error) {
	for _, seq := range entries {
		var payload hashing.Digest
		err := tx.QueryRow("SELECT payload_hash "+expired+" AND seq = ?", now.UnixMilli(), seq).Scan(row.Into(&payload))
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return n, fmt.Errorf("prune journal: %w", err)
		}
		if err := tx.deleteEntry(seq, payload); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// PruneJob deletes up to limit entries of a sold job, by the number of its request, that
// are not kept for ever, and returns how many.
func (tx Journal) PruneJob(job int64, limit int) (int, error) {
	type old struct {
		seq  int64
		hash hashing.Digest
	}
	list, err := row.Column(tx.Tx, func(rows *sql.Rows, o *old) error { return rows.Scan(&o.seq, row.Into(&o.hash)) },
		`SELECT seq, payload_hash FROM journal WHERE request_id = (SELECT request_id FROM requests WHERE seq = ?)
			AND retention <> 'retain_forever' ORDER BY seq LIMIT ?`, job, limit)
	if err != nil {
		return 0, fmt.Errorf("prune the journal of a job: %w", err)
	}
	for _, o := range list {
		if err := tx.deleteEntry(o.seq, o.hash); err != nil {
			return 0, err
		}
	}
	return len(list), nil
}

func (tx Journal) deleteEntry(seq int64, payload hashing.Digest) error {
	if _, err := tx.Exec("DELETE FROM journal WHERE seq = ?", seq); err != nil {
		return fmt.Errorf("delete journal entry: %w", err)
	}
	return tx.DropContent(payload)
}

// ConfirmTo confirms what was sent to a handler on a thread, ConfirmThread all
// messages of a thread: it has returned, so whoever they were for has them.
func (tx Journal) ConfirmTo(thread, handler string) error {
	return tx.confirmAll("thread_id = ? AND direction = 'Outbound' AND handler = ?", thread, handler)
}

func (tx Journal) ConfirmThread(thread string) error { return tx.confirmAll("thread_id = ?", thread) }

func (tx Journal) confirmAll(which string, args ...any) error {
	entries, err := row.Column(tx.Tx, scanNumber, "SELECT seq FROM journal WHERE retention = 'prune_on_delivery' AND "+which, args...)
	if err != nil {
		return fmt.Errorf("confirm delivery: %w", err)
	}
	for _, seq := range entries {
		if err := tx.ConfirmDelivery(seq); err != nil {
			return err
		}
	}
	return nil
}

func scanNumber(rows *sql.Rows, n *int64) error { return rows.Scan(n) }
