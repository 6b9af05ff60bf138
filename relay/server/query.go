package server

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/relay/nip01"
)

const (
	// loadChunk bounds the events that are in memory for one client at once,
	// besides its queue.
	loadChunk = 64
	// queryTimeout bounds the work for one filter.
	queryTimeout = 5 * time.Second
)

// row is a stored event that a filter found.
type row struct {
	seq, created int64
	id           string // the 32 bytes
}

// storedEvent is a loaded row.
type storedEvent struct {
	id  string // hex
	raw []byte
}

// newestFirst is the order that NIP-01 asks for; equal times go by id.
func newestFirst(a, b row) int {
	return cmp.Or(cmp.Compare(b.created, a.created), cmp.Compare(a.id, b.id))
}

// view runs fn in a read transaction, with as few of them at once that the
// verify workers always find a reader.
func (s *Server) view(ctx context.Context, fn func(tx *sqlite.Tx) error) error {
	select {
	case s.queries <- struct{}{}:
		defer func() { <-s.queries }()
	case <-ctx.Done():
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	return s.store.db.View(ctx, fn)
}

// find returns the newest rows of the filter, no more than its limit and the
// relay's.
func (s *Server) find(ctx context.Context, f *nostr.Filter) ([]row, error) {
	limit := s.cfg.Limits.MaxLimit
	if f.Limit > 0 {
		limit = min(limit, f.Limit)
	}
	if f.LimitZero {
		return nil, nil
	}
	q, err := newScan(f, limit, time.Now())
	if err != nil {
		return nil, err
	}
	err = s.view(ctx, func(tx *sqlite.Tx) error { return q.run(tx) })
	if err != nil {
		return nil, fmt.Errorf("find events: %w", err)
	}
	return q.found, nil
}

// scan walks one index once for every value of a filter's most selective
// condition and keeps the newest rows of all.
type scan struct {
	filter      *nostr.Filter
	limit       int
	now         int64
	since       int64 // rises once enough rows are found
	until       int64
	authors     any // JSON list for json_each, or nil
	kinds       any
	otherTags   []string // JSON lists of tag keys, one for each condition
	otherClause string

	found []row
}

func newScan(f *nostr.Filter, limit int, now time.Time) (*scan, error) {
	q := &scan{filter: f, limit: limit, now: now.Unix(), until: math.MaxInt64}
	if f.Since != nil {
		q.since = int64(*f.Since)
	}
	if f.Until != nil {
		q.until = int64(*f.Until)
	}
	var err error
	if f.Authors != nil {
		if q.authors, err = jsonList(f.Authors); err != nil {
			return nil, err
		}
	}
	if f.Kinds != nil {
		if q.kinds, err = jsonList(f.Kinds); err != nil {
			return nil, err
		}
	}
	return q, q.addTags(f)
}

// addTags makes a condition of every tag but the one that is walked.
func (q *scan) addTags(f *nostr.Filter) error {
	walked := ""
	if f.IDs == nil {
		walked = fewest(f.Tags)
	}
	for name, values := range f.Tags {
		if name == walked {
			continue
		}
		keys := make([]int64, len(values))
		for i, v := range values {
			keys[i] = tagKey(name, v)
		}
		list, err := jsonList(keys)
		if err != nil {
			return err
		}
		q.otherTags = append(q.otherTags, list)
		q.otherClause += ` AND EXISTS (SELECT 1 FROM tags o WHERE o.key IN (SELECT value FROM json_each(?))
			AND o.created_at = e.created_at AND o.seq = e.seq)`
	}
	return nil
}

func jsonList(v any) (string, error) {
	b, err := json.Marshal(v)
	return string(b), err
}

// run chooses the index. The walks are for one value each, so that SQLite reads
// every index in order and stops at the limit.
func (q *scan) run(tx *sqlite.Tx) error {
	f := q.filter
	tag := fewest(f.Tags)
	switch {
	case f.IDs != nil:
		return each(q, tx, f.IDs, "events e", "e.id = ?", func(id string) any { return unhex(id) })
	case tag != "":
		return each(q, tx, f.Tags[tag], "tags t CROSS JOIN events e ON e.seq = t.seq", "t.key = ?",
			func(v string) any { return tagKey(tag, v) })
	case f.Authors != nil && len(f.Kinds) == 1:
		return each(q, tx, f.Authors, "events e INDEXED BY events_author_kind",
			fmt.Sprintf("e.pubkey = ? AND e.kind = %d", f.Kinds[0]), func(a string) any { return unhex(a) })
	case f.Authors != nil:
		return each(q, tx, f.Authors, "events e INDEXED BY events_author", "e.pubkey = ?",
			func(a string) any { return unhex(a) })
	case f.Kinds != nil:
		return each(q, tx, f.Kinds, "events e INDEXED BY events_kind", "e.kind = ?", func(k int) any { return k })
	default:
		return each(q, tx, []int{1}, "events e INDEXED BY events_time", "? = 1", func(one int) any { return one })
	}
}

func each[V any](q *scan, tx *sqlite.Tx, values []V, from, where string, arg func(V) any) error {
	for _, v := range values {
		if err := q.walk(tx, from, where, arg(v)); err != nil {
			return err
		}
	}
	return nil
}

func (q *scan) walk(tx *sqlite.Tx, from, where string, value any) error {
	created := "e.created_at"
	if from[0] == 't' { // the tag index carries the time
		created = "t.created_at"
	}
	query := "SELECT e.seq, e.created_at, e.id FROM " + from + " WHERE " + where +
		" AND " + created + " BETWEEN ? AND ? AND (e.expires_at IS NULL OR e.expires_at > ?)"
	args := []any{value, q.since, q.until, q.now}
	if q.authors != nil {
		query += " AND e.pubkey IN (SELECT unhex(value) FROM json_each(?))"
		args = append(args, q.authors)
	}
	if q.kinds != nil {
		query += " AND e.kind IN (SELECT value FROM json_each(?))"
		args = append(args, q.kinds)
	}
	query += q.otherClause
	for _, list := range q.otherTags {
		args = append(args, list)
	}
	query += " ORDER BY " + created + " DESC, e.id LIMIT ?"
	rows, err := tx.Query(query, append(args, q.limit)...)
	if err != nil {
		return err
	}
	for rows.Next() {
		var (
			r  row
			id []byte
		)
		if err := rows.Scan(&r.seq, &r.created, &id); err != nil {
			return err
		}
		r.id = string(id)
		q.found = append(q.found, r)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	q.trim()
	return nil
}

// trim keeps the newest rows and spares the next walks what is older.
func (q *scan) trim() {
	slices.SortFunc(q.found, newestFirst)
	q.found = slices.CompactFunc(q.found, func(a, b row) bool { return a.seq == b.seq })
	if len(q.found) >= q.limit {
		q.found = q.found[:q.limit]
		q.since = max(q.since, q.found[q.limit-1].created)
	}
}

// load reads rows that find returned. One that is gone by now is left out, and
// one that only shares a tag's index key.
func (s *Server) load(ctx context.Context, rows []row, f *nostr.Filter) ([]storedEvent, error) {
	events := make([]storedEvent, 0, len(rows))
	err := s.view(ctx, func(tx *sqlite.Tx) error {
		for _, r := range rows {
			found, err := tx.Query("SELECT raw FROM events WHERE seq = ?", r.seq)
			if err != nil {
				return err
			}
			if found.Next() {
				var raw []byte
				if err := found.Scan(&raw); err != nil {
					return err
				}
				events = append(events, storedEvent{hex.EncodeToString([]byte(r.id)), raw})
			}
			if err := found.Close(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load events: %w", err)
	}
	if len(f.Tags) == 0 {
		return events, nil
	}
	return slices.DeleteFunc(events, func(e storedEvent) bool {
		ev, err := nip01.ParseEvent(e.raw, storedLimits)
		return err != nil || !f.Matches(&ev)
	}), nil
}
