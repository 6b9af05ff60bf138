package buyer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/internal/refund"
	"github.com/lightwork-market/lightwork/buyer/internal/text"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// paymentRequired checks the offer, of the result or of a fee for the attempt,
// approves it within the budget, and pays it. Everything that a restart needs is
// durable before the first message to the wallet (B1). A fee that we do not pay ends
// the purchase: the provider does nothing without it.
func (f *follower) paymentRequired(ctx context.Context, p view, ev nostr.Event) error {
	fee := isEngagement(ev.Content)
	if p.State == StatePaying && p.Attempt == nil && !fee {
		f.afterFee = &ev
	}
	if p.State != StateRequested {
		return nil
	}
	f.serving = true // or declined below
	if p.Cancel != nil {
		err := f.c.cfg.Store.CloseUnpaid(ctx, f.id, StateCanceled, canceledText(p.Purchase))
		if errors.Is(err, ErrConflict) {
			return nil // Cancel has closed it meanwhile
		}
		return err
	}

	switch {
	case f.c.cfg.Wallet == nil:
		return f.decline(ctx, p, CodeNoWallet, "payment is required, and no wallet is configured")
	case p.Plain && !isQuote(ev.Content) && f.undecided:
		return f.refuse(ctx, p, CodeBadOffer, errors.New("not paid: an invoice without a quote is no offer to decide about"))
	case p.Plain && !isQuote(ev.Content):
		return f.payBare(ctx, p, ev)
	case fee && p.Engagement != nil:
		return nil // told again, or asked for twice: it is paid once
	case fee && f.undecided && !f.readsFirst:
		return f.refuse(ctx, p, CodeBadOffer, errors.New("not paid: whoever votes in a panel is paid no engagement fee"))
	}

	o, err := f.c.unlessPaid(ctx, func(now time.Time) (offer, error) { return f.c.checkOffer(p, ev, f.network, now) })
	if errors.Is(err, errWalletSilent) {
		return err
	}
	if err != nil {
		return f.refuse(ctx, p, CodeBadOffer, err)
	}

	if !fee && o.quote.Mode == receipts.ModePostpay {
		if !isHere(p, o) {
			f.postpay = &ev // looked at again when the result is here
			return nil
		}
		err := checkDelivered(p, o)
		if err == nil {
			err = f.checkPolicy(ctx, o.quote)
		}
		if err != nil {
			f.say("buyer", "refused", 0, "", text.Clean(err.Error()))
			code := CodeBadOffer
			if p.Terms.Expects() {
				code = CodeUnmet
			}
			return f.decline(ctx, p, code, "not paid: "+err.Error())
		}
	}

	if err := f.keepOffer(ctx, ev); err != nil {
		return f.refuse(ctx, p, CodeBadOffer, err)
	}
	terms := string(o.quote.Mode) + refund.CreditText(ev)
	if fee {
		terms = "engagement fee, " + string(o.quote.Mode)
	}
	f.say("provider", "quoted", o.quote.PriceMsats, o.hash.String(), terms)
	if !fee {
		if err := f.c.refunds.Credit(ctx, f.id, ev, CreditUsed); err != nil {
			return err
		}
		if f.undecided {
			return f.offer(ctx, p, o)
		}
	}

	award, err := f.c.award(ctx, p, o)
	if notApproved(err) {
		return f.refuse(ctx, p, CodeNotApproved, err)
	}
	if err != nil {
		return err
	}

	return f.reserveAndPay(ctx, p, award)
}

// refuse ends a purchase over an offer that is not paid, and says why.
func (f *follower) refuse(ctx context.Context, p view, code string, why error) error {
	f.say("buyer", "refused", 0, "", text.Clean(why.Error()))
	return f.decline(ctx, p, code, why.Error())
}

// isHere reports whether the result that an offer asks to be paid for has come, in
// boxes where the offer says so.
func isHere(p view, o offer) bool {
	if o.quote.Delivery == receipts.DeliverySealed {
		return p.SealedEvent != nil
	}
	return p.Output != nil
}

// checkDelivered holds a result that is here against the offer that asks to be paid
// for it.
func checkDelivered(p view, o offer) error {
	if o.quote.Delivery == receipts.DeliverySealed {
		return receipts.CheckSealedEvent(p.SealedEvent, p.Provider, p.RequestID, o.hash)
	}
	if err := checkExpected(p); err != nil {
		return err
	}
	return checkProvable(p, o)
}

// keepOffer stores the offer that is about to be paid, whatever else was said
// before: a dispute needs it.
func (f *follower) keepOffer(ctx context.Context, ev nostr.Event) error {
	offer, err := ev.MarshalJSON()
	if err != nil {
		return err
	}
	if len(offer) > feedbackBytes {
		return fmt.Errorf("not paid: the offer has %d bytes, the limit is %d", len(offer), feedbackBytes)
	}
	return f.c.cfg.Store.AddFeedback(ctx, f.id, ev.ID, offer, ev.CreatedAt.Time())
}

// reserveAndPay makes an award durable and begins its payment.
func (f *follower) reserveAndPay(ctx context.Context, p view, award Award) error {
	err := f.c.payer.Reserve(ctx, f.id, award.Charge)
	var over *BudgetError
	switch {
	case errors.As(err, &over):
		return f.refuse(ctx, p, CodeOverBudget, err)
	case errors.Is(err, ErrSecondPayment):
		return f.refuse(ctx, p, CodeBadOffer, err)
	case err != nil:
		return fmt.Errorf("reserve budget: %w", err)
	}

	if award.Acceptance != nil { // without a quote there is nothing to accept
		if err := f.c.sendAcceptance(ctx, p.Purchase, award); err != nil {
			f.c.log.Warn("acceptance not published yet", "request", f.id, "err", err)
		} else {
			f.say("buyer", "accepted", award.Attempt.AmountMsats, hashing.Bytes(award.Quote).String(), approvedBy(award.rule))
		}
	}

	if p, err = f.view(ctx); err != nil {
		return err
	}
	f.pay(ctx, p.Purchase)
	return nil
}

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
