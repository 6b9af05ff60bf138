package natswire

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/lightwork-market/lightwork/cluster/wire"
	"github.com/lightwork-market/lightwork/cluster/wire/wiretest"
)

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der := must(x509.CreateCertificate(rand.Reader, &form, &form, public, private))(t)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// configs are those of gateways that are all peers of each other.
func configs(t *testing.T, nodes ...string) map[string]*Config {
	t.Helper()
	all := map[string]*Config{}
	for _, node := range nodes {
		all[node] = &Config{
			Node: node, Dir: t.TempDir(), Listen: freeAddress(t), Certificate: certificate(t), MaxStore: 64 << 20,
		}
	}
	for _, from := range nodes {
		for _, to := range nodes {
			if from == to {
				continue
			}
			// Two peers know two keys: one for each direction.
			key := must(nkeys.CreateUser())(t)
			seed, public := must(key.Seed())(t), must(key.PublicKey())(t)
			addPeer(all[from], to).Seed = seed
			addPeer(all[from], to).Address = all[to].Listen
			addPeer(all[from], to).Pin = sha256.Sum256(all[to].Certificate.Certificate[0])
			addPeer(all[to], from).Key = public
		}
	}
	return all
}

func addPeer(c *Config, node string) *Peer {
	for i := range c.Peers {
		if c.Peers[i].Node == node {
			return &c.Peers[i]
		}
	}
	c.Peers = append(c.Peers, Peer{Node: node})
	return &c.Peers[len(c.Peers)-1]
}

func open(t *testing.T, c *Config) *Wire {
	t.Helper()
	w := must(Open(t.Context(), *c))(t)
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func TestConformance(t *testing.T) {
	wiretest.Run(t, func(t *testing.T) (a, b wire.Wire) {
		all := configs(t, wiretest.NodeA, wiretest.NodeB)
		return open(t, all[wiretest.NodeA]), open(t, all[wiretest.NodeB])
	})
}

// TestForeignProgram: what a peer's own program may try with the peer's key at another
// gateway's server changes nothing there, and shows it nothing of a third gateway.
func TestForeignProgram(t *testing.T) {
	all := configs(t, "a", "b", "c")
	a, ctx := open(t, all["a"]), t.Context()
	if err := a.Outbox().Reset(ctx, "one", 1); err != nil {
		t.Fatal(err)
	}
	if err := a.Outbox().Append(ctx, []wire.Message{{Seq: 1, ID: "evt_1:1", Data: []byte("{}")}}); err != nil {
		t.Fatal(err)
	}
	if err := a.Records().Put(ctx, "agents.writer", []byte("own")); err != nil {
		t.Fatal(err)
	}

	peer := addPeer(all["b"], "a")
	key := must(nkeys.FromSeed(peer.Seed))(t)
	conn := must(nats.Connect("tls://"+peer.Address, nats.Nkey(must(key.PublicKey())(t), key.Sign),
		nats.Secure(pinned(peer.Pin)), nats.CustomInboxPrefix(inbox("b")),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})))(t)
	defer conn.Close()

	rollup := nats.Header{"Nats-Rollup": {"all"}}
	for _, m := range []*nats.Msg{
		{Subject: outboxSubject, Data: []byte("forged")},
		{Subject: recordSubject + "agents.writer", Data: []byte("forged")},
		{Subject: recordSubject + "agents.writer", Data: []byte("forged"), Header: rollup},
		{Subject: cursorSubject + "c", Data: []byte("forged")},
		{Subject: wakeSubject},
		{Subject: "$JS.API.STREAM.PURGE." + outboxStream},
		{Subject: "$JS.API.STREAM.DELETE." + outboxStream},
		{Subject: "$JS.API.STREAM.UPDATE." + outboxStream, Data: []byte(`{}`)},
		{Subject: "$JS.API.STREAM.CREATE.FILL", Data: []byte(`{"name":"FILL","subjects":["fill"],"storage":"file"}`)},
		{Subject: "$JS.API.CONSUMER.CREATE." + outboxStream, Data: []byte(`{"stream_name":"OUTBOX","config":{"deliver_subject":"record.agents.writer"}}`)},
		{Subject: "$JS.API.STREAM.INFO." + cursorStream + "c"},
		{Subject: "$JS.API.DIRECT.GET." + cursorStream + "c", Data: []byte(`{"seq":1}`)},
		{Subject: peerAPI + "STREAM.DELETE." + outboxStream},
		{Subject: peerAPI + "DIRECT.GET." + cursorStream + "c", Data: []byte(`{"seq":1}`)},
		// An answer that would be a message of the gateway's own.
		{Subject: peerAPI + "STREAM.INFO." + outboxStream, Reply: outboxSubject},
		{Subject: peerAPI + "STREAM.INFO." + outboxStream, Reply: recordSubject + "agents.writer"},
		{Subject: peerAPI + "DIRECT.GET." + outboxStream, Reply: outboxSubject, Data: []byte(`{"seq":1,"batch":9}`)},
		{Subject: peerAPI + "DIRECT.GET." + outboxStream, Reply: cursorSubject + "c", Data: []byte(`{"seq":1,"batch":9}`)},
		{Subject: cursorSubject + "b", Reply: outboxSubject, Data: []byte("1")},
		{Subject: cursorSubject + "b", Reply: cursorSubject + "c", Data: []byte("2"), Header: rollup},
	} {
		if err := conn.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}

	// The answer to a request that came after them says that all were handled.
	r := must(open(t, all["b"]).Dial(ctx, "a"))(t)
	for _, cursor := range []string{"3", "4"} {
		if m, err := conn.Request(cursorSubject+"b", []byte(cursor), answerTime); err != nil || bytes.Contains(m.Data, []byte("error")) {
			t.Fatalf("own cursor: %v, %v", m, err)
		}
	}
	info := must(r.Info(ctx))(t)
	if info.Last != 1 || info.Kept != 1 || info.Epoch != "one" {
		t.Fatalf("the stream is %+v", info)
	}
	if own := must(a.Records().All(ctx))(t); len(own) != 1 || string(own["agents.writer"]) != "own" {
		t.Fatalf("the records are %q", own)
	}
	if cursors := must(a.Cursors(ctx))(t); len(cursors) != 1 || string(cursors["b"]) != "4" {
		t.Fatalf("the cursors are %q", cursors)
	}
	names := 0
	for range a.js.StreamNames(ctx).Name() {
		names++
	}
	if names != 4 { // outbox, records, and a cursor of each peer
		t.Fatalf("%d streams", names)
	}
}

// TestStrangers: a certificate that is not the pinned one, and a key that is not known.
func TestStrangers(t *testing.T) {
	all := configs(t, "a", "b")
	open(t, all["a"])
	for name, spoil := range map[string]func(*Peer){
		"certificate": func(p *Peer) { p.Pin[0] ^= 1 },
		"key":         func(p *Peer) { p.Seed = must(must(nkeys.CreateUser())(t).Seed())(t) },
	} {
		t.Run(name, func(t *testing.T) {
			c := *all["b"]
			c.Dir, c.Peers = t.TempDir(), append([]Peer(nil), c.Peers...)
			spoil(&c.Peers[0])
			w := must(Open(t.Context(), c))(t)
			defer func() { _ = w.Close() }()

			r := must(w.Dial(t.Context(), "a"))(t)
			if _, err := r.Info(t.Context()); !errors.Is(err, wire.ErrUnreachable) && !errors.Is(err, wire.ErrUnknownPeer) {
				t.Fatalf("a stranger reads: %v", err)
			}
		})
	}
}

// reached asks until the peer answers.
func reached(t *testing.T, r wire.Remote) (wire.Info, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		info, err := r.Info(ctx)
		if !errors.Is(err, wire.ErrUnreachable) {
			return info, err
		}
		select {
		case <-r.Wake():
		case <-ctx.Done():
			t.Fatalf("the peer stays unreachable: %v", err)
		}
	}
}

// TestRestart: a peer's server that ends is unreachable and comes back with its stream;
// one whose stream was deleted on the disk comes back without it, and begins
// a new one.
func TestRestart(t *testing.T) {
	all := configs(t, "a", "b")
	a, b, ctx := open(t, all["a"]), open(t, all["b"]), t.Context()
	r := must(b.Dial(ctx, "a"))(t)
	if err := a.Outbox().Reset(ctx, "one", 1); err != nil {
		t.Fatal(err)
	}
	if err := a.Outbox().Append(ctx, []wire.Message{{Seq: 1, ID: "evt_1:1", Data: []byte("{}")}}); err != nil {
		t.Fatal(err)
	}
	must(reached(t, r))(t)

	_ = a.Close()
	if _, err := r.Info(ctx); !errors.Is(err, wire.ErrUnreachable) {
		t.Fatalf("a server that ended: %v", err)
	}
	a = open(t, all["a"])
	if info := must(reached(t, r))(t); info.Epoch != "one" || info.Last != 1 {
		t.Fatalf("after the restart the stream is %+v", info)
	}

	_ = a.Close()
	if err := os.RemoveAll(filepath.Join(all["a"].Dir, "jetstream", "own", "streams", outboxStream)); err != nil {
		t.Fatal(err)
	}
	a = open(t, all["a"])
	if _, err := reached(t, r); !errors.Is(err, wire.ErrNoStream) {
		t.Fatalf("a deleted stream: %v", err)
	}
	if err := a.Outbox().Reset(ctx, "two", 2); err != nil {
		t.Fatal(err)
	}
	if info := must(reached(t, r))(t); info.Epoch != "two" || info.Last != 1 || info.First != 2 {
		t.Fatalf("the new stream is %+v", info)
	}
}
