package buyer

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// bidsMax bounds the valid offers that are compared for one open request.
const bidsMax = 64

// bid is one provider's valid offer for an open request.
type bid struct {
	provider string // x-only hex
	msats    int64  // as quoted, not as announced
}

// best is the offer to take up: the order is that of [Scout.Find], with the quoted
// price in the place of the announced one. Who announces nothing comes last,
// however little it asks. It is a choice among strangers' words: nothing is owed to
// any of them yet.
func (c *Client) best(ctx context.Context, p Purchase, bids []bid) (string, error) {
	if len(bids) == 1 {
		return bids[0].provider, nil
	}
	history, err := c.cfg.Store.History(ctx)
	if err != nil {
		return "", errors.Join(errors.New("read own history"), err)
	}
	var keys []string
	for _, b := range bids {
		keys = append(keys, b.provider)
	}
	s := Scout{Market: c.cfg.Market, Key: c.key, RequestKind: c.cfg.Kinds.Request, History: history}
	found, err := s.find(ctx, p.SchemaID, keys)
	if err != nil {
		return "", fmt.Errorf("rank the offers: %w", err)
	}
	ranked := make([]Found, len(bids))
	for i, b := range bids {
		ranked[i] = Found{Listing: Listing{Provider: b.provider, Outside: true}, Lost: history[b.provider].Lost, Done: history[b.provider].Done}
		if at := slices.IndexFunc(found, func(f Found) bool { return f.Provider == b.provider }); at >= 0 {
			ranked[i] = found[at]
		}
		ranked[i].MinuteMsats = map[string]int64{p.SchemaID: b.msats}
	}
	return slices.MinFunc(ranked, func(a, b Found) int { return a.compare(b, p.SchemaID) }).Provider, nil
}
