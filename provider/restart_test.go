package provider_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
)

// TestStopAndGoOn stops the provider as a job reaches each state and starts
// another on the same store: the job ends as if nothing had been.
func TestStopAndGoOn(t *testing.T) {
	requirements.Covers(t, "K-49")
	for _, mode := range markettest.AllModes {
		for _, state := range []provider.State{
			provider.StateQuoted, provider.StatePaid, provider.StateRunning, provider.StateDelivering, provider.StateSucceeded,
		} {
			paysLater := mode == receipts.ModePostpay || mode == receipts.ModeFree
			if state == provider.StatePaid && paysLater {
				continue // there is no such state
			}
			t.Run(string(mode)+"/"+string(state), func(t *testing.T) {
				t.Parallel()
				w := markettest.New(t)
				w.Runner.Do = func(ctx context.Context, _ provider.Run) (provider.Outcome, error) {
					if ctx.Err() != nil {
						return provider.Outcome{}, ctx.Err()
					}
					return w.Runner.Good(nil)
				}
				w.Store.StopWhen(state)
				w.Serve(t, nil)
				c := w.NewCustomer(t, nil)
				p := w.Place(t, c, mode, markettest.SandboxInput(""))
				f := w.Follow(t, c, p.RequestID, nil)
				<-w.Store.LifeOver()
				w.Serve(t, nil)
				w.Sold(t, c, f, mode)
				runs := 1
				if state == provider.StateRunning {
					runs = 2
				}
				if got := w.Runner.Count(); got != runs {
					t.Errorf("%d runs, want %d", got, runs)
				}
				for i, run := range w.Runner.Calls() {
					if run.Number != 1+i || run.DirectiveID != w.Runner.Calls()[0].DirectiveID {
						t.Errorf("run %d: %+v", 1+i, run)
					}
				}
			})
		}
	}
}

// TestRunsAreCounted: a job whose runs never last is given up, not tried for ever.
func TestRunsAreCounted(t *testing.T) {
	w := markettest.New(t)
	w.Runner.Do = markettest.Hang
	c := w.NewCustomer(t, nil)
	p := w.Place(t, c, receipts.ModeHold, markettest.SandboxInput(""))
	f := w.Follow(t, c, p.RequestID, nil)
	two := func(cfg *provider.Config) { cfg.Limits.Runs = 2 }
	for range 2 {
		w.Store.StopWhen(provider.StateRunning)
		w.Serve(t, two)
		<-w.Store.LifeOver()
	}
	w.Serve(t, two)
	p = f.Failed(t, heard(provider.CodeNodeRestart))
	w.Unsold(t, c, p, provider.CodeNodeRestart)
	w.Moved(t, c.Party, 0, 0)
}

// TestHoldLostWhileAway: the money went back while the provider was stopped.
func TestHoldLostWhileAway(t *testing.T) {
	w := markettest.New(t)
	w.Store.StopWhen(provider.StatePaid)
	w.Serve(t, nil)
	c := w.NewCustomer(t, nil)
	p := w.Place(t, c, receipts.ModeHold, markettest.SandboxInput(""))
	f := w.Follow(t, c, p.RequestID, nil)
	<-w.Store.LifeOver()
	job, err := w.Store.Job(w.Ctx, p.RequestID)
	markettest.Check(t, err)
	markettest.Check(t, w.Seller.Wallet.CancelInvoice(w.Ctx, job.PaymentHash))
	w.Serve(t, nil)
	if p, err := f.Wait(); !errors.Is(err, buyer.ErrFailed) || p.State != buyer.StateFailed {
		t.Errorf("purchase %s, %v", p.State, err)
	}
	if job := w.Await(t, p.RequestID, provider.StateFailed); job.Reason.Code != provider.CodePaymentLost || w.Runner.Count() != 0 {
		t.Errorf("job failed for %s after %d runs", job.Reason, w.Runner.Count())
	}
	w.Moved(t, c.Party, 0, 0)
}

// TestHeardAfterLong: what a buyer said of an open job while its provider was away
// counts also if that is longer ago than a request may be: the acceptance that the
// receipt binds, and that a result in boxes will not be paid for.
func TestHeardAfterLong(t *testing.T) {
	long := func(cfg *provider.Config) { cfg.Limits.ClockWindow = time.Nanosecond }
	w := markettest.New(t)
	stop := w.Serve(t, nil)
	c := w.NewCustomer(t, nil)
	away := make(chan struct{})
	c.Client = c.Open(t, func(cfg *buyer.Config) {
		leave := sync.OnceFunc(func() { stop(); close(away) })
		cfg.Store = &markettest.StepStore{Store: c.Store, At: "Reserve", Stop: leave}
	})
	p := w.Place(t, c, receipts.ModePostpay, markettest.SandboxInput(""))
	f := w.Follow(t, c, p.RequestID, nil)
	<-away
	w.Heard(t, c, nostr.Filter{Kinds: []int{7001}, Tags: nostr.TagMap{"e": {p.RequestID}}})
	stop = w.Serve(t, long)
	w.Sold(t, c, f, receipts.ModePostpay)

	stop()
	stop = w.Serve(t, nil)
	c.Client = c.Open(t, func(*buyer.Config) {})
	p = w.Place(t, c, receipts.ModePostpay, markettest.SandboxInput(""))
	markettest.Check(t, c.SendSigned(w.Ctx, p.Request))
	w.Find(t, c.Market, nostr.Filter{Kinds: []int{6050}, Tags: nostr.TagMap{"e": {p.RequestID}}})
	stop()
	markettest.Check(t, c.Client.Cancel(w.Ctx, p.RequestID))
	w.Heard(t, c, nostr.Filter{Kinds: []int{5}, Tags: nostr.TagMap{"e": {p.RequestID}}})
	w.Serve(t, long)
	if job := w.Await(t, p.RequestID, provider.StateFailed); job.Reason.Code != provider.CodeUnpaid {
		t.Errorf("job ended for %s", job.Reason)
	}
}

// TestOverCapacity: what runs and waits is bounded for each key and for all.
func TestOverCapacity(t *testing.T) {
	w := markettest.New(t)
	w.Runner.Do = markettest.Hang
	free := nostr.Tag{"param", "payment_mode", "free"}
	one, two, three := w.NewCustomer(t, nil), w.NewCustomer(t, nil), w.NewCustomer(t, nil)
	stop := w.Serve(t, func(cfg *provider.Config) {
		cfg.Limits.QueuePerBuyer, cfg.Limits.Queue = 1, 2
		// Of a queue of two, strangers have one place: these are none.
		cfg.Access.Allow = []string{one.Key.PublicKey(), two.Key.PublicKey(), three.Key.PublicKey()}
	})
	for i, c := range []*markettest.Customer{one, one, two, three} {
		ev := w.Request(t, c.Key, markettest.SandboxInput(""), free, nostr.Tag{"t", strconv.Itoa(i)})
		markettest.Check(t, c.Market.Send(w.Ctx, ev))
		if admitted := i == 0 || i == 2; admitted {
			w.Await(t, ev.ID, provider.StateQuoted, provider.StateRunning)
		} else {
			refused(t, w, ev.ID)
		}
	}
	stop()
	want := []provider.Code{provider.CodeOverCapacity, provider.CodeOverCapacity}
	if got := w.Store.RefusalCodes(); !slices.Equal(got, want) || w.Store.Answers() != 2 {
		t.Errorf("refused for %v, %d answered", got, w.Store.Answers())
	}
}

// refused waits until the request was refused.
func refused(t *testing.T, w *markettest.World, id string) {
	t.Helper()
	for {
		change := w.Store.Changed()
		if w.Store.WasRefused(id) {
			return
		}
		select {
		case <-change:
		case <-w.Ctx.Done():
			t.Fatal("the request is not refused")
		}
	}
}

// TestRefusalsAreNotAnsweredForEver: a key that sends nonsense is answered at a
// bounded rate; all of it is remembered.
func TestRefusalsAreNotAnsweredForEver(t *testing.T) {
	w := markettest.New(t)
	stop := w.Serve(t, func(cfg *provider.Config) { cfg.Limits.RefusalsPerMin = 2 })
	c := w.NewCustomer(t, nil)
	for i := range 5 {
		ev := w.Request(t, c.Key, markettest.SandboxInput(""), nostr.Tag{"bid", "1"}, nostr.Tag{"t", strconv.Itoa(i)})
		markettest.Check(t, c.Market.Send(w.Ctx, ev))
		refused(t, w, ev.ID)
	}
	stop()
	if got := len(w.Store.RefusalCodes()); got != 5 || w.Store.Answers() != 2 {
		t.Errorf("%d refusals, %d answered; want 5 and 2", got, w.Store.Answers())
	}
}
