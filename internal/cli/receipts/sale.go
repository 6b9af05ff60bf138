package receipts

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/cli/jobs"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/receipts"
)

// saleOf is the evidence that the provider has of a sale, by an id or its beginning. Of
// what was pruned it says so, signed by the provider's key.
func saleOf(ctx context.Context, s *app.Streams, g *app.Globals, conf *node.Node, name string) (*receipts.Bundle, error) {
	var b *receipts.Bundle
	var said *receipts.Pruning
	err := jobs.ReadProvider(ctx, s, g, func(store *node.Sales) error {
		job, err := jobs.FindJob(ctx, store, name)
		if err != nil {
			return err
		}
		purpose, id := receipts.PurposeResult, job.ReceiptID
		if e := job.Engagement; e != nil && e.ReceiptID != "" && strings.HasPrefix(e.ReceiptID, name) {
			purpose, id = receipts.PurposeEngagement, e.ReceiptID
		}
		said = node.PruningOf(job, id)
		b, err = store.Bundle(ctx, job, purpose)
		return advice.Hint(err, "lightwork receipts list --role provider shows the receipts that there are")
	})
	if err != nil {
		return nil, err
	}

	if said != nil {
		if b.Pruned, err = signed(ctx, conf, *said); err != nil {
			return nil, err
		}
		fmt.Fprintln(s.Err, "lightwork: parts of this job were pruned; PRUNED.event.json in the bundle says which, and when")
	}
	return b, nil
}

// signed is the provider's event with its word on what it has pruned.
func signed(ctx context.Context, conf *node.Node, said receipts.Pruning) ([]byte, error) {
	ev, err := said.Event(time.Now().Unix())
	if err != nil {
		return nil, err
	}
	out := nostr.Event{Kind: ev.Kind, CreatedAt: nostr.Timestamp(ev.CreatedAt), Content: ev.Content}
	for _, tag := range ev.Tags {
		out.Tags = append(out.Tags, tag)
	}
	if err := conf.Market().Sign(ctx, "provider", &out); err != nil {
		return nil, err
	}
	ev.ID, ev.PubKey, ev.Sig = out.ID, out.PubKey, out.Sig
	return ev.JSON(), nil
}
