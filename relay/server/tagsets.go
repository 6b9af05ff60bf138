package server

import (
	"maps"
	"slices"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/sqlite"
)

const (
	// maxSet bounds the index entries that are kept for one tag condition.
	maxSet = 20_000
	// maxTries bounds the pairs of event and value that are looked up one by one if
	// a condition has too many entries to keep.
	maxTries = 100_000
)

// intersect answers a filter with several tag conditions from the tag index: it
// reads the events of each condition and keeps those that are in all of them. The
// work is the sum of the conditions' entries; testing one condition on every event
// of another would be their product. It returns false, with nothing found, if every
// condition has more than maxSet entries.
func (q *scan) intersect(tx *sqlite.Tx, tags nostr.TagMap) (done bool, err error) {
	var (
		common map[int64]struct{} // nil until one condition was read
		large  []string
	)

	for _, name := range slices.Sorted(maps.Keys(tags)) {
		set, err := q.members(tx, name, tags[name])
		switch {
		case err != nil:
			return false, err
		case set == nil:
			large = append(large, name)
		case common == nil:
			common = set
		default:
			maps.DeleteFunc(common, func(seq int64, _ struct{}) bool {
				_, both := set[seq]
				return !both
			})
		}
	}

	if common == nil {
		return false, nil
	}

	for _, name := range large {
		if len(common)*len(tags[name]) <= maxTries {
			err = q.require(name, tags[name])
		} else {
			common, err = q.narrow(tx, name, tags[name], common)
		}
		if err != nil {
			return false, err
		}
	}

	list, err := jsonList(slices.Sorted(maps.Keys(common)))
	if err != nil || len(common) == 0 {
		return true, err
	}
	return true, q.walk(tx, "json_each(?) s CROSS JOIN events e ON e.seq = s.value", "TRUE", list)
}

// entries calls fn with the events of one tag condition until fn returns false.
func (q *scan) entries(tx *sqlite.Tx, name string, values []string, fn func(seq int64) bool) error {
	list, err := tagKeyList(name, values)
	if err != nil {
		return err
	}
	rows, err := tx.Query(`SELECT seq FROM tags WHERE key IN (SELECT value FROM json_each(?))
		AND created_at BETWEEN ? AND ?`, list, q.since, q.until)
	if err != nil {
		return err
	}
	defer rows.Close()

	for rows.Next() {
		var seq int64
		if err := rows.Scan(&seq); err != nil {
			return err
		}
		if !fn(seq) {
			return nil
		}
	}

	return rows.Err()
}

// narrow returns the events of common that meet a condition of any size.
func (q *scan) narrow(tx *sqlite.Tx, name string, values []string, common map[int64]struct{}) (map[int64]struct{}, error) {
	both := map[int64]struct{}{}
	err := q.entries(tx, name, values, func(seq int64) bool {
		if _, ok := common[seq]; ok {
			both[seq] = struct{}{}
		}
		return true
	})
	return both, err
}

// members are the events of one tag condition, nil if there are too many.
func (q *scan) members(tx *sqlite.Tx, name string, values []string) (map[int64]struct{}, error) {
	set, n := map[int64]struct{}{}, 0
	err := q.entries(tx, name, values, func(seq int64) bool {
		set[seq] = struct{}{}
		n++
		return n <= maxSet
	})
	if n > maxSet {
		return nil, err
	}
	return set, err
}

// require adds a tag condition that is tested on each row.
func (q *scan) require(name string, values []string) error {
	list, err := tagKeyList(name, values)
	if err != nil {
		return err
	}
	q.otherTags = append(q.otherTags, list)
	q.otherClause += ` AND EXISTS (SELECT 1 FROM tags o WHERE o.key IN (SELECT value FROM json_each(?))
		AND o.created_at = e.created_at AND o.seq = e.seq)`
	return nil
}

func tagKeyList(name string, values []string) (string, error) {
	keys := make([]int64, len(values))
	for i, v := range values {
		keys[i] = tagKey(name, v)
	}
	return jsonList(keys)
}
