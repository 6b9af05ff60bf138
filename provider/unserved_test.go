package provider_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay/exchange"
)

// picky is a market whose relays answer to results as the test says: "" lets one
// through. It sees what is brought to other relays.
type picky struct {
	provider.Market
	answer func(nostr.Event) string

	mu      sync.Mutex
	offered []nostr.Event // results, each time
	brought []string      // ids of results
}

func (m *picky) Publish(ctx context.Context, ev nostr.Event) []provider.Ack {
	if ev.Kind != 6050 {
		return m.Market.Publish(ctx, ev)
	}
	m.mu.Lock()
	m.offered = append(m.offered, ev)
	m.mu.Unlock()
	said := m.answer(ev)
	if said == "" {
		return m.Market.Publish(ctx, ev)
	}
	return []provider.Ack{{EventID: ev.ID, Relay: m.Relays()[0], Message: said, At: time.Now()}}
}

func (m *picky) Forward(ctx context.Context, url string, ev nostr.Event) provider.Ack {
	if ev.Kind == 6050 {
		m.mu.Lock()
		m.brought = append(m.brought, ev.ID)
		m.mu.Unlock()
	}
	return m.Market.Forward(ctx, url, ev)
}

// served starts a provider of texts whose relays answer so.
func served(t *testing.T, w *markettest.World, answer func(nostr.Event) string, change func(*provider.Config)) *picky {
	t.Helper()
	w.Runner.Do = func(context.Context, provider.Run) (provider.Outcome, error) { return w.Words() }
	m := &picky{answer: answer}
	w.Serve(t, func(cfg *provider.Config) {
		cfg.Offers = []provider.Offer{markettest.TextOffer()}
		m.Market = cfg.Market
		cfg.Market = m
		if change != nil {
			change(cfg)
		}
	})
	return m
}

// untyped publishes an untyped request, with a relay of the buyer's own.
func untyped(t *testing.T, w *markettest.World, c *markettest.Customer, mode receipts.Mode, own string, more ...nostr.Tag) nostr.Event {
	t.Helper()
	ev := markettest.SignedEvent(t, c.Key, 5050, "", append(nostr.Tags{
		{"i", "Which fruit is yellow?", "text"}, {"p", w.Seller.Key.PublicKey()}, {"param", "payment_mode", string(mode)}, {"relays", own},
	}, more...)...)
	markettest.Check(t, c.Market.Send(w.Ctx, ev))
	return ev
}

// pays what a request costs, once its invoice is there, if it is to be paid first.
func pays(t *testing.T, w *markettest.World, c *markettest.Customer, id string, mode receipts.Mode) {
	t.Helper()
	if mode != receipts.ModeHold && mode != receipts.ModePrepay {
		return
	}
	job := w.Until(t, id, func(job provider.Job) bool { return job.BOLT11 != "" || job.State.Terminal() })
	go func() { // a held payment is under way until it is settled or comes back
		_ = c.Wallet.SendPayment(w.Ctx, payments.Pay{BOLT11: job.BOLT11, AmountMsats: job.PriceMsats, FeeLimitMsats: markettest.FeeMsats})
	}()
}

// unserved checks that no relay has a result of the request, that none is queued,
// and that the money is the buyer's again.
func unserved(t *testing.T, w *markettest.World, c *markettest.Customer, job provider.Job, there *exchange.Market, m *picky) {
	t.Helper()
	f := nostr.Filter{Kinds: []int{6050}, Tags: nostr.TagMap{"e": {job.RequestID}}}
	for name, where := range map[string]*exchange.Market{"the provider's": c.Market, "the buyer's": there} {
		if found, err := where.Query(w.Ctx, f); err != nil || len(found) > 0 {
			t.Errorf("%s relay has %d results, %v", name, len(found), err)
		}
	}
	m.mu.Lock()
	if len(m.brought) > 0 {
		t.Errorf("results were brought to the buyer's relay: %v", m.brought)
	}
	m.mu.Unlock()
	pending, err := w.Store.PendingEvents(w.Ctx, time.Hour, 100)
	markettest.Check(t, err)
	if slices.ContainsFunc(pending, func(p provider.Pending) bool { return job.Result != nil && p.EventID == job.Result.EventID }) {
		t.Error("the result is offered on")
	}
	if job.Mode == receipts.ModePrepay {
		if credit, err := w.Store.CreditOf(w.Ctx, c.Key.PublicKey()); err != nil || credit != markettest.RateMsats {
			t.Errorf("credit %d, %v", credit, err)
		}
		return
	}
	w.Moved(t, c.Party, 0, 0)
}

// TestResultThatNoRelayTakes: it is brought to no relay of the buyer's, the job
// ends, and the money goes back.
func TestResultThatNoRelayTakes(t *testing.T) {
	for _, mode := range markettest.AllModes {
		for _, said := range []string{"invalid: too much of it", "blocked: not here"} {
			t.Run(string(mode)+" "+said, func(t *testing.T) {
				t.Parallel()
				w := markettest.New(t)
				own, there := further(t, w)
				m := served(t, w, func(nostr.Event) string { return said }, nil)
				c := w.NewCustomer(t, nil)
				ev := untyped(t, w, c, mode, own)
				pays(t, w, c, ev.ID, mode)
				job := w.Ended(t, ev.ID)
				if job.State != provider.StateFailed || job.Reason.Code != provider.CodeInternal {
					t.Errorf("job %s (%s)", job.State, job.Reason)
				}
				unserved(t, w, c, job, there, m)
				m.mu.Lock()
				defer m.mu.Unlock()
				for i := 1; i < len(m.offered); i++ {
					if len(m.offered[i].Tags)+len(m.offered[i].Content) > len(m.offered[i-1].Tags)+len(m.offered[i-1].Content) {
						t.Errorf("offer %d is longer than the one before", i+1)
					}
				}
			})
		}
	}
}

// TestResultInAShorterForm: what a relay refuses is offered again with less in it,
// down to what the relay takes, and the receipt names that.
func TestResultInAShorterForm(t *testing.T) {
	for name, refuses := range map[string]func(nostr.Event) bool{
		"inputs":  func(ev nostr.Event) bool { return ev.Tags.Find("i") != nil },
		"request": func(ev nostr.Event) bool { return ev.Tags.Find("request") != nil },
		"content": func(ev nostr.Event) bool { return ev.Content != "" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := markettest.New(t)
			w.Delivery = receipts.DeliveryPlain
			m := &picky{answer: func(ev nostr.Event) string {
				if refuses(ev) {
					return "invalid: too much of it"
				}
				return ""
			}}
			w.Serve(t, func(cfg *provider.Config) { m.Market = cfg.Market; cfg.Market = m })
			c := w.NewCustomer(t, nil)
			p := w.Sold(t, c, w.Follow(t, c, w.Place(t, c, receipts.ModeHold, markettest.SandboxInput("")).RequestID, nil), receipts.ModeHold)
			job, err := w.Store.Job(w.Ctx, p.RequestID)
			markettest.Check(t, err)
			var ev nostr.Event
			markettest.Check(t, ev.UnmarshalJSON(p.ResultEvent))
			if ev.ID != job.Result.EventID || refuses(ev) {
				t.Errorf("the buyer has %s, the provider %s", ev.ID, job.Result.EventID)
			}
		})
	}
}

// TestEmptyInputsAreNone: tags without a value are no inputs, so a request cannot
// make its result larger by them than relays take.
func TestEmptyInputsAreNone(t *testing.T) {
	w := markettest.New(t)
	own, there := further(t, w)
	m := served(t, w, func(nostr.Event) string { return "" }, nil)
	c := w.NewCustomer(t, nil)
	more := make([]nostr.Tag, 500)
	for i := range more {
		more[i] = nostr.Tag{"i"}
	}
	ev := untyped(t, w, c, receipts.ModeHold, own, more...)
	w.Await(t, ev.ID, provider.StateQuoted, provider.StateRefused)
	if w.Store.WasRefused(ev.ID) {
		return // also right: such a request is none
	}
	pays(t, w, c, ev.ID, receipts.ModeHold)
	if job := w.Ended(t, ev.ID); job.State != provider.StateSucceeded {
		t.Fatalf("job %s (%s)", job.State, job.Reason)
	}
	w.Find(t, there, nostr.Filter{Kinds: []int{6050}, Tags: nostr.TagMap{"e": {ev.ID}}})
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.offered[0].Tags); n > 64 {
		t.Errorf("the result has %d tags", n)
	}
}

// TestHeldUntilAnswered: relays that say nothing keep a held payment until it would
// be lost. Then it is given back, unless one of them turns out to have the result.
func TestHeldUntilAnswered(t *testing.T) {
	for name, tt := range map[string]struct {
		lost bool // the relay takes the result, and its answer is lost
		want provider.State
	}{
		"no relay there": {false, provider.StateFailed},
		"answer lost":    {true, provider.StateSucceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := markettest.New(t)
			own, there := further(t, w)
			asked := make(chan struct{}, 100)
			var m *picky
			silent := func(ev nostr.Event) string {
				if tt.lost {
					_ = m.Market.Publish(w.Ctx, ev)
				}
				asked <- struct{}{}
				return "timeout"
			}
			w.Runner.Do = func(context.Context, provider.Run) (provider.Outcome, error) { return w.Words() }
			m = &picky{answer: silent}
			life := func(margin time.Duration) func() {
				return w.Serve(t, func(cfg *provider.Config) {
					cfg.Offers = []provider.Offer{markettest.TextOffer()}
					m.Market, cfg.Limits.HoldMargin = cfg.Market, margin
					cfg.Market = m
				})
			}
			stop := life(0)
			c := w.NewCustomer(t, nil)
			ev := untyped(t, w, c, receipts.ModeHold, own)
			pays(t, w, c, ev.ID, receipts.ModeHold)
			w.Await(t, ev.ID, provider.StateDelivering)
			<-asked
			stop()
			life(130 * time.Minute) // the ledger holds for an hour: all of it is margin now
			job := w.Ended(t, ev.ID)
			if job.State != tt.want {
				t.Errorf("job %s (%s), want %s", job.State, job.Reason, tt.want)
			}
			if tt.want == provider.StateFailed {
				unserved(t, w, c, job, there, m)
			}
		})
	}
}

// TestNoWorkWithoutUploads: while no blob server takes anything, no job is taken
// that could not be delivered; afterwards they are again.
func TestNoWorkWithoutUploads(t *testing.T) {
	w := markettest.New(t)
	tried := make(chan struct{}, 1)
	broken := &brokenBlobs{tried: tried}
	w.Serve(t, func(cfg *provider.Config) { broken.Market = cfg.Market; cfg.Market = broken })
	c := w.NewCustomer(t, nil)
	broken.set(true)
	first := w.Place(t, c, receipts.ModeHold, markettest.SandboxInput(""))
	f := w.Follow(t, c, first.RequestID, nil)
	w.Await(t, first.RequestID, provider.StateDelivering)
	select {
	case <-tried:
	case <-w.Ctx.Done():
		t.Fatal("no upload was tried")
	}
	next := w.Request(t, c.Key, markettest.SandboxInput(`,"env":{"N":"2"}`))
	markettest.Check(t, c.Market.Send(w.Ctx, next))
	if job := w.Await(t, next.ID, provider.StateRefused); job.Reason.Code != provider.CodePaused {
		t.Errorf("refused for %s", job.Reason)
	}
	w.Hear(t, c.Market, nostr.Filter{Kinds: []int{31990}, Authors: []string{w.Seller.Key.PublicKey()}}, func(ev nostr.Event) bool {
		return strings.Contains(ev.Content, `"paused":true`)
	})
	broken.set(false)
	w.Sold(t, c, f, receipts.ModeHold)
	last := w.Place(t, c, receipts.ModeHold, markettest.SandboxInput(`,"env":{"N":"3"}`))
	markettest.Check(t, c.SendSigned(w.Ctx, last.Request))
	w.Await(t, last.RequestID, provider.StateQuoted)
}

var errNoRoom = errors.New("no room")

// brokenBlobs is a market whose blob servers have no room while it is set.
type brokenBlobs struct {
	provider.Market
	tried chan<- struct{} // where it is not full, has each refusal; may be nil

	mu     sync.Mutex
	broken bool
}

func (m *brokenBlobs) set(broken bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.broken = broken
}

func (m *brokenBlobs) Upload(ctx context.Context, data []byte, mime string) error {
	m.mu.Lock()
	broken := m.broken
	m.mu.Unlock()
	if broken {
		select {
		case m.tried <- struct{}{}:
		default:
		}
		return errNoRoom
	}
	return m.Market.Upload(ctx, data, mime)
}
