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

	t := &tender{c: c, p: p, terms: purchase.TermsOf(p), network: network, tell: tell}
	bids, err := t.validOffers(ctx)
	if err != nil {
		return Purchase{}, err
	}
	p.Provider = bids[0].provider
	if err := c.cfg.Store.AddPurchase(ctx, p); err != nil {
		return Purchase{}, fmt.Errorf("store purchase: %w", err)
	}
	if err := t.turnDown(ctx, bids[1:]); err != nil {
		c.log.Warn("the others were not told that their offers are not taken", "request", p.RequestID, "err", err)
	}
	return p, nil
}

// tender is one PlaceOpen call.
type tender struct {
	c       *Client
	p       Purchase // drafted, and nobody's yet
	terms   *purchase.Terms
	network payments.Network
	tell    func(Progress)
}

// turnDown tells who else made an offer that it is not taken: their invoices, and our
// places among those that they let stand unpaid, are free at once and not when their
// quotes expire. A deletion would take the request from all, and off the relays. It
// is a courtesy, so nothing hangs on it.
func (t *tender) turnDown(ctx context.Context, bids []bid) error {
	if len(bids) == 0 {
		return nil
	}
	ctx, stop := context.WithTimeout(ctx, courtesyTime)
	defer stop()

	tags := nostr.Tags{{"e", t.p.RequestID}}
	for _, b := range bids {
		tags = append(tags, nostr.Tag{"p", b.provider})
	}
	ev, _, err := t.c.author.Sign(ctx, kinds.NotTaken, domain.NotTaken, tags, "")
	if err != nil {
		return err
	}
	return t.c.cfg.Market.Send(ctx, ev)
}

// validOffers publishes the request and returns the valid offers, the best first:
// at least one.
func (t *tender) validOffers(ctx context.Context) ([]bid, error) {
	request, err := purchase.EventOf(t.p.Request)
	if err != nil {
		return nil, err
	}
	parent := ctx
	ctx, stop := context.WithCancel(ctx)
	g, gctx := errgroup.WithContext(ctx)
	events, ready := make(chan nostr.Event, 64), make(chan struct{}, 1)
	g.Go(func() error {
		filter := nostr.Filter{Kinds: []int{kinds.Feedback}, Tags: nostr.TagMap{"e": {t.p.RequestID}}}
		return t.c.cfg.Market.Listen(gctx, nostr.Filters{filter}, func() {
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
	bids, err := t.collectBids(gctx, request, events, ready)
	broken := gctx.Err() != nil && ctx.Err() == nil // the subscription ended by itself
	stop()
	if lost := g.Wait(); broken {
		return nil, lost
	}
	if err != nil {
		return nil, err
	}

	return t.bestFirst(parent, bids)
}

// collectBids takes one answer at a time. What is not valid is told and passed
// over: a crowd of bad offers only delays the good one. From the first valid offer
// on OfferTimeout is left for the others, whatever comes.
func (t *tender) collectBids(ctx context.Context, request nostr.Event, events <-chan nostr.Event, ready <-chan struct{}) ([]bid, error) {
	patience := time.NewTimer(relayPatience)
	defer patience.Stop()

	sent, told := false, 0
	var bids []bid
	for {
		select {
		case <-ready:
			if sent {
				continue
			}
			if err := t.c.cfg.Market.Send(ctx, request); err != nil {
				return nil, fmt.Errorf("publish request: %w", err)
			}
			sent = true
			patience.Reset(t.c.cfg.AnswerTimeout)
			t.tell(Progress{At: time.Now().UTC(), Who: "buyer", What: "requested", Msats: t.p.MaxMsats, Hash: t.p.JobHash.String(), Text: t.p.SchemaID})
		case ev := <-events:
			msats, ok, err := t.bidIn(ev)
			if told++; err != nil && told <= toldMax {
				t.tell(Progress{At: time.Now().UTC(), Who: "buyer", What: "refused", Hash: ev.ID, Text: text.Clean(err.Error())})
			}
			if !ok || slices.ContainsFunc(bids, func(b bid) bool { return b.provider == ev.PubKey }) {
				continue
			}
			if len(bids) == 0 {
				patience.Reset(t.c.cfg.OfferTimeout)
			}
			if bids = append(bids, bid{provider: ev.PubKey, msats: msats}); len(bids) == 2*bidsMax {
				if bids, err = t.bestFirst(ctx, bids); err != nil {
					return nil, err
				}
			}
		case <-patience.C:
			switch {
			case !sent:
				return nil, fmt.Errorf("%w in %v", ErrNoRelay, relayPatience)
			case len(bids) == 0:
				return nil, fmt.Errorf("%w: nobody had a valid offer within %v", ErrFailed, t.c.cfg.AnswerTimeout)
			}
			return bids, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// bidIn reports whether an event is an offer that could be taken up, and its price.
func (t *tender) bidIn(ev nostr.Event) (msats int64, ok bool, err error) {
	status := ev.Tags.Find("status")
	if status == nil || ev.PubKey == t.c.key || !ev.Tags.ContainsAny("e", []string{t.p.RequestID}) {
		return 0, false, nil
	}
	if err := offer.CheckFeedback(ev); err != nil {
		return 0, false, err
	}

	p := view{Purchase: t.p, Terms: t.terms}
	p.Provider = ev.PubKey
	switch {
	case status[1] == "payment-required" && t.c.cfg.Wallet != nil:
		o, err := t.c.offers.Check(p, ev, t.network, time.Now())
		if err == nil && (o.Quote.Mode != receipts.ModeHold || o.IsFee()) {
			err = purchase.Mismatch("quote", fmt.Sprintf("it is for %s in mode %s, not for the result in mode hold", o.Quote.Purpose, o.Quote.Mode))
		}
		return o.Quote.PriceMsats, err == nil, err
	case status[1] == "processing" && ev.Content != "":
		o, err := t.c.offers.CheckResultQuote(p, ev.Content, time.Now())
		return 0, err == nil && o.Quote.Mode == receipts.ModeFree, err
	case status[1] == "error" && len(status) > 2:
		return 0, false, errors.New("it declines: " + status[2])
	}

	return 0, false, nil
}

const (
	// relayPatience is how long a relay may take to serve our subscription.
	relayPatience = 30 * time.Second
	// courtesyTime is how long telling the others that they are not taken may take.
	courtesyTime = 2 * time.Second
	// toldMax bounds the bad offers of which people are told.
	toldMax = 64
)

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
func (t *tender) bestFirst(ctx context.Context, bids []bid) ([]bid, error) {
	if len(bids) == 1 {
		return bids, nil
	}
	if err := t.lookUp(ctx, bids); err != nil {
		return nil, err
	}
	discover.Rank(bids, func(b *bid) *Found { return b.of })
	return bids[:min(len(bids), bidsMax)], nil
}

// lookUp fills in what ranks the bids that have it not.
func (t *tender) lookUp(ctx context.Context, bids []bid) error {
	scout, err := t.c.scout(ctx)
	if err != nil {
		return err
	}

	var keys []string
	for _, b := range bids {
		if b.of == nil {
			keys = append(keys, b.provider)
		}
	}

	found, err := scout.FindAmong(ctx, t.p.SchemaID, keys)
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
		of.MinuteMsats, of.CostMsats = map[string]int64{t.p.SchemaID: b.msats}, b.msats
		bids[i].of = &of
	}

	return nil
}
