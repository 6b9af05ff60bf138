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
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay/exchange"
	"github.com/lightwork-market/lightwork/schemas"
)

// TestCancelBeforePayment: the invoice is cancelled on both sides.
func TestCancelBeforePayment(t *testing.T) {
	w := markettest.New(t)
	w.Serve(t, nil)
	c := w.NewCustomer(t, nil)
	p := w.Place(t, c, receipts.ModeHold, markettest.SandboxInput(""))
	markettest.Check(t, c.SendSigned(w.Ctx, p.Request))
	w.Await(t, p.RequestID, provider.StateQuoted)
	markettest.Check(t, c.Client.Cancel(w.Ctx, p.RequestID))
	if job := w.Await(t, p.RequestID, provider.StateCanceled); job.Reason.Code != provider.CodeCanceled {
		t.Errorf("job ended for %s", job.Reason)
	}
	if p, err := c.Client.Follow(w.Ctx, p.RequestID, nil); !errors.Is(err, buyer.ErrFailed) || p.State != buyer.StateCanceled {
		t.Errorf("purchase %s, %v", p.State, err)
	}
	w.Moved(t, c.Party, 0, 0)
}

// TestCancelOnTheWayToTheWallet: the acceptance is signed, the payment not
// sent yet. The invoice is gone when it is.
func TestCancelOnTheWayToTheWallet(t *testing.T) {
	w := markettest.New(t)
	w.Serve(t, nil)
	c := w.NewCustomer(t, nil)
	reached, gate := make(chan struct{}), make(chan struct{})
	c.Client = c.Open(t, func(cfg *buyer.Config) {
		cfg.Wallet = &markettest.GatedWallet{Client: c.Wallet, BeforeSend: sync.OnceFunc(func() { close(reached); <-gate })}
	})
	p := w.Place(t, c, receipts.ModeHold, markettest.SandboxInput(""))
	f := w.Follow(t, c, p.RequestID, nil)
	<-reached
	markettest.Check(t, c.Client.Cancel(w.Ctx, p.RequestID))
	w.Await(t, p.RequestID, provider.StateCanceled)
	close(gate)
	p = f.Failed(t, provider.CodeCanceled)
	w.Unsold(t, c, p, provider.CodeCanceled)
	w.Moved(t, c.Party, 0, 0)
}

// TestCancelWhileRunning: the run is stopped; what was held comes back, what
// was prepaid is owed.
func TestCancelWhileRunning(t *testing.T) {
	for _, mode := range markettest.AllModes {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			w := markettest.New(t)
			running, ended := make(chan struct{}), make(chan error, 1)
			w.Runner.Do = func(ctx context.Context, _ provider.Run) (provider.Outcome, error) {
				close(running)
				<-ctx.Done()
				ended <- context.Cause(ctx)
				return provider.Outcome{}, ctx.Err()
			}
			w.Serve(t, nil)
			c := w.NewCustomer(t, nil)
			p := w.Place(t, c, mode, markettest.SandboxInput(""))
			f := w.Follow(t, c, p.RequestID, nil)
			<-running
			markettest.Check(t, c.Client.Cancel(w.Ctx, p.RequestID))
			if err := <-ended; err == nil || !strings.Contains(err.Error(), "canceled by the buyer") {
				t.Errorf("the run was stopped for %v", err)
			}
			p = f.Failed(t, provider.CodeCanceled)
			w.Unsold(t, c, p, provider.CodeCanceled)
			if mode != receipts.ModePrepay {
				w.Moved(t, c.Party, 0, 0)
				return
			}
			w.Moved(t, c.Party, markettest.RateMsats, markettest.RateMsats+markettest.FeeMsats)
			if len(w.Store.Owed()) != 1 || w.Store.Owed()[0].Msats != markettest.RateMsats {
				t.Errorf("credits %+v", w.Store.Owed())
			}
		})
	}
}

// TestCancelTooLate: once the result is durable the deal stands; once the
// purchase is done, cancelling is refused.
func TestCancelTooLate(t *testing.T) {
	w := markettest.New(t)
	tried := make(chan struct{}, 100)
	stop := w.Serve(t, func(cfg *provider.Config) { cfg.Market = markettest.NoBlobs{Market: cfg.Market, Tried: tried} })
	c := w.NewCustomer(t, nil)
	p := w.Place(t, c, receipts.ModeHold, markettest.SandboxInput(""))
	f := w.Follow(t, c, p.RequestID, nil)
	w.Await(t, p.RequestID, provider.StateDelivering)
	markettest.Check(t, c.Client.Cancel(w.Ctx, p.RequestID))
	stop()
	w.Serve(t, nil) // reads the cancellation from the relay
	w.Sold(t, c, f, receipts.ModeHold)
	if err := c.Client.Cancel(w.Ctx, p.RequestID); !errors.Is(err, buyer.ErrConflict) {
		t.Errorf("cancelling what is done: %v", err)
	}
	w.Moved(t, c.Party, markettest.RateMsats, markettest.RateMsats+markettest.FeeMsats)
}

// TestCancelThatWasNotHeard: relays were away when the buyer cancelled. What
// was cancelled is not paid for when they are back.
func TestCancelThatWasNotHeard(t *testing.T) {
	w := markettest.New(t)
	w.Serve(t, nil)
	c := w.NewCustomer(t, nil)
	honest := c.Client
	c.Client = c.Open(t, func(cfg *buyer.Config) { cfg.Market = deaf{c.Market} })
	p := w.Place(t, c, receipts.ModeHold, markettest.SandboxInput(""))
	markettest.Check(t, c.SendSigned(w.Ctx, p.Request))
	w.Await(t, p.RequestID, provider.StateQuoted)
	if err := c.Client.Cancel(w.Ctx, p.RequestID); err == nil {
		t.Fatal("the cancellation was heard")
	}
	c.Client = honest
	if p, err := w.Follow(t, c, p.RequestID, nil).Wait(); !errors.Is(err, buyer.ErrFailed) || p.State != buyer.StateCanceled {
		t.Errorf("purchase %s, %v", p.State, err)
	}
	w.Await(t, p.RequestID, provider.StateCanceled)
	w.Moved(t, c.Party, 0, 0)
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
	w := markettest.New(t)
	running, gate := make(chan struct{}), make(chan struct{})
	w.Runner.Do = func(ctx context.Context, _ provider.Run) (provider.Outcome, error) {
		close(running)
		<-ctx.Done()
		<-gate // slow to stop
		return provider.Outcome{}, ctx.Err()
	}
	w.Serve(t, nil)
	c := w.NewCustomer(t, nil)
	p := w.Place(t, c, receipts.ModeHold, markettest.SandboxInput(""))
	f := w.Follow(t, c, p.RequestID, nil)
	<-running
	f.Stop()
	markettest.Check(t, c.Client.Cancel(w.Ctx, p.RequestID))
	close(gate)
	p = w.Follow(t, c, p.RequestID, nil).Failed(t, provider.CodeCanceled)
	w.Unsold(t, c, p, provider.CodeCanceled)
	w.Moved(t, c.Party, 0, 0)
}

// TestCancelBeforeTheRequest: relays keep no order. A request that its buyer
// cancelled is not run, whichever came first.
func TestCancelBeforeTheRequest(t *testing.T) {
	w := markettest.New(t)
	c := w.NewCustomer(t, nil)
	in := make(chan nostr.Event)
	stop := w.Serve(t, func(cfg *provider.Config) { cfg.Market = fed{cfg.Market, in} })
	req := w.Request(t, c.Key, markettest.SandboxInput(""), nostr.Tag{"param", "payment_mode", "free"})
	other := w.Request(t, c.Key, markettest.SandboxInput(""), nostr.Tag{"param", "payment_mode", "free"}, nostr.Tag{"t", "other"})
	in <- markettest.SignedEvent(t, c.Key, 5, "", nostr.Tag{"e", req.ID}, nostr.Tag{"k", "5050"})
	stranger := w.NewParty(t, "stranger")
	in <- markettest.SignedEvent(t, stranger.Key, 5, "", nostr.Tag{"e", other.ID}, nostr.Tag{"k", "5050"})
	in <- req
	in <- other
	w.Await(t, other.ID, provider.StateSucceeded)
	stop()
	if job, err := w.Store.Job(w.Ctx, req.ID); err == nil && job.State != provider.StateCanceled {
		t.Errorf("the cancelled job is %s", job.State)
	}
	if w.Runner.Count() != 1 {
		t.Errorf("%d runs", w.Runner.Count())
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
	for _, mode := range markettest.AllModes {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			w := markettest.New(t)
			w.Delivery = receipts.DeliveryPlain
			stopped := make(chan struct{})
			w.Runner.Do = func(ctx context.Context, run provider.Run) (provider.Outcome, error) {
				run.OnStream("stdout", "the answer")
				<-ctx.Done()
				close(stopped)
				return provider.Outcome{}, ctx.Err()
			}
			w.Serve(t, func(cfg *provider.Config) { cfg.Offers = []provider.Offer{markettest.TextOffer()} })
			c := w.NewCustomer(t, nil)
			p, err := c.Client.Place(w.Ctx, buyer.Order{
				Provider: w.Seller.Key.PublicKey(), SchemaID: string(schemas.TextGeneration), Input: []byte(`{"prompt":"Which fruit is yellow?"}`),
				MaxMsats: markettest.MaxMsats, Mode: mode, Delivery: w.Delivery,
			})
			markettest.Check(t, err)
			part := make(chan string, 8)
			f := w.Follow(t, c, p.RequestID, func(pr buyer.Progress) {
				if pr.What == "partial" || pr.What == "working" {
					part <- pr.Text
				}
			})
			if text := <-part; strings.Contains(text, "answer") != (mode == receipts.ModeFree) {
				t.Errorf("shown before the cancellation: %q", text)
			}
			markettest.Check(t, c.Client.Cancel(w.Ctx, p.RequestID))
			<-stopped
			f.Failed(t, provider.CodeCanceled)
			if mode != receipts.ModePrepay {
				w.Moved(t, c.Party, 0, 0)
			} else if len(w.Store.Owed()) != 1 || w.Store.Owed()[0].Msats != markettest.RateMsats {
				t.Errorf("credits %+v", w.Store.Owed())
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
	w := markettest.New(t)
	seen := &looks{}
	w.Runner.Do = func(ctx context.Context, _ provider.Run) (provider.Outcome, error) {
		<-ctx.Done()
		return provider.Outcome{}, ctx.Err()
	}
	c, stranger := w.NewCustomer(t, nil), w.NewCustomer(t, nil)
	p := w.Place(t, c, receipts.ModeFree, markettest.SandboxInput(""))
	seen.of = p.RequestID
	w.Serve(t, func(cfg *provider.Config) { seen.Store, cfg.Store = cfg.Store, seen })
	markettest.Check(t, c.SendSigned(w.Ctx, p.Request))
	w.Await(t, p.RequestID, provider.StateRunning)
	before := seen.n.Load()

	const named = 60
	tags := nostr.Tags{{"k", "5050"}, {"p", w.Seller.Key.PublicKey()}}
	for range named {
		tags = append(tags, nostr.Tag{"e", p.RequestID})
	}
	for _, ev := range []nostr.Event{
		markettest.SignedEvent(t, stranger.Key, 5, "", tags...),
		markettest.SignedEvent(t, stranger.Key, kinds.NotTaken, "", append(slices.Clone(tags), domain.NotTaken.Tag())...),
		markettest.SignedEvent(t, stranger.Key, kinds.Acceptance, "", tags...),
	} {
		markettest.Check(t, stranger.Market.Send(w.Ctx, ev))
	}
	markettest.Check(t, c.Client.Cancel(w.Ctx, p.RequestID))
	w.Await(t, p.RequestID, provider.StateCanceled)
	if n := seen.n.Load() - before; n >= named {
		t.Errorf("the store was asked %d times for the job", n)
	}
}
