package buyer

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"github.com/nbd-wtf/go-nostr/nip13"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/receipts"
)

const (
	// workMax is the most proof of work that is done for a job: some seconds of
	// all processors.
	workMax     = 26
	workTimeout = 2 * time.Minute
)

// workFor is how many bits of proof of work the provider wants of a free job.
func workFor(o Order) int {
	if o.Announced == nil {
		return 0
	}
	modes := o.Announced.Modes[o.SchemaID]
	if o.Mode == receipts.ModeFree || o.Mode == "" && len(modes) > 0 && modes[0] == receipts.ModeFree {
		return o.Announced.FreePoW
	}
	return 0
}

// signWorked signs a request for which work was done (NIP-13).
func (c *Client) signWorked(ctx context.Context, tags nostr.Tags, content string, workBits int) (nostr.Event, []byte, error) {
	if workBits > workMax {
		return nostr.Event{}, nil, fmt.Errorf("the provider wants %d bits of proof of work for a free job, we do at most %d", workBits, workMax)
	}
	tags = append(slices.Clip(tags), domain.Request.Tag())
	if workBits > 0 {
		ctx, cancel := context.WithTimeout(ctx, workTimeout)
		defer cancel()
		ev := nostr.Event{PubKey: c.key, Kind: c.cfg.Kinds.Request, CreatedAt: nostr.Now(), Tags: tags, Content: content}
		nonce, err := nip13.DoWork(ctx, ev, workBits)
		if err != nil {
			return ev, nil, fmt.Errorf("proof of work: %w", err)
		}
		ev.Tags = append(tags, nonce)
		return c.signed(ctx, ev)
	}
	return c.signed(ctx, nostr.Event{Kind: c.cfg.Kinds.Request, CreatedAt: nostr.Now(), Tags: tags, Content: content})
}
