package buyer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/lightwork-market/lightwork/payments"
)

// A database restored from a backup may hold a purchase as requested that a later
// life has paid for. The relays still have what the provider said, and the wallet
// knows what it paid: with both the result is had after all.

// errWalletSilent: an offer has lapsed, and the wallet does not say now whether it was
// paid in time.
var errWalletSilent = errors.New("ask the wallet whether a lapsed offer was paid")

// unlessPaid checks an offer as of now. One that has lapsed since is good all the
// same if our wallet began to pay it: nothing is paid then that is not.
func (c *Client) unlessPaid(ctx context.Context, check func(now time.Time) (offer, error)) (offer, error) {
	o, bad := check(time.Now())
	if bad == nil {
		return o, nil
	}
	late, err := check(time.Time{})
	if err != nil {
		return o, bad // for more than its time
	}
	switch pay, err := c.cfg.Wallet.LookupPayment(ctx, late.pay); {
	case errors.Is(err, payments.ErrNotFound), err == nil && pay.State == payments.PaymentFailed:
		return o, bad
	case err != nil:
		return o, fmt.Errorf("%w: %w", errWalletSilent, err)
	}
	return late, nil
}

// lapsed reports whether the request says that nobody is to take it up any more:
// relays refuse it then, and what was answered before can still be read.
func (p Purchase) lapsed(now time.Time) bool {
	ev, err := eventOf(p.Request)
	if err != nil {
		return false
	}
	t := ev.Tags.Find("expiration")
	if t == nil {
		return false
	}
	unix, err := strconv.ParseInt(t[1], 10, 64)
	return err == nil && !now.Before(time.Unix(unix, 0))
}
