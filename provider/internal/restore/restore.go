// Package restore finds out what the provider's key has signed that its database does not
// know: it was restored from an older backup, or another node sells with the key.
package restore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
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

// Others have failed since, and their buyers have their money back, or are owed it. What
// our key told them of that is on the relays: such a job is not run again, and what was
// sent back is not sent or owed again.

// Store is what the database knows.
type Store interface {
	// OpenJobs lists the ids of all jobs in a state that is not terminal, oldest first.
	OpenJobs(ctx context.Context) ([]string, error)
	// Debts lists what is, or was, owed for failed jobs.
	Debts(ctx context.Context) ([]job.Debt, error)
	// WriteOff records that msats of a debt were settled by other means.
	WriteOff(ctx context.Context, requestID string, msats int64, note string, out ...job.OutEvent) error
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
	// issued before. The others do not change afterwards: the requests that it has answered
	// lately, the charges of jobs open here that have a receipt there, and the jobs open
	// here that have failed there.
	checked   chan struct{}
	answered  map[string]struct{}
	receipted map[receiptedCharge]struct{}
	failed    map[string]said
}

// said is what our key told the buyer of a job.
type said struct {
	failed bool
	back   map[string]int64 // msats that went back or were settled, by payment or event
}

func (s said) backMsats() (sum int64) {
	for _, msats := range s.back {
		sum += msats
	}
	return sum
}

// New makes a Checker that knows nothing.
func New(cfg Config) *Checker {
	return &Checker{
		cfg: cfg, log: cfg.Log, checked: make(chan struct{}), answered: map[string]struct{}{}, receipted: map[receiptedCharge]struct{}{}, failed: map[string]said{},
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

// HasFailed waits likewise, and reports whether a job that is open here has failed there;
// then backMsats have gone back to its buyer.
func (c *Checker) HasFailed(ctx context.Context, requestID string) (backMsats int64, failed bool, err error) {
	select {
	case <-c.checked:
		s := c.failed[requestID]
		return s.backMsats(), s.failed, nil
	case <-ctx.Done():
		return 0, false, ctx.Err()
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
	open, err := c.cfg.Store.OpenJobs(ctx)
	if err != nil {
		return fmt.Errorf("list open jobs: %w", err)
	}
	if err := c.findReceipts(ctx, open); err != nil {
		return err
	}
	if c.failed, err = c.findSaid(ctx, open); err != nil {
		return err
	}
	if err := c.settleDebts(ctx); err != nil {
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
func (c *Checker) findReceipts(ctx context.Context, open []string) error {
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

// maxHeard bounds the same about what was told of jobs, which is many events each.
const maxHeard = 16

// findSaid asks the relays what our key told the buyers of jobs.
func (c *Checker) findSaid(ctx context.Context, jobs []string) (map[string]said, error) {
	all := map[string]said{}
	for len(jobs) > 0 {
		some := jobs[:min(len(jobs), maxHeard)]
		jobs = jobs[len(some):]
		signed, err := c.cfg.Query(ctx, nostr.Filter{Kinds: []int{kinds.Feedback}, Authors: []string{c.cfg.Key}, Tags: nostr.TagMap{"e": some}})
		if err != nil {
			return nil, err
		}

		for _, ev := range signed {
			of := ev.Tags.Find("e")
			tags, ok := c.feedback(ctx, ev)
			if !ok || of == nil || !slices.Contains(some, of[1]) {
				continue
			}
			s := all[of[1]]
			s.hear(ev.ID, tags)
			all[of[1]] = s
		}
	}
	return all, nil
}

// feedback is what one of our 7000 says, decrypted if it must be.
func (c *Checker) feedback(ctx context.Context, ev nostr.Event) (nostr.Tags, bool) {
	tags := ev.Tags
	if to := ev.Tags.Find("p"); to != nil && publish.IsEncrypted(ev) {
		text, err := c.cfg.Publisher.DecryptFrom(ctx, to[1], ev.Content)
		if err != nil || hashing.Unmarshal([]byte(text), &tags) != nil {
			return nil, false
		}
	}
	return tags, ev.PubKey == c.cfg.Key && domain.Demand(domain.Feedback, tags) == nil
}

// hear notes a 7000 about the job.
func (s *said) hear(id string, tags nostr.Tags) {
	status := tags.Find("status")
	if status == nil {
		return
	}
	switch refund := tags.Find("refund"); {
	case status[1] == "error":
		s.failed = true
	case status[1] == "refund" && refund != nil && len(refund) > 2 && (refund[1] == "succeeded" || refund[1] == "settled"):
		msats, err := strconv.ParseInt(refund[2], 10, 64)
		if err != nil || msats < 0 {
			return
		}
		if len(refund) > 3 {
			id = refund[3] // of the payment, whoever tells of it
		}
		if s.back == nil {
			s.back = map[string]int64{}
		}
		s.back[id] = msats
	}
}

// settleDebts takes off the debts of this database what went back since it was copied.
func (c *Checker) settleDebts(ctx context.Context) error {
	debts, err := c.cfg.Store.Debts(ctx)
	if err != nil {
		return fmt.Errorf("list debts: %w", err)
	}
	var left []string
	for _, d := range debts {
		if isLeft(d) {
			left = append(left, d.RequestID)
		}
	}
	heard, err := c.findSaid(ctx, left)
	if err != nil {
		return err
	}

	for _, d := range debts {
		back := heard[d.RequestID].backMsats() - (d.Msats - d.LeftMsats())
		if back = min(back, d.LeftMsats(), d.CreditMsats); back <= 0 || !isLeft(d) {
			continue
		}
		err := c.cfg.Store.WriteOff(ctx, d.RequestID, back, "it went back after the backup that this database comes from")
		if errors.Is(err, job.ErrDebtSettled) || errors.Is(err, job.ErrCreditSpent) { // it was used at another job
			continue
		}
		if err != nil {
			return fmt.Errorf("settle a debt: %w", err)
		}
		c.log.Warn("a debt was settled after the backup", "request", d.RequestID, "msats", back)
	}
	return nil
}

// isLeft reports a debt of which something is credit. What a refund under way is over is
// not: the wallet tells what became of that.
func isLeft(d job.Debt) bool {
	return d.WriteOff == nil && min(d.LeftMsats(), d.CreditMsats) > 0 && (d.Refund == nil || d.Refund.End != nil)
}
