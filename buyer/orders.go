package buyer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/market/kinds"
)

// An order that names no provider goes to the best candidate, and if that one does
// not serve it, with a new request to the next. Each request is a purchase of its
// own. The next is asked only once the last has ended without a payment, so at most
// one of them can ever be paid:
//
//	order:    open ------------------------------------------> ended
//	requests: requested -> failed (no_answer) | requested -> paying -> paid -> done

// ErrOrderOpen: the order has not ended, and no request of it is open; FollowOrder
// goes on with it.
var ErrOrderOpen = errors.New("the order is still open, and no provider is asked now")

// requestsMax bounds how many providers are asked for one order.
const requestsMax = 16

// PlacedOrder is an order with all the requests that were made for it.
type PlacedOrder struct {
	ID   string // its first request
	Open bool
	// Wanted is the order as it was given, as JSON.
	Wanted   []byte
	Requests []OrderRequest // in the order that they were made, at least one
}

// OrderRequest is one request of an order.
type OrderRequest struct {
	RequestID string
	Provider  string // x-only hex
}

func (o PlacedOrder) last() OrderRequest { return o.Requests[len(o.Requests)-1] }

// OrderStore keeps orders that name no provider. Every method that changes anything
// is one durable transaction.
type OrderStore interface {
	// AddOrder stores an order with its first request.
	AddOrder(ctx context.Context, wanted []byte, first Purchase) error
	// AddRequest adds a further request to an open order. ErrConflict unless the last
	// one has failed and nothing was paid for any of them.
	AddRequest(ctx context.Context, orderID string, p Purchase) error
	// PlacedOrder is the order that a request belongs to; ErrNotFound if to none.
	PlacedOrder(ctx context.Context, requestID string) (PlacedOrder, error)
	// EndOrder ends an order. One ends too when a request of it is done or canceled.
	EndOrder(ctx context.Context, orderID string) error
}

// PlaceOrder stores an order that names no provider, with a signed request to the
// candidate, which is one of those that [Client.Candidates] lists for it. Nothing is
// sent: FollowOrder does that, now or after a restart.
func (c *Client) PlaceOrder(ctx context.Context, o Order, first Candidate) (Purchase, error) {
	if o.Provider != "" || first.Refusal != nil {
		return Purchase{}, errors.Join(errors.New("the order is for one provider, or it cannot be asked"), first.Refusal)
	}
	wanted, err := json.Marshal(o)
	if err != nil {
		return Purchase{}, fmt.Errorf("encode order: %w", err)
	}
	p, err := c.draft(ctx, first.Order)
	if err != nil {
		return Purchase{}, err
	}
	if err := c.cfg.Store.AddOrder(ctx, wanted, p); err != nil {
		return Purchase{}, fmt.Errorf("store order: %w", err)
	}

	return p, nil
}

// FollowOrder carries the order that a request belongs to from wherever it stands to
// its end, and returns its last purchase. A request that belongs to no order, or to
// one that has ended, is followed as Follow does.
//
// A provider that does not answer within AskTimeout, while others can be asked, that
// refuses, whose offer is not the announced one, or whose payment came back, leads to
// the next: its request is ended in the store, then deleted from the relays. What it
// sends afterwards is never looked at.
func (c *Client) FollowOrder(ctx context.Context, requestID string, tell func(Progress)) (Purchase, error) {
	order, err := c.cfg.Store.PlacedOrder(ctx, requestID)
	if errors.Is(err, ErrNotFound) || err == nil && !order.Open {
		return c.Follow(ctx, requestID, tell)
	}
	if err != nil {
		return Purchase{}, err
	}

	r := &orderRun{c: c, ctx: ctx}
	defer r.courtesies.Wait()

	if err := json.Unmarshal(order.Wanted, &r.wanted); err != nil {
		return Purchase{}, fmt.Errorf("stored order: %w", err)
	}
	if tell == nil {
		tell = func(Progress) {}
	}

	for first := true; ; first = false {
		r.order = order
		f := c.flow.Follower(order.last().RequestID, tell)
		f.Others = r
		if was, err := c.cfg.Store.Purchase(ctx, order.last().RequestID); first && err == nil && was.State == StateFailed {
			r.Aside(f.Waive) // it may not have been told before a restart
		}
		p, err := f.Follow(ctx)
		if !errors.Is(err, ErrFailed) || !p.State.Terminal() {
			return p, err // done, which ends the order, or still open
		}
		if !p.Unserved() || len(order.Requests) >= requestsMax {
			return p, errors.Join(err, c.cfg.Store.EndOrder(ctx, order.ID))
		}

		next, found, nextErr := r.next(ctx)
		switch {
		case nextErr != nil:
			return p, fmt.Errorf("%w: %w", ErrOrderOpen, nextErr)
		case !found:
			return p, errors.Join(err, c.cfg.Store.EndOrder(ctx, order.ID))
		}

		tell(Progress{At: time.Now().UTC(), Who: "buyer", What: "next", Text: p.Reason})
		if order, err = r.ask(ctx, next); err != nil {
			return p, c.notAsked(ctx, order.ID, err)
		}
	}
}

// notAsked is why the next provider of an order is not asked: somebody may have ended the
// order meanwhile.
func (c *Client) notAsked(ctx context.Context, orderID string, why error) error {
	order, err := c.cfg.Store.PlacedOrder(ctx, orderID)
	if err == nil && !order.Open && errors.Is(why, ErrConflict) {
		return fmt.Errorf("%w: the order was canceled before another provider was asked", ErrFailed)
	}
	return fmt.Errorf("%w: %w", ErrOrderOpen, why)
}

// EndOrder ends an order between two of its requests; true if there was one.
func (c *Client) EndOrder(ctx context.Context, requestID string) (bool, error) {
	order, err := c.cfg.Store.PlacedOrder(ctx, requestID)
	if errors.Is(err, ErrNotFound) || err == nil && !order.Open {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, c.cfg.Store.EndOrder(ctx, order.ID)
}

// orderRun is one FollowOrder call.
type orderRun struct {
	c      *Client
	ctx    context.Context // of that call
	wanted Order
	order  PlacedOrder
	// courtesies tell providers that nothing will be paid to them.
	courtesies sync.WaitGroup
	// rest are the candidates that are left, the next in front; nil before they
	// were looked for.
	rest []Candidate
}

// Left is how many candidates are left; -1 before they were looked for.
func (r *orderRun) Left() int {
	if r.rest == nil {
		return -1
	}
	return len(r.rest)
}

// Aside tells a provider something that the next one need not wait for.
func (r *orderRun) Aside(do func(ctx context.Context)) {
	r.courtesies.Go(func() { do(r.ctx) })
}

// next takes the best of the candidates that were not asked yet.
func (r *orderRun) next(ctx context.Context) (x Candidate, found bool, err error) {
	if r.rest == nil {
		if r.rest, err = r.others(ctx); err != nil {
			return x, false, err
		}
	}
	if len(r.rest) == 0 {
		return x, false, nil
	}
	x, r.rest = r.rest[0], r.rest[1:]
	return x, true, nil
}

// others are the candidates that were not asked yet, by what is known now.
func (r *orderRun) others(ctx context.Context) ([]Candidate, error) {
	list, err := r.c.Candidates(ctx, r.wanted)
	if err != nil {
		return nil, err
	}
	before := map[string]bool{}
	for _, was := range r.order.Requests {
		before[was.Provider] = true
	}

	rest := []Candidate{}
	for _, x := range list {
		if x.Refusal == nil && !before[x.Provider] {
			before[x.Provider] = true // under another announcement it is the same one
			rest = append(rest, x)
		}
	}

	return rest, nil
}

// ask stores a request to the next provider.
func (r *orderRun) ask(ctx context.Context, x Candidate) (PlacedOrder, error) {
	p, err := r.c.draft(ctx, x.Order)
	if err != nil {
		return r.order, err
	}
	if err := r.c.cfg.Store.AddRequest(ctx, r.order.ID, p); err != nil {
		return r.order, fmt.Errorf("store request: %w", err)
	}
	return r.c.cfg.Store.PlacedOrder(ctx, p.RequestID)
}

// Look finds out who else could be asked, and puts those in front that answer
// a ping: however many are announced and gone, they are passed over at once.
func (r *orderRun) Look(ctx context.Context, wait time.Duration) (keep func(), err error) {
	rest, err := r.others(ctx)
	if err != nil {
		return nil, err
	}
	keep = func() { r.rest = rest }
	if len(rest) < 2 {
		return keep, nil
	}

	here, err := r.ping(ctx, rest, wait)
	if err != nil {
		r.c.log.Warn("providers are not asked whether they are there", "err", err)
	}
	slices.SortStableFunc(rest, func(a, b Candidate) int {
		switch {
		case here[a.Provider] && !here[b.Provider]:
			return -1
		case !here[a.Provider] && here[b.Provider]:
			return 1
		}
		return 0
	})
	return keep, nil
}

// pingMax bounds how many providers are pinged at once.
const pingMax = 256

// ping asks the providers, the best in front, whether they are there, and returns
// those that answer within wait, or before the best one does.
func (r *orderRun) ping(ctx context.Context, list []Candidate, wait time.Duration) (map[string]bool, error) {
	list = list[:min(len(list), pingMax)]
	tags := make(nostr.Tags, len(list))
	pinged := map[string]bool{}
	for i, x := range list {
		tags[i] = nostr.Tag{"p", x.Provider}
		pinged[x.Provider] = true
	}

	ev, _, err := r.c.author.Sign(ctx, kinds.Ping, domain.Ping, tags, "")
	if err != nil {
		return nil, err
	}

	ctx, stop := context.WithTimeout(ctx, wait)
	defer stop()

	g, gctx := errgroup.WithContext(ctx)
	pongs, ready := make(chan string, len(list)), make(chan struct{}, 1)
	filter := nostr.Filter{Kinds: []int{kinds.Feedback}, Tags: nostr.TagMap{"e": {ev.ID}}}
	g.Go(func() error {
		return r.c.cfg.Market.Listen(gctx, nostr.Filters{filter}, func() {
			select {
			case ready <- struct{}{}:
			default:
			}
		}, func(pong nostr.Event) {
			if !isPong(pong, ev.ID) {
				return
			}
			select {
			case pongs <- pong.PubKey:
			case <-gctx.Done():
			}
		})
	})

	here := map[string]bool{}
	for sent := false; gctx.Err() == nil && !here[list[0].Provider] && len(here) < len(pinged); {
		select {
		case <-ready:
			if !sent {
				sent = true
				if err := r.c.cfg.Market.Send(gctx, ev); err != nil {
					r.c.log.Warn("providers were not asked whether they are there", "err", err)
				}
			}
		case key := <-pongs:
			if pinged[key] {
				here[key] = true
			}
		case <-gctx.Done():
		}
	}

	stop()
	_ = g.Wait() // who is not heard counts as absent
	return here, nil
}

// isPong reports whether an event answers a ping.
func isPong(ev nostr.Event, ping string) bool {
	status := ev.Tags.Find("status")
	return status != nil && status[1] == "pong" && ev.Tags.ContainsAny("e", []string{ping}) && domain.Allow(domain.Feedback, ev.Tags) == nil
}
