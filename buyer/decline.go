package buyer

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/internal/text"
	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/market/kinds"
)

// decline ends a purchase that is asked to pay and does not. ErrConflict if another
// follower of the same purchase pays, or has paid, meanwhile: that one sees it
// through.
func (f *follower) decline(ctx context.Context, p Purchase, code, why string) error {
	why = text.Clean(code + ": " + why)
	if err := f.c.cfg.Store.CloseUnpaid(ctx, p.RequestID, StateFailed, why); err != nil {
		return fmt.Errorf("decline (%s): %w", why, err)
	}
	if f.order == nil {
		f.waive(ctx)
		return nil
	}
	f.order.courtesies.Go(func() { f.waive(f.order.ctx) }) // the next provider need not wait for it
	return nil
}

// courtesyTime is how long the end of a purchase waits for relays that do not answer.
const courtesyTime = 2 * time.Second

// waive tells the provider of a purchase that has ended without a payment that
// none will come: its invoice, and our place among those that it lets stand
// unpaid, are free at once and not when the quote lapses. That is a courtesy, so
// nothing hangs on it.
func (f *follower) waive(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, courtesyTime)
	defer stop()
	p, err := f.c.cfg.Store.Purchase(ctx, f.id)
	if err == nil && p.Cancel == nil {
		var ev nostr.Event
		if ev, _, err = f.c.sign(ctx, kinds.Deletion, domain.Deletion, cancelTags(p.RequestID, p.Provider, f.c.cfg.Kinds.Request), "not paid by the buyer"); err == nil {
			err = f.c.cfg.Market.Send(ctx, ev)
		}
	}
	if err != nil {
		f.c.log.Warn("the provider was not told that nothing will be paid", "request", f.id, "err", err)
	}
}

// cancelTags name a request that its provider is to drop (NIP-09, NIP-90).
func cancelTags(requestID, provider string, kind int) nostr.Tags {
	return nostr.Tags{{"e", requestID}, {"k", strconv.Itoa(kind)}, {"p", provider}}
}
