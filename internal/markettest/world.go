// Package markettest is the market that tests of providers, buyers and panels
// play in: a relay with blobs, a ledger of play money, one provider and as many
// rivals and customers as a test asks for. Only the agents are not real.
package markettest

import (
	"bytes"
	"context"
	"errors"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/faults"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/payments/playnet"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay"
	"github.com/lightwork-market/lightwork/relay/exchange"
	"github.com/lightwork-market/lightwork/relay/server"
	"github.com/lightwork-market/lightwork/schemas"
)

// SandboxRun is the job type of the usual order.
const SandboxRun = string(schemas.SandboxRun)

// What stories here cost and may take.
const (
	Patience    = 3 * time.Minute // far more than any story here takes
	RateMsats   = 21_000          // a minute, and so what the usual order costs
	MaxMsats    = 50_000
	FeeMsats    = 3
	FaucetMsats = 1_000_000_000
)

// AllModes are the payment modes, in the order in which the provider announces them.
var AllModes = []receipts.Mode{receipts.ModeHold, receipts.ModePrepay, receipts.ModePostpay, receipts.ModeFree}

// World is a relay with blobs, a ledger of play money and one provider's
// belongings. Everything but the runner is real.
type World struct {
	Selling *provider.Provider // its latest life
	Ctx     context.Context
	host    string // of the relay
	Relays  []string
	ledger  *playnet.Ledger
	Bank    *faults.Proxy // before the ledger
	Seller  *Party
	Store   *JobStore
	Runner  *Runner

	// Delivery is what buyers ask for; "" is their default, sealed.
	Delivery  receipts.Delivery
	customers int
}

// Party is a key with a database and a wallet.
type Party struct {
	Key    *relay.Key
	DB     *store.Store
	token  string
	Wallet *playnet.Client
}

// Check ends the test at an error.
func Check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Listen takes a free port of this machine.
func Listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	Check(t, err)
	return ln
}

// New makes a world whose stories may take [Patience].
func New(t *testing.T) *World { return NewFor(t, Patience) }

// NewFor makes a world with a time of its own.
func NewFor(t *testing.T, patience time.Duration) *World {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	host, ledger, ledgerURL := Services(t, ctx)
	bank := faults.Start(t, ledgerURL)
	w := &World{Ctx: ctx, host: host, ledger: ledger, Bank: bank, Runner: &Runner{}}
	w.Relays = []string{"ws://" + w.host}
	w.Seller = w.NewParty(t, "provider")
	w.Runner.Key = w.Seller.Key.PublicKey()
	w.Store = &JobStore{Store: w.Seller.DB.Sales("paid-job"), change: make(chan struct{})}
	return w
}

// Services starts a relay with blobs and a ledger, which run until the test ends.
func Services(t *testing.T, ctx context.Context) (relayHost string, money *playnet.Ledger, ledgerURL string) {
	t.Helper()
	dir := t.TempDir()
	rel, err := server.New(ctx, server.Config{Dir: filepath.Join(dir, "relay"), Uploaders: []string{server.Anyone}})
	Check(t, err)
	ledger, err := playnet.Open(ctx, filepath.Join(dir, "ledger.db"), playnet.Config{FeeMsats: FeeMsats})
	Check(t, err)
	relayOn, ledgerOn := Listen(t), Listen(t)

	serve, stop := context.WithCancel(context.WithoutCancel(ctx))
	var g errgroup.Group
	g.Go(func() error { return rel.Serve(serve, relayOn) })
	g.Go(func() error { return playnet.NewServer(ledger, nil).Serve(serve, ledgerOn) })

	t.Cleanup(func() {
		stop()
		Check(t, errors.Join(g.Wait(), ledger.Close()))
	})

	return relayOn.Addr().String(), ledger, "http://" + ledgerOn.Addr().String()
}

// NewParty makes a key with an empty database and a wallet on the ledger.
func (w *World) NewParty(t *testing.T, name string) *Party {
	t.Helper()
	key, err := relay.GenerateKey()
	Check(t, err)
	k, err := store.Open(w.Ctx, t.TempDir(), store.Options{})
	Check(t, err)
	t.Cleanup(func() { Check(t, k.Close()) })
	p := &Party{Key: key, DB: k, token: playnet.NewToken()}
	_, err = w.ledger.OpenWallet(w.Ctx, name, p.token)
	Check(t, err)
	p.Wallet, err = playnet.Dial(w.Bank.URL, p.token)
	Check(t, err)
	t.Cleanup(p.Wallet.Close)
	return p
}

// Connect makes a party's view of the relays; it is served until the test ends.
func (w *World) Connect(t *testing.T, key *relay.Key) *exchange.Market {
	t.Helper()
	m, stop := w.Dial(t, key)
	t.Cleanup(stop)
	return m
}

// Dial makes a party's view of the relays, served until stop.
func (w *World) Dial(t *testing.T, key *relay.Key) (m *exchange.Market, stop func()) {
	t.Helper()
	m, err := exchange.New(exchange.Config{Relays: w.Relays, Blobs: []string{"http://" + w.host}, Signer: key, AllowLoopback: true})
	Check(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Ctx))
	done := make(chan error, 1)
	go func() { done <- m.Serve(ctx) }()
	return m, func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

// Serve starts the provider and returns how to stop it. change may alter its
// configuration. Stopping twice is fine, and the end of the test stops it too.
func (w *World) Serve(t *testing.T, change func(*provider.Config)) (stop func()) {
	t.Helper()
	m, hangUp := w.Dial(t, w.Seller.Key)
	cfg := w.Config(m)
	if change != nil {
		change(&cfg)
	}
	p, cancel, done := run(t, w, cfg, hangUp)
	w.Store.life(cancel, done)
	w.Selling = p
	stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	return stop
}

// run serves a provider until cancel, and hangs up when it has ended.
func run(t *testing.T, w *World, cfg provider.Config, hangUp func()) (p *provider.Provider, stop func(), done chan struct{}) {
	t.Helper()
	p, err := provider.New(cfg)
	Check(t, err)

	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Ctx))
	done = make(chan struct{})
	go func() {
		defer close(done)
		if err := p.Serve(ctx); err != nil {
			t.Errorf("provider: %v", err)
		}
		hangUp()
	}()

	return p, cancel, done
}

// Policy is the manifest that providers sell under here.
func Policy() receipts.Policy { return receipts.Policy{Version: 1, Producer: "markettest"} }

// Config is how the provider is set up where a test does not change that.
func (w *World) Config(m *exchange.Market) provider.Config {
	return provider.Config{
		Signer: w.Seller.Key, Store: w.Store, Wallet: w.Seller.Wallet, Market: m, Runner: w.Runner,
		RootSecret: bytes.Repeat([]byte{7}, 32), Policy: Policy(),
		Offers: []provider.Offer{{SchemaID: string(schemas.SandboxRun), Modes: AllModes, PerMinuteMsats: RateMsats}},
		Images: provider.Images{HostDigest: Toolchain().String(), Registered: func(string) bool { return false }},
	}
}

// Toolchain is the digest of the provider's own toolchain.
func Toolchain() hashing.Digest { return hashing.Bytes([]byte("toolchain")) }

// Request is a 5050 made by hand.
func (w *World) Request(t *testing.T, key *relay.Key, input []byte, more ...nostr.Tag) nostr.Event {
	t.Helper()
	return SignedEvent(t, key, 5050, "", append(nostr.Tags{
		{"param", "schema", string(schemas.SandboxRun)}, {"i", string(input), "text"}, {"p", w.Seller.Key.PublicKey()},
	}, more...)...)
}
