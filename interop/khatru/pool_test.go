// Package khatru_test runs Lightwork's client on an unmodified khatru relay. It
// is a module of its own so that the product does not depend on khatru.
package khatru_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fiatjaf/eventstore/slicestore"
	"github.com/fiatjaf/khatru"
	"github.com/fiatjaf/khatru/policies"
	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/relay"
)

const patience = time.Minute

// newRelay is a khatru with its store in memory, as its README sets one up.
func newRelay(t *testing.T) (*khatru.Relay, string) {
	t.Helper()
	db := &slicestore.SliceStore{}
	if err := db.Init(); err != nil {
		t.Fatal(err)
	}
	r := khatru.NewRelay()
	store := &locked{db: db}
	r.StoreEvent = append(r.StoreEvent, store.change(db.SaveEvent))
	r.QueryEvents = append(r.QueryEvents, store.query)
	r.CountEvents = append(r.CountEvents, store.count)
	r.DeleteEvent = append(r.DeleteEvent, store.change(db.DeleteEvent))
	r.ReplaceEvent = append(r.ReplaceEvent, store.change(db.ReplaceEvent))
	server := httptest.NewServer(r)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close(); db.Close() })
	return r, "ws" + strings.TrimPrefix(server.URL, "http")
}

// locked is a SliceStore under a lock. khatru calls it from many goroutines, and
// of its methods only ReplaceEvent locks: an event that is saved while another
// is looked for is found as nil now and then, and ends the process. The context
// of a client that has left is not for it either: its queries would never end.
type locked struct {
	mu sync.Mutex
	db *slicestore.SliceStore // guarded by mu, with the goroutine of each query
}

func (l *locked) change(do func(context.Context, *nostr.Event) error) func(context.Context, *nostr.Event) error {
	return func(ctx context.Context, ev *nostr.Event) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		return do(context.WithoutCancel(ctx), ev)
	}
}

func (l *locked) query(ctx context.Context, filter nostr.Filter) (chan *nostr.Event, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from, err := l.db.QueryEvents(context.WithoutCancel(ctx), filter)
	if err != nil {
		return nil, err
	}
	var list []*nostr.Event
	for ev := range from {
		list = append(list, ev)
	}
	all := make(chan *nostr.Event, len(list))
	for _, ev := range list {
		all <- ev
	}
	close(all)
	return all, nil
}

func (l *locked) count(ctx context.Context, filter nostr.Filter) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.db.CountEvents(ctx, filter)
}

func newPool(t *testing.T, urls ...string) *relay.Pool {
	t.Helper()
	pool, err := relay.NewPool(relay.Config{URLs: urls, MinBackoff: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- pool.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return pool
}

func newKey(t *testing.T) *relay.Key {
	t.Helper()
	key, err := relay.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t *testing.T, key *relay.Key, ev nostr.Event) nostr.Event {
	t.Helper()
	ev.CreatedAt = nostr.Now()
	if err := key.Sign(t.Context(), &ev); err != nil {
		t.Fatal(err)
	}
	return ev
}

func publish(t *testing.T, p *relay.Pool, ev nostr.Event) {
	t.Helper()
	for _, got := range p.Publish(t.Context(), ev) {
		if !got.OK || got.Err != nil {
			t.Fatalf("publish on %s: %q, %v", got.URL, got.Message, got.Err)
		}
	}
}

func await[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("nothing came")
	}
	panic("unreachable")
}

// TestJob plays the events of one job between two pools.
func TestJob(t *testing.T) {
	_, url := newRelay(t)
	provider, buyer := newPool(t, url), newPool(t, url)
	sells, buys := newKey(t), newKey(t)
	requests, err := provider.Subscribe(t.Context(), nostr.Filters{{Kinds: []int{5050}}}, relay.SubscribeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	await(t, requests.Ready())
	// The largest event of ours: khatru's own limit of a message is higher.
	request := sign(t, buys, nostr.Event{Kind: 5050, Tags: nostr.Tags{{"p", sells.PublicKey()}, {"i", strings.Repeat("x", 60<<10), "text"}}})
	answers, err := buyer.Subscribe(t.Context(), nostr.Filters{{
		Kinds: []int{6050, 7000, 7002}, Authors: []string{sells.PublicKey()}, Tags: nostr.TagMap{"e": {request.ID}},
	}}, relay.SubscribeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	await(t, answers.Ready())
	publish(t, buyer, request)
	if got := await(t, requests.Events()); got.Event.ID != request.ID {
		t.Fatalf("the provider got %s", got.Event.ID)
	}
	for _, kind := range []int{7000, 6050, 7002} {
		ev := sign(t, sells, nostr.Event{Kind: kind, Tags: nostr.Tags{{"e", request.ID}, {"p", buys.PublicKey()}}})
		publish(t, provider, ev)
		publish(t, provider, ev) // what is there already is accepted
		if got := await(t, answers.Events()); got.Event.ID != ev.ID {
			t.Errorf("the buyer got kind %d, want %d", got.Event.Kind, kind)
		}
	}
	stored, err := buyer.Query(t.Context(), nostr.Filter{Tags: nostr.TagMap{"e": {request.ID}}})
	if err != nil || len(stored) != 3 {
		t.Errorf("%d stored events, %v", len(stored), err)
	}
}

// TestPages reads more than khatru gives for one filter.
func TestPages(t *testing.T) {
	r, url := newRelay(t)
	r.OverwriteFilter = append(r.OverwriteFilter, func(_ context.Context, f *nostr.Filter) {
		if f.Limit < 1 || f.Limit > 20 {
			f.Limit = 20
		}
	})
	pool, key := newPool(t, url), newKey(t)
	const total = 55
	for i := range total {
		ev := nostr.Event{Kind: 1, Content: fmt.Sprint(i), CreatedAt: nostr.Now() - nostr.Timestamp(2*i)}
		if err := key.Sign(t.Context(), &ev); err != nil {
			t.Fatal(err)
		}
		publish(t, pool, ev)
	}
	since := nostr.Now() - 3600
	sub, err := pool.Subscribe(t.Context(), nostr.Filters{{Kinds: []int{1}, Since: &since}}, relay.SubscribeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for len(seen) < total {
		seen[await(t, sub.Events()).Event.Content] = true
	}
}

// TestRefusals: what khatru says reaches the caller.
func TestRefusals(t *testing.T) {
	r, url := newRelay(t)
	r.RejectEvent = append(r.RejectEvent, policies.RestrictToSpecifiedKinds(false, 5050))
	r.RejectFilter = append(r.RejectFilter, policies.NoEmptyFilters)
	pool, key := newPool(t, url), newKey(t)
	got := pool.Publish(t.Context(), sign(t, key, nostr.Event{Kind: 1}))[0]
	if got.OK || got.Err != nil || got.Message == "" {
		t.Errorf("a kind that is refused: %+v", got)
	}
	forged := sign(t, key, nostr.Event{Kind: 5050})
	forged.Content = "changed"
	if got := pool.Publish(t.Context(), forged)[0]; got.OK {
		t.Errorf("a forged event: %+v", got)
	}
	if _, err := pool.Query(t.Context(), nostr.Filter{}); !errors.Is(err, relay.ErrRefused) {
		t.Errorf("a filter that is refused: %v", err)
	}
	publish(t, pool, sign(t, key, nostr.Event{Kind: 5050}))
}

// TestTwoRelays: a dead relay beside khatru takes nothing away.
func TestTwoRelays(t *testing.T) {
	_, url := newRelay(t)
	pool, key := newPool(t, url, "ws://127.0.0.1:1"), newKey(t)
	ev := sign(t, key, nostr.Event{Kind: 5050})
	if results := pool.PublishQuorum(t.Context(), ev, 1); relay.Accepted(results) != 1 {
		t.Errorf("%+v", results)
	}
	stored, err := pool.Query(t.Context(), nostr.Filter{IDs: []string{ev.ID}})
	if err != nil || len(stored) != 1 {
		t.Errorf("%d events, %v", len(stored), err)
	}
}
