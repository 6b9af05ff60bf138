package buyer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/hashing"
)

// panelRun is one FollowPanel call.
type panelRun struct {
	c *Client

	mu   sync.Mutex // of tell
	tell func(seat string, p Progress)
}

// answer is what a seat has to offer: a purchase that could be paid, or a free
// one that is done.
type answer struct {
	seat     Seat
	purchase Purchase
	offer    *offer // nil if free
	commit   *hashing.Digest
}

// FollowPanel carries a panel from wherever it stands to its end: it may be
// called for a new panel, or after a crash at any point. tell, which may be nil,
// is told what happens, with the provider's key of the seat or "" for the panel;
// it is not called twice at once. Every step is durable before the next begins:
//
//  1. Each seat is followed until its result and a valid offer are here.
//  2. Majority: the closing that ends the commits is stored, then published.
//  3. Majority: reveals are collected and checked against the commits.
//  4. The decision is stored, and with it the reservation of all that it pays.
//  5. Those seats are paid, opened and verified like any purchase.
//
// An error that wraps ErrNoConsensus or ErrFailed means that the panel ended
// without a result; any other that it is still open.
func (c *Client) FollowPanel(ctx context.Context, id string, tell func(seat string, p Progress)) (Panel, error) {
	if tell == nil {
		tell = func(string, Progress) {}
	}
	r := &panelRun{c: c, tell: tell}
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
	_, err = c.PanelResult(ctx, p)
	return p, err
}

// PanelResult is the purchase whose output is the panel's: the first seat that
// was paid and has everything its mode promises. ErrFailed if none has.
func (c *Client) PanelResult(ctx context.Context, p Panel) (Purchase, error) {
	reason := "nobody was paid"
	for _, seat := range p.taken() {
		got, err := c.cfg.Store.Purchase(ctx, seat.RequestID)
		if err != nil {
			return Purchase{}, err
		}
		if got.State == StateDone {
			return got, nil
		}
		reason = got.Reason
	}
	return Purchase{}, fmt.Errorf("%w: no seat of the panel delivered what it was paid for: %s", ErrFailed, reason)
}

func (p Panel) taken() (seats []Seat) {
	for _, s := range p.Seats {
		if s.Ruling != nil && s.Ruling.Taken {
			seats = append(seats, s)
		}
	}
	return seats
}

func (r *panelRun) say(seat string, p Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tell(seat, p)
}

// panel tells what the panel itself does.
func (r *panelRun) panel(what, hash, text string) {
	r.say("", Progress{At: time.Now().UTC(), Who: "panel", What: what, Hash: hash, Text: text})
}

// gather follows every seat until it has an answer, failed, or time is up, and
// returns the answers in the order they came. The first rule stops at the first.
func (r *panelRun) gather(ctx context.Context, p Panel) ([]answer, error) {
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
	for _, seat := range p.Seats {
		if closed && !closing.Lists(seat.RequestID) {
			continue
		}
		g.Go(func() error {
			a, err := r.answer(gctx, p, seat)
			switch {
			case err == nil:
				mu.Lock()
				answers = append(answers, a)
				mu.Unlock()
				if p.Rule == RuleFirst {
					stop()
				}
				return nil
			case gctx.Err() != nil, errors.Is(err, ErrFailed), errors.Is(err, ErrUnasked):
				return nil // no answer in time, or none at all
			}
			return fmt.Errorf("seat of %s: %w", seat.Provider, err)
		})
	}
	err = g.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return answers, err
}

// answer follows one seat until it could be paid, or is done for free.
func (r *panelRun) answer(ctx context.Context, panel Panel, seat Seat) (answer, error) {
	f := r.c.newFollower(seat.RequestID, func(p Progress) { r.say(seat.Provider, p) })
	f.seated, f.readsFirst = true, panel.Rule.subjective()
	p, err := f.follow(ctx)
	if err != nil && !errors.Is(err, errSeated) {
		return answer{}, err
	}
	a := answer{seat: seat, purchase: p, offer: f.offered}
	a.commit, err = commitOf(p)
	return a, err
}

// takeSeat ends a seat's follower with an offer that could be paid. One that the
// buyer's rules stand against is none: it must not count as an answer, nor come
// before another.
func (f *follower) takeSeat(ctx context.Context, p Purchase, o offer) error {
	if _, err := f.c.ApprovalRuleFor(f.c.approvalOf(p, o.quote.Mode, o.quote.PriceMsats)); err != nil {
		f.say("buyer", "refused", 0, "", err.Error())
		return f.decline(ctx, p, CodeNotApproved, err.Error())
	}
	f.offered = &o
	return errSeated
}

// carryOut pays the seats that the decision names and tells the others to stop.
// A seat that cheats fails alone; what is only unfinished leaves the panel open.
func (r *panelRun) carryOut(ctx context.Context, p Panel) error {
	for _, seat := range p.Seats {
		if seat.Ruling == nil || seat.Ruling.Taken {
			continue
		}
		if err := r.dismiss(ctx, seat); err != nil {
			return err
		}
		if err := r.c.endFee(ctx, seat.RequestID); err != nil {
			return err
		}
	}
	var g errgroup.Group
	for _, seat := range p.taken() {
		g.Go(func() error {
			_, err := r.c.Follow(ctx, seat.RequestID, func(pr Progress) {
				switch pr.What {
				case "requested", "processing", "working": // the relays tell it again
				default:
					r.say(seat.Provider, pr)
				}
			})
			if errors.Is(err, ErrFailed) {
				return nil
			}
			return err
		})
	}
	return g.Wait()
}

// dismiss publishes the cancellation that the decision stored. It spares the
// provider work; that it arrives is not needed.
func (r *panelRun) dismiss(ctx context.Context, seat Seat) error {
	p, err := r.c.cfg.Store.Purchase(ctx, seat.RequestID)
	if err != nil || p.Cancel == nil {
		return err
	}
	ev, err := eventOf(p.Cancel)
	if err != nil {
		return err
	}
	if err := r.c.cfg.Market.Send(ctx, ev); err != nil {
		r.c.log.Warn("seat not told that it is not paid", "request", seat.RequestID, "err", err)
	}
	return nil
}
