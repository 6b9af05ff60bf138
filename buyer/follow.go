package buyer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/buyer/internal/offer"
	"github.com/lightwork-market/lightwork/buyer/internal/profile"
	"github.com/lightwork-market/lightwork/buyer/internal/proof"
	"github.com/lightwork-market/lightwork/buyer/internal/result"
	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/payments"
)

// Errors that Follow returns with the purchase still open.
var (
	// ErrIncomplete: the payment succeeded, the result or the receipt has not come.
	ErrIncomplete = errors.New("paid, but the result or the receipt has not arrived")
	errNoWallet   = errors.New("a payment is under way, and no wallet is configured to ask for it")
	// ErrNoRelay: no relay served our subscription.
	ErrNoRelay = errors.New("no relay answered")
	// ErrUnasked: the result is here, and the provider has not asked to be paid for it.
	ErrUnasked = errors.New("the result is here, but the provider has not asked for its payment")
	// ErrFailed: the purchase ended without what was bought; Purchase.Reason says why.
	ErrFailed = errors.New("the purchase failed")
)

// settleGrace is how long after our payment settled a result may arrive and
// still count as delivered first: events and HTLCs travel on different roads.
const settleGrace = 10 * time.Second

// serveMost is how long a provider that talks may take for a job that nothing was paid
// for, beside the job's own limit: more than it has by the protocol.
const serveMost = 15 * time.Minute

// relayPatience is how long a relay may take to serve our subscription.
const relayPatience = 30 * time.Second

// follower is one Follow call. Everything in it belongs to its one goroutine;
// other goroutines reach it through the channels.
type follower struct {
	c       *Client
	id      string
	terms   *purchase.Terms
	profile profile.Profile // that the provider may speak
	network payments.Network
	results *result.Desk
	judge   *proof.Judge
	tell    func(Progress)

	events   chan nostr.Event
	told     chan struct{}         // closed once what is ours to publish was offered to the relays
	paid     chan payments.Payment // from the payment's own goroutine
	g        *errgroup.Group
	seen     map[string]bool
	began    time.Time    // the provider's first event, or its first after its fee; zero if none came
	heard    time.Time    // its last
	kept     int          // feedback events stored by this Follow
	free     *offer.Offer // what a free job's result must be bound to
	signed   []byte       // the event that is being taken, as it was signed
	ended    bool         // the provider said that it is done, and signed no receipt
	postpay  *nostr.Event // a request for payment that came before the result
	afterFee *nostr.Event // one that came before our wallet knew that the engagement fee is paid
	paidAt   time.Time    // when we learned of it
	lastWord string       // the provider's last error
	early    bool         // money moved well before the result in boxes came
	asBefore bool         // the last event changed nothing of the purchase, which was open

	// A purchase that others decide about goes as far as an offer that could be paid,
	// and no further. Where results are read before they are paid for, the fee for the
	// attempt is paid before that.
	undecided  bool
	readsFirst bool
	offered    *offer.Offer

	// A request of an order that names no provider: while it is not served, others
	// are looked for, and one of them is asked in its place.
	order   *orderRun
	serving bool             // the provider has begun to serve it
	others  chan []Candidate // cap 1
	askedAt time.Time

	// A payment that came back, while the provider's reason may still be on its way.
	back     *payments.Payment
	backLong <-chan time.Time
}

// Follow carries a purchase from wherever it stands to its end: it may be
// called for a new purchase, or after a crash at any point. It returns the
// purchase as stored; an error means it ended badly or is still open.
//
// ErrPanelOpen: the purchase belongs to a panel that has not decided yet; whoever
// follows that panel follows it.
func (c *Client) Follow(ctx context.Context, requestID string, tell func(Progress)) (Purchase, error) {
	p, err := c.cfg.Store.Purchase(ctx, requestID)
	if err != nil {
		return Purchase{}, err
	}
	if p.Member != nil && p.Member.Open {
		return Purchase{}, fmt.Errorf("%s: %w", p.Member.Panel, ErrPanelOpen)
	}

	return c.newFollower(requestID, tell).follow(ctx)
}

func (c *Client) newFollower(requestID string, tell func(Progress)) *follower {
	if tell == nil {
		tell = func(Progress) {}
	}
	return &follower{
		c: c, id: requestID, tell: tell,
		events: make(chan nostr.Event, 256), told: make(chan struct{}), paid: make(chan payments.Payment, 1), seen: map[string]bool{},
	}
}

func (f *follower) follow(ctx context.Context) (Purchase, error) {
	c, requestID := f.c, f.id
	if c.cfg.Wallet != nil {
		node, err := c.payer.Node(ctx)
		if err != nil {
			return Purchase{}, err
		}
		f.network = node.Network
	}

	p, err := c.cfg.Store.Purchase(ctx, requestID)
	if err != nil {
		return Purchase{}, err
	}
	if p.State.Terminal() {
		if p, err = c.refunds.Await(ctx, p, f.tell); err != nil {
			return p, err
		}
		return p, ended(p)
	}

	f.terms, f.profile = purchase.TermsOf(p), profile.Of(p)
	f.results = &result.Desk{Blobs: c.cfg.Market, Store: c.cfg.Store, Kind: c.cfg.Kinds.Request + kinds.ResultOffset, Patience: c.cfg.ReceiptTimeout}
	f.judge = &proof.Judge{Store: c.cfg.Store, Buyer: c.key, Network: f.network, Log: c.log}
	if c.cfg.Wallet != nil {
		f.judge.Payment = c.cfg.Wallet.LookupPayment
	}
	caller := ctx
	ctx, stop := context.WithCancel(ctx)
	g, gctx := errgroup.WithContext(ctx)
	f.g = g
	err = f.run(gctx, view{Purchase: p, Terms: f.terms})
	broken := gctx.Err() != nil && ctx.Err() == nil // run only saw the end of what another goroutine met
	stop()
	if gerr := g.Wait(); err != nil && broken {
		err = gerr
	}
	p, readErr := c.cfg.Store.Purchase(context.WithoutCancel(ctx), requestID)
	if errors.Is(err, ErrConflict) && p.State == StateCanceled {
		err = nil // Cancel has closed it during a step, which wrote nothing
	}
	if err == nil {
		err = readErr
	}
	if err == nil {
		p, err = c.refunds.Await(caller, p, f.tell)
	}
	if err == nil {
		err = ended(p)
	}
	return p, err
}

func ended(p Purchase) error {
	if p.State == StateDone {
		return nil
	}
	return fmt.Errorf("%w: %s: %s", ErrFailed, p.State, p.Reason)
}

// run subscribes, publishes what is ours to publish, and then takes one thing
// at a time until the purchase is terminal.
func (f *follower) run(ctx context.Context, p view) error {
	if p.State == StatePaying { // relays or not, what became of the money is asked for
		if f.c.cfg.Wallet == nil {
			return errNoWallet
		}
		f.pay(ctx, p.Purchase)
	}

	if err := f.listen(ctx, p.Purchase); err != nil {
		return err
	}
	if err := f.publish(ctx, p.Purchase); err != nil {
		return err
	}

	close(f.told)
	if p.State == StatePaid {
		f.paidAt = time.Now()
		if err := f.unseal(ctx, p); err != nil {
			return err
		}
	}

	ask := f.patience()
	soon := f.c.cfg.AnswerTimeout / 6 // when whoever looks on is told that nothing came
	answer := time.NewTimer(soon)
	defer answer.Stop()

	for waiting := false; ; {
		if !f.asBefore {
			if done, err := f.settleUp(ctx); done || err != nil {
				return err
			}
		}

		f.asBefore = false
		var err error
		select {
		case ev := <-f.events:
			err = f.event(ctx, ev)
		case pay := <-f.paid:
			err = f.payment(ctx, pay)
		case <-f.backLong:
			err = f.cameBack(ctx)
		case <-ask:
			ask, err = f.unserved(ctx)
		case f.order.rest = <-f.others:
			ask = time.After(time.Until(f.askedAt.Add(f.c.cfg.AskTimeout)))
		case <-answer.C:
			if !waiting {
				waiting = true
				f.wait()
				answer.Reset(f.c.cfg.AnswerTimeout - soon)
				continue
			}
			err = f.silence(ctx)
			answer.Reset(f.c.cfg.AnswerTimeout)
		case <-ctx.Done():
			return ctx.Err()
		}

		if err != nil {
			return err
		}
	}
}

func (f *follower) say(who, what string, msats int64, hash, text string) {
	f.tell(Progress{At: time.Now().UTC(), Who: who, What: what, Msats: msats, Hash: hash, Text: text})
}

// wait says that the provider has not answered yet, if it has not.
func (f *follower) wait() {
	if f.heard.IsZero() {
		f.say("buyer", "waiting", 0, "", "")
	}
}

// silence is called when AnswerTimeout passed once more. It ends a purchase
// that nobody answers, or answers no more, before any money moved, and stops
// waiting for a provider that has the money and sends nothing more. Such a purchase
// ends for good only if it was canceled and the provider has had all the time that
// the job may take since the payment, however often we have started again.
func (f *follower) silence(ctx context.Context) error {
	p, err := f.view(ctx)
	if err != nil {
		return err
	}

	quiet, here := time.Since(f.heard), p.Output != nil || p.SealedEvent != nil
	late := !f.began.IsZero() && time.Since(f.began) > serveMost+p.Terms.RunLimit
	switch {
	case p.State == StateRequested && f.heard.IsZero():
		return f.decline(ctx, p, CodeNoAnswer, fmt.Sprintf("the provider did not answer in %v", f.c.cfg.AnswerTimeout))
	case p.State == StateRequested && !here && quiet > f.c.cfg.AnswerTimeout+p.Terms.RunLimit:
		return f.decline(ctx, p, CodeNoAnswer, fmt.Sprintf("the provider began and was not heard of again for %v", quiet.Round(time.Second)))
	case p.State == StateRequested && !here && late:
		return f.decline(ctx, p, CodeNoAnswer, fmt.Sprintf("the provider began, and has said for %v that it goes on", time.Since(f.began).Round(time.Second)))
	case p.State == StateRequested && here && (late || quiet > f.c.cfg.ReceiptTimeout) && !f.profile.EndsUnpaid():
		return ErrUnasked
	case p.State == StatePaying && quiet > f.c.cfg.ReceiptTimeout:
		// Only the wallet can end this: a wallet that takes the payment for in
		// flight may be right.
		due, _ := p.Due()
		f.say("wallet", "in_flight", due.AmountMsats, due.PaymentHash.String(), f.c.payer.Delay(ctx, due.PaymentHash))
	case f.profile.EndsUnpaid() && here && (late || quiet > f.c.cfg.ReceiptTimeout):
		f.ended = true // it has had its time
	case p.State == StatePaid && time.Since(f.paidAt) > f.c.cfg.ReceiptTimeout:
		if over := time.Since(p.StateAt) > max(f.c.cfg.ReceiptTimeout, serveMost+p.Terms.RunLimit); p.Cancel == nil || !over {
			return ErrIncomplete
		}
		if late || quiet > f.c.cfg.ReceiptTimeout {
			return f.abandon(ctx, p)
		}
	}

	return nil
}

// view reads the purchase as it stands now.
func (f *follower) view(ctx context.Context) (view, error) {
	p, err := f.c.cfg.Store.Purchase(ctx, f.id)
	return view{Purchase: p, Terms: f.terms}, err
}
