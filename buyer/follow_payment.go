package buyer

import (
	"context"
	"errors"
	"fmt"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/internal/offer"
	"github.com/lightwork-market/lightwork/buyer/internal/refund"
	"github.com/lightwork-market/lightwork/buyer/internal/result"
	"github.com/lightwork-market/lightwork/buyer/internal/text"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/receipts"
)

// paymentRequired checks the offer, of the result or of a fee for the attempt,
// approves it within the budget, and pays it. Everything that a restart needs is
// durable before the first message to the wallet (B1). A fee that we do not pay ends
// the purchase: the provider does nothing without it.
func (f *follower) paymentRequired(ctx context.Context, p view, ev nostr.Event) error {
	fee := offer.IsFee(ev.Content)
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
	case f.profile.Bare(ev) && f.undecided:
		return f.refuse(ctx, p, CodeBadOffer, errors.New("not paid: an invoice without a quote is no offer to decide about"))
	case f.profile.Bare(ev):
		return f.payBare(ctx, p, ev)
	case fee && p.Engagement != nil:
		return nil // told again, or asked for twice: it is paid once
	case fee && f.undecided && !f.readsFirst:
		return f.refuse(ctx, p, CodeBadOffer, errors.New("not paid: whoever votes in a panel is paid no engagement fee"))
	}

	o, err := f.c.offers.CheckUnlessPaid(ctx, p, ev, f.network, f.c.cfg.Wallet.LookupPayment)
	if errors.Is(err, offer.ErrWalletSilent) {
		return err
	}
	if err != nil {
		return f.refuse(ctx, p, CodeBadOffer, err)
	}

	if !fee && o.Quote.Mode == receipts.ModePostpay {
		if !result.IsHere(p.Purchase, o.Quote) {
			f.postpay = &ev // looked at again when the result is here
			return nil
		}
		if err := f.results.CheckDelivered(ctx, p, o.Quote, o.Hash); err != nil {
			f.say("buyer", "refused", 0, "", text.Clean(err.Error()))
			code := CodeBadOffer
			if p.Terms.Expects() {
				code = CodeUnmet
			}
			return f.decline(ctx, p, code, "not paid: "+err.Error())
		}
	}

	if err := f.c.offers.Keep(ctx, f.id, ev); err != nil {
		return f.refuse(ctx, p, CodeBadOffer, err)
	}
	terms := string(o.Quote.Mode) + refund.CreditText(ev)
	if fee {
		terms = "engagement fee, " + string(o.Quote.Mode)
	}
	f.say("provider", "quoted", o.Quote.PriceMsats, o.Hash.String(), terms)
	if !fee {
		if err := f.c.refunds.Credit(ctx, f.id, ev, CreditUsed); err != nil {
			return err
		}
		if f.undecided {
			return f.offer(ctx, p, o)
		}
	}

	award, err := f.c.offers.Award(ctx, p, o)
	if offer.NotApproved(err) {
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
			f.say("buyer", "accepted", award.Attempt.AmountMsats, hashing.Bytes(award.Quote).String(), offer.ApprovedBy(award.Attempt))
		}
	}

	if p, err = f.view(ctx); err != nil {
		return err
	}
	f.pay(ctx, p.Purchase)
	return nil
}
