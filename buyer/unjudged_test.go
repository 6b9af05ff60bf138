package buyer_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/receipts"
)

// TestOnlyWhatCanBeJudgedIsPaid: a provider who makes his false box one that a
// dispute could not judge is not paid, or is ruled against all the same.
func TestOnlyWhatCanBeJudgedIsPaid(t *testing.T) {
	honest := func(*answer) {}
	junk := func(b *boxed) {
		for i := range b.boxes {
			b.boxes[i][len(b.boxes[i])-1] ^= 1
		}
	}
	for name, tt := range map[string]struct {
		answers func(c *cheat, req, offer nostr.Event) []nostr.Event
		paid    bool
		reason  string
	}{
		"for another quote": {func(c *cheat, req, offer nostr.Event) []nostr.Event {
			return []nostr.Event{c.sealed(req, offer, honest, nil, func(b *boxed) {
				junk(b)
				b.tags.Find("quote_hash")[1] = hashing.Bytes([]byte("x")).String()
			}), offer}
		}, false, "not paid: "},
		"for two requests": {func(c *cheat, req, offer nostr.Event) []nostr.Event {
			return []nostr.Event{c.sealed(req, offer, honest, nil, func(b *boxed) {
				junk(b)
				b.tags = append(b.tags, nostr.Tag{"e", req.ID})
			}), offer}
		}, false, "not paid: "},
		"for two quotes, after the offer": {func(c *cheat, req, offer nostr.Event) []nostr.Event {
			return []nostr.Event{offer, c.sealed(req, offer, honest, nil, func(b *boxed) {
				junk(b)
				b.tags = append(b.tags, nostr.Tag{"quote_hash", "x"})
			})}
		}, false, "quote_hash"},
		"no boxes": {func(c *cheat, req, offer nostr.Event) []nostr.Event {
			return []nostr.Event{offer, c.sealed(req, offer, honest, nil, func(b *boxed) { b.boxes = nil })}
		}, false, "boxes"},
		"an offer too large to keep": {func(c *cheat, req, offer nostr.Event) []nostr.Event {
			big := c.event(c.key, 7000, append(offer.Tags, nostr.Tag{"x", strings.Repeat("x", 17<<10)}), offer.Content)
			return []nostr.Event{c.sealed(req, offer, honest, nil, junk), big}
		}, false, "not paid: the offer has"},
		"an offer after more feedback than is kept": {func(c *cheat, req, offer nostr.Event) []nostr.Event {
			var said []nostr.Event
			for i := range 65 {
				said = append(said, c.event(c.key, 7000, nostr.Tags{{"e", req.ID}, {"status", "processing", fmt.Sprint(i)}}, ""))
			}
			return append(said, c.sealed(req, offer, honest, nil, junk), offer)
		}, true, "false box"},
		"a result in the clear behind it": {func(c *cheat, req, offer nostr.Event) []nostr.Event {
			clear := c.result(req, func(a *answer) { a.set("quote_hash", hashing.Bytes([]byte(offer.Content)).String()) })
			return []nostr.Event{c.sealed(req, offer, honest, nil, junk), clear, offer}
		}, true, "false box"},
	} {
		t.Run(name, func(t *testing.T) {
			c, p, err := playWith(t, func(c *cheat, req nostr.Event) []nostr.Event {
				c.pays = true
				offer := c.offer(req, func(d *deal) {
					d.quote.Mode, d.quote.Delivery = receipts.ModePostpay, receipts.DeliverySealed
				})
				return tt.answers(c, req, offer)
			}, nil, nil, func(cfg *buyer.Config) { cfg.ReceiptTimeout, cfg.AnswerTimeout = time.Second, 2*time.Second })
			if err == nil || (len(c.sent) != 0) != tt.paid || !strings.Contains(p.Reason, tt.reason) {
				t.Fatalf("%v: %q, sent %d", err, p.Reason, len(c.sent))
			}
			if !tt.paid {
				return
			}
			if r := ruled(t, c, p); r.Verdict != receipts.VerdictFalseBox || r.ExitCode() != receipts.ExitProved {
				t.Errorf("ruling %+v", r)
			}
		})
	}
}

// TestBlobsAreAskedForWithinBounds: what can never be fetched is asked for once,
// and what is nowhere a few times, however many results name such.
func TestBlobsAreAskedForWithinBounds(t *testing.T) {
	const results, most = 10, 10 // retries in a second, since the shortest pause is a tenth
	for name, tt := range map[string]struct {
		lost        error
		least, most int
	}{
		"no address": {fmt.Errorf("the last address: %w", buyer.ErrUnreachable), results, results},
		"nowhere":    {nil, results, results + most},
	} {
		c, p, err := playWith(t, func(c *cheat, req nostr.Event) (said []nostr.Event) {
			c.lost = tt.lost
			for i := range results {
				said = append(said, c.result(req, func(a *answer) {
					a.tags = append(a.tags, nostr.Tag{"blob", "replay", hashing.Bytes([]byte{byte(i)}).String(), "1", "text/plain"})
				}))
			}
			return append(said, c.end(req))
		}, nil, nil, func(cfg *buyer.Config) { cfg.ReceiptTimeout = time.Second })
		if !errors.Is(err, buyer.ErrFailed) || p.Output != nil || c.asked < tt.least || c.asked > tt.most {
			t.Errorf("%s: %v, %q: asked %d times, want %d to %d", name, err, p.Reason, c.asked, tt.least, tt.most)
		}
	}
}

// TestFreeIsNeverSealed: nothing opens the boxes of a free job, so they do not
// stand in the way of its result.
func TestFreeIsNeverSealed(t *testing.T) {
	for name, mode := range map[string]receipts.Mode{"asked": receipts.ModeFree, "quoted": ""} {
		for _, boxes := range []int{0, 1} {
			_, p, err := order(t, func(c *cheat, req nostr.Event) []nostr.Event {
				offer := c.offer(req, func(d *deal) {
					d.quote.Mode, d.quote.PriceMsats, d.quote.PaymentHash, d.quote.PayeeNode = receipts.ModeFree, 0, nil, nil
				})
				quoted := c.event(c.key, 7000, nostr.Tags{{"e", req.ID}, {"p", req.PubKey}, {"status", "processing"}, domain.Quote.Tag()}, offer.Content)
				sealed := c.sealed(req, offer, func(*answer) {}, nil, func(b *boxed) { b.boxes = b.boxes[:boxes] })
				honest := c.result(req, func(a *answer) { a.set("quote_hash", hashing.Bytes([]byte(offer.Content)).String()) })
				return []nostr.Event{quoted, sealed, honest, c.end(req)}
			}, buyer.Order{Mode: mode})
			if err != nil || p.State != buyer.StateDone || p.Output == nil || p.SealedEvent != nil {
				t.Errorf("%s, %d boxes: purchase %s (%s), %v", name, boxes, p.State, p.Reason, err)
			}
		}
	}
}

// TestUnfetchableResult: boxes that are nowhere do not stand in the way of those
// that come later.
func TestUnfetchableResult(t *testing.T) {
	c, p, err := playWith(t, func(c *cheat, req nostr.Event) []nostr.Event {
		c.pays = true
		offer := c.offer(req, func(d *deal) {
			d.quote.Mode, d.quote.Delivery = receipts.ModePostpay, receipts.DeliverySealed
		})
		lost := c.sealed(req, offer, func(*answer) {}, nil, nil)
		return []nostr.Event{lost, c.sealed(req, offer, func(*answer) {}, nil, nil), offer} // serves only the second's boxes
	}, nil, nil, func(cfg *buyer.Config) { cfg.ReceiptTimeout, cfg.AnswerTimeout = time.Second, 2*time.Second })
	if !errors.Is(err, buyer.ErrIncomplete) || p.Output == nil || len(c.sent) != 1 {
		t.Errorf("%v: %q, output %s, sent %d", err, p.Reason, p.Output, len(c.sent))
	}
}
