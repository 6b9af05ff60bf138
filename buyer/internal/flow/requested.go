package flow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/internal/offer"
	"github.com/lightwork-market/lightwork/buyer/internal/profile"
	"github.com/lightwork-market/lightwork/buyer/internal/refund"
	"github.com/lightwork-market/lightwork/buyer/internal/result"
	"github.com/lightwork-market/lightwork/buyer/internal/text"
	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/receipts"
)

// consider checks an offer, of the result or of a fee for the attempt, approves it
// within the budget, and pays it. Everything that a restart needs is durable before the
// first message to the wallet (B1). A fee that we do not pay ends the purchase: the
// provider does nothing without it.
func consider(ctx context.Context, f *Follower, p purchase.View, ev nostr.Event) error {
	f.heard.serving = true // or declined below
	if p.Cancel != nil {
		err := f.closeCanceled(ctx, p)
		if errors.Is(err, purchase.ErrConflict) {
			return nil // it was closed meanwhile
		}
		return err
	}

	fee := offer.IsFee(ev.Content)
	switch {
	case f.Payer.Wallet == nil:
		return f.decline(ctx, p, purchase.CodeNoWallet, "payment is required, and no wallet is configured")
	case f.profile.Bare(ev) && f.Undecided:
		return f.refuse(ctx, p, purchase.CodeBadOffer, errors.New("not paid: an invoice without a quote is no offer to decide about"))
	case f.profile.Bare(ev):
		return considerBare(ctx, f, p, ev)
	case fee && p.Engagement != nil:
		return nil // told again, or asked for twice: it is paid once
	case fee && f.Undecided && !f.ReadsFirst:
		return f.refuse(ctx, p, purchase.CodeBadOffer, errors.New("not paid: whoever votes in a panel is paid no engagement fee"))
	}

	o, err := f.Offers.CheckUnlessPaid(ctx, p, ev, f.network, f.Payer.Wallet.LookupPayment)
	if errors.Is(err, offer.ErrWalletSilent) {
		return err
	}
	if err != nil {
		return f.refuse(ctx, p, purchase.CodeBadOffer, err)
	}

	if !fee && o.Quote.Mode == receipts.ModePostpay {
		if !result.IsHere(p.Purchase, o.Quote) {
			f.postpay = &ev // looked at again when the result is here
			return nil
		}
		if err := f.results.CheckDelivered(ctx, p, o.Quote, o.Hash); err != nil {
			f.say("buyer", "refused", 0, "", text.Clean(err.Error()))
			code := purchase.CodeBadOffer
			if p.Terms.Expects() {
				code = purchase.CodeUnmet
			}
			return f.decline(ctx, p, code, "not paid: "+err.Error())
		}
	}

	if err := f.Offers.Keep(ctx, f.id, ev); err != nil {
		return f.refuse(ctx, p, purchase.CodeBadOffer, err)
	}
	terms := string(o.Quote.Mode) + refund.CreditText(ev)
	if fee {
		terms = "engagement fee, " + string(o.Quote.Mode)
	}
	f.say("provider", "quoted", o.PriceMsats, o.Hash.String(), terms)
	if !fee {
		if err := f.Refunds.Credit(ctx, f.id, ev, purchase.CreditUsed); err != nil {
			return err
		}
		if f.Undecided {
			return f.offerUp(ctx, p, o)
		}
	}

	return award(ctx, f, p, o)
}

// considerBare takes an invoice that came without a quote, within the job's maximum and
// the budget, once.
func considerBare(ctx context.Context, f *Follower, p purchase.View, ev nostr.Event) error {
	o, err := offer.CheckBare(p, ev, f.network)
	if err != nil {
		return f.refuse(ctx, p, purchase.CodeBadOffer, err)
	}
	f.say("provider", "asks", o.PriceMsats, "", purchase.NoQuote)
	return award(ctx, f, p, o)
}

// award lets the rules decide about an offer, makes the decision durable and begins its
// payment.
func award(ctx context.Context, f *Follower, p purchase.View, o offer.Offer) error {
	a, err := f.Offers.Award(ctx, p, o)
	if offer.NotApproved(err) {
		return f.refuse(ctx, p, purchase.CodeNotApproved, err)
	}
	if err != nil {
		return err
	}

	err = f.Payer.Reserve(ctx, f.id, a.Charge)
	switch {
	case errors.As(err, new(*purchase.BudgetError)):
		return f.refuse(ctx, p, purchase.CodeOverBudget, err)
	case errors.Is(err, purchase.ErrSecondPayment):
		return f.refuse(ctx, p, purchase.CodeBadOffer, err)
	case err != nil:
		return fmt.Errorf("reserve budget: %w", err)
	}

	if a.Acceptance != nil { // without a quote there is nothing to accept
		if err := f.Accept(ctx, p.Purchase, a); err != nil {
			f.Log.Warn("acceptance not published yet", "request", f.id, "err", err)
		} else {
			f.say("buyer", "accepted", a.Attempt.AmountMsats, hashing.Bytes(a.Quote).String(), offer.ApprovedBy(a.Attempt))
		}
	}
	if p, err = f.view(ctx); err != nil {
		return err
	}
	f.pay(ctx, p.Purchase)
	return nil
}

// Accept publishes the acceptance of an award, encrypted if the job is. It is published
// again whenever the purchase is followed, so that it does not arrive now is no loss.
func (f *Flow) Accept(ctx context.Context, p purchase.Purchase, a purchase.Award) error {
	ev, err := f.acceptance(ctx, p, a.Acceptance)
	if err != nil {
		return err
	}
	return f.Market.Send(ctx, ev)
}

// acceptance is one that was signed, encrypted if the job is.
func (f *Flow) acceptance(ctx context.Context, p purchase.Purchase, raw []byte) (nostr.Event, error) {
	ev, err := purchase.EventOf(raw)
	if err != nil {
		return ev, err
	}
	return f.Author.Encrypt(ctx, p, ev)
}

// offerUp ends an undecided follower with an offer that could be paid. One that the
// buyer's rules stand against is none: it must not come before another.
func (f *Follower) offerUp(ctx context.Context, p purchase.View, o offer.Offer) error {
	if _, err := f.Offers.Rule(f.Offers.PaymentOf(p.Purchase, o.Quote.Mode, o.PriceMsats)); err != nil {
		return f.refuse(ctx, p, purchase.CodeNotApproved, err)
	}
	f.offered = &o
	return errOffered
}

// refusedUnpaid ends a purchase that the provider gave up: no money of ours is on the
// way.
func refusedUnpaid(ctx context.Context, f *Follower, p purchase.View) error {
	return f.Store.CloseUnpaid(ctx, f.id, endState(p), f.heard.reason)
}

// silentUnpaid ends a purchase whose provider does not answer, or has begun and is not
// heard of again. One that has delivered and does not ask to be paid is left open.
func silentUnpaid(ctx context.Context, f *Follower, p purchase.View) error {
	quiet, late := f.heard.quiet(), f.late()
	switch {
	case f.heard.last.IsZero():
		return f.decline(ctx, p, purchase.CodeNoAnswer, fmt.Sprintf("the provider did not answer in %v", f.AnswerTimeout))
	case !isHere(p) && quiet > f.AnswerTimeout+f.terms.RunLimit:
		return f.decline(ctx, p, purchase.CodeNoAnswer, fmt.Sprintf("the provider began and was not heard of again for %v", quiet.Round(time.Second)))
	case !isHere(p) && late:
		return f.decline(ctx, p, purchase.CodeNoAnswer, fmt.Sprintf("the provider began, and has said for %v that it goes on", time.Since(f.heard.began).Round(time.Second)))
	case f.takesAsDone(p):
	case isHere(p) && (late || quiet > f.ReceiptTimeout):
		return ErrUnasked
	}
	return nil
}

// settleUnpaid closes a purchase that costs nothing once its result is here; and one
// whose provider names a price, and is done without asking for it.
func settleUnpaid(ctx context.Context, f *Follower, p purchase.View) (done bool, err error) {
	switch {
	case p.Output == nil:
		return false, nil
	case isFree(p):
		return f.done(ctx, p, "")
	case p.ReceiptID == "" && f.profile.EndsSilent() && f.heard.ended:
		return f.done(ctx, p, "without receipt: it names a price and sent no invoice, so nothing was paid")
	}
	return false, nil
}

// isFree reports whether the result says that it costs nothing.
func isFree(p purchase.View) bool {
	ev, err := purchase.EventOf(p.ResultEvent)
	return err == nil && profile.Free(ev)
}
