package buyer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/internal/text"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/receipts"
)

// paymentRequired checks the offer, approves it within the budget, and pays.
// Everything that a restart needs is durable before the first message to the
// wallet (B1).
func (f *follower) paymentRequired(ctx context.Context, p Purchase, ev nostr.Event) error {
	if p.State == StatePaying && p.Attempt == nil && !isEngagement(ev.Content) {
		f.afterFee = &ev
	}
	if p.State != StateRequested {
		return nil
	}
	f.serving = true // or declined below
	if p.Cancel != nil {
		err := f.c.cfg.Store.CloseUnpaid(ctx, f.id, StateCanceled, canceledText(p))
		if errors.Is(err, ErrConflict) {
			return nil // Cancel has closed it meanwhile
		}
		return err
	}
	if f.c.cfg.Wallet == nil {
		return f.decline(ctx, p, CodeNoWallet, "payment is required, and no wallet is configured")
	}
	if p.Outside && !isQuote(ev.Content) {
		return f.payBare(ctx, p, ev)
	}
	if isEngagement(ev.Content) {
		return f.engagement(ctx, p, ev)
	}
	o, err := f.c.unlessPaid(ctx, func(now time.Time) (offer, error) { return f.c.checkOffer(p, ev, f.network, now) })
	if errors.Is(err, errWalletSilent) {
		return err
	}
	if err != nil {
		f.say("buyer", "refused", 0, "", err.Error())
		return f.decline(ctx, p, CodeBadOffer, err.Error())
	}
	sealed := o.quote.Delivery == receipts.DeliverySealed
	if o.quote.Mode == receipts.ModePostpay && (p.Output == nil && !sealed || p.SealedEvent == nil && sealed) {
		f.postpay = &ev // looked at again when the result is here
		return nil
	}
	if o.quote.Mode == receipts.ModePostpay {
		if sealed {
			err = receipts.CheckSealedEvent(p.SealedEvent, p.Provider, p.RequestID, o.hash)
		} else if err = checkWorth(p); err == nil {
			err = checkProvable(p, o)
		}
		if err == nil {
			err = f.checkPolicy(ctx, o.quote)
		}
		if err != nil {
			f.say("buyer", "refused", 0, "", text.Clean(err.Error()))
			code := CodeBadOffer
			if expects(p) {
				code = CodeUnmet
			}
			return f.decline(ctx, p, code, "not paid: "+err.Error())
		}
	}
	if err := f.keepOffer(ctx, ev); err != nil {
		f.say("buyer", "refused", 0, "", err.Error())
		return f.decline(ctx, p, CodeBadOffer, err.Error())
	}
	f.say("provider", "quoted", o.quote.PriceMsats, o.hash.String(), string(o.quote.Mode)+creditText(ev))
	if err := f.credit(ctx, ev, CreditUsed); err != nil {
		return err
	}
	if f.undecided {
		return f.offer(ctx, p, o)
	}
	award, err := f.c.award(ctx, p, o)
	if notApproved(err) {
		f.say("buyer", "refused", 0, "", err.Error())
		return f.decline(ctx, p, CodeNotApproved, err.Error())
	}
	if err != nil {
		return err
	}
	return f.reserveAndPay(ctx, p, award)
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
func (f *follower) reserveAndPay(ctx context.Context, p Purchase, award Award) error {
	err := f.c.cfg.Store.Reserve(ctx, f.id, award.Attempt, award.Quote, award.BOLT11, award.Acceptance, f.c.cfg.Limits)
	var over *BudgetError
	switch {
	case errors.As(err, &over):
		f.say("buyer", "refused", 0, "", err.Error())
		return f.decline(ctx, p, CodeOverBudget, err.Error())
	case errors.Is(err, ErrSecondPayment):
		f.say("buyer", "refused", 0, "", err.Error())
		return f.decline(ctx, p, CodeBadOffer, err.Error())
	case err != nil:
		return fmt.Errorf("reserve budget: %w", err)
	}
	if err = f.c.sendAcceptance(ctx, p, award); err != nil {
		f.c.log.Warn("acceptance not published yet", "request", f.id, "err", err)
	} else {
		f.say("buyer", "accepted", award.Attempt.AmountMsats, hashing.Bytes(award.Quote).String(), approvedBy(award.rule))
	}
	if p, err = f.c.cfg.Store.Purchase(ctx, f.id); err != nil {
		return err
	}
	f.pay(ctx, p)
	return nil
}
