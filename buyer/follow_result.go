package buyer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/internal/blob"
	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/receipts"
)

// result keeps a result that is what it says it is, with its blobs.
func (f *follower) result(ctx context.Context, p view, ev nostr.Event) error {
	if p.Output != nil {
		return nil
	}

	switch commitment, err := blob.Commitment(ev); {
	case err != nil:
		return f.reject(ev, err)
	case commitment != nil:
		return f.sealedResult(ctx, p, ev)
	case p.Delivery() == receipts.DeliverySealed || p.SealedEvent != nil:
		return f.reject(ev, purchase.Mismatch("result", "it is not sealed, as the quote promised"))
	}

	d, err := f.c.checkResult(p, ev)
	if t := ev.Tags.Find("quote_hash"); err == nil && f.free != nil && (t == nil || t[1] != f.free.Hash.String()) {
		err = purchase.Mismatch("result", "quote_hash differs")
	}
	if err != nil {
		return f.reject(ev, err)
	}
	fetching, cancel := context.WithTimeout(ctx, f.c.cfg.ReceiptTimeout)
	defer cancel()

	contents, output, err := f.fetch(fetching, d)
	if err != nil {
		return f.unfetched(ctx, ev, err)
	}
	res, err := checkOutput(p, signedHash(p.Purchase, ev), output)
	if err == nil {
		err = checkArtifacts(res, d.blobs)
	}
	if err != nil && p.Plain && p.Quote == nil {
		return f.plainResult(ctx, p, ev, output)
	}
	if err != nil {
		return f.reject(ev, err)
	}

	f.serving = true
	f.early = !f.paidAt.IsZero() && time.Since(f.paidAt) > settleGrace && p.Attempt != nil
	f.say("provider", "result", 0, res.OutputHash.String(), sizes(res.Canonical, len(d.blobs)))
	return errors.Join(f.accept(ctx, f.signed, res.Canonical, contents), f.payAfterwards(ctx, ev))
}

func sizes(output []byte, blobs int) string {
	return fmt.Sprintf("%d bytes, %d blobs", len(output), blobs)
}

// accept stores a result that was checked, and goes on with what waited for it.
func (f *follower) accept(ctx context.Context, event, output []byte, contents [][]byte) error {
	contents = append(contents, output)
	err := f.c.cfg.Store.SetResult(ctx, f.id, event, output, contents, f.early)
	if err != nil {
		return fmt.Errorf("store result: %w", err)
	}
	p, err := f.view(ctx)
	if err != nil {
		return err
	}
	if f.postpay != nil && p.Attempt == nil {
		return f.paymentRequired(ctx, p, *f.postpay)
	}

	for _, late := range slices.Clone(f.late) {
		if err := f.receipt(ctx, p, late); err != nil {
			return err
		}
	}

	return nil
}

func (f *follower) reject(ev nostr.Event, err error) error {
	f.c.log.Warn("event rejected", "request", f.id, "event", ev.ID, "err", err)
	f.say("buyer", "refused", 0, ev.ID, err.Error())
	return nil
}

// unfetched goes on without a result whose parts are nowhere: it must not stand
// in the way of another, nor of the end. It is tried again when the purchase is
// resumed.
func (f *follower) unfetched(ctx context.Context, ev nostr.Event, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return f.reject(ev, fmt.Errorf("what it refers to cannot be fetched: %w", err))
}

// fetch gets the blobs. The provider may still be uploading them, so a missing
// one is asked for again for a while: in all, however many results name such.
func (f *follower) fetch(ctx context.Context, d delivered) (contents [][]byte, output []byte, err error) {
	output = d.output
	for _, b := range d.blobs {
		data, err := f.fetchOne(ctx, b, d.key)
		if err != nil {
			return nil, nil, fmt.Errorf("%s %s: %w", b.Role, b.Digest, err)
		}
		if b.Role == "result" {
			output = data
			continue
		}
		contents = append(contents, data)
	}

	return contents, output, nil
}

func (f *follower) fetchOne(ctx context.Context, b blob.Ref, key *receipts.SealKey) ([]byte, error) {
	if b.Box != nil {
		if key == nil {
			return nil, purchase.Mismatch("result", "it is in a box, and no key came with it")
		}
		box, err := f.fetchOne(ctx, blob.Ref{Role: b.Role, Digest: *b.Box, Size: b.Size + receipts.BoxOverhead, URLs: b.URLs}, nil)
		if err != nil {
			return nil, err
		}
		data, err := key.Open(b.Number, box)
		if err == nil && hashing.Bytes(data) != b.Digest {
			err = errors.New("the box holds something else")
		}
		return data, err
	}

	const tries = 12
	for i, pause := 0, 100*time.Millisecond; ; i, pause = i+1, min(2*pause, 5*time.Second) {
		data, err := f.c.cfg.Market.Fetch(ctx, b.URLs, b.Digest, b.Size)
		if err == nil {
			if hashing.Bytes(data) == b.Digest {
				return data, nil
			}
			err = errors.New("it has another hash")
		}

		if i == tries || errors.Is(err, ErrUnreachable) || f.waited+pause > f.c.cfg.ReceiptTimeout {
			return nil, err
		}
		f.waited += pause

		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
