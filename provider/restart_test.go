package provider_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
)

// TestStopAndGoOn stops the provider as a job reaches each state and starts
// another on the same store: the job ends as if nothing had been.
func TestStopAndGoOn(t *testing.T) {
	requirements.Covers(t, "K-49")
	for _, mode := range allModes {
		for _, state := range []provider.State{
			provider.StateQuoted, provider.StatePaid, provider.StateRunning, provider.StateDelivering, provider.StateSucceeded,
		} {
			paysLater := mode == receipts.ModePostpay || mode == receipts.ModeFree
			if state == provider.StatePaid && paysLater {
				continue // there is no such state
			}
			t.Run(string(mode)+"/"+string(state), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.runner.do = func(ctx context.Context, _ provider.Run) (provider.Outcome, error) {
					if ctx.Err() != nil {
						return provider.Outcome{}, ctx.Err()
					}
					return w.runner.good(nil)
				}
				w.store.stopWhen(state)
				w.serve(t, nil)
				c := w.customer(t, nil)
				p := w.place(t, c, mode, order(""))
				f := w.follow(t, c, p.RequestID, nil)
				<-w.store.stopped
				w.serve(t, nil)
				w.sold(t, c, f, mode)
				runs := 1
				if state == provider.StateRunning {
					runs = 2
				}
				if got := w.runner.count(); got != runs {
					t.Errorf("%d runs, want %d", got, runs)
				}
				for i, run := range w.runner.runs {
					if run.Number != 1+i || run.DirectiveID != w.runner.runs[0].DirectiveID {
						t.Errorf("run %d: %+v", 1+i, run)
					}
				}
			})
		}
	}
}

// TestRunsAreCounted: a job whose runs never last is given up, not tried for ever.
func TestRunsAreCounted(t *testing.T) {
	w := newWorld(t)
	w.runner.do = hang
	c := w.customer(t, nil)
	p := w.place(t, c, receipts.ModeHold, order(""))
	f := w.follow(t, c, p.RequestID, nil)
	two := func(cfg *provider.Config) { cfg.Limits.Runs = 2 }
	for range 2 {
		w.store.stopWhen(provider.StateRunning)
		w.serve(t, two)
		<-w.store.stopped
	}
	w.serve(t, two)
	p = f.failed(t, heard(provider.CodeNodeRestart))
	w.unsold(t, c, p, provider.CodeNodeRestart)
	w.moved(t, c.party, 0, 0)
}

// TestHoldLostWhileAway: the money went back while the provider was stopped.
func TestHoldLostWhileAway(t *testing.T) {
	w := newWorld(t)
	w.store.stopWhen(provider.StatePaid)
	w.serve(t, nil)
	c := w.customer(t, nil)
	p := w.place(t, c, receipts.ModeHold, order(""))
	f := w.follow(t, c, p.RequestID, nil)
	<-w.store.stopped
	job, err := w.store.Job(w.ctx, p.RequestID)
	check(t, err)
	check(t, w.seller.wallet.CancelInvoice(w.ctx, job.PaymentHash))
	w.serve(t, nil)
	if p, err := f.wait(); !errors.Is(err, buyer.ErrFailed) || p.State != buyer.StateFailed {
		t.Errorf("purchase %s, %v", p.State, err)
	}
	if job := w.await(t, p.RequestID, provider.StateFailed); job.Reason.Code != provider.CodePaymentLost || w.runner.count() != 0 {
		t.Errorf("job failed for %s after %d runs", job.Reason, w.runner.count())
	}
	w.moved(t, c.party, 0, 0)
}

// TestBuyerStopsAndGoesOn interrupts Follow after each durable step and goes on
// with another client on the same store.
func TestBuyerStopsAndGoesOn(t *testing.T) {
	for _, mode := range []receipts.Mode{receipts.ModeHold, receipts.ModePostpay} {
		for _, at := range []string{"Reserve", "SendPayment", "Paid", "SetResult", "SetReceipt"} {
			t.Run(string(mode)+"/"+at, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.serve(t, nil)
				c := w.customer(t, nil)
				next := c.client
				ctx, stop := context.WithCancel(w.ctx)
				i := &interrupted{Store: c.store, at: at, stop: stop}
				c.client = c.open(t, func(cfg *buyer.Config) {
					cfg.Store, cfg.Wallet = i, &gated{Client: c.wallet, afterSend: func() { _ = i.done("SendPayment", nil) }}
				})
				p := w.place(t, c, mode, order(""))
				if _, err := c.client.Follow(ctx, p.RequestID, nil); !errors.Is(err, context.Canceled) {
					t.Fatalf("following was not interrupted: %v", err)
				}
				c.client = next
				w.sold(t, c, w.follow(t, c, p.RequestID, nil), mode)
			})
		}
	}
}

// TestResumeWithoutWallet: a payment is under way and the wallet was taken out
// of the configuration; the purchase stays open, whole.
func TestResumeWithoutWallet(t *testing.T) {
	w := newWorld(t)
	w.serve(t, nil)
	c := w.customer(t, nil)
	next := c.client
	ctx, stop := context.WithCancel(w.ctx)
	defer stop()
	c.client = c.open(t, func(cfg *buyer.Config) { cfg.Store = &interrupted{Store: c.store, at: "Reserve", stop: stop} })
	p := w.place(t, c, receipts.ModeHold, order(""))
	_, err := c.client.Follow(ctx, p.RequestID, nil)
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	poor := c.open(t, func(cfg *buyer.Config) { cfg.Wallet = nil })
	if p, err := poor.Follow(w.ctx, p.RequestID, nil); err == nil || !strings.Contains(err.Error(), "no wallet") || p.State != buyer.StatePaying {
		t.Fatalf("purchase %s, %v", p.State, err)
	}
	c.client = next
	w.sold(t, c, w.follow(t, c, p.RequestID, nil), receipts.ModeHold)
}

// TestLostRelaysAreNamed: when listening ends, following says why.
func TestLostRelaysAreNamed(t *testing.T) {
	w := newWorld(t)
	c := w.customer(t, func(cfg *buyer.Config) { cfg.Market = gone{cfg.Market} })
	p := w.place(t, c, receipts.ModeHold, order(""))
	if _, err := c.client.Follow(w.ctx, p.RequestID, nil); !errors.Is(err, errGone) {
		t.Errorf("got %v", err)
	}
}

var errGone = errors.New("all relays are gone")

type gone struct{ buyer.Market }

func (gone) Listen(_ context.Context, _ nostr.Filters, ready func(), _ func(nostr.Event)) error {
	ready()
	return errGone
}

// TestHeardAfterLong: what a buyer said of an open job while its provider was away
// counts also if that is longer ago than a request may be: the acceptance that the
// receipt binds, and that a result in boxes will not be paid for.
func TestHeardAfterLong(t *testing.T) {
	long := func(cfg *provider.Config) { cfg.Limits.ClockWindow = time.Nanosecond }
	w := newWorld(t)
	stop := w.serve(t, nil)
	c := w.customer(t, nil)
	away := make(chan struct{})
	c.client = c.open(t, func(cfg *buyer.Config) {
		leave := sync.OnceFunc(func() { stop(); close(away) })
		cfg.Store = &interrupted{Store: c.store, at: "Reserve", stop: leave}
	})
	p := w.place(t, c, receipts.ModePostpay, order(""))
	f := w.follow(t, c, p.RequestID, nil)
	<-away
	w.heard(t, c, nostr.Filter{Kinds: []int{7001}, Tags: nostr.TagMap{"e": {p.RequestID}}})
	stop = w.serve(t, long)
	w.sold(t, c, f, receipts.ModePostpay)

	stop()
	stop = w.serve(t, nil)
	c.client = c.open(t, func(*buyer.Config) {})
	p = w.place(t, c, receipts.ModePostpay, order(""))
	check(t, c.send(w.ctx, p.Request))
	w.find(t, c.market, nostr.Filter{Kinds: []int{6050}, Tags: nostr.TagMap{"e": {p.RequestID}}})
	stop()
	check(t, c.client.Cancel(w.ctx, p.RequestID))
	w.heard(t, c, nostr.Filter{Kinds: []int{5}, Tags: nostr.TagMap{"e": {p.RequestID}}})
	w.serve(t, long)
	if job := w.await(t, p.RequestID, provider.StateFailed); job.Reason.Code != provider.CodeUnpaid {
		t.Errorf("job ended for %s", job.Reason)
	}
}

// heard waits until the relay has an event, and for the second after its own: then
// nobody who asks for what is new from now on hears of it.
func (w *world) heard(t *testing.T, c *customer, filter nostr.Filter) {
	t.Helper()
	ev := w.find(t, c.market, filter)
	select {
	case <-time.After(time.Until(ev.CreatedAt.Time().Add(1100 * time.Millisecond))):
	case <-w.ctx.Done():
		t.Fatal("no time left")
	}
}

// interrupted is a buyer's store that stops its user after one step.
type interrupted struct {
	buyer.Store
	at   string
	stop func()
}

func (i *interrupted) done(step string, err error) error {
	if step == i.at && err == nil {
		i.stop()
	}
	return err
}

func (i *interrupted) Reserve(ctx context.Context, id string, a buyer.Attempt, quote []byte, bolt11 string, acceptance []byte, l buyer.Limits) error {
	return i.done("Reserve", i.Store.Reserve(ctx, id, a, quote, bolt11, acceptance, l))
}

func (i *interrupted) Paid(ctx context.Context, id string, p payments.Payment) error {
	return i.done("Paid", i.Store.Paid(ctx, id, p))
}

func (i *interrupted) SetResult(ctx context.Context, id string, event, output []byte, contents [][]byte, early bool) error {
	return i.done("SetResult", i.Store.SetResult(ctx, id, event, output, contents, early))
}

func (i *interrupted) SetReceipt(ctx context.Context, id, receiptID string, event []byte) error {
	return i.done("SetReceipt", i.Store.SetReceipt(ctx, id, receiptID, event))
}

// TestSilentProvider: nobody answers, nothing is paid, and the purchase is
// cancelled, so that an answer that comes later finds nobody.
func TestSilentProvider(t *testing.T) {
	w := newWorld(t)
	c := w.customer(t, func(cfg *buyer.Config) { cfg.AnswerTimeout = 1 })
	p := w.place(t, c, receipts.ModeHold, order(""))
	p, err := c.client.Follow(w.ctx, p.RequestID, nil)
	if !errors.Is(err, buyer.ErrFailed) || p.State != buyer.StateFailed || !strings.HasPrefix(p.Reason, "no_answer: ") {
		t.Errorf("purchase %s for %q, %v", p.State, p.Reason, err)
	}
	w.moved(t, c.party, 0, 0)
}

// TestOverCapacity: what runs and waits is bounded for each key and for all.
func TestOverCapacity(t *testing.T) {
	w := newWorld(t)
	w.runner.do = hang
	free := nostr.Tag{"param", "payment_mode", "free"}
	one, two, three := w.customer(t, nil), w.customer(t, nil), w.customer(t, nil)
	stop := w.serve(t, func(cfg *provider.Config) {
		cfg.Limits.QueuePerBuyer, cfg.Limits.Queue = 1, 2
		// Of a queue of two, strangers have one place: these are none.
		cfg.Access.Allow = []string{one.key.PublicKey(), two.key.PublicKey(), three.key.PublicKey()}
	})
	for i, c := range []*customer{one, one, two, three} {
		ev := w.request(t, c.key, order(""), free, nostr.Tag{"t", strconv.Itoa(i)})
		check(t, c.market.Send(w.ctx, ev))
		if admitted := i == 0 || i == 2; admitted {
			w.await(t, ev.ID, provider.StateQuoted, provider.StateRunning)
		} else {
			w.refused(t, ev.ID)
		}
	}
	stop()
	want := []provider.Code{provider.CodeOverCapacity, provider.CodeOverCapacity}
	if got := w.store.codes(); !slices.Equal(got, want) || w.store.answered != 2 {
		t.Errorf("refused for %v, %d answered", got, w.store.answered)
	}
}

// refused waits until the request was refused.
func (w *world) refused(t *testing.T, id string) {
	t.Helper()
	for {
		change := w.store.changed()
		if w.store.wasRefused(id) {
			return
		}
		select {
		case <-change:
		case <-w.ctx.Done():
			t.Fatal("the request is not refused")
		}
	}
}

// TestRefusalsAreNotAnsweredForEver: a key that sends nonsense is answered at a
// bounded rate; all of it is remembered.
func TestRefusalsAreNotAnsweredForEver(t *testing.T) {
	w := newWorld(t)
	stop := w.serve(t, func(cfg *provider.Config) { cfg.Limits.RefusalsPerMin = 2 })
	c := w.customer(t, nil)
	for i := range 5 {
		ev := w.request(t, c.key, order(""), nostr.Tag{"bid", "1"}, nostr.Tag{"t", strconv.Itoa(i)})
		check(t, c.market.Send(w.ctx, ev))
		w.refused(t, ev.ID)
	}
	stop()
	if got := len(w.store.codes()); got != 5 || w.store.answered != 2 {
		t.Errorf("%d refusals, %d answered; want 5 and 2", got, w.store.answered)
	}
}
