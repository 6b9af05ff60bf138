package buyer

import (
	"context"
	"errors"
	"fmt"
)

// ErrWalletHere: the wallet that pays for the purchase is the configured one, so it
// can be asked.
var ErrWalletHere = errors.New("the wallet that pays for it is the configured one, which can be asked")

// GiveUp takes a purchase off the open ones whose payment only a wallet can tell of
// that is lost for good, or has lost its records of it. That it is lost is the word of whoever calls: the payment
// may have gone through, or go through yet. So it stays begun, all that it may cost
// stays reserved of that day's budget, and nothing is paid in its place. The
// provider is asked to stop. Once the same wallet is configured again, Follow goes on.
func (c *Client) GiveUp(ctx context.Context, requestID string) error {
	p, err := c.cfg.Store.Purchase(ctx, requestID)
	if err != nil {
		return err
	}
	if p.State != StatePaying {
		return fmt.Errorf("no payment of it is under way, it is %s: %w", p.State, ErrConflict)
	}
	due, _ := p.due()
	if c.cfg.Wallet != nil {
		err := c.begunHere(ctx, *due)
		if err == nil {
			var lost bool
			if lost, err = c.forgotten(ctx, *due); err == nil && !lost {
				return ErrWalletHere
			}
		}
		if err != nil && !errors.Is(err, ErrOtherWallet) {
			return err
		}
	}
	if err := c.Cancel(ctx, requestID); err != nil {
		c.log.Warn("the provider was not asked to stop", "request", requestID, "err", err)
	}
	return c.cfg.Store.GiveUp(ctx, requestID, fmt.Sprintf("the wallet that pays for it is lost, its buyer says: %d msats stay reserved of %s",
		due.AmountMsats+due.FeeLimitMsats, due.ReservedAt.UTC().Format("2006-01-02")))
}

// GivenUp reports that nobody is expected to know what comes of the payment.
func (p Purchase) GivenUp() bool { return p.State == StatePaying && p.Reason != "" }

// GivenUpMsats is what a purchase that was given up may have cost; 0 of any other.
func (p Purchase) GivenUpMsats() int64 {
	if !p.GivenUp() {
		return 0
	}
	due, _ := p.due()
	return due.AmountMsats + due.FeeLimitMsats
}
