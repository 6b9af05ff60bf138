package buyer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/buyer/internal/discover"
	"github.com/lightwork-market/lightwork/buyer/internal/offer"
	"github.com/lightwork-market/lightwork/buyer/internal/text"
	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// PlaceOpen offers the job to everybody and returns the purchase from the provider
// with the best of the valid offers that come within OfferTimeout of the first,
// stored and not yet paid: Follow goes on with it. Best is what [Scout.Find] would
// list first. Order.Provider and PayeeNode must be empty.
//
// The mode is hold, or free if the order says so: an offer then costs a provider
// nothing; who is not taken is told so. Until it
// returns nothing is owed and nothing is stored; an error that wraps ErrFailed
// means that nobody had a valid offer within a minute (AnswerTimeout). tell may be nil.
func (c *Client) PlaceOpen(ctx context.Context, o Order, tell func(Progress)) (Purchase, error) {
	def(&o.Mode, receipts.ModeHold)

	switch {
	case o.Provider != "" || o.PayeeNode != "" || o.Announced != nil:
		return Purchase{}, errors.New("an order for everybody names no provider")
	case o.Mode != receipts.ModeHold && o.Mode != receipts.ModeFree:
		return Purchase{}, fmt.Errorf("an order for everybody is in mode hold or free, not %s: others would pay for what one is paid for", o.Mode)
	}

	if tell == nil {
		tell = func(Progress) {}
	}
	p, err := c.draft(ctx, o)
	if err != nil {
		return Purchase{}, err
	}
	network, err := c.payer.Network(ctx)
	if err != nil {
		return Purchase{}, err
	}
	if o.Mode != receipts.ModeFree { // nobody is asked for what could not be paid
		if _, err := c.ApprovalRuleFor(c.offers.PaymentOf(p, o.Mode, purchase.TermsOf(p).BidMsats)); err != nil {
			return Purchase{}, err
		}
		if err := c.AffordsDay(ctx, o.MaxMsats); err != nil {
			return Purchase{}, err
		}
	}

	bids, err := c.validOffers(ctx, p, network, tell)
	if err != nil {
		return Purchase{}, err
	}
	p.Provider = bids[0].provider
	if err := c.cfg.Store.AddPurchase(ctx, p); err != nil {
		return Purchase{}, fmt.Errorf("store purchase: %w", err)
	}
	if err := c.turnDown(ctx, p, bids[1:]); err != nil {
		c.log.Warn("the others were not told that their offers are not taken", "request", p.RequestID, "err", err)
	}
	return p, nil
}

// turnDown tells who else made an offer that it is not taken: their invoices, and our
// places among those that they let stand unpaid, are free at once and not when their
// quotes lapse. A deletion would take the request from all, and off the relays. It
// is a courtesy, so nothing hangs on it.
func (c *Client) turnDown(ctx context.Context, p Purchase, bids []bid) error {
	if len(bids) == 0 {
		return nil
	}
	ctx, stop := context.WithTimeout(ctx, courtesyTime)
	defer stop()

	tags := nostr.Tags{{"e", p.RequestID}}
	for _, b := range bids {
		tags = append(tags, nostr.Tag{"p", b.provider})
	}
	ev, _, err := c.author.Sign(ctx, kinds.NotTaken, domain.NotTaken, tags, "")
	if err != nil {
		return err
	}
	return c.cfg.Market.Send(ctx, ev)
}

// validOffers publishes the request and returns the valid offers, the best first:
// at least one.
func (c *Client) validOffers(ctx context.Context, p Purchase, network payments.Network, tell func(Progress)) ([]bid, error) {
	request, err := purchase.EventOf(p.Request)
	if err != nil {
		return nil, err
	}
	parent := ctx
	ctx, stop := context.WithCancel(ctx)
	g, gctx := errgroup.WithContext(ctx)
	events, ready := make(chan nostr.Event, 64), make(chan struct{}, 1)
	g.Go(func() error {
		filter := nostr.Filter{Kinds: []int{kinds.Feedback}, Tags: nostr.TagMap{"e": {p.RequestID}}}
		return c.cfg.Market.Listen(gctx, nostr.Filters{filter}, func() {
			select {
			case ready <- struct{}{}:
			default:
			}
		}, func(ev nostr.Event) {
			select {
			case events <- ev:
			case <-gctx.Done():
			}
		})
	})
	bids, err := c.collectBids(gctx, p, request, network, tell, events, ready)
	broken := gctx.Err() != nil && ctx.Err() == nil // the subscription ended by itself
	stop()
	if lost := g.Wait(); broken {
		return nil, lost
	}
	if err != nil {
		return nil, err
	}

	return c.bestFirst(parent, p, bids)
}

// collectBids takes one answer at a time. What is not valid is told and passed
// over: a crowd of bad offers only delays the good one. From the first valid offer
// on OfferTimeout is left for the others, whatever comes.
func (c *Client) collectBids(ctx context.Context, p Purchase, request nostr.Event, network payments.Network, tell func(Progress), events <-chan nostr.Event, ready <-chan struct{}) ([]bid, error) {
	patience := time.NewTimer(relayPatience)
	defer patience.Stop()

	asked, told, terms := false, 0, purchase.TermsOf(p)
	var bids []bid
	for {
		select {
		case <-ready:
			if asked {
				continue
			}
			if err := c.cfg.Market.Send(ctx, request); err != nil {
				return nil, fmt.Errorf("publish request: %w", err)
			}
			asked = true
			patience.Reset(c.cfg.AnswerTimeout)
			tell(Progress{At: time.Now().UTC(), Who: "buyer", What: "requested", Msats: p.MaxMsats, Hash: p.JobHash.String(), Text: p.SchemaID})
		case ev := <-events:
			msats, ok, err := c.bidIn(view{Purchase: p, Terms: terms}, ev, network)
			if told++; err != nil && told <= feedbackMax {
				tell(Progress{At: time.Now().UTC(), Who: "buyer", What: "refused", Hash: ev.ID, Text: text.Clean(err.Error())})
			}
			if !ok || slices.ContainsFunc(bids, func(b bid) bool { return b.provider == ev.PubKey }) {
				continue
			}
			if len(bids) == 0 {
				patience.Reset(c.cfg.OfferTimeout)
			}
			if bids = append(bids, bid{provider: ev.PubKey, msats: msats}); len(bids) == 2*bidsMax {
				if bids, err = c.bestFirst(ctx, p, bids); err != nil {
					return nil, err
				}
			}
		case <-patience.C:
			switch {
			case !asked:
				return nil, fmt.Errorf("%w in %v", ErrNoRelay, relayPatience)
			case len(bids) == 0:
				return nil, fmt.Errorf("%w: nobody had a valid offer within %v", ErrFailed, c.cfg.AnswerTimeout)
			}
			return bids, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// bidIn reports whether an event is an offer that could be taken up, and its price.
func (c *Client) bidIn(p view, ev nostr.Event, network payments.Network) (msats int64, ok bool, err error) {
	status := ev.Tags.Find("status")
	if status == nil || ev.PubKey == c.key || !ev.Tags.ContainsAny("e", []string{p.RequestID}) {
		return 0, false, nil
	}
	if err := offer.CheckFeedback(ev); err != nil {
		return 0, false, err
	}

	p.Provider = ev.PubKey
	switch {
	case status[1] == "payment-required" && c.cfg.Wallet != nil:
		o, err := c.offers.Check(p, ev, network, time.Now())
		if err == nil && (o.Quote.Mode != receipts.ModeHold || o.IsFee()) {
			err = purchase.Mismatch("quote", fmt.Sprintf("it is for %s in mode %s, not for the result in mode hold", o.Quote.Purpose, o.Quote.Mode))
		}
		return o.Quote.PriceMsats, err == nil, err
	case status[1] == "processing" && ev.Content != "":
		o, err := c.offers.CheckResultQuote(p, ev.Content, time.Now())
		return 0, err == nil && o.Quote.Mode == receipts.ModeFree, err
	case status[1] == "error" && len(status) > 2:
		return 0, false, errors.New("it declines: " + status[2])
	}

	return 0, false, nil
}

// bidsMax bounds the valid offers that are kept for one open request. Keys cost
// nothing, so of more than that the best are kept and not the first: a crowd that
// is quick must not hide who is better.
const bidsMax = 64

// bid is one provider's valid offer for an open request.
type bid struct {
	provider string // x-only hex
	msats    int64  // as quoted, not as announced
	// of is what ranks it, once it is looked up.
	of *Found
}

// bestFirst are the bidsMax best of the bids: the order is that of [Scout.Find], with
// the quoted price in the place of the announced one. Who announces nothing comes
// last, however little it asks. It is a choice among strangers' words: nothing is
// owed to any of them yet.
func (c *Client) bestFirst(ctx context.Context, p Purchase, bids []bid) ([]bid, error) {
	if len(bids) == 1 {
		return bids, nil
	}
	if err := c.lookUp(ctx, p, bids); err != nil {
		return nil, err
	}
	discover.Rank(bids, func(b *bid) *Found { return b.of })
	return bids[:min(len(bids), bidsMax)], nil
}

// lookUp fills in what ranks the bids that have it not.
func (c *Client) lookUp(ctx context.Context, p Purchase, bids []bid) error {
	scout, err := c.scout(ctx)
	if err != nil {
		return err
	}

	var keys []string
	for _, b := range bids {
		if b.of == nil {
			keys = append(keys, b.provider)
		}
	}

	found, err := scout.FindAmong(ctx, p.SchemaID, keys)
	if err != nil {
		return fmt.Errorf("rank the offers: %w", err)
	}

	for i, b := range bids {
		if b.of != nil {
			continue
		}
		of := Found{Listing: Listing{Provider: b.provider, Plain: true}, Lost: scout.History[b.provider].Lost, Done: scout.History[b.provider].Done}
		of.NoteMissed(scout.History[b.provider])
		if at := slices.IndexFunc(found, func(f Found) bool { return f.Provider == b.provider }); at >= 0 {
			of = found[at]
		}
		of.MinuteMsats, of.CostMsats = map[string]int64{p.SchemaID: b.msats}, b.msats
		bids[i].of = &of
	}

	return nil
}
