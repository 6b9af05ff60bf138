package store

import (
	"time"

	"github.com/lightwork-market/lightwork/cluster/event"
)

// Outbox is the area of what this gateway says.
type Outbox struct{ Tx *Tx }

// Place is where the outbox and its copy in the stream stand.
type Place struct {
	Epoch                  string
	Next, First, Published uint64
}

// Place returns it.
func (o Outbox) Place() (p Place, err error) {
	_, err = o.Tx.one([]any{&p.Epoch, &p.Next, &p.First, &p.Published}, "SELECT epoch, next_seq, first_seq, published FROM self")
	return p, err
}

// Append gives an event the next sequence and keeps it until all have read it.
func (o Outbox) Append(e *event.Event) error {
	p, err := o.Place()
	if err != nil {
		return err
	}
	e.Seq = p.Next
	body, err := event.Encode(&e.Envelope)
	if err != nil {
		return err
	}
	if err := o.Tx.run("INSERT INTO outbox VALUES (?, ?, ?, ?, ?)", e.Seq, e.EventID, e.Trace.Attempt, unix(o.Tx.Now), body); err != nil {
		return err
	}
	return o.Tx.run("UPDATE self SET next_seq = next_seq + 1")
}

// Row is an event as the stream gets it.
type Row struct {
	Seq     uint64
	EventID string
	Attempt int
	Body    []byte
}

// Rows are events with sequences of at least from, in order.
func (o Outbox) Rows(from uint64, count int) ([]Row, error) {
	return all(
		o.Tx, func(r *Row) []any { return []any{&r.Seq, &r.EventID, &r.Attempt, &r.Body} },
		"SELECT seq, event_id, attempt, body FROM outbox WHERE seq >= ? ORDER BY seq LIMIT ?", from, count,
	)
}

// SetPublished notes the last sequence that is in the stream.
func (o Outbox) SetPublished(seq uint64) error { return o.Tx.run("UPDATE self SET published = ?", seq) }

// SetEpoch notes that a new stream begins, which has nothing yet.
func (o Outbox) SetEpoch(epoch string) error {
	return o.Tx.run("UPDATE self SET epoch = ?, published = first_seq - 1", epoch)
}

// Compact drops up to count of the published events that are not after a sequence and
// were made before a time, and returns the lowest sequence that is left.
func (o Outbox) Compact(upTo uint64, before time.Time, count int) (first uint64, err error) {
	p, err := o.Place()
	if err != nil {
		return 0, err
	}
	type row struct {
		seq uint64
		at  int64
	}
	rows, err := all(
		o.Tx, func(r *row) []any { return []any{&r.seq, &r.at} },
		"SELECT seq, at FROM outbox WHERE seq <= ? ORDER BY seq LIMIT ?", min(upTo, p.Published), count,
	)
	if err != nil {
		return 0, err
	}

	first = p.First
	for _, r := range rows {
		if r.at >= unix(before) {
			break
		}
		first = r.seq + 1
	}
	if err := o.Tx.run("UPDATE self SET first_seq = ?", first); err != nil {
		return 0, err
	}
	return first, o.Tx.run("DELETE FROM outbox WHERE seq < ?", first)
}

// Await notes that recipients have to accept an event, and when it is sent again.
func (o Outbox) Await(e *event.Event, nodes map[string]string, due time.Time) error {
	for agent, node := range nodes {
		if err := o.Tx.run("INSERT INTO sent VALUES (?, ?, ?, 'open', ?)", e.EventID, agent, node, unix(e.ExpiresAt.Time)); err != nil {
			return err
		}
	}
	body, err := event.Encode(&e.Envelope)
	if err != nil {
		return err
	}
	return o.Tx.run("INSERT INTO retry VALUES (?, ?, ?, ?)", e.EventID, body, e.Trace.Attempt, unix(due))
}

// states of a recipient after an acknowledgement.
var ackStates = map[string]string{event.Accepted: "accepted", event.Processed: "processed", event.FailedTerminal: "failed"}

// Ack notes an acknowledgement, and says whether it was awaited of this gateway and
// changed anything. After accepted nothing is sent again.
func (o Outbox) Ack(a *event.Ack) (awaited, changed bool, err error) {
	awaited, err = o.Tx.one([]any{new(int)}, "SELECT 1 FROM sent WHERE event_id = ? AND agent_id = ? AND node_id = ?",
		a.RefEventID, a.AckedByAgentID, a.AckedByNodeID)
	if err != nil || !awaited {
		return false, false, err
	}

	from := "('open', 'dead')"
	if a.AckType != event.Accepted {
		from = "('open', 'dead', 'accepted')"
	}
	n, err := o.Tx.exec("UPDATE sent SET state = ? WHERE event_id = ? AND agent_id = ? AND state IN "+from,
		ackStates[a.AckType], a.RefEventID, a.AckedByAgentID)
	if err != nil {
		return true, false, err
	}
	return true, n > 0, o.Tx.run(`DELETE FROM retry WHERE event_id = ?1
		AND NOT EXISTS (SELECT 1 FROM sent WHERE event_id = ?1 AND state = 'open')`, a.RefEventID)
}

// Recipient is where an event went, and what became of it there.
type Recipient struct {
	Agent string `json:"agent"`
	Node  string `json:"node"`
	State string `json:"state"` // open, accepted, processed, failed, dead
}

// Recipients of an event.
func (o Outbox) Recipients(eventID string) ([]Recipient, error) {
	return all(
		o.Tx, func(r *Recipient) []any { return []any{&r.Agent, &r.Node, &r.State} },
		"SELECT agent_id, node_id, state FROM sent WHERE event_id = ? ORDER BY agent_id", eventID,
	)
}

// Due are the events, up to count, that somebody has not accepted in time.
func (o Outbox) Due(count int) ([]Row, error) {
	return all(
		o.Tx, func(r *Row) []any { return []any{&r.EventID, &r.Attempt, &r.Body} },
		"SELECT event_id, attempt, body FROM retry WHERE due_at <= ? ORDER BY due_at LIMIT ?", unix(o.Tx.Now), count,
	)
}

// Again notes that an event was sent once more.
func (o Outbox) Again(eventID string, attempt int, due time.Time) error {
	return o.Tx.run("UPDATE retry SET attempt = ?, due_at = ? WHERE event_id = ?", attempt, unix(due), eventID)
}

// GiveUp ends the wait for those who did not accept.
func (o Outbox) GiveUp(eventID string) error {
	if err := o.Tx.run("UPDATE sent SET state = 'dead' WHERE event_id = ? AND state = 'open'", eventID); err != nil {
		return err
	}
	return o.Tx.run("DELETE FROM retry WHERE event_id = ?", eventID)
}

// Unaccepted counts the deliveries that nobody has accepted yet.
func (o Outbox) Unaccepted() (n int, err error) {
	_, err = o.Tx.one([]any{&n}, "SELECT count(*) FROM sent JOIN retry USING (event_id) WHERE state = 'open'")
	return n, err
}

// Forget deletes up to count recipients of events that expired before a time and are not
// sent any more.
func (o Outbox) Forget(before time.Time, count int) error {
	return o.Tx.run(`DELETE FROM sent WHERE (event_id, agent_id) IN (
		SELECT event_id, agent_id FROM sent WHERE expires_at < ? AND event_id NOT IN (SELECT event_id FROM retry) LIMIT ?)`,
		unix(before), count)
}
