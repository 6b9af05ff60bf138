package server

import (
	"database/sql"
	"errors"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/sqlite"
)

// The charged size of an event is an estimate of its space on disk: its bytes, its row
// and indexes, its tags in the index, and a deletion's tombstones.
const (
	bytesPerEvent  = 300
	bytesPerTag    = 48
	bytesPerTarget = 160
)

func chargedSize(ev *nostr.Event, raw []byte, tags int) int64 {
	return int64(len(raw) + bytesPerEvent + tags*bytesPerTag + deletions(ev)*bytesPerTarget)
}

// quota bounds the charged sizes of all events, in bytes. Regular events and
// standing ones (replaceable or addressable) have separate bounds. At a bound, a
// new event evicts events of the key with the most, if that is more than its share,
// and otherwise the oldest. Events of the operator's own keys are not evicted for
// others.
type quota struct {
	total int64
	own   map[string]bool // the operator's keys, hex
	keys  string          // the same as a JSON list
}

func newQuota(total int64, own []string) (quota, error) {
	q := quota{total: total, own: map[string]bool{}}
	for _, key := range own {
		q.own[key] = true
	}
	var err error
	q.keys, err = jsonList(append([]string{}, own...))
	return q, err
}

// share is the size of a key's regular events above which its own are evicted
// first.
func (q quota) share() int64 { return q.total / 8 }

// standing bounds the standing events of all keys, standingMost those of a
// stranger's key; keys with more than standingShare are evicted from first.
func (q quota) standing() int64      { return q.total / 2 }
func (q quota) standingMost() int64  { return q.total / 64 }
func (q quota) standingShare() int64 { return q.total / 2048 }

// reserve is the part of the space for standing events that is kept for the operator's
// own keys.
func (q quota) reserve() int64 {
	if len(q.own) == 0 {
		return 0
	}
	return q.standing() / 8
}

// admits makes room for n more bytes of the key's standing events, and reports
// whether there is room.
func (q quota) admits(tx *sqlite.Tx, pubkey string, n int64) (outcome, error) {
	if n <= 0 {
		return outcomeStored, nil
	}
	var own, ofKey, all int64
	err := tx.QueryRow(`SELECT coalesce((SELECT standing FROM usage WHERE pubkey = ?), 0),
		coalesce((SELECT sum(standing) FROM usage WHERE pubkey IN (SELECT unhex(value) FROM json_each(?))), 0),
		(SELECT standing FROM usage_total)`, unhex(pubkey), q.keys).Scan(&ofKey, &own, &all)
	if err != nil {
		return outcomeStored, err
	}
	room := q.standing() - max(q.reserve(), own)
	if q.own[pubkey] {
		if own+n > q.standing() {
			return outcomeFull, nil
		}
		room = q.standing() - own - n
		n = 0
	} else if ofKey+n > q.standingMost() {
		return outcomeCrowded, nil
	}

	return outcomeStored, q.evictStanding(tx, all-own+n-room)
}

// evictStanding removes strangers' standing events until n bytes are free.
func (q quota) evictStanding(tx *sqlite.Tx, n int64) error {
	for n > 0 {
		var key []byte
		var has int64
		err := tx.QueryRow(`SELECT pubkey, standing FROM usage
			WHERE pubkey NOT IN (SELECT unhex(value) FROM json_each(?)) ORDER BY standing DESC LIMIT 1`, q.keys).Scan(&key, &has)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}

		var freed int64
		if has > q.standingShare() {
			freed, err = evict(tx, min(n, has-q.standingShare()),
				"INDEXED BY events_standing_author WHERE address IS NOT NULL AND own = 0 AND pubkey = ?", key)
		} else {
			freed, err = evict(tx, n, "INDEXED BY events_standing WHERE address IS NOT NULL AND own = 0")
		}

		if err != nil || freed == 0 {
			return err
		}
		n -= freed
	}

	return nil
}

// tally is what a batch has added for each key and has not written to usage yet, so
// that a key's row is updated once. It is written before any removal, because a
// removal updates usage at once.
type tally map[string]usage

type usage struct{ regular, standing int64 }

func (t tally) add(pubkey string, size int64, standing bool) {
	u := t[pubkey]
	if standing {
		u.standing += size
	} else {
		u.regular += size
	}
	t[pubkey] = u
}

// enter writes the sizes and empties the tally.
func (t tally) enter(tx *sqlite.Tx) error {
	var all usage
	for pubkey, u := range t {
		if _, err := tx.Exec(`INSERT INTO usage VALUES (?, ?, ?) ON CONFLICT DO UPDATE
			SET regular = regular + excluded.regular, standing = standing + excluded.standing`,
			unhex(pubkey), u.regular, u.standing); err != nil {
			return err
		}
		all.regular += u.regular
		all.standing += u.standing
	}

	if len(t) == 0 {
		return nil
	}
	clear(t)
	_, err := tx.Exec("UPDATE usage_total SET regular = regular + ?, standing = standing + ?", all.regular, all.standing)
	return err
}

// evictChunk is how many events are read at once for eviction.
const evictChunk = 32

// makeRoom evicts regular events until all are within the quota: the oldest of the
// key with the most while that has more than its share, then the oldest of all. The
// operator's own events are kept unless they take half of the space themselves. Age
// is the time since storing, because authors choose created_at.
func (q quota) makeRoom(tx *sqlite.Tx) error {
	for {
		var regular, standing int64
		if err := tx.QueryRow("SELECT regular, standing FROM usage_total").Scan(&regular, &standing); err != nil {
			return err
		}
		over := regular + standing - q.total
		if over <= 0 || regular == 0 {
			return nil
		}
		freed, err := q.evictRegular(tx, over, regular)
		if err != nil || freed == 0 {
			return err
		}
	}
}

func (q quota) evictRegular(tx *sqlite.Tx, over, regular int64) (freed int64, err error) {
	var own, has int64
	err = tx.QueryRow("SELECT coalesce(sum(regular), 0) FROM usage WHERE pubkey IN (SELECT unhex(value) FROM json_each(?))", q.keys).Scan(&own)
	if err != nil {
		return 0, err
	}
	if own > q.total/2 || own == regular {
		return evict(tx, over, "INDEXED BY events_own WHERE own = 1 AND address IS NULL")
	}

	var key []byte
	err = tx.QueryRow(`SELECT pubkey, regular FROM usage
		WHERE pubkey NOT IN (SELECT unhex(value) FROM json_each(?)) ORDER BY regular DESC LIMIT 1`, q.keys).Scan(&key, &has)
	if err != nil {
		return 0, err
	}
	if has > q.share() {
		return evict(tx, min(over, has-q.share()), "INDEXED BY events_regular_author WHERE address IS NULL AND pubkey = ?", key)
	}

	return evict(tx, over, "INDEXED BY events_regular WHERE address IS NULL AND own = 0")
}

// evict removes the oldest events selected by the clause, at most evictChunk, until
// n bytes are free. It returns the number of freed bytes.
func evict(tx *sqlite.Tx, n int64, clause string, args ...any) (freed int64, err error) {
	rows, err := tx.Query("SELECT seq, size, raw FROM events "+clause+" ORDER BY seq LIMIT ?", append(args, evictChunk)...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()

	old := map[int64][]byte{}
	for freed < n && rows.Next() {
		var (
			seq, size int64
			raw       []byte
		)
		if err := rows.Scan(&seq, &size, &raw); err != nil {
			return 0, err
		}
		old[seq] = raw
		freed += size
	}

	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return 0, err
	}

	for seq, raw := range old {
		if err := remove(tx, seq, raw); err != nil {
			return 0, err
		}
	}

	return freed, nil
}

// markOwn marks the stored events of the operator's keys, which may have changed since
// the last start.
func (q quota) markOwn(tx *sqlite.Tx) error {
	for _, change := range []string{
		"UPDATE events SET own = 0 WHERE own = 1 AND pubkey NOT IN (SELECT unhex(value) FROM json_each(?))",
		"UPDATE events SET own = 1 WHERE own = 0 AND pubkey IN (SELECT unhex(value) FROM json_each(?))",
	} {
		if _, err := tx.Exec(change, q.keys); err != nil {
			return err
		}
	}
	return nil
}
