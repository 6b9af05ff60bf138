package flow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/buyer/internal/offer"
	"github.com/lightwork-market/lightwork/buyer/internal/profile"
	"github.com/lightwork-market/lightwork/buyer/internal/proof"
	"github.com/lightwork-market/lightwork/buyer/internal/result"
	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/market/kinds"
)

// Follow carries the purchase from wherever it stands to its end: it may be
// called for a new purchase, or after a crash at any point. It returns the
// purchase as stored; an error means it ended badly or is still open.
func (f *Follower) Follow(ctx context.Context) (purchase.Purchase, error) {
	if f.Payer.Wallet != nil {
		node, err := f.Payer.Node(ctx)
		if err != nil {
			return purchase.Purchase{}, err
		}
		f.network = node.Network
	}

	p, err := f.Store.Purchase(ctx, f.id)
	if err != nil {
		return purchase.Purchase{}, err
	}
	if p.State.Terminal() {
		if p, err = f.Refunds.Await(ctx, p, f.tell); err != nil {
			return p, err
		}
		return p, ended(p)
	}
	f.open(p)

	caller := ctx
	ctx, stop := context.WithCancel(ctx)
	g, gctx := errgroup.WithContext(ctx)
	f.g = g
	err = f.run(gctx, purchase.View{Purchase: p, Terms: f.terms})
	broken := gctx.Err() != nil && ctx.Err() == nil // run only saw the end of what another goroutine met
	stop()
	if gerr := g.Wait(); err != nil && broken {
		err = gerr
	}

	p, readErr := f.Store.Purchase(context.WithoutCancel(ctx), f.id)
	if errors.Is(err, purchase.ErrConflict) && p.State == purchase.StateCanceled {
		err = nil // it was canceled during a step, which wrote nothing
	}
	if err == nil {
		err = readErr
	}
	if err == nil {
		p, err = f.Refunds.Await(caller, p, f.tell)
	}
	if err == nil {
		err = ended(p)
	}
	return p, err
}

// ToOffer follows an undecided purchase until it could be paid, and returns the offer;
// nil if it has ended before.
func (f *Follower) ToOffer(ctx context.Context) (purchase.Purchase, *offer.Offer, error) {
	p, err := f.Follow(ctx)
	if err != nil && !errors.Is(err, errOffered) {
		return p, nil, err
	}
	return p, f.offered, nil
}

// open reads what does not change of the purchase while it is followed.
func (f *Follower) open(p purchase.Purchase) {
	f.terms, f.profile = purchase.TermsOf(p), profile.Of(p)
	f.results = &result.Desk{Blobs: f.Market, Store: f.Results, Kind: f.Author.Kinds.Request + kinds.ResultOffset, Patience: f.ReceiptTimeout}
	f.judge = &proof.Judge{Store: f.Proofs, Buyer: f.Author.Key, Network: f.network, Log: f.Log}
	if f.Payer.Wallet != nil {
		f.judge.Payment = f.Payer.Wallet.LookupPayment
	}
}

func ended(p purchase.Purchase) error {
	if p.State == purchase.StateDone {
		return nil
	}
	return fmt.Errorf("%w: %s: %s", ErrFailed, p.State, p.Reason)
}

// run subscribes, publishes what is ours to publish, and then takes one thing
// at a time until the purchase is terminal.
func (f *Follower) run(ctx context.Context, p purchase.View) error {
	if p.State == purchase.StatePaying { // relays or not, what became of the money is asked for
		if f.Payer.Wallet == nil {
			return errNoWallet
		}
		f.pay(ctx, p.Purchase)
	}

	if err := f.listen(ctx, p); err != nil {
		return err
	}
	if err := f.publish(ctx, p); err != nil {
		return err
	}
	close(f.told)
	if p.State == purchase.StatePaid {
		f.paidAt = time.Now()
		if err := f.unseal(ctx, p); err != nil {
			return err
		}
	}

	ask := f.patience()
	soon := f.AnswerTimeout / 6 // when whoever looks on is told that nothing came
	answer := time.NewTimer(soon)
	defer answer.Stop()

	for waiting := false; ; {
		if !f.heard.unchanged {
			if done, err := f.settle(ctx); done || err != nil {
				return err
			}
		}

		f.heard.unchanged = false
		var err error
		select {
		case ev := <-f.events:
			err = f.event(ctx, ev)
		case pay := <-f.paid:
			err = f.payment(ctx, pay)
		case why := <-f.halted:
			f.say("wallet", "halted", 0, "", why.Error())
			continue
		case u := <-f.sent:
			f.sending, f.heard.unchanged = !u.over, true
			u.tell(f.say)
			continue
		case <-f.backLong:
			err = f.returned(ctx)
		case <-ask:
			ask, err = f.unserved(ctx)
		case keep := <-f.found:
			keep()
			ask = time.After(time.Until(f.askedAt.Add(f.AskTimeout)))
		case <-answer.C:
			if !waiting {
				waiting = true
				if f.heard.last.IsZero() {
					f.say("buyer", "waiting", 0, "", "")
				}
				answer.Reset(f.AnswerTimeout - soon)
				continue
			}
			err = f.silence(ctx)
			answer.Reset(f.AnswerTimeout)
		case <-ctx.Done():
			return ctx.Err()
		}

		if err != nil {
			return err
		}
	}
}
