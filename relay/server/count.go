package server

import (
	"context"
	"fmt"
	"math/bits"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/relay/nip01"
)

// count answers a COUNT (NIP-45): how many stored events match any of the
// filters, whose limits are about events that are sent and count for nothing
// here. It opens no subscription.
func (c *client) count(ctx context.Context, id string, filters []nostr.Filter) error {
	if reason := c.admitFilters(filters, false); reason != "" {
		c.closed(id, reason)
		return nil
	}
	q := c.srv.request(c.patron, c.identity.keys())
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

// seqSet is a set of the store's sequence numbers, 64 to an entry: they are
// dense, so that a million of them take less than a megabyte.
type seqSet map[int64]uint64

// add enters the sequence numbers that a query finds.
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
