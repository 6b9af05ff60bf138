package bench

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"runtime/pprof"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay"
	"github.com/lightwork-market/lightwork/relay/exchange"
	"github.com/lightwork-market/lightwork/relay/server"
	"github.com/lightwork-market/lightwork/schemas"
)

// echo is a runner that does nothing: every command prints itself.
type echo struct{ key string }

func (echo) Tool(string) string { return "bench/echo" }

func (e echo) Run(_ context.Context, run provider.Run) (provider.Outcome, error) {
	s, _ := schemas.Lookup(run.SchemaID)
	req, err := s.ParseRequest(run.Input)
	if err != nil {
		return provider.Outcome{}, err
	}
	ask := req.Value.(*schemas.SandboxRunRequest)
	res := schemas.SandboxRunResult{
		EnvInfo: schemas.SandboxEnv{ImageDigest: ask.Sandbox.ImageDigest}, Status: schemas.StatusSuccess,
		Artifacts: []schemas.SandboxArtifact{}, Provenance: schemas.Provenance{ModelID: "echo", ProviderPubkey: e.key},
	}
	for _, c := range ask.Commands {
		res.Runs = append(res.Runs, schemas.SandboxRunInfo{
			Cmd: c.Cmd, StdoutSHA256: hashing.Bytes([]byte(c.Cmd)), StderrSHA256: hashing.Bytes(nil), StdoutPreview: c.Cmd,
		})
	}
	doc, err := json.Marshal(res)
	if err != nil {
		return provider.Outcome{}, err
	}
	done, err := s.FinishResult(doc, e.key)
	if err != nil {
		return provider.Outcome{}, err
	}
	return provider.Outcome{Output: done.Canonical}, nil
}

// image is the toolchain that echo pretends to have.
var image = hashing.Bytes([]byte("echo"))

// trade is a relay, a provider and a buyer that talk over loopback sockets;
// each has files of its own.
type trade struct {
	buyer    *buyer.Client
	provider string
}

// as labels what do starts, for a CPU profile: go tool pprof -tagfocus role=provider.
func as(role string, do func()) {
	pprof.Do(context.Background(), pprof.Labels("role", role), func(context.Context) { do() })
}

func newTrade(tb testing.TB) *trade {
	tb.Helper()
	must := func(err error) {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	g, gctx := errgroup.WithContext(ctx)
	var last []func() error
	tb.Cleanup(func() {
		stop()
		if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			tb.Error(err)
		}
		for _, close := range last {
			if err := close(); err != nil {
				tb.Error(err)
			}
		}
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	as("relay", func() {
		srv, err := server.New(ctx, server.Config{Dir: tb.TempDir(), Uploaders: []string{server.Anyone}})
		must(err)
		g.Go(func() error { return srv.Serve(gctx, ln) })
	})

	connect := func() (*relay.Key, *exchange.Market) {
		key, err := relay.GenerateKey()
		must(err)
		host := ln.Addr().String()
		m, err := exchange.New(exchange.Config{
			Relays: []string{"ws://" + host}, Blobs: []string{"http://" + host}, Signer: key, AllowLoopback: true,
		})
		must(err)
		g.Go(func() error { return m.Serve(gctx) })
		return key, m
	}
	open := func() *store.Store {
		k, err := store.Open(ctx, tb.TempDir(), store.Options{})
		must(err)
		last = append(last, k.Close)
		return k
	}

	var sells, buys *relay.Key
	var selling, buying *exchange.Market
	as("buyer", func() { buys, buying = connect() })
	secret := make([]byte, 32)
	_, _ = rand.Read(secret)
	as("provider", func() {
		sells, selling = connect()
		p, err := provider.New(provider.Config{
			Signer: sells, Store: open().Sales("bench"), Market: selling, Runner: echo{sells.PublicKey()},
			RootSecret: secret, Policy: receipts.Policy{Version: 1, Producer: "test"},
			Offers:  []provider.Offer{{SchemaID: string(schemas.SandboxRun), Modes: []receipts.Mode{receipts.ModeFree}}},
			Profile: provider.Profile{Producer: "bench@1"},
			Images:  provider.Images{HostDigest: image.String()},
			Limits:  provider.Limits{Concurrent: 256, Queue: 1024, QueuePerBuyer: 1024},
		})
		must(err)
		g.Go(func() error { return p.Serve(gctx) })
	})
	m := &trade{provider: sells.PublicKey()}
	as("buyer", func() {
		m.buyer, err = buyer.New(buyer.Config{Signer: buys, Store: open().Purchases(), Market: buying})
		must(err)
	})
	m.awaitAnnouncement(tb)
	return m
}

// awaitAnnouncement returns once the provider sells.
func (m *trade) awaitAnnouncement(tb testing.TB) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		list, err := m.buyer.Discover(ctx, string(schemas.SandboxRun), m.provider)
		if err == nil && len(list) > 0 {
			return
		}
		if ctx.Err() != nil {
			tb.Fatalf("the provider does not announce itself: %v", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// job buys one echo and returns what it printed.
func (m *trade) job(ctx context.Context, cmd string) (string, error) {
	input, err := json.Marshal(map[string]any{
		"sandbox":  map[string]any{"provider": schemas.HostProvider, "image_digest": image},
		"commands": []any{map[string]any{"cmd": cmd}},
	})
	if err != nil {
		return "", err
	}
	p, err := m.buyer.Place(ctx, buyer.Order{Provider: m.provider, SchemaID: string(schemas.SandboxRun), Input: input})
	if err != nil {
		return "", err
	}
	if p, err = m.buyer.Follow(ctx, p.RequestID, nil); err != nil {
		return "", err
	}
	var res schemas.SandboxRunResult
	if err := json.Unmarshal(p.Output, &res); err != nil || len(res.Runs) != 1 {
		return "", fmt.Errorf("output %s: %w", p.Output, err)
	}
	return res.Runs[0].StdoutPreview, nil
}
