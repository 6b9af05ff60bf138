package buyer

import (
	"context"
	"fmt"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/internal/offer"
	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/receipts"
)

// Offer is what a provider asks for a purchase, checked and not paid.
type Offer struct{ o offer.Offer }

// Draft signs the request of an order and makes the purchase that begins with it,
// with further tags in the request. Nothing is stored and nothing is sent: whoever
// stores it, with [Store.AddPurchase] or together with other purchases, can follow it.
func (c *Client) Draft(ctx context.Context, o Order, more ...nostr.Tag) (Purchase, error) {
	if !nostr.IsValidPublicKey(o.Provider) {
		return Purchase{}, fmt.Errorf("provider %q is not a public key", o.Provider)
	}
	return c.draft(ctx, o, more...)
}

// FollowToOffer follows a purchase as [Client.Follow] does, but pays for no result:
// it returns once the purchase could be paid, with the offer, or has ended. For a
// free job that is done the offer is nil. readsFirst says that the result is read
// before it is paid for, so that a fee for the attempt is paid meanwhile.
func (c *Client) FollowToOffer(ctx context.Context, requestID string, readsFirst bool, tell func(Progress)) (Purchase, *Offer, error) {
	f := c.flow.Follower(requestID, tell)
	f.Undecided, f.ReadsFirst = true, readsFirst
	p, o, err := f.ToOffer(ctx)
	if o == nil {
		return p, nil, err
	}
	return p, &Offer{*o}, err
}

// Award decides by the buyer's rules whether an offer is paid, and signs that it is
// accepted. Nothing is reserved. *ApprovalError if the rules are against it, ErrConflict
// if the offer is not for this purchase.
func (c *Client) Award(ctx context.Context, p Purchase, o *Offer) (Award, error) {
	switch {
	case o == nil:
		return Award{}, fmt.Errorf("award purchase %s: no offer asks to be paid for it: %w", p.RequestID, ErrConflict)
	case o.o.Quote.RequestID != p.RequestID:
		return Award{}, fmt.Errorf("award purchase %s: the offer is for request %s: %w", p.RequestID, o.o.Quote.RequestID, ErrConflict)
	}

	return c.offers.Award(ctx, purchase.ViewOf(p), o.o)
}

// Accept publishes the acceptance of an award that is stored. Follow publishes it
// again, so that it does not arrive now is no loss.
func (c *Client) Accept(ctx context.Context, p Purchase, a Award) error {
	return c.flow.Accept(ctx, p, a)
}

// MayPay is nil if the buyer's rules let a drafted purchase be paid in the mode, at
// the most that its request bids; else an *ApprovalError.
func (c *Client) MayPay(p Purchase, mode receipts.Mode) error {
	_, err := c.ApprovalRuleFor(c.offers.PaymentOf(p, mode, purchase.TermsOf(p).BidMsats))
	return err
}

// AffordsDay says early, before anybody works for nothing, that the day's budget
// does not hold the worst case of an order, in msats: *BudgetError. What counts is
// the reservation.
func (c *Client) AffordsDay(ctx context.Context, most int64) error {
	return c.offers.AffordsDay(ctx, most, c.cfg.Limits.DayMsats)
}

// Limits bound the spending over all purchases, those of a panel too.
func (c *Client) Limits() Limits { return c.cfg.Limits }

// Purchase is a purchase as it stands.
func (c *Client) Purchase(ctx context.Context, requestID string) (Purchase, error) {
	return c.cfg.Store.Purchase(ctx, requestID)
}

// Sign makes a document of the buyer's in its domain, now.
func (c *Client) Sign(ctx context.Context, kind int, d domain.Domain, tags nostr.Tags, content string) (nostr.Event, []byte, error) {
	return c.author.Sign(ctx, kind, d, tags, content)
}

// Cancellation signs that a provider is to drop a request.
func (c *Client) Cancellation(ctx context.Context, requestID, provider, why string) ([]byte, error) {
	_, raw, err := c.author.Deletion(ctx, requestID, provider, why)
	return raw, err
}

// EncryptFor hides an event of ours for the provider of a purchase, if the purchase is
// encrypted.
func (c *Client) EncryptFor(ctx context.Context, p Purchase, ev nostr.Event) (nostr.Event, error) {
	return c.author.Encrypt(ctx, p, ev)
}

// DecryptFrom reads what the provider of a purchase has hidden in an event.
func (c *Client) DecryptFrom(ctx context.Context, p Purchase, ev nostr.Event) (nostr.Event, error) {
	return c.author.Decrypt(ctx, p, ev)
}
