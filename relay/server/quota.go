package server

import (
	"database/sql"
	"errors"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/sqlite"
)

// Events are charged with an estimate of what they take on disk: their bytes,
// their row with its indexes, their tags in the index, and the tombstones of a
// deletion.
const (
	bytesPerEvent  = 300
	bytesPerTag    = 48
	bytesPerTarget = 160
)

func chargedSize(ev *nostr.Event, raw []byte, tags int) int64 {
	return int64(len(raw) + bytesPerEvent + tags*bytesPerTag + deletions(ev)*bytesPerTarget)
}

// quota bounds the charged sizes of all events, in bytes. Regular events make
// room for new ones. Standing events, which are replaceable or addressable,
// stay until their author replaces them; so they are bounded on arrival.
type quota struct{ total int64 }

// share is what a key may fill with regular events before its own go first.
func (q quota) share() int64 { return q.total / 8 }

// standing is what all keys may fill with standing events, and standingShare
// what one may.
func (q quota) standing() int64      { return q.total / 2 }
func (q quota) standingShare() int64 { return q.total / 64 }

// admits reports whether the key's standing events may grow by n bytes.
func (q quota) admits(tx *sqlite.Tx, pubkey []byte, n int64) (outcome, error) {
	if n <= 0 {
		return stored, nil
	}
	var own, all int64
	err := tx.QueryRow("SELECT standing FROM usage WHERE pubkey = ?", pubkey).Scan(&own)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return stored, err
	}
	if own+n > q.standingShare() {
		return crowded, nil
	}
	if err := tx.QueryRow("SELECT standing FROM usage_total").Scan(&all); err != nil {
		return stored, err
	}
	if all+n > q.standing() {
		return full, nil
	}
	return stored, nil
}

// tally is what a batch has added and usage does not say yet, by key: one entry
// for all of a key's events costs less than one for each. It is entered before
// anything is removed, which is subtracted at once.
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

// evictChunk is how many events are read at once to make room.
const evictChunk = 32

// makeRoom removes regular events until all are within the quota: while a key
// has more than its share the oldest of the key with most, then the oldest of
// all. Age is that in the store; created_at is the author's to choose.
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
		var (
			key []byte
			has int64
		)
		err := tx.QueryRow("SELECT pubkey, regular FROM usage ORDER BY regular DESC LIMIT 1").Scan(&key, &has)
		if err != nil {
			return err
		}
		var n int
		if has > q.share() {
			n, err = evict(tx, min(over, has-q.share()), "INDEXED BY events_regular_author WHERE address IS NULL AND pubkey = ?", key)
		} else {
			n, err = evict(tx, over, "INDEXED BY events_regular WHERE address IS NULL")
		}
		if err != nil || n == 0 {
			return err
		}
	}
}

// evict removes the oldest events that the clause selects, at most evictChunk,
// until n bytes are free. It returns how many went.
func evict(tx *sqlite.Tx, n int64, clause string, args ...any) (int, error) {
	rows, err := tx.Query("SELECT seq, size, raw FROM events "+clause+" ORDER BY seq LIMIT ?", append(args, evictChunk)...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	old := map[int64][]byte{}
	for n > 0 && rows.Next() {
		var (
			seq, size int64
			raw       []byte
		)
		if err := rows.Scan(&seq, &size, &raw); err != nil {
			return 0, err
		}
		old[seq] = raw
		n -= size
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return 0, err
	}
	for seq, raw := range old {
		if err := remove(tx, seq, raw); err != nil {
			return 0, err
		}
	}
	return len(old), nil
}
