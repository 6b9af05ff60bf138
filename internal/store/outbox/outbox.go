// Package outbox keeps the signed events that must reach relays, and what each
// relay said of them.
package outbox

import (
	"bytes"
	"database/sql"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lightwork-market/lightwork/internal/store/row"
)

//go:embed schema.sql
var tables string

// Schema makes the tables of the area.
func Schema() string { return tables }

// Outbox is a transaction as far as it is about events that are to be sent.
type Outbox struct{ *row.Tx }

// MaxAckMessage bounds what is kept of a relay's words.
const MaxAckMessage = 1024

// OutEvent is a signed event that must reach relays.
type OutEvent struct {
	EventID   string
	Event     []byte // JSON
	RequestID string // the job it belongs to, or ""
	Domain    string // of what it says; of an encrypted one, of what is inside
	Relays    []string
	Required  int    // how many relays must say OK
	Sig       string // of an event that was signed after it was queued
}

// Pending is an event that some relay has yet to confirm.
type Pending struct {
	OutEvent
	Confirmed []string // relays that said OK
	Attempts  int      // answers recorded so far
	QueuedAt  time.Time
}

// Ack is what one relay said of one event.
type Ack struct {
	EventID string
	Relay   string
	OK      bool
	Message string
	At      time.Time
}

// Enqueue queues an event in the same transaction as the change it tells of.
// Queueing the same bytes again is fine; other bytes with the id are refused
// with ErrConflict.
func (tx Outbox) Enqueue(e OutEvent) error {
	relays, err := json.Marshal(relaySet(e.Relays))
	if err != nil {
		return fmt.Errorf("queue event: %w", err)
	}
	res, err := tx.Exec(`INSERT INTO outbox(event_id, event, domain, required_oks, created_ms, relays, job, request_id)
		SELECT ?, ?, ?, ?, ?, ?, j.seq, iif(j.seq IS NULL, ?7, NULL)
		FROM (SELECT (SELECT r.seq FROM requests r JOIN jobs USING (request_id) WHERE r.request_id = ?7) AS seq) j
		WHERE true ON CONFLICT (event_id) DO NOTHING`,
		e.EventID, e.Event, e.Domain, e.Required, tx.Now().UnixMilli(), string(relays), row.Text(e.RequestID))
	if err != nil {
		return fmt.Errorf("queue event: %w", err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, tx.sameEvent(e))
	}

	seq, err := res.LastInsertId()
	if err == nil {
		_, err = tx.Exec("INSERT INTO outbox_open(created_ms, seq) VALUES (?, ?)", tx.Now().UnixMilli(), seq)
	}
	if err != nil {
		return fmt.Errorf("queue event: %w", err)
	}
	return nil
}

// sameEvent refuses other bytes than those that are queued.
func (tx Outbox) sameEvent(e OutEvent) error {
	var known []byte
	if err := tx.QueryRow("SELECT event FROM outbox WHERE event_id = ?", e.EventID).Scan(&known); err != nil {
		return fmt.Errorf("queue event: %w", err)
	}
	if !bytes.Equal(known, e.Event) {
		return fmt.Errorf("queue event %s with other bytes: %w", e.EventID, row.ErrConflict)
	}
	return nil
}

// relaySet sorts relays, each once; never nil.
func relaySet(relays []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(append([]string{}, relays...))))
}

// relayList scans a JSON list of relays as relaySet has them, nil if empty.
type relayList struct{ dst *[]string }

func (l relayList) Scan(v any) error {
	doc, ok := v.(string)
	if !ok {
		return fmt.Errorf("%T in a column of relays: %w", v, row.ErrCorrupt)
	}
	if doc == "[]" {
		*l.dst = nil
		return nil
	}
	if err := json.Unmarshal([]byte(doc), l.dst); err != nil {
		return fmt.Errorf("relays: %w: %w", row.ErrCorrupt, err)
	}

	*l.dst = relaySet(*l.dst)
	return nil
}

// AddAck records a relay's answer. Once every relay of the event, and enough of
// them, said OK, it is no longer pending; until then each answer puts it off.
// ErrNotFound if it was never queued.
func (tx Outbox) AddAck(a Ack) error {
	var seq, created int64
	var required, before int
	var relays, confirmed []string
	err := tx.QueryRow("SELECT seq, created_ms, required_oks, attempts, relays, confirmed FROM outbox_current WHERE event_id = ?", a.EventID).
		Scan(&seq, &created, &required, &before, relayList{&relays}, relayList{&confirmed})
	if err != nil {
		return row.NotFound(err, "queued event "+a.EventID)
	}
	at := a.At
	if at.IsZero() {
		at = tx.Now()
	}
	_, err = tx.Exec(`INSERT INTO outbox_answers(event, n, relay, ok, message, at_ms)
		VALUES (?1, (SELECT coalesce(max(n), 0) + 1 FROM outbox_answers WHERE event = ?1), ?, ?, ?, ?)`,
		seq, a.Relay, a.OK, row.Clip(a.Message, MaxAckMessage), at.UnixMilli())
	if err != nil {
		return fmt.Errorf("record answer of relay: %w", err)
	}
	if a.OK {
		confirmed = relaySet(append(confirmed, a.Relay))
	}
	missing := func(r string) bool { return !slices.Contains(confirmed, r) }
	if !a.OK || len(confirmed) < required || slices.ContainsFunc(relays, missing) {
		return tx.postpone(before+1, created, seq)
	}
	if _, err := tx.Exec("DELETE FROM outbox_open WHERE created_ms = ? AND seq = ?", created, seq); err != nil {
		return fmt.Errorf("close queued event: %w", err)
	}

	return nil
}

// Withdraw has a queued event offered no more.
func (tx Outbox) Withdraw(eventID string) error {
	_, err := tx.Exec(`DELETE FROM outbox_open
		WHERE (created_ms, seq) = (SELECT o.created_ms, o.seq FROM outbox o WHERE o.event_id = ?)`, eventID)
	if err != nil {
		return fmt.Errorf("withdraw queued event: %w", err)
	}
	return nil
}

// Confirmed counts the relays that said OK to an event; 0 if it is not known.
func (tx Outbox) Confirmed(eventID string) (int, error) {
	var n int
	err := tx.QueryRow("SELECT coalesce((SELECT oks FROM outbox_current WHERE event_id = ?), 0)", eventID).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count confirmations: %w", err)
	}
	return n, nil
}

// Pending lists events queued after since that some relay has yet to confirm,
// oldest first.
func (tx Outbox) Pending(since time.Time, limit int) ([]Pending, error) {
	return tx.open("p.created_ms > ? ORDER BY p.created_ms, p.seq LIMIT ?", since.UnixMilli(), limit)
}

// open reads the open events p that the SQL selects.
func (tx Outbox) open(which string, args ...any) ([]Pending, error) {
	rows, err := tx.Query(`SELECT c.event_id, c.event, c.request_id, c.domain, c.required_oks, c.created_ms, c.attempts,
			c.relays, c.confirmed, coalesce(s.sig, '')
		FROM outbox_open p JOIN outbox_current c ON c.seq = p.seq LEFT JOIN event_signatures s ON s.event_id = c.event_id
		WHERE `+which, args...)
	if err != nil {
		return nil, fmt.Errorf("read outbox: %w", err)
	}
	defer rows.Close()

	var list []Pending
	for rows.Next() {
		var p Pending
		var request sql.NullString
		var ms int64
		err := rows.Scan(&p.EventID, &p.Event, &request, &p.Domain, &p.Required, &ms, &p.Attempts,
			relayList{&p.Relays}, relayList{&p.Confirmed}, &p.Sig)
		if err != nil {
			return nil, fmt.Errorf("read outbox: %w", err)
		}
		p.RequestID, p.QueuedAt = request.String, row.FromMs(ms)
		list = append(list, p)
	}

	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read outbox: %w", err)
	}
	return list, nil
}

// OfJob are the events o of a job, whose id is ?1.
const OfJob = "(o.request_id = ?1 OR o.job = (SELECT r.seq FROM requests r WHERE r.request_id = ?1))"

// Acks lists what relays said of the events of one job, oldest first.
func (tx Outbox) Acks(requestID string) ([]Ack, error) {
	rows, err := tx.Query(`SELECT o.event_id, a.relay, a.ok, a.message, a.at_ms
		FROM outbox o JOIN outbox_answers a ON a.event = o.seq WHERE `+OfJob+` ORDER BY a.at_ms, a.event, a.n`, requestID)
	if err != nil {
		return nil, fmt.Errorf("read answers of relays: %w", err)
	}
	defer rows.Close()

	var list []Ack
	for rows.Next() {
		var a Ack
		var ms int64
		if err := rows.Scan(&a.EventID, &a.Relay, &a.OK, &a.Message, &ms); err != nil {
			return nil, fmt.Errorf("read answers of relays: %w", err)
		}
		a.At = row.FromMs(ms)
		list = append(list, a)
	}

	return list, rows.Err()
}

// An event that is still open after a relay's answer is offered again after
// retryFirst, and after twice as long with each further answer, up to 43 min.
const (
	retryFirst     = 5 * time.Second
	retryDoublings = 9
)

// postpone says when an open event is due again after so many answers. An event that is not open any
// more is left alone.
func (tx Outbox) postpone(answers int, created, seq int64) error {
	due := tx.Now().Add(retryFirst << min(max(answers-1, 0), retryDoublings))
	_, err := tx.Exec("UPDATE outbox_open SET due_ms = ? WHERE created_ms = ? AND seq = ?", due.UnixMilli(), created, seq)
	if err != nil {
		return fmt.Errorf("postpone queued event: %w", err)
	}
	return nil
}

// Due lists the open events that were queued after since and are to be offered
// now, the longest due first.
func (tx Outbox) Due(since time.Time, limit int) ([]Pending, error) {
	return tx.open("p.due_ms <= ? AND p.created_ms > ? ORDER BY p.due_ms, p.created_ms, p.seq LIMIT ?",
		tx.Now().UnixMilli(), since.UnixMilli(), limit)
}
