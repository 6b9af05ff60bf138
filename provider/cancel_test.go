package provider_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay/exchange"
	"github.com/lightwork-market/lightwork/schemas"
)

// TestCancelBeforePayment: the invoice is cancelled on both sides.
func TestCancelBeforePayment(t *testing.T) {
	w := newWorld(t)
	w.serve(t, nil)
	c := w.customer(t, nil)
	p := w.place(t, c, receipts.ModeHold, order(""))
	check(t, c.send(w.ctx, p.Request))
	w.await(t, p.RequestID, provider.StateQuoted)
	check(t, c.client.Cancel(w.ctx, p.RequestID))
	if job := w.await(t, p.RequestID, provider.StateCanceled); job.Reason.Code != provider.CodeCanceled {
		t.Errorf("job ended for %s", job.Reason)
	}
	if p, err := c.client.Follow(w.ctx, p.RequestID, nil); !errors.Is(err, buyer.ErrFailed) || p.State != buyer.StateCanceled {
		t.Errorf("purchase %s, %v", p.State, err)
	}
	w.moved(t, c.party, 0, 0)
}

func (c *customer) send(ctx context.Context, signed []byte) error {
	var ev nostr.Event
	if err := ev.UnmarshalJSON(signed); err != nil {
		return err
	}
	return c.market.Send(ctx, ev)
}

// TestCancelOnTheWayToTheWallet: the acceptance is signed, the payment not
// sent yet. The invoice is gone when it is.
func TestCancelOnTheWayToTheWallet(t *testing.T) {
	w := newWorld(t)
	w.serve(t, nil)
	c := w.customer(t, nil)
	reached, gate := make(chan struct{}), make(chan struct{})
	c.client = c.open(t, func(cfg *buyer.Config) {
		cfg.Wallet = &gated{Client: c.wallet, beforeSend: sync.OnceFunc(func() { close(reached); <-gate })}
	})
	p := w.place(t, c, receipts.ModeHold, order(""))
	f := w.follow(t, c, p.RequestID, nil)
	<-reached
	check(t, c.client.Cancel(w.ctx, p.RequestID))
	w.await(t, p.RequestID, provider.StateCanceled)
	close(gate)
	p = f.failed(t, provider.CodeCanceled)
	w.unsold(t, c, p, provider.CodeCanceled)
	w.moved(t, c.party, 0, 0)
}

// TestCancelWhileRunning: the run is stopped; what was held comes back, what
// was prepaid is owed.
func TestCancelWhileRunning(t *testing.T) {
	for _, mode := range allModes {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			running, ended := make(chan struct{}), make(chan error, 1)
			w.runner.do = func(ctx context.Context, _ provider.Run) (provider.Outcome, error) {
				close(running)
				<-ctx.Done()
				ended <- context.Cause(ctx)
				return provider.Outcome{}, ctx.Err()
			}
			w.serve(t, nil)
			c := w.customer(t, nil)
			p := w.place(t, c, mode, order(""))
			f := w.follow(t, c, p.RequestID, nil)
			<-running
			check(t, c.client.Cancel(w.ctx, p.RequestID))
			if err := <-ended; err == nil || !strings.Contains(err.Error(), "canceled by the buyer") {
				t.Errorf("the run was stopped for %v", err)
			}
			p = f.failed(t, provider.CodeCanceled)
			w.unsold(t, c, p, provider.CodeCanceled)
			if mode != receipts.ModePrepay {
				w.moved(t, c.party, 0, 0)
				return
			}
			w.moved(t, c.party, rateMsats, rateMsats+feeMsats)
			if len(w.store.credits) != 1 || w.store.credits[0].Msats != rateMsats {
				t.Errorf("credits %+v", w.store.credits)
			}
		})
	}
}

// TestCancelTooLate: once the result is durable the deal stands; once the
// purchase is done, cancelling is refused.
func TestCancelTooLate(t *testing.T) {
	w := newWorld(t)
	tried := make(chan struct{}, 100)
	stop := w.serve(t, func(cfg *provider.Config) { cfg.Market = noBlobs{cfg.Market, tried} })
	c := w.customer(t, nil)
	p := w.place(t, c, receipts.ModeHold, order(""))
	f := w.follow(t, c, p.RequestID, nil)
	w.await(t, p.RequestID, provider.StateDelivering)
	check(t, c.client.Cancel(w.ctx, p.RequestID))
	stop()
	w.serve(t, nil) // reads the cancellation from the relay
	w.sold(t, c, f, receipts.ModeHold)
	if err := c.client.Cancel(w.ctx, p.RequestID); !errors.Is(err, buyer.ErrConflict) {
		t.Errorf("cancelling what is done: %v", err)
	}
	w.moved(t, c.party, rateMsats, rateMsats+feeMsats)
}

// TestCancelThatWasNotHeard: relays were away when the buyer cancelled. What
// was cancelled is not paid for when they are back.
func TestCancelThatWasNotHeard(t *testing.T) {
	w := newWorld(t)
	w.serve(t, nil)
	c := w.customer(t, nil)
	honest := c.client
	c.client = c.open(t, func(cfg *buyer.Config) { cfg.Market = deaf{c.market} })
	p := w.place(t, c, receipts.ModeHold, order(""))
	check(t, c.send(w.ctx, p.Request))
	w.await(t, p.RequestID, provider.StateQuoted)
	if err := c.client.Cancel(w.ctx, p.RequestID); err == nil {
		t.Fatal("the cancellation was heard")
	}
	c.client = honest
	if p, err := w.follow(t, c, p.RequestID, nil).wait(); !errors.Is(err, buyer.ErrFailed) || p.State != buyer.StateCanceled {
		t.Errorf("purchase %s, %v", p.State, err)
	}
	w.await(t, p.RequestID, provider.StateCanceled)
	w.moved(t, c.party, 0, 0)
}

// deaf is a market that loses cancellations.
type deaf struct{ *exchange.Market }

func (m deaf) Send(ctx context.Context, ev nostr.Event) error {
	if ev.Kind == 5 {
		return errors.New("no relay is there")
	}
	return m.Market.Send(ctx, ev)
}

// TestResumeAfterCancel: the relay has deleted the request; the purchase is
// followed to its end all the same.
func TestResumeAfterCancel(t *testing.T) {
	w := newWorld(t)
	running, gate := make(chan struct{}), make(chan struct{})
	w.runner.do = func(ctx context.Context, _ provider.Run) (provider.Outcome, error) {
		close(running)
		<-ctx.Done()
		<-gate // slow to stop
		return provider.Outcome{}, ctx.Err()
	}
	w.serve(t, nil)
	c := w.customer(t, nil)
	p := w.place(t, c, receipts.ModeHold, order(""))
	f := w.follow(t, c, p.RequestID, nil)
	<-running
	f.stop()
	check(t, c.client.Cancel(w.ctx, p.RequestID))
	close(gate)
	p = w.follow(t, c, p.RequestID, nil).failed(t, provider.CodeCanceled)
	w.unsold(t, c, p, provider.CodeCanceled)
	w.moved(t, c.party, 0, 0)
}

// TestCancelBeforeTheRequest: relays keep no order. A request that its buyer
// cancelled is not run, whichever came first.
func TestCancelBeforeTheRequest(t *testing.T) {
	w := newWorld(t)
	c := w.customer(t, nil)
	in := make(chan nostr.Event)
	stop := w.serve(t, func(cfg *provider.Config) { cfg.Market = fed{cfg.Market, in} })
	req := w.request(t, c.key, order(""), nostr.Tag{"param", "payment_mode", "free"})
	other := w.request(t, c.key, order(""), nostr.Tag{"param", "payment_mode", "free"}, nostr.Tag{"t", "other"})
	in <- raw(t, c.key, 5, "", nostr.Tag{"e", req.ID}, nostr.Tag{"k", "5050"})
	stranger := w.party(t, "stranger")
	in <- raw(t, stranger.key, 5, "", nostr.Tag{"e", other.ID}, nostr.Tag{"k", "5050"})
	in <- req
	in <- other
	w.await(t, other.ID, provider.StateSucceeded)
	stop()
	if job, err := w.store.Job(w.ctx, req.ID); err == nil && job.State != provider.StateCanceled {
		t.Errorf("the cancelled job is %s", job.State)
	}
	if w.runner.count() != 1 {
		t.Errorf("%d runs", w.runner.count())
	}
}

// fed is a market whose events the test hands over itself.
type fed struct {
	provider.Market
	in <-chan nostr.Event
}

func (m fed) Listen(ctx context.Context, _ nostr.Filters, ready func(), handle func(nostr.Event)) error {
	ready()
	for {
		select {
		case ev := <-m.in:
			handle(ev)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// TestCancelAfterOutput: a job can be canceled until its result is durable, in
// every mode, whatever it has printed: nothing of that was shown that is paid for.
func TestCancelAfterOutput(t *testing.T) {
	for _, mode := range allModes {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.delivery = receipts.DeliveryPlain
			stopped := make(chan struct{})
			w.runner.do = func(ctx context.Context, run provider.Run) (provider.Outcome, error) {
				run.OnStream("stdout", "the answer")
				<-ctx.Done()
				close(stopped)
				return provider.Outcome{}, ctx.Err()
			}
			w.serve(t, func(cfg *provider.Config) { cfg.Offers = []provider.Offer{textOffer()} })
			c := w.customer(t, nil)
			p, err := c.client.Place(w.ctx, buyer.Order{
				Provider: w.seller.key.PublicKey(), SchemaID: string(schemas.TextGeneration), Input: []byte(`{"prompt":"Which fruit is yellow?"}`),
				MaxMsats: maxMsats, Mode: mode, Delivery: w.delivery,
			})
			check(t, err)
			part := make(chan string, 8)
			f := w.follow(t, c, p.RequestID, func(pr buyer.Progress) {
				if pr.What == "partial" || pr.What == "working" {
					part <- pr.Text
				}
			})
			if text := <-part; strings.Contains(text, "answer") != (mode == receipts.ModeFree) {
				t.Errorf("shown before the cancellation: %q", text)
			}
			check(t, c.client.Cancel(w.ctx, p.RequestID))
			<-stopped
			f.failed(t, provider.CodeCanceled)
			if mode != receipts.ModePrepay {
				w.moved(t, c.party, 0, 0)
			} else if len(w.store.credits) != 1 || w.store.credits[0].Msats != rateMsats {
				t.Errorf("credits %+v", w.store.credits)
			}
		})
	}
}

// looks counts the looks at one job.
type looks struct {
	provider.Store
	of string
	n  atomic.Int64
}

func (s *looks) Job(ctx context.Context, id string) (provider.Job, error) {
	if id == s.of {
		s.n.Add(1)
	}
	return s.Store.Job(ctx, id)
}

// TestStrangersCauseNoLooks: whoever names other people's jobs, as often as an event
// has room for, has nobody look for each of them in the store. Its author's own
// deletion still counts.
func TestStrangersCauseNoLooks(t *testing.T) {
	w := newWorld(t)
	seen := &looks{}
	w.runner.do = func(ctx context.Context, _ provider.Run) (provider.Outcome, error) {
		<-ctx.Done()
		return provider.Outcome{}, ctx.Err()
	}
	c, stranger := w.customer(t, nil), w.customer(t, nil)
	p := w.place(t, c, receipts.ModeFree, order(""))
	seen.of = p.RequestID
	w.serve(t, func(cfg *provider.Config) { seen.Store, cfg.Store = cfg.Store, seen })
	check(t, c.send(w.ctx, p.Request))
	w.await(t, p.RequestID, provider.StateRunning)
	before := seen.n.Load()

	const named = 60
	tags := nostr.Tags{{"k", "5050"}, {"p", w.seller.key.PublicKey()}}
	for range named {
		tags = append(tags, nostr.Tag{"e", p.RequestID})
	}
	for _, ev := range []nostr.Event{
		raw(t, stranger.key, 5, "", tags...),
		raw(t, stranger.key, kinds.NotTaken, "", append(slices.Clone(tags), domain.NotTaken.Tag())...),
		raw(t, stranger.key, kinds.Acceptance, "", tags...),
	} {
		check(t, stranger.market.Send(w.ctx, ev))
	}
	check(t, c.client.Cancel(w.ctx, p.RequestID))
	w.await(t, p.RequestID, provider.StateCanceled)
	if n := seen.n.Load() - before; n >= named {
		t.Errorf("the store was asked %d times for the job", n)
	}
}
