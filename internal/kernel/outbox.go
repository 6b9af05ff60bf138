package kernel

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// maxAckMessage bounds what is kept of a relay's words.
const maxAckMessage = 1024

// OutEvent is a signed event that must reach relays.
type OutEvent struct {
	EventID   string
	Event     []byte // JSON
	RequestID string // the job it belongs to, or ""
	Purpose   string // what it is, for people; may be ""
	Relays    []string
	Required  int    // how many relays must say OK
	Sig       string // of an event that was signed after it was queued
}

// PendingEvent is an event that some relay has yet to confirm.
type PendingEvent struct {
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
func (tx *Tx) Enqueue(e OutEvent) error {
	var known []byte
	err := tx.QueryRow("SELECT event FROM outbox WHERE event_id = ?", e.EventID).Scan(&known)
	if err == nil {
		if !bytes.Equal(known, e.Event) {
			return fmt.Errorf("queue event %s with other bytes: %w", e.EventID, ErrConflict)
		}
		return nil
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("queue event: %w", err)
	}
	var seq int64
	err = tx.QueryRow(`INSERT INTO outbox(event_id, event, request_id, purpose, required_oks, created_ms)
		VALUES (?, ?, ?, ?, ?, ?) RETURNING seq`,
		e.EventID, e.Event, text(e.RequestID), e.Purpose, e.Required, tx.now.UnixMilli()).Scan(&seq)
	if err != nil {
		return fmt.Errorf("queue event: %w", err)
	}
	for _, r := range e.Relays {
		if _, err := tx.Exec("INSERT INTO outbox_relays(event_id, relay) VALUES (?, ?) ON CONFLICT DO NOTHING", e.EventID, r); err != nil {
			return fmt.Errorf("queue event for relay: %w", err)
		}
	}
	if _, err := tx.Exec("INSERT INTO outbox_open(created_ms, seq) VALUES (?, ?)", tx.now.UnixMilli(), seq); err != nil {
		return fmt.Errorf("queue event: %w", err)
	}
	return nil
}

// AddAck records a relay's answer. Once every relay of the event, and enough of
// them, said OK, it is no longer pending; until then each answer puts it off.
// ErrNotFound if it was never queued.
func (tx *Tx) AddAck(a Ack) error {
	var seq, created int64
	var required int
	err := tx.QueryRow("SELECT seq, created_ms, required_oks FROM outbox WHERE event_id = ?", a.EventID).Scan(&seq, &created, &required)
	if err != nil {
		return notFound(err, "queued event "+a.EventID)
	}
	at := a.At
	if at.IsZero() {
		at = tx.now
	}
	_, err = tx.Exec("INSERT INTO outbox_acks(event_id, relay, ok, message, at_ms) VALUES (?, ?, ?, ?, ?)",
		a.EventID, a.Relay, a.OK, clip(a.Message, maxAckMessage), at.UnixMilli())
	if err != nil {
		return fmt.Errorf("record answer of relay: %w", err)
	}
	if !a.OK {
		return tx.postpone(a.EventID, created, seq)
	}
	res, err := tx.Exec(`DELETE FROM outbox_open WHERE created_ms = ?1 AND seq = ?2
		AND (SELECT oks FROM outbox_current WHERE event_id = ?3) >= max(1, ?4)
		AND NOT EXISTS (SELECT 1 FROM outbox_relays r WHERE r.event_id = ?3
			AND NOT EXISTS (SELECT 1 FROM outbox_acks a WHERE a.event_id = ?3 AND a.ok = 1 AND a.relay = r.relay))`,
		created, seq, a.EventID, required)
	if err != nil {
		return fmt.Errorf("close queued event: %w", err)
	}
	if n, err := res.RowsAffected(); err != nil || n > 0 {
		return err
	}
	return tx.postpone(a.EventID, created, seq)
}

// Confirmed counts the relays that said OK to an event; 0 if it is not known.
func (tx *Tx) Confirmed(eventID string) (int, error) {
	var n int
	err := tx.QueryRow("SELECT count(DISTINCT relay) FROM outbox_acks WHERE event_id = ? AND ok = 1", eventID).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count confirmations: %w", err)
	}
	return n, nil
}

// Pending lists events queued after since that some relay has yet to confirm,
// oldest first.
func (tx *Tx) Pending(since time.Time, limit int) ([]PendingEvent, error) {
	return tx.open("p.created_ms > ? ORDER BY p.created_ms, p.seq LIMIT ?", since.UnixMilli(), limit)
}

// open reads the open events p that the SQL selects.
func (tx *Tx) open(which string, args ...any) ([]PendingEvent, error) {
	rows, err := tx.Query(`SELECT o.event_id, o.event, o.request_id, o.purpose, o.required_oks, o.created_ms,
			(SELECT attempts FROM outbox_current c WHERE c.event_id = o.event_id), coalesce(s.sig, '')
		FROM outbox_open p JOIN outbox o ON o.seq = p.seq LEFT JOIN event_signatures s ON s.event_id = o.event_id
		WHERE `+which, args...)
	if err != nil {
		return nil, fmt.Errorf("read outbox: %w", err)
	}
	defer rows.Close()
	var list []PendingEvent
	for rows.Next() {
		var p PendingEvent
		var request sql.NullString
		var ms int64
		if err := rows.Scan(&p.EventID, &p.Event, &request, &p.Purpose, &p.Required, &ms, &p.Attempts, &p.Sig); err != nil {
			return nil, fmt.Errorf("read outbox: %w", err)
		}
		p.RequestID, p.QueuedAt = request.String, fromMs(ms)
		list = append(list, p)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read outbox: %w", err)
	}
	for i := range list {
		p := &list[i]
		if p.Relays, err = tx.strings("SELECT relay FROM outbox_relays WHERE event_id = ? ORDER BY relay", p.EventID); err != nil {
			return nil, fmt.Errorf("read outbox: %w", err)
		}
		p.Confirmed, err = tx.strings("SELECT DISTINCT relay FROM outbox_acks WHERE event_id = ? AND ok = 1 ORDER BY relay", p.EventID)
		if err != nil {
			return nil, fmt.Errorf("read outbox: %w", err)
		}
	}
	return list, nil
}

// Acks lists what relays said of the events of one job, oldest first.
func (tx *Tx) Acks(requestID string) ([]Ack, error) {
	rows, err := tx.Query(`SELECT a.event_id, a.relay, a.ok, a.message, a.at_ms
		FROM outbox o JOIN outbox_acks a ON a.event_id = o.event_id WHERE o.request_id = ? ORDER BY a.seq`, requestID)
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
		a.At = fromMs(ms)
		list = append(list, a)
	}
	return list, rows.Err()
}
