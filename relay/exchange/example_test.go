package exchange_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/relay"
	"github.com/lightwork-market/lightwork/relay/exchange"
	"github.com/lightwork-market/lightwork/relay/server"
)

// One relay of our own is the whole market: what is uploaded is found by its
// digest. Package buyer has examples of whole jobs.
func ExampleMarket() {
	dir, err := os.MkdirTemp("", "lightwork-example-")
	check(err)
	defer os.RemoveAll(dir)
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	srv, err := server.New(ctx, server.Config{Dir: dir, Uploaders: []string{server.Anyone}})
	check(err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	key, err := relay.GenerateKey()
	check(err)
	host := ln.Addr().String()
	m, err := exchange.New(exchange.Config{
		Relays: []string{"ws://" + host}, Blobs: []string{"http://" + host}, Signer: key, AllowLoopback: true,
	})
	check(err)
	var g errgroup.Group
	g.Go(func() error { return srv.Serve(ctx, ln) })
	g.Go(func() error { return m.Serve(ctx) })

	doc := []byte("a result")
	check(m.Upload(ctx, doc, "text/plain"))
	d := hashing.Bytes(doc)
	found, err := m.Fetch(ctx, m.BlobURLs(d.Hex()), d, 1<<20)
	check(err)
	fmt.Println(string(found))

	stop()
	_ = g.Wait() // ends because ctx did
	// Output:
	// a result
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
