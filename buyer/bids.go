package buyer

import (
	"context"
	"fmt"
	"slices"

	"github.com/lightwork-market/lightwork/buyer/internal/discover"
)

// bidsMax bounds the valid offers that are kept for one open request. Keys cost
// nothing, so of more than that the best are kept and not the first: a crowd that
// is quick must not hide who is better.
const bidsMax = 64

// bid is one provider's valid offer for an open request.
type bid struct {
	provider string // x-only hex
	msats    int64  // as quoted, not as announced
	// of is what ranks it, once it is looked up.
	of *Found
}

// bestFirst are the bidsMax best of the bids: the order is that of [Scout.Find], with
// the quoted price in the place of the announced one. Who announces nothing comes
// last, however little it asks. It is a choice among strangers' words: nothing is
// owed to any of them yet.
func (c *Client) bestFirst(ctx context.Context, p Purchase, bids []bid) ([]bid, error) {
	if len(bids) == 1 {
		return bids, nil
	}
	if err := c.lookUp(ctx, p, bids); err != nil {
		return nil, err
	}
	discover.Rank(bids, func(b *bid) *Found { return b.of })
	return bids[:min(len(bids), bidsMax)], nil
}

// lookUp fills in what ranks the bids that have it not.
func (c *Client) lookUp(ctx context.Context, p Purchase, bids []bid) error {
	scout, err := c.scout(ctx)
	if err != nil {
		return err
	}
	var keys []string
	for _, b := range bids {
		if b.of == nil {
			keys = append(keys, b.provider)
		}
	}
	found, err := scout.FindAmong(ctx, p.SchemaID, keys)
	if err != nil {
		return fmt.Errorf("rank the offers: %w", err)
	}
	for i, b := range bids {
		if b.of != nil {
			continue
		}
		of := Found{Listing: Listing{Provider: b.provider, Outside: true}, Lost: scout.History[b.provider].Lost, Done: scout.History[b.provider].Done}
		of.NoteMissed(scout.History[b.provider])
		if at := slices.IndexFunc(found, func(f Found) bool { return f.Provider == b.provider }); at >= 0 {
			of = found[at]
		}
		of.MinuteMsats, of.CostMsats = map[string]int64{p.SchemaID: b.msats}, b.msats
		bids[i].of = &of
	}
	return nil
}
