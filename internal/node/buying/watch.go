package buying

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/buyer/panel"
	"github.com/lightwork-market/lightwork/internal/lease"
)

// idleInterval is how often it is looked whether anybody still works on a purchase that
// does not change.
const idleInterval = 200 * time.Millisecond

// ErrIdle is how watching a purchase ends that is open, and that nobody works on.
var ErrIdle = errors.New("it is open, and no process works on it")

// WatchOrder tells what happens to the order of a request, from its beginning, until it
// has ended; [ErrIdle] if nobody works on it before that.
func (b Board) WatchOrder(ctx context.Context, id string, tell func(buyer.Progress)) (p buyer.Purchase, err error) {
	told := steps{}
	err = b.watch(ctx, id, func(ctx context.Context) (ended bool, err error) {
		ended, requests, err := b.requestsOf(ctx, id)
		if err != nil {
			return false, err
		}
		for i, request := range requests {
			if p, err = b.Store.Purchase(ctx, request); err != nil {
				return false, err
			}
			feedback, err := b.Store.Feedback(ctx, request)
			if err != nil {
				return false, err
			}
			told.tell(p, feedback, i > 0, tell)
		}
		return ended, nil
	})
	if err == nil && p.State != buyer.StateDone {
		err = fmt.Errorf("%w: %s: %s", buyer.ErrFailed, p.State, p.Reason)
	}
	return p, err
}

// requestsOf are the requests of the order that a purchase belongs to, and whether all
// have ended and no further one will be made.
func (b Board) requestsOf(ctx context.Context, id string) (ended bool, ids []string, err error) {
	order, err := b.Store.PlacedOrder(ctx, id)
	switch {
	case errors.Is(err, buyer.ErrNotFound):
		ids = []string{id}
	case err != nil:
		return false, nil, err
	}

	for _, r := range order.Requests {
		ids = append(ids, r.RequestID)
	}
	last, err := b.Store.Purchase(ctx, ids[len(ids)-1])
	return !order.Open && (last.State.Terminal() || last.GivenUp()), ids, err
}

// WatchPanel is WatchOrder of a panel.
func (b Board) WatchPanel(ctx context.Context, id string, tell func(member string, p buyer.Progress)) (p panel.Panel, err error) {
	told, done := steps{}, false
	err = b.watch(ctx, id, func(ctx context.Context) (ended bool, err error) {
		if p, err = b.Store.Panel(ctx, id); err != nil {
			return false, err
		}

		ended = p.Decision != nil
		for _, m := range p.Members {
			bought, err := b.Store.Purchase(ctx, m.RequestID)
			if err != nil {
				return false, err
			}
			ended = ended && (bought.State.Terminal() || bought.GivenUp())
			feedback, err := b.Store.Feedback(ctx, m.RequestID)
			if err != nil {
				return false, err
			}
			told.tell(bought, feedback, false, func(step buyer.Progress) { tell(m.Provider, step) })
			done = done || bought.State == buyer.StateDone && m.Ruling != nil && m.Ruling.Taken
		}
		return ended, nil
	})
	switch {
	case err != nil || done:
		return p, err
	case slices.ContainsFunc(p.Members, func(m panel.Member) bool { return m.Ruling != nil && m.Ruling.Taken }):
		return p, fmt.Errorf("%w: no member of the panel delivered what it was paid for", buyer.ErrFailed)
	}
	return p, fmt.Errorf("%w: %s", panel.ErrNoConsensus, p.Decision.Reason)
}

// watch looks after each change, and from time to time whether anybody works on it.
func (b Board) watch(ctx context.Context, id string, look func(context.Context) (ended bool, err error)) error {
	unit, err := b.unit(ctx, id)
	if err != nil {
		return err
	}
	watching, stop := context.WithCancelCause(ctx)
	idle := make(chan struct{})
	go func() {
		defer close(idle)
		stop(untilIdle(watching, b.Leases, unit))
	}()

	err = b.Watch(watching, look)
	cause := context.Cause(watching)
	stop(nil)
	<-idle
	if err == nil || ctx.Err() != nil || cause == nil {
		return err
	}
	if ended, err := look(ctx); ended || err != nil { // it may have ended just before its worker
		return err
	}
	return cause
}

// untilIdle waits until nobody has a lease.
func untilIdle(ctx context.Context, leases lease.Dir, unit string) error {
	tick := time.NewTicker(idleInterval)
	defer tick.Stop()

	for {
		if _, held, err := leases.Holder(unit); err != nil {
			return err
		} else if !held {
			return ErrIdle
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
