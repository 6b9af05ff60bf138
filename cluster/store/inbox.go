package store

import (
	"errors"
	"time"

	"github.com/lightwork-market/lightwork/cluster/event"
)

// Bounds of what peers can make this gateway keep.
const (
	maxQueue      = 10_000  // events that wait for one agent
	maxHeld       = 500_000 // rows of the ledger for one source
	maxIncidents  = 1_000   // of each source; older ones are forgotten
	maxTombstones = 1_000   // ranges of each source; lower ones are forgotten
)

// ErrQueueFull: an agent has as many events as may wait. The reader stops until the
// agent has taken some; nothing is lost.
var ErrQueueFull = errors.New("the queue is full")

// ErrTaken: another gateway has sent an event with this id.
var ErrTaken = errors.New("the id of the event was used by another gateway")

// Inbox is the area of what peers say: how far it was read, and who got it.
type Inbox struct{ Tx *Tx }

// Cursor is how far a source was read. A gap is a range of sequences that is missing;
// the cursor stays before it.
type Cursor struct {
	Source    string
	Epoch     string
	LastSeq   uint64
	UpdatedAt time.Time
	Held      int64
	GapTo     uint64 // 0 without a gap
	GapSince  time.Time
}

const cursorColumns = "source, epoch, last_seq, updated_at, held, gap_to, gap_since"

func (i Inbox) cursors(where string, args ...any) ([]Cursor, error) {
	type row struct {
		Cursor
		updated, gap int64
	}
	rows, err := all(i.Tx, func(r *row) []any {
		return []any{&r.Source, &r.Epoch, &r.LastSeq, &r.updated, &r.Held, &r.GapTo, &r.gap}
	}, "SELECT "+cursorColumns+" FROM cursors "+where, args...)

	var list []Cursor
	for _, r := range rows {
		r.UpdatedAt, r.GapSince = fromUnix(r.updated), fromUnix(r.gap)
		list = append(list, r.Cursor)
	}
	return list, err
}

// Cursor of a source; that of a source that was never read has no epoch.
func (i Inbox) Cursor(source string) (Cursor, error) {
	list, err := i.cursors("WHERE source = ?", source)
	if err != nil || len(list) == 0 {
		return Cursor{Source: source}, err
	}
	return list[0], nil
}

// Cursors of all sources.
func (i Inbox) Cursors() ([]Cursor, error) { return i.cursors("ORDER BY source") }

// SetCursor keeps all of a cursor but Held, which the ledger counts.
func (i Inbox) SetCursor(c Cursor) error {
	return i.Tx.run(`INSERT INTO cursors (`+cursorColumns+`) VALUES (?, ?, ?, ?, 0, ?, ?)
		ON CONFLICT (source) DO UPDATE SET epoch = excluded.epoch, last_seq = excluded.last_seq,
			updated_at = excluded.updated_at, gap_to = excluded.gap_to, gap_since = excluded.gap_since`,
		c.Source, c.Epoch, c.LastSeq, unix(i.Tx.Now), c.GapTo, unix(c.GapSince))
}

// RemoveSource forgets how far a source was read. Its events stay known.
func (i Inbox) RemoveSource(source string) error {
	return i.Tx.run("DELETE FROM cursors WHERE source = ?", source)
}

// Entry is what the ledger has of an event and a recipient.
type Entry struct {
	Source  string
	Attempt int
	Queued  bool
}

// Entry says whether the event is in the recipient's session, or was.
func (i Inbox) Entry(eventID, agent string) (e Entry, known bool, err error) {
	known, err = i.Tx.one([]any{&e.Source, &e.Attempt, &e.Queued},
		"SELECT source, attempt, state = 'queued' FROM ledger WHERE event_id = ? AND agent_id = ?", eventID, agent)
	return e, known, err
}

// Inject puts an event into a recipient's session. It is there at most once, whatever is
// delivered how often: again says that it was, and news that this attempt is a later one
// than those that were seen.
func (i Inbox) Inject(e *event.Event, agent string) (again, news bool, err error) {
	entry, known, err := i.Entry(e.EventID, agent)
	switch {
	case err != nil:
		return false, false, err
	case known && entry.Source != e.SourceNodeID:
		return false, false, ErrTaken
	case known:
		if news = e.Trace.Attempt > entry.Attempt; news {
			err = i.Tx.run("UPDATE ledger SET attempt = ? WHERE event_id = ? AND agent_id = ?", e.Trace.Attempt, e.EventID, agent)
		}
		return true, news, err
	}

	var queued, held int64
	if _, err := i.Tx.one([]any{&queued}, "SELECT count(*) FROM ledger WHERE agent_id = ? AND state = 'queued'", agent); err != nil {
		return false, false, err
	}
	if _, err := i.Tx.one([]any{&held}, "SELECT held FROM cursors WHERE source = ?", e.SourceNodeID); err != nil {
		return false, false, err
	}
	if queued >= maxQueue || held >= maxHeld {
		return false, false, ErrQueueFull
	}

	body, err := event.Encode(&e.Envelope)
	if err != nil {
		return false, false, err
	}
	if err := i.Tx.run("INSERT OR IGNORE INTO received VALUES (?, ?)", e.EventID, body); err != nil {
		return false, false, err
	}
	if err := i.Tx.run("UPDATE cursors SET held = held + 1 WHERE source = ?", e.SourceNodeID); err != nil {
		return false, false, err
	}
	return false, true, i.Tx.run(`INSERT INTO ledger VALUES
		(?1, ?2, ?3, (SELECT ifnull(max(place), 0) + 1 FROM ledger WHERE agent_id = ?2 AND state = 'queued'), ?4, 'queued', ?5)`,
		e.EventID, agent, e.SourceNodeID, e.Trace.Attempt, unix(e.ExpiresAt.Time))
}

// Queue is what waits for an agent, in the order of arrival.
func (i Inbox) Queue(agent string, count int) ([]*event.Event, error) {
	bodies, err := all(
		i.Tx, func(b *[]byte) []any { return []any{b} },
		"SELECT body FROM ledger JOIN received USING (event_id) WHERE agent_id = ? AND state = 'queued' ORDER BY place LIMIT ?", agent, count,
	)
	if err != nil {
		return nil, err
	}

	var list []*event.Event
	for _, body := range bodies {
		e, err := event.Parse(body)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

// Queued is one event that waits for an agent; nil if it does not.
func (i Inbox) Queued(eventID, agent string) (*event.Event, error) {
	var body []byte
	found, err := i.Tx.one([]any{&body}, `SELECT body FROM ledger JOIN received USING (event_id)
		WHERE event_id = ? AND agent_id = ? AND state = 'queued'`, eventID, agent)
	if err != nil || !found {
		return nil, err
	}
	return event.Parse(body)
}

// Finish takes an event out of an agent's queue, and says whether it was there.
func (i Inbox) Finish(eventID, agent string) (bool, error) {
	n, err := i.Tx.exec("UPDATE ledger SET state = 'done' WHERE event_id = ? AND agent_id = ? AND state = 'queued'", eventID, agent)
	if err != nil || n == 0 {
		return false, err
	}
	return true, i.Tx.run(`DELETE FROM received WHERE event_id = ?1
		AND NOT EXISTS (SELECT 1 FROM ledger WHERE event_id = ?1 AND state = 'queued')`, eventID)
}

// Pair names an event in the session of an agent.
type Pair struct{ EventID, Agent string }

// Overdue are queued events, up to count, that expired before a time.
func (i Inbox) Overdue(before time.Time, count int) ([]Pair, error) {
	return all(i.Tx, func(p *Pair) []any { return []any{&p.EventID, &p.Agent} },
		"SELECT event_id, agent_id FROM ledger WHERE expires_at < ? AND state = 'queued' LIMIT ?", unix(before), count)
}

// Forget deletes up to count rows of the ledger whose events expired before a time: they
// would be refused by their age.
func (i Inbox) Forget(before time.Time, count int) error {
	type old struct {
		Pair
		source string
	}
	rows, err := all(i.Tx, func(o *old) []any { return []any{&o.EventID, &o.Agent, &o.source} },
		"SELECT event_id, agent_id, source FROM ledger WHERE expires_at < ? AND state = 'done' LIMIT ?", unix(before), count)
	if err != nil {
		return err
	}
	for _, r := range rows {
		err := errors.Join(
			i.Tx.run("DELETE FROM ledger WHERE event_id = ? AND agent_id = ?", r.EventID, r.Agent),
			i.Tx.run("UPDATE cursors SET held = max(held - 1, 0) WHERE source = ?", r.source),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

// Bury says that the sequences from first to last of a source are never taken.
func (i Inbox) Bury(source string, first, last uint64) error {
	if err := i.Tx.run("INSERT INTO tombstones VALUES (?, ?, ?) ON CONFLICT (source, first) DO UPDATE SET last = max(last, excluded.last)", source, first, last); err != nil {
		return err
	}
	return i.Tx.run(`DELETE FROM tombstones WHERE source = ?1 AND first NOT IN (
		SELECT first FROM tombstones WHERE source = ?1 ORDER BY first DESC LIMIT ?2)`, source, maxTombstones)
}

// Buried says whether a sequence is never taken.
func (i Inbox) Buried(source string, seq uint64) (bool, error) {
	return i.Tx.one([]any{new(int)}, "SELECT 1 FROM tombstones WHERE source = ?1 AND first <= ?2 AND last >= ?2", source, seq)
}

// Refusal counts how often something of a source was refused for one reason.
type Refusal struct {
	Source, Code string
	Count        int64
}

// Refuse counts one. The codes are ours, so they are few.
func (i Inbox) Refuse(source, code string) error {
	return i.Tx.run(`INSERT INTO refusals VALUES (?, ?, 1, ?)
		ON CONFLICT (source, code) DO UPDATE SET count = count + 1, last_at = excluded.last_at`, source, code, unix(i.Tx.Now))
}

// Refusals are all counts.
func (i Inbox) Refusals() ([]Refusal, error) {
	return all(i.Tx, func(r *Refusal) []any { return []any{&r.Source, &r.Code, &r.Count} },
		"SELECT source, code, count FROM refusals ORDER BY source, code")
}

// Incident is what a person may want to know of a source.
type Incident struct {
	At                   time.Time
	Source, What, Detail string
}

// Report keeps an incident.
func (i Inbox) Report(source, what, detail string) error {
	if err := i.Tx.run("INSERT INTO incidents (at, source, what, detail) VALUES (?, ?, ?, ?)", unix(i.Tx.Now), source, what, detail); err != nil {
		return err
	}
	return i.Tx.run(`DELETE FROM incidents WHERE source = ?1 AND id <= (
		SELECT id FROM incidents WHERE source = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)`, source, maxIncidents)
}

// Incidents are the last count, the latest first.
func (i Inbox) Incidents(count int) ([]Incident, error) {
	type row struct {
		Incident
		at int64
	}
	rows, err := all(i.Tx, func(r *row) []any { return []any{&r.at, &r.Source, &r.What, &r.Detail} },
		"SELECT at, source, what, detail FROM incidents ORDER BY id DESC LIMIT ?", count)
	var list []Incident
	for _, r := range rows {
		r.At = fromUnix(r.at)
		list = append(list, r.Incident)
	}
	return list, err
}
