package relay_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/relay"
	"github.com/lightwork-market/lightwork/relay/server"
)

// A relay of our own is served, and a pool publishes to it what a subscription
// of the same pool then hears.
func ExamplePool() {
	dir, err := os.MkdirTemp("", "lightwork-example-")
	check(err)
	defer os.RemoveAll(dir)
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	srv, err := server.New(ctx, server.Config{Dir: dir})
	check(err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	pool, err := relay.NewPool(relay.Config{URLs: []string{"ws://" + ln.Addr().String()}})
	check(err)
	var g errgroup.Group
	g.Go(func() error { return srv.Serve(ctx, ln) })
	g.Go(func() error { return pool.Serve(ctx) })

	key, err := relay.GenerateKey()
	check(err)
	sub, err := pool.Subscribe(ctx, []nostr.Filter{{Authors: []string{key.PublicKey()}}}, relay.SubscribeOptions{})
	check(err)
	note := nostr.Event{Kind: 1, CreatedAt: nostr.Now(), Content: "a note"}
	check(key.Sign(ctx, &note))
	fmt.Println("relays that took it:", relay.Accepted(pool.Publish(ctx, note)))
	in := <-sub.Events() // its signature is checked
	fmt.Println("heard:", in.Event.Content)

	sub.Close()
	stop()
	_ = g.Wait() // ends because ctx did
	// Output:
	// relays that took it: 1
	// heard: a note
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
