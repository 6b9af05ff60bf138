package buyer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// ErrEngagement: the provider asks a fee for the attempt that we do not pay.
// Nothing was sent.
var ErrEngagement = errors.New("the engagement fee is more than buyer.max_engagement_msats")

// engagementFor is the fee that the provider has announced for this order, which
// is then the most that it is paid. ErrEngagement if that is more than we pay.
func (c *Client) engagementFor(o Order, req *schemas.Request, judged bool) (int64, error) {
	if o.Announced == nil || o.Plain {
		return 0, nil
	}
	mode, modes := o.Mode, o.Announced.Modes[o.SchemaID]
	if mode == "" && len(modes) > 0 {
		mode = modes[0]
	}
	fee := o.Announced.Prices[string(req.SchemaID)].Engagement(req, judged)
	if mode == receipts.ModeFree || fee == 0 {
		return 0, nil
	}
	if fee < 0 || fee > c.cfg.MaxEngagementMsats {
		return 0, fmt.Errorf("%w: it is %d msats, and we pay %d at most", ErrEngagement, fee, c.cfg.MaxEngagementMsats)
	}

	return fee, nil
}

// engaged goes on after the fee was paid, with what has come meanwhile: the
// provider may know of the payment before our wallet does.
func (f *follower) engaged(ctx context.Context) error {
	p, err := f.view(ctx)
	if err != nil {
		return err
	}
	f.began = time.Time{} // its time for the job begins now

	switch {
	case p.Cancel != nil: // meanwhile
		return f.c.cfg.Store.CloseUnpaid(ctx, f.id, StateCanceled, canceledText(p.Purchase))
	case f.lastWord != "":
		return f.refused(ctx, p, f.lastWord)
	}

	if next := f.afterFee; next != nil {
		f.afterFee = nil
		return f.paymentRequired(ctx, p, *next)
	}
	return nil
}
