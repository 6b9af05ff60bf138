package exchange_test

import (
	"errors"
	"net"
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/relay"
	"github.com/lightwork-market/lightwork/relay/exchange"
	"github.com/lightwork-market/lightwork/relay/server"
)

// TestBlobIsFoundWhereItWasPut: an address that ends with a slash is the same
// server, for uploads and in the addresses that buyers are given.
func TestBlobIsFoundWhereItWasPut(t *testing.T) {
	srv, err := server.New(t.Context(), server.Config{Dir: t.TempDir(), Uploaders: []string{server.Anyone}})
	check(err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = srv.Serve(t.Context(), ln) }()
	t.Cleanup(func() { <-ended })
	key, err := relay.GenerateKey()
	check(err)
	host := ln.Addr().String()
	for _, address := range []string{"http://" + host, "http://" + host + "/", "http://" + host + "//"} {
		m, err := exchange.New(exchange.Config{Relays: []string{"ws://" + host}, Blobs: []string{address}, Signer: key, AllowLoopback: true})
		check(err)
		doc := []byte(address)
		d := hashing.Bytes(doc)
		if err := m.Upload(t.Context(), doc, "text/plain"); err != nil {
			t.Fatal(err)
		}
		if urls := m.BlobURLs(d.Hex()); len(urls) != 1 || urls[0] != "http://"+host+"/"+d.Hex() {
			t.Errorf("%s: it is said to be at %s", address, urls)
		} else if _, err := m.Fetch(t.Context(), urls, d, 1<<20); err != nil {
			t.Errorf("%s: %v", address, err)
		}

		for _, what := range []string{"the blob", "a blob that is gone"} {
			if err := m.RemoveBlob(t.Context(), d); err != nil {
				t.Errorf("%s: remove %s: %v", address, what, err)
			}
			if _, err := m.Fetch(t.Context(), m.BlobURLs(d.Hex()), d, 1<<20); err == nil {
				t.Errorf("%s: it is there after all", address)
			}
		}
	}

	away, err := exchange.New(exchange.Config{Relays: []string{"ws://" + host}, Blobs: []string{"http://127.0.0.1:1"}, Signer: key, AllowLoopback: true})
	check(err)
	if err := away.RemoveBlob(t.Context(), hashing.Bytes([]byte("x"))); err == nil {
		t.Error("a server that is not there deleted a blob")
	}
}

// TestWhatIsNowhere: only what no address could ever give is said to be so.
func TestWhatIsNowhere(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	dead := "http://" + ln.Addr().String()
	check(ln.Close())
	m, err := exchange.New(exchange.Config{Relays: []string{"ws://127.0.0.1:1"}, AllowLoopback: true})
	check(err)
	for _, tt := range []struct {
		urls    []string
		forGood bool
	}{
		{nil, true},
		{[]string{"ftp://blobs.example/x", "https://10.0.0.1/x", "http://1.1.1.1/x"}, true},
		{[]string{dead}, false},
		{[]string{"https://10.0.0.1/x", dead}, false},
		{[]string{dead, "https://10.0.0.1/x"}, false},
	} {
		if _, err := m.Fetch(t.Context(), tt.urls, hashing.Digest{}, 1); err == nil || errors.Is(err, buyer.ErrUnreachable) != tt.forGood {
			t.Errorf("%q: %v", tt.urls, err)
		}
	}
}

// TestNothingIsUploadedToNowhere: what no server has taken was not uploaded.
func TestNothingIsUploadedToNowhere(t *testing.T) {
	m, err := exchange.New(exchange.Config{Relays: []string{"ws://127.0.0.1:1"}})
	check(err)
	if err := m.Upload(t.Context(), []byte("a"), "text/plain"); !errors.Is(err, relay.ErrConfig) {
		t.Errorf("Upload = %v", err)
	}
}

func TestAddressesThatAreNone(t *testing.T) {
	for _, blobs := range []string{"", "blobs.example", "ftp://blobs.example", "https://", "https:///x", "%"} {
		if _, err := exchange.New(exchange.Config{Relays: []string{"ws://127.0.0.1:1"}, Blobs: []string{blobs}}); !errors.Is(err, relay.ErrConfig) {
			t.Errorf("%q: %v", blobs, err)
		}
	}
	if _, err := exchange.New(exchange.Config{}); !errors.Is(err, relay.ErrConfig) {
		t.Errorf("no relays: %v", err)
	}
}
