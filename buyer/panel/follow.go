package panel

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/hashing"
)

// run is one Follow call.
type run struct {
	c *Client

	mu   sync.Mutex // of tell
	tell func(member string, p buyer.Progress)
}

// answer is what a member has to offer: a purchase that could be paid, or a free
// one that is done.
type answer struct {
	member   Member
	purchase buyer.Purchase
	offer    *buyer.Offer // nil if free
	commit   *hashing.Digest
}

// Follow carries a panel from wherever it stands to its end: it may be
// called for a new panel, or after a crash at any point. tell, which may be nil,
// is told what happens, with the provider's key of the member or "" for the panel;
// it is not called twice at once. Every step is durable before the next begins:
//
//  1. Each member is followed until its result and a valid offer are here.
//  2. Majority: the closing that ends the commits is stored, then published.
//  3. Majority: reveals are collected and checked against the commits.
//  4. The decision is stored, and with it the reservation of all that it pays.
//  5. Those members are paid, opened and verified like any purchase.
//
// An error that wraps ErrNoConsensus or buyer.ErrFailed means that the panel ended
// without a result; any other that it is still open.
func (c *Client) Follow(ctx context.Context, id string, tell func(member string, p buyer.Progress)) (Panel, error) {
	if tell == nil {
		tell = func(string, buyer.Progress) {}
	}
	r := &run{c: c, tell: tell}
	p, err := c.cfg.Store.Panel(ctx, id)
	if err != nil {
		return Panel{}, err
	}
	if p.Decision == nil {
		if p, err = r.decide(ctx, p); err != nil {
			return p, err
		}
	}

	if err := r.carryOut(ctx, p); err != nil {
		return p, err
	}
	if len(p.taken()) == 0 {
		return p, fmt.Errorf("%w: %s", ErrNoConsensus, p.Decision.Reason)
	}

	_, err = c.Result(ctx, p)
	return p, err
}

// Result is the purchase whose output is the panel's: the first member that
// was paid and has everything its mode promises. buyer.ErrFailed if none has.
func (c *Client) Result(ctx context.Context, p Panel) (buyer.Purchase, error) {
	reason := "nobody was paid"
	for _, member := range p.taken() {
		got, err := c.buyer.Purchase(ctx, member.RequestID)
		if err != nil {
			return buyer.Purchase{}, err
		}
		if got.State == buyer.StateDone {
			return got, nil
		}
		reason = got.Reason
	}

	return buyer.Purchase{}, fmt.Errorf("%w: no member of the panel delivered what it was paid for: %s", buyer.ErrFailed, reason)
}

func (p Panel) taken() (members []Member) {
	for _, s := range p.Members {
		if s.Ruling != nil && s.Ruling.Taken {
			members = append(members, s)
		}
	}
	return members
}

func (r *run) say(member string, p buyer.Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tell(member, p)
}

// panel tells what the panel itself does.
func (r *run) panel(what, hash, text string) {
	r.say("", buyer.Progress{At: time.Now().UTC(), Who: "panel", What: what, Hash: hash, Text: text})
}

// gather follows every member until it has an answer, failed, or time is up, and
// returns the answers in the order they came. The first rule stops at the first.
func (r *run) gather(ctx context.Context, p Panel) ([]answer, error) {
	closing, closed, err := p.closing()
	if err != nil {
		return nil, err
	}

	// After a restart honest answers may still have to be read from the relays.
	until := p.Deadline
	if again := time.Now().Add(r.c.cfg.AnswerTimeout); closed || until.Before(again) {
		until = again
	}
	waiting, stop := context.WithDeadline(ctx, until)
	defer stop()

	var mu sync.Mutex
	var answers []answer
	g, gctx := errgroup.WithContext(waiting)
	for _, member := range p.Members {
		if closed && !closing.Lists(member.RequestID) {
			continue
		}
		g.Go(func() error {
			a, err := r.answer(gctx, p, member)
			switch {
			case err == nil:
				mu.Lock()
				answers = append(answers, a)
				mu.Unlock()
				if p.Rule == RuleFirst {
					stop()
				}
				return nil
			case gctx.Err() != nil, errors.Is(err, buyer.ErrFailed), errors.Is(err, buyer.ErrUnasked):
				return nil // no answer in time, or none at all
			}

			return fmt.Errorf("member of %s: %w", member.Provider, err)
		})
	}

	err = g.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return answers, err
}

// answer follows one member until it could be paid, or is done for free.
func (r *run) answer(ctx context.Context, panel Panel, member Member) (answer, error) {
	tell := func(p buyer.Progress) { r.say(member.Provider, p) }
	p, offer, err := r.c.buyer.FollowToOffer(ctx, member.RequestID, panel.Rule.subjective(), tell)
	if err != nil {
		return answer{}, err
	}

	a := answer{member: member, purchase: p, offer: offer}
	a.commit, err = commitOf(p)
	return a, err
}

// carryOut pays the members that the decision names and tells the others to stop.
// A member that cheats fails alone; what is only unfinished leaves the panel open.
func (r *run) carryOut(ctx context.Context, p Panel) error {
	for _, member := range p.Members {
		if member.Ruling == nil || member.Ruling.Taken {
			continue
		}
		if err := r.c.buyer.SendCancellation(ctx, member.RequestID); err != nil {
			return err
		}
		if err := r.c.buyer.EndFee(ctx, member.RequestID); err != nil {
			return err
		}
	}

	var g errgroup.Group
	for _, member := range p.taken() {
		g.Go(func() error {
			_, err := r.c.buyer.Follow(ctx, member.RequestID, func(pr buyer.Progress) {
				switch pr.What {
				case "requested", "processing", "working": // the relays tell it again
				default:
					r.say(member.Provider, pr)
				}
			})
			if errors.Is(err, buyer.ErrFailed) {
				return nil
			}
			return err
		})
	}

	return g.Wait()
}
