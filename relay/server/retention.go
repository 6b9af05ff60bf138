package server

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/sqlite"
)

// Retention says how long events of some kinds are kept, and how many of them. The
// first rule with an event's kind applies; without one, the event is kept. Deletion
// requests (kind 5) are kept unless a rule names kind 5 explicitly: without them,
// deleted events could be published again.
type Retention struct {
	// Kinds are inclusive ranges; an empty list means every kind but 5.
	Kinds []KindRange
	// MaxAge is the maximum age by created_at; 0 means no limit.
	MaxAge time.Duration
	// MaxCount bounds the number of events of all these kinds; 0 means no limit.
	// The most recently received are kept. created_at is not used for this, because
	// authors could date their events ahead to displace others.
	MaxCount int
	// Refuse rejects events of these kinds.
	Refuse bool
}

// KindRange is the range of kinds from First to Last.
type KindRange struct{ First, Last int }

// names reports whether the rule applies to the kind.
func (r *Retention) names(kind int) bool {
	for _, k := range r.Kinds {
		if k.First <= kind && kind <= k.Last {
			return true
		}
	}
	return len(r.Kinds) == 0 && kind != nostr.KindDeletion
}

func (r *Retention) validate() error {
	for _, k := range r.Kinds {
		if k.First < 0 || k.Last < k.First || k.Last > 65535 {
			return fmt.Errorf("%w: %d to %d is no range of kinds", ErrConfig, k.First, k.Last)
		}
	}

	switch {
	case r.MaxAge < 0 || r.MaxCount < 0:
		return fmt.Errorf("%w: a retention rule has a negative limit", ErrConfig)
	case r.Refuse && (r.MaxAge > 0 || r.MaxCount > 0):
		return fmt.Errorf("%w: a retention rule both refuses and limits", ErrConfig)
	}
	return nil
}

// admitKind returns the reason to refuse an event that would not be kept, "" if there
// is none. Ephemeral events are never kept, so only Refuse applies to them.
func (s *Server) admitKind(ev *nostr.Event, now time.Time) string {
	for i := range s.cfg.Retention {
		r := &s.cfg.Retention[i]
		switch {
		case !r.names(ev.Kind):
			continue
		case r.Refuse:
			return fmt.Sprintf("blocked: events of kind %d are not taken here", ev.Kind)
		case r.MaxAge > 0 && !nostr.IsEphemeralKind(ev.Kind) && ev.CreatedAt.Time().Before(now.Add(-r.MaxAge)):
			return fmt.Sprintf("invalid: created_at is too long ago, events of kind %d are kept for %v", ev.Kind, r.MaxAge)
		}
		return ""
	}

	return ""
}

// condition is an SQL condition for the kinds of the rule without those of earlier
// rules. It contains only integers, so it needs no arguments.
func (r *Retention) condition(earlier []Retention) string {
	named := func(r *Retention) string {
		if len(r.Kinds) == 0 {
			return fmt.Sprintf("kind <> %d", nostr.KindDeletion)
		}
		var ranges []string
		for _, k := range r.Kinds {
			ranges = append(ranges, fmt.Sprintf("kind BETWEEN %d AND %d", k.First, k.Last))
		}
		return "(" + strings.Join(ranges, " OR ") + ")"
	}
	where := named(r)
	for i := range earlier {
		where += " AND NOT " + named(&earlier[i])
	}
	return where
}

// retain removes the events that the rules do not keep at now and returns their
// number.
func (s *store) retain(ctx context.Context, rules []Retention, now time.Time) (int, error) {
	removed := 0
	for i := range rules {
		r := &rules[i]
		where := r.condition(rules[:i])
		if r.MaxAge > 0 {
			n, err := s.removeAll(ctx, where+" AND created_at < ?", now.Add(-r.MaxAge).Unix())
			if removed += n; err != nil {
				return removed, err
			}
		}

		if r.MaxCount > 0 {
			n, err := s.keepLast(ctx, where, r.MaxCount)
			if removed += n; err != nil {
				return removed, err
			}
		}
	}

	return removed, nil
}

// keepLast removes events selected by a condition, except the n received last.
func (s *store) keepLast(ctx context.Context, where string, n int) (int, error) {
	var surplus []int64
	err := s.db.View(ctx, func(tx *sqlite.Tx) error {
		rows, err := tx.Query("SELECT seq FROM events WHERE "+where+" ORDER BY seq DESC LIMIT ? OFFSET ?", maxSurplus, n)
		if err != nil {
			return err
		}
		defer rows.Close()

		for rows.Next() {
			var seq int64
			if err := rows.Scan(&seq); err != nil {
				return err
			}
			surplus = append(surplus, seq)
		}

		return rows.Err()
	})
	if err != nil || len(surplus) == 0 {
		return 0, err
	}
	list, err := jsonList(surplus)
	if err != nil {
		return 0, err
	}
	return s.removeAll(ctx, "seq IN (SELECT value FROM json_each(?))", list)
}

const (
	// purgeChunk bounds how long one transaction of a purge delays other writers.
	purgeChunk = 32
	// maxSurplus bounds how many surplus events of a kind one purge reads; the next
	// purge continues.
	maxSurplus = 100_000
)

// removeAll removes the events that a condition selects, in several transactions, and
// returns their number.
func (s *store) removeAll(ctx context.Context, where string, args ...any) (removed int, err error) {
	for {
		n := 0
		err := s.db.Update(ctx, func(tx *sqlite.Tx) (err error) {
			n, err = removeSome(tx, where, args)
			return err
		})
		if removed += n; err != nil || n < purgeChunk {
			return removed, err
		}
	}
}

func removeSome(tx *sqlite.Tx, where string, args []any) (int, error) {
	rows, err := tx.Query("SELECT seq, raw FROM events WHERE "+where+" LIMIT ?", append(args, purgeChunk)...)
	if err != nil {
		return 0, err
	}

	found := map[int64][]byte{}
	for rows.Next() {
		var (
			seq int64
			raw []byte
		)
		if err := rows.Scan(&seq, &raw); err != nil {
			return 0, err
		}
		found[seq] = raw
	}

	if err := rows.Err(); err != nil {
		return 0, err
	}

	for seq, raw := range found {
		if err := remove(tx, seq, raw); err != nil {
			return 0, err
		}
	}

	return len(found), nil
}
