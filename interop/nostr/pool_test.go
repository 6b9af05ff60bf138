package nostr_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/interop/outside"
	"github.com/lightwork-market/lightwork/relay"
)

// TestNostrRelay: our client on @nostr-relay/core.
func TestNostrRelay(t *testing.T) {
	server := outside.Node(t, "nostr-relay/serve.mjs", nil)
	server.Await(t, &server.Out, `"listening"`)
	pool := newPool(t, one(t, outside.Lines(t, server.Out.Text()), "listening")["url"].(string))
	key, err := relay.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	sub, err := pool.Subscribe(t.Context(), nostr.Filters{{Kinds: []int{5050}, Tags: nostr.TagMap{"p": {key.PublicKey()}}}}, relay.SubscribeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	await(t, sub.Ready())

	t.Run("publish and read", func(t *testing.T) {
		for i := range 3 {
			ev := request(t, key, fmt.Sprint(i), 500)
			if got := pool.Publish(t.Context(), ev)[0]; !got.OK || got.Err != nil {
				t.Fatalf("publish: %+v", got)
			}
			if got := await(t, sub.Events()); got.Event.ID != ev.ID {
				t.Errorf("got %s, want %s", got.Event.ID, ev.ID)
			}
			if got := pool.Publish(t.Context(), ev)[0]; !got.OK {
				t.Errorf("again: %+v", got)
			}
		}
		events, err := pool.Query(t.Context(), nostr.Filter{Authors: []string{key.PublicKey()}, Limit: 2})
		if err != nil || len(events) != 2 {
			t.Errorf("%d events, %v", len(events), err)
		}
	})
	t.Run("refused", func(t *testing.T) {
		ev := request(t, key, "forged", 10)
		ev.Content = "changed"
		if got := pool.Publish(t.Context(), ev)[0]; got.OK {
			t.Errorf("a forged event is published: %+v", got)
		}
	})
	// Its validator takes tag values of at most 1024 characters, and answers
	// longer ones with a NOTICE and no OK.
	t.Run("long tag", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		got := pool.Publish(ctx, request(t, key, "long", 2000))[0]
		if got.OK || got.Err == nil {
			t.Errorf("a tag of 2000 bytes: %+v", got)
		}
	})
}

// TestMarketOnNostrRelay: both sides of a job on that relay.
func TestMarketOnNostrRelay(t *testing.T) {
	server := outside.Node(t, "nostr-relay/serve.mjs", nil)
	server.Await(t, &server.Out, `"listening"`)
	w := newWorld(t)
	w.Move(t, one(t, outside.Lines(t, server.Out.Text()), "listening")["url"].(string))
	w.Write(t, "job.json", strings.Replace(rankJob, "sky is blue", "sky is blue"+strings.Repeat(" and blue", 50), 1))
	w.Sell(t)
	p := w.Start(t, "buyer", "submit", "--schema", "oa.retrieval_rerank.v1", "--input", "job.json", "--mode", "free", "--max-msats", "0")
	if code := p.Ended(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// request is a signed 5050 whose input has size bytes.
func request(t *testing.T, key *relay.Key, id string, size int) nostr.Event {
	t.Helper()
	ev := nostr.Event{
		Kind: 5050, CreatedAt: nostr.Now(),
		Tags: nostr.Tags{{"p", key.PublicKey()}, {"param", "order_id", id}, {"i", strings.Repeat("x", size), "text"}},
	}
	if err := key.Sign(t.Context(), &ev); err != nil {
		t.Fatal(err)
	}
	return ev
}

func newPool(t *testing.T, url string) *relay.Pool {
	t.Helper()
	pool, err := relay.NewPool(relay.Config{URLs: []string{url}})
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

func await[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(outside.Patience):
		t.Fatal("nothing came")
	}
	panic("unreachable")
}
