package provider_test

import (
	"context"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay"
	"github.com/lightwork-market/lightwork/relay/exchange"
	"github.com/lightwork-market/lightwork/schemas"
)

// crowd are keys that cost nothing, and what they ask of the world's provider.
type crowd struct {
	keys []*relay.Key
	sent []string // ids of their requests
}

func newCrowd(t *testing.T, n int) *crowd {
	t.Helper()
	c := &crowd{}
	for range n {
		c.keys = append(c.keys, markettest.NewKey(t))
	}
	return c
}

func (c *crowd) has(key string) bool {
	for _, k := range c.keys {
		if k.PublicKey() == key {
			return true
		}
	}
	return false
}

// ask sends each key's requests, of which it makes so many.
func (c *crowd) ask(t *testing.T, w *markettest.World, m *exchange.Market, each int, tags ...nostr.Tag) {
	t.Helper()
	for i, key := range c.keys {
		for j := range each {
			ev := markettest.SignedEvent(t, key, 5050, "", append(nostr.Tags{
				{"p", w.Seller.Key.PublicKey()}, {"param", "payment_mode", "free"}, {"t", strconv.Itoa(i), strconv.Itoa(j)},
			}, tags...)...)
			markettest.Check(t, m.Send(w.Ctx, ev))
			c.sent = append(c.sent, ev.ID)
		}
	}
}

// refused waits until so many of its requests are.
func (c *crowd) refused(t *testing.T, w *markettest.World, want int) {
	t.Helper()
	for {
		change := w.Store.Changed()
		n := 0
		for _, id := range c.sent {
			if w.Store.WasRefused(id) {
				n++
			}
		}
		if n == want {
			return
		}
		select {
		case <-change:
		case <-w.Ctx.Done():
			t.Fatalf("%d requests of strangers were refused, want %d", n, want)
		}
	}
}

// TestStrangersLeaveRoom: who pays nothing can take neither all places to run, nor
// the whole queue, nor all places to wait for an input.
func TestStrangersLeaveRoom(t *testing.T) {
	w := markettest.New(t)
	idle, chained := newCrowd(t, 5), newCrowd(t, 8)
	w.Echoes(t, func(c *provider.Config) { c.Limits.Queue, c.Limits.QueuePerBuyer = 8, 2 })
	echo := w.Runner.Do
	w.Runner.Becomes(func(ctx context.Context, run provider.Run) (provider.Outcome, error) {
		if job, err := w.Store.Job(ctx, run.RequestID); err != nil || idle.has(job.Buyer) {
			return markettest.Hang(ctx, run)
		}
		return echo(ctx, run)
	})
	c := w.NewCustomer(t, nil)
	idle.ask(t, w, c.Market, 2, nostr.Tag{"i", "for nothing", "text"})
	idle.refused(t, w, 10-6)

	buy := func(mode receipts.Mode) {
		t.Helper()
		p, err := c.Client.Place(w.Ctx, buyer.Order{
			Provider: w.Seller.Key.PublicKey(), SchemaID: string(schemas.TextGeneration), Input: []byte(`{"prompt":"a"}`),
			MaxMsats: markettest.MaxMsats, Mode: mode,
		})
		markettest.Check(t, err)
		if p, err = w.Follow(t, c, p.RequestID, nil).Wait(); err != nil || p.State != buyer.StateDone {
			t.Fatalf("%s: purchase %s (%s), %v", mode, p.State, p.Reason, err)
		}
	}
	buy(receipts.ModeHold) // by a key that never paid before
	buy(receipts.ModeFree) // by one that did

	chained.ask(t, w, c.Market, 2, nostr.Tag{"i", strings.Repeat("e", 64), "job"})
	chained.refused(t, w, 16-12)
	here := markettest.SignedEvent(t, markettest.NewKey(t), 1, "hello")
	markettest.Check(t, c.Market.Send(w.Ctx, here))
	late := newCrowd(t, 1)
	late.ask(t, w, c.Market, 1, nostr.Tag{"i", here.ID, "event"})
	late.refused(t, w, 1)
	ev := asks(t, w, c, nostr.Tag{"i", here.ID, "event"})
	markettest.Check(t, c.Market.Send(w.Ctx, ev))
	w.Await(t, ev.ID, provider.StateSucceeded)
}

// TestStrangersHoldNotAllCouriers: relays that strangers name and that never answer
// hold up some of the couriers, and a customer's relay gets its events all the same.
func TestStrangersHoldNotAllCouriers(t *testing.T) {
	w := markettest.New(t)
	w.Echoes(t, func(c *provider.Config) { c.Limits.Concurrent = 8 })
	own, there := further(t, w)
	c := w.NewCustomer(t, nil)
	p, err := c.Client.Place(w.Ctx, buyer.Order{
		Provider: w.Seller.Key.PublicKey(), SchemaID: string(schemas.TextGeneration), Input: []byte(`{"prompt":"a"}`), MaxMsats: markettest.MaxMsats, Mode: receipts.ModeHold,
	})
	markettest.Check(t, err)
	if _, err = w.Follow(t, c, p.RequestID, nil).Wait(); err != nil {
		t.Fatal(err)
	}

	silent, held := tarpit(t)
	newCrowd(t, 20).ask(t, w, c.Market, 1, nostr.Tag{"i", "x", "text"}, nostr.Tag{"relays", silent})
	for range 12 { // all that they can have at once
		select {
		case <-held:
		case <-w.Ctx.Done():
			t.Fatal("the couriers of strangers do not come")
		}
	}
	ev := asks(t, w, c, nostr.Tag{"i", "mine", "text"}, nostr.Tag{"relays", own})
	markettest.Check(t, c.Market.Send(w.Ctx, ev))
	w.Await(t, ev.ID, provider.StateSucceeded)
	w.Find(t, there, nostr.Filter{Kinds: []int{6050}, Tags: nostr.TagMap{"e": {ev.ID}}})
}

// paidBy is a store in which one key has paid.
type paidBy struct {
	provider.Store
	key string
}

func (p paidBy) HasPaid(_ context.Context, key string) (bool, error) { return key == p.key, nil }

// TestNewCustomersAreLetInAfterAFlood: strangers' invoices beyond half of their
// places lapse within a minute, so that a flood has to go on to keep new customers
// out. A customer has the whole time.
func TestNewCustomersAreLetInAfterAFlood(t *testing.T) {
	customer := markettest.NewKey(t)
	s := openShop(t, func(c *provider.Config) {
		c.Limits.Unpaid, c.Limits.QuoteTTL, c.Store = 8, time.Hour, paidBy{c.Store, customer.PublicKey()}
	})
	lasts := func(key *relay.Key) time.Duration {
		t.Helper()
		req := s.requestOf(key, nil)
		s.answer(req)
		job, err := s.store.Job(t.Context(), req.ID)
		markettest.Check(t, err)
		return job.ExpiresAt.Sub(job.AddedAt)
	}
	for i := range 6 {
		want := time.Hour
		if i >= 3 {
			want = time.Minute
		}
		if got := lasts(markettest.NewKey(t)); got != want {
			t.Errorf("the quote of stranger %d lasts %s, want %s", i, got, want)
		}
	}
	if status := s.answer(s.requestOf(markettest.NewKey(t), nil)).Tags.Find("status"); status[1] != "error" {
		t.Errorf("one more stranger: %v", status)
	}
	if got := lasts(customer); got != time.Hour {
		t.Errorf("a customer's quote lasts %s", got)
	}
}

// tarpit is a relay that takes connections and never says a word; it tells of each.
func tarpit(t *testing.T) (url string, held <-chan struct{}) {
	t.Helper()
	ln := markettest.Listen(t)
	came, ended := make(chan struct{}, 1000), make(chan struct{})
	var conns []net.Conn
	go func() {
		defer close(ended)
		for conn, err := ln.Accept(); err == nil; conn, err = ln.Accept() {
			conns = append(conns, conn)
			came <- struct{}{}
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		<-ended
		for _, conn := range conns {
			conn.Close()
		}
	})
	return "ws://" + ln.Addr().String(), came
}
