package buying

import (
	"context"
	"errors"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/buyer/panel"
	"github.com/lightwork-market/lightwork/internal/lease"
)

// errWish interrupts the work on a purchase that another process has canceled.
var errWish = errors.New("another process has canceled it")

// FollowOrder is [buyer.Client.FollowOrder] for one process at a time:
// *[lease.HeldError] while another works on the order. Where a buyer runs on the data
// folder, that one does the work.
func (d *Desk) FollowOrder(ctx context.Context, id string, tell func(buyer.Progress)) (buyer.Purchase, error) {
	if d.Remote != nil {
		err := d.Remote.follow(ctx, id, func(_ string, step buyer.Progress) { tell(step) })
		if !errors.Is(err, errGone) {
			p, readErr := d.Latest(context.WithoutCancel(ctx), id)
			if err == nil {
				err = readErr
			}
			return p, err
		}
	}

	held, err := d.hold(ctx, id)
	if err != nil {
		return buyer.Purchase{}, err
	}
	return d.followOrder(ctx, id, held, tell)
}

// FollowPanel is [panel.Client.Follow] for one process at a time; the rest is as for
// FollowOrder.
func (d *Desk) FollowPanel(ctx context.Context, id string, tell func(member string, p buyer.Progress)) (panel.Panel, error) {
	if d.Remote != nil {
		err := d.Remote.follow(ctx, id, tell)
		if !errors.Is(err, errGone) {
			p, readErr := d.Store.Panel(context.WithoutCancel(ctx), id)
			if err == nil {
				err = readErr
			}
			return p, err
		}
	}

	held, err := d.hold(ctx, id)
	if err != nil {
		return panel.Panel{}, err
	}
	return d.followPanel(ctx, id, held, tell)
}

// HandOver leaves the work on a purchase or a panel to the buyer that runs on the data
// folder; false if none does, or it cannot.
func (d *Desk) HandOver(ctx context.Context, id string) (taken bool, err error) {
	if d.Remote == nil {
		return false, nil
	}
	err = d.Remote.take(ctx, id)
	if errors.Is(err, errGone) {
		return false, nil
	}
	return err == nil, err
}

// hold takes the lease of what a purchase belongs to.
func (d *Desk) hold(ctx context.Context, id string) (*lease.Lease, error) {
	unit, err := d.unit(ctx, id)
	if err != nil {
		return nil, err
	}
	return d.Leases.Take(unit)
}

// followOrder follows the order that is held.
func (d *Desk) followOrder(ctx context.Context, id string, held *lease.Lease, tell func(buyer.Progress)) (p buyer.Purchase, err error) {
	wished := func(ctx context.Context) (bool, error) {
		p, err := d.Latest(ctx, id)
		return p.Cancel != nil, err
	}
	err = d.work(ctx, held, wished, func(ctx context.Context, again bool) error {
		p, err = d.Client.FollowOrder(ctx, id, func(step buyer.Progress) {
			if !again || step.What != "requested" {
				tell(step)
			}
		})
		return err
	})
	return p, err
}

// followPanel follows the panel that is held.
func (d *Desk) followPanel(ctx context.Context, id string, held *lease.Lease, tell func(member string, p buyer.Progress)) (p panel.Panel, err error) {
	wished := func(ctx context.Context) (bool, error) {
		p, err := d.Store.Panel(ctx, id)
		return p.Decision != nil && p.Decision.Outcome == panel.OutcomeCanceled, err
	}
	err = d.work(ctx, held, wished, func(ctx context.Context, _ bool) error {
		p, err = d.Panels.Follow(ctx, id, tell)
		return err
	})
	return p, err
}

// work follows what is held, and gives it back. Once somebody wishes that it ends it is
// followed anew, as after a crash: then what the store says is done.
func (d *Desk) work(ctx context.Context, held *lease.Lease, wished func(context.Context) (bool, error), follow func(ctx context.Context, again bool) error) error {
	defer func() { _ = held.Release() }() // the end of the process releases it too

	known, err := wished(ctx)
	if err != nil {
		return err
	}
	if known {
		return follow(ctx, false)
	}

	working, stop := context.WithCancelCause(ctx)
	watched := make(chan error, 1)
	go func() {
		watched <- d.Watch(working, func(ctx context.Context) (bool, error) {
			now, err := wished(ctx)
			if now {
				stop(errWish)
			}
			return now, err
		})
	}()
	err = follow(working, false)
	interrupted := errors.Is(context.Cause(working), errWish)
	stop(nil)
	<-watched // a store that cannot be watched cannot be worked on either

	if interrupted && ctx.Err() == nil && errors.Is(err, context.Canceled) {
		return follow(ctx, true)
	}
	return err
}
