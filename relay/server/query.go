package server

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/relay/nip01"
)

// row is a stored event that a filter found.
type row struct {
	seq, created int64
	id           string // the id as 32 bytes
}

// newestFirst is the order of NIP-01; events of the same time are ordered by id.
func newestFirst(a, b row) int {
	return cmp.Or(cmp.Compare(b.created, a.created), cmp.Compare(a.id, b.id))
}

// scan walks an index once for each value of a filter's most selective condition
// and keeps the newest rows. Several tag conditions are intersected first, see
// intersect.
type scan struct {
	filter      *nostr.Filter
	limit       int
	now         int64
	since       int64 // raised once enough rows are found
	until       int64
	authors     any // JSON list for json_each, or nil
	kinds       any
	otherTags   []string // JSON lists for otherClause, most of them of tag keys
	otherClause string

	rows    []row
	counted seqSet // if set, only count
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

	return q, nil
}

func jsonList(v any) (string, error) {
	b, err := json.Marshal(v)
	return string(b), err
}

// run chooses the index. Each walk is for one value, so that SQLite reads the index
// in order and can stop at the limit.
func (q *scan) run(tx *sqlite.Tx) error {
	f := q.filter
	tag := ""
	if f.IDs == nil {
		tag = fewest(f.Tags)
		if len(f.Tags) > 1 {
			if done, err := q.intersect(tx, f.Tags); done || err != nil {
				return err
			}
		}
	}

	for name, values := range f.Tags {
		if name == tag {
			continue
		}
		if err := q.require(name, values); err != nil {
			return err
		}
	}

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
	if from[0] == 't' { // the tag index includes the time
		created = "t.created_at"
	}
	columns := "e.seq, e.created_at, e.id"
	if q.counted != nil {
		columns = "e.seq"
	}
	query := "SELECT " + columns + " FROM " + from + " WHERE " + where +
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
	if q.counted != nil {
		return q.counted.add(tx, query, args)
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
		q.rows = append(q.rows, r)
	}

	if err := rows.Err(); err != nil {
		return err
	}
	q.trim()
	return nil
}

// trim keeps the newest rows and raises since, so that the next walks skip older ones.
func (q *scan) trim() {
	slices.SortFunc(q.rows, newestFirst)
	q.rows = slices.CompactFunc(q.rows, func(a, b row) bool { return a.seq == b.seq })
	if len(q.rows) >= q.limit {
		q.rows = q.rows[:q.limit]
		q.since = max(q.since, q.rows[q.limit-1].created)
	}
}

// fewest is the name of the filter's tag condition with the fewest values, "" if it
// has none.
func fewest(tags nostr.TagMap) string {
	best := ""
	for name, values := range tags {
		if best == "" || len(values) < len(tags[best]) || len(values) == len(tags[best]) && name < best {
			best = name
		}
	}
	return best
}

// count answers a COUNT (NIP-45): the number of stored events that match any of the
// filters. A filter's limit is for events that are sent, so it is ignored here.
func (c *client) count(ctx context.Context, id string, filters []nostr.Filter) error {
	if reason := c.admitFilters(filters, false); reason != "" {
		c.sendClosed(id, reason)
		return nil
	}
	q := c.srv.request(c.queryClient, c.identity.keys())
	n, err := q.count(ctx, filters)
	q.observe(nip01.LabelCount)

	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		c.queryFailed(id, err)
	default:
		c.send(frame{text: nip01.AppendCount(nil, id, n)})
	}

	return nil
}

func (r *request) count(ctx context.Context, filters []nostr.Filter) (int, error) {
	seen := seqSet{}
	for i := range filters {
		q, err := r.scan(&filters[i], 0)
		if err != nil {
			return 0, err
		}
		q.counted = seen
		if err := r.view(ctx, q.cost(), q.run); err != nil {
			return 0, fmt.Errorf("count events: %w", err)
		}
	}

	return seen.len(), nil
}

// seqSet is a set of the store's sequence numbers, 64 to an entry. The numbers are
// dense, so a million of them take less than a megabyte.
type seqSet map[int64]uint64

// add adds the sequence numbers that a query finds.
func (s seqSet) add(tx *sqlite.Tx, query string, args []any) error {
	rows, err := tx.Query(query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()

	for rows.Next() {
		var seq int64
		if err := rows.Scan(&seq); err != nil {
			return err
		}
		s[seq>>6] |= 1 << (seq & 63)
	}

	return rows.Err()
}

func (s seqSet) len() int {
	n := 0
	for _, word := range s {
		n += bits.OnesCount64(word)
	}
	return n
}

const (
	// loadChunk bounds the events in memory for one client, besides its queue.
	loadChunk = 64
	// queryBudget bounds the work for one REQ, sliceBudget that for one of its
	// filters; afterwards other clients have their turn.
	queryBudget = 2 * time.Second
	sliceBudget = time.Second
	// entryTime is the expected time for a row or an index entry. It only needs to
	// separate small queries from large ones.
	entryTime = 20 * time.Microsecond
)

// errTooMuch is returned for a query beyond its budget.
var errTooMuch = errors.New("the query takes too long, ask for less")

// storedEvent is a loaded row.
type storedEvent struct {
	id  string // hex
	raw []byte
}

// request is the work for one REQ. One goroutine owns it.
type request struct {
	srv       *Server
	by        *queryClient
	keys      []string      // the client's authenticated keys
	remaining time.Duration // of queryBudget
}

func (s *Server) request(by *queryClient, keys []string) *request {
	return &request{s, by, keys, queryBudget}
}

// observe records the request's database time.
func (r *request) observe(message string) {
	r.srv.metrics.queries.WithLabelValues(message).Observe((queryBudget - r.remaining).Seconds())
}

// view waits for the client's turn and runs fn in a read transaction. entries is how
// many rows and index entries fn is expected to read. The wait does not count against
// the budget.
func (r *request) view(ctx context.Context, entries int, fn func(tx *sqlite.Tx) error) error {
	if r.remaining <= 0 {
		return errTooMuch
	}
	if err := r.srv.queries.acquire(ctx, r.by, time.Duration(entries)*entryTime); err != nil {
		return err
	}

	start := time.Now()
	defer func() {
		took := time.Since(start)
		r.remaining -= took
		r.srv.queries.release(r.by, took)
	}()

	ctx, cancel := context.WithTimeoutCause(ctx, min(r.remaining, sliceBudget), errTooMuch)
	defer cancel()

	err := r.srv.store.db.View(ctx, fn) // interrupts its queries when ctx ends
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// find returns the newest rows for the filter, within its limit and the relay's.
func (r *request) find(ctx context.Context, f *nostr.Filter) ([]row, error) {
	limit := r.srv.cfg.Limits.MaxLimit
	if f.Limit > 0 {
		limit = min(limit, f.Limit)
	}
	if f.LimitZero {
		return nil, nil
	}
	q, err := r.scan(f, limit)
	if err != nil {
		return nil, err
	}
	err = r.view(ctx, q.cost(), q.run)
	if err != nil {
		return nil, fmt.Errorf("find events: %w", err)
	}
	return q.rows, nil
}

// scan prepares a scan for the events that this client may read.
func (r *request) scan(f *nostr.Filter, limit int) (*scan, error) {
	q, err := newScan(f, limit, time.Now())
	if err != nil {
		return nil, err
	}
	return q, q.hidePrivate(r.srv.cfg.PrivateKinds, r.keys)
}

// load reads rows returned by find. It leaves out rows that were removed meanwhile,
// and those that only share the hash of a tag.
func (r *request) load(ctx context.Context, rows []row, f *nostr.Filter) ([]storedEvent, error) {
	events := make([]storedEvent, 0, len(rows))
	err := r.view(ctx, len(rows), func(tx *sqlite.Tx) error {
		for _, row := range rows {
			found, err := tx.Query("SELECT raw FROM events WHERE seq = ?", row.seq)
			if err != nil {
				return err
			}
			if found.Next() {
				var raw []byte
				if err := found.Scan(&raw); err != nil {
					return err
				}
				events = append(events, storedEvent{hex.EncodeToString([]byte(row.id)), raw})
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
