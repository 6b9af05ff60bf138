// Package restore finds out what the provider's key has signed that its database does not
// know: it was restored from an older backup, or another node sells with the key.
package restore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/provider/internal/publish"
	"github.com/lightwork-market/lightwork/receipts"
)

// A database restored from a backup may hold jobs as open that a later life has
// delivered and been paid for (P16). They must be neither done again nor
// receipted again, and nothing is owed for them. Two witnesses tell: a receipt
// of ours on the relays, and a held payment that is settled, since only a life
// with a durable result gives the preimage out.

// Store is what the database knows.
type Store interface {
	// OpenJobs lists the ids of all jobs in a state that is not terminal, oldest first.
	OpenJobs(ctx context.Context) ([]string, error)
	// AdoptReceipt makes the chain of receipts go on behind one that our key
	// signed and the store does not know; false if the store is not behind it.
	AdoptReceipt(ctx context.Context, sequence int64, hash hashing.Digest) (bool, error)
}

// Config is what a Checker needs.
type Config struct {
	Store     Store
	Publisher *publish.Publisher
	Log       *slog.Logger
	// Query returns stored events of our relays.
	Query        func(ctx context.Context, filter nostr.Filter) ([]nostr.Event, error)
	Key          string
	RequestKinds []int
	ReceiptKind  int
	ClockWindow  time.Duration // how old a request may be
}

// Checker asks the relays once, before anything is sold.
type Checker struct {
	cfg Config
	log *slog.Logger

	// checked is closed once the relays have told what our key signed; no receipt is
	// issued before. answered and receipted do not change afterwards: the requests that
	// it has answered lately, and the charges of jobs open here that have a receipt there.
	checked   chan struct{}
	answered  map[string]struct{}
	receipted map[receiptedCharge]struct{}
}

// New makes a Checker that knows nothing.
func New(cfg Config) *Checker {
	return &Checker{
		cfg: cfg, log: cfg.Log, checked: make(chan struct{}), answered: map[string]struct{}{}, receipted: map[receiptedCharge]struct{}{},
	}
}

// WasAnswered reports whether our key has answered a request, as far as the relays told
// before selling began.
func (c *Checker) WasAnswered(requestID string) bool {
	_, ok := c.answered[requestID]
	return ok
}

// receiptedCharge is a charge that has its receipt.
type receiptedCharge struct {
	requestID string
	purpose   receipts.Purpose
}

// IsReceipted waits until the relays have told what this key signed, and reports
// whether that includes the receipt of a charge.
func (c *Checker) IsReceipted(ctx context.Context, requestID string, purpose receipts.Purpose) (receipted bool, err error) {
	select {
	case <-c.checked:
		_, receipted = c.receipted[receiptedCharge{requestID, purpose}]
		return receipted, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// askEvery is the pause between attempts to ask the relays.
const askEvery = 2 * time.Second

// Serve asks the relays, before anything is sold, what our key has said. A
// store that was restored from an older backup knows less than they do (P16):
// it must not sign a second receipt of one sequence, nor quote again what it
// has answered. It returns once a relay has told all it has.
func (c *Checker) Serve(ctx context.Context) error {
	for failed := 1; ; failed++ {
		err := c.check(ctx)
		if err == nil || ctx.Err() != nil || errors.Is(err, job.ErrStoreFailed) {
			if err == nil {
				close(c.checked)
			}
			if err == nil && failed > 1 {
				c.log.Warn("a relay has told what this key has signed: selling begins")
			}
			return cmp.Or(ctx.Err(), err)
		}

		if failed&(failed-1) == 0 { // at growing distances
			c.log.Warn("nothing is sold before a relay tells what this key has signed; asking again", "every", askEvery, "err", err)
		}

		select {
		case <-time.After(askEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// answerKinds are those in which a request may have been answered.
func (c *Checker) answerKinds() []int {
	list := []int{kinds.Feedback}
	for _, k := range c.cfg.RequestKinds {
		list = append(list, k+kinds.ResultOffset)
	}
	return list
}

func (c *Checker) check(ctx context.Context) error {
	me := []string{c.cfg.Key}
	signed, err := c.cfg.Query(ctx, nostr.Filter{Kinds: []int{c.cfg.ReceiptKind}, Authors: me, Limit: 50})
	if err != nil {
		return err
	}
	since := nostr.Timestamp(time.Now().Add(-c.cfg.ClockWindow).Unix())
	answered, err := c.cfg.Query(ctx, nostr.Filter{Kinds: c.answerKinds(), Authors: me, Since: &since})
	if err != nil {
		return err
	}
	if err := c.findReceipts(ctx); err != nil {
		return err
	}
	if err := c.Adopt(ctx, c.Receipts(ctx, signed)); err != nil {
		return err
	}

	for _, ev := range answered {
		if t := ev.Tags.Find("e"); t != nil && ev.PubKey == c.cfg.Key {
			c.answered[t[1]] = struct{}{}
		}
	}

	return nil
}

// Receipts returns our receipts among events of the receipt's kind, those of
// hidden jobs opened.
func (c *Checker) Receipts(ctx context.Context, signed []nostr.Event) []nostr.Event {
	var list []nostr.Event
	for _, ev := range signed {
		if t := ev.Tags.Find("p"); t != nil && ev.PubKey == c.cfg.Key && publish.IsEncrypted(ev) {
			inner, err := c.cfg.Publisher.Unwrap(ctx, t[1], ev)
			if err != nil || !publish.IsSignedBy(inner, c.cfg.Key) {
				continue
			}
			ev = inner
		}
		if domain.Demand(domain.Receipt, ev.Tags) == nil {
			list = append(list, ev)
		}
	}

	return list
}

// Adopt continues the chain behind the highest of our receipts.
func (c *Checker) Adopt(ctx context.Context, signed []nostr.Event) error {
	var head int64
	var hash hashing.Digest
	for _, ev := range signed {
		r, err := receipts.ParseReceipt([]byte(ev.Content))
		if err == nil && ev.PubKey == c.cfg.Key && r.Sequence > head {
			head, hash = r.Sequence, hashing.Bytes([]byte(ev.Content))
		}
	}

	if head == 0 {
		return nil
	}
	behind, err := c.cfg.Store.AdoptReceipt(ctx, head, hash)
	if err != nil {
		return fmt.Errorf("adopt receipt %d: %w", head, err)
	}
	if behind {
		c.log.Warn("the relays have receipts of this key that the database lacks; the chain goes on behind them. After a restore that is as it should be; else another node sells with this key: stop one of them", "sequence", head)
	}
	return nil
}

// maxAsked bounds one question to the relays about open jobs.
const maxAsked = 256

// findReceipts asks the relays for receipts of jobs that are open here.
func (c *Checker) findReceipts(ctx context.Context) error {
	open, err := c.cfg.Store.OpenJobs(ctx)
	if err != nil {
		return fmt.Errorf("list open jobs: %w", err)
	}

	for len(open) > 0 {
		some := open[:min(len(open), maxAsked)]
		open = open[len(some):]
		signed, err := c.cfg.Query(ctx, nostr.Filter{
			Kinds: []int{c.cfg.ReceiptKind}, Authors: []string{c.cfg.Key}, Tags: nostr.TagMap{"e": some},
		})
		if err != nil {
			return err
		}

		for _, ev := range c.Receipts(ctx, signed) {
			r, err := receipts.ParseReceipt([]byte(ev.Content))
			if err == nil && ev.PubKey == c.cfg.Key {
				c.receipted[receiptedCharge{r.RequestEventID, r.PaidFor()}] = struct{}{}
			}
		}
	}

	return nil
}
