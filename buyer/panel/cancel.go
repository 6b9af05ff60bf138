package panel

import (
	"context"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/buyer"
)

// Cancel ends a panel that has not decided: nobody is paid, and every
// provider is asked to stop. buyer.ErrConflict once it has decided: what it pays is
// then followed to its end.
func (c *Client) Cancel(ctx context.Context, id string) error {
	p, err := c.cfg.Store.Panel(ctx, id)
	if err != nil {
		return err
	}
	if p.Decision != nil {
		return fmt.Errorf("%s is decided (%s): %w", id, p.Decision.Outcome, buyer.ErrConflict)
	}

	r := &run{c: c, tell: func(string, buyer.Progress) {}}
	d := Decision{Outcome: OutcomeCanceled, Reason: "canceled by the buyer", At: time.Now().UTC()}
	if err := r.store(ctx, p, d, nil); err != nil {
		return err
	}
	if p, err = c.cfg.Store.Panel(ctx, id); err != nil {
		return err
	}

	return r.carryOut(ctx, p)
}
