package provider_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/faults"
	"github.com/lightwork-market/lightwork/internal/kernel"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/payments/playnet"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay"
	"github.com/lightwork-market/lightwork/relay/exchange"
	"github.com/lightwork-market/lightwork/relay/server"
	"github.com/lightwork-market/lightwork/schemas"
)

const (
	patience    = 3 * time.Minute // far more than any story here takes
	rateMsats   = 21_000          // a minute, and so what the usual order costs
	maxMsats    = 50_000
	feeMsats    = 3
	faucetMsats = 1_000_000_000
)

var allModes = []receipts.Mode{receipts.ModeHold, receipts.ModePrepay, receipts.ModePostpay, receipts.ModeFree}

// world is a relay with blobs, a ledger of play money and one provider's
// belongings. Everything but the runner is real.
type world struct {
	selling *provider.Provider // its latest life
	ctx     context.Context
	host    string // of the relay
	relays  []string
	ledger  *playnet.Ledger
	bank    *faults.Proxy // before the ledger
	seller  *party
	store   *watched
	runner  *runner

	// delivery is what buyers ask for; "" is their default, sealed.
	delivery  receipts.Delivery
	customers int
}

// party is a key with a database and a wallet.
type party struct {
	key    *relay.Key
	kernel *kernel.Kernel
	token  string
	wallet *playnet.Client
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	return ln
}

func newWorld(t *testing.T) *world { return newWorldFor(t, patience) }

func newWorldFor(t *testing.T, patience time.Duration) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	dir := t.TempDir()
	rel, err := server.New(ctx, server.Config{Dir: filepath.Join(dir, "relay")})
	check(t, err)
	ledger, err := playnet.Open(ctx, filepath.Join(dir, "ledger.db"), playnet.Config{FeeMsats: feeMsats})
	check(t, err)
	relayOn, ledgerOn := listen(t), listen(t)
	serve, stop := context.WithCancel(context.WithoutCancel(ctx))
	var g errgroup.Group
	g.Go(func() error { return rel.Serve(serve, relayOn) })
	g.Go(func() error { return playnet.NewServer(ledger, nil).Serve(serve, ledgerOn) })
	t.Cleanup(func() {
		stop()
		check(t, errors.Join(g.Wait(), ledger.Close()))
	})
	bank := faults.Start(t, "http://"+ledgerOn.Addr().String())
	w := &world{ctx: ctx, host: relayOn.Addr().String(), ledger: ledger, bank: bank, runner: &runner{}}
	w.relays = []string{"ws://" + w.host}
	w.seller = w.party(t, "provider")
	w.runner.key = w.seller.key.PublicKey()
	w.store = &watched{Store: w.seller.kernel.ProviderStore("paid-job"), change: make(chan struct{})}
	return w
}

func (w *world) party(t *testing.T, name string) *party {
	t.Helper()
	key, err := relay.GenerateKey()
	check(t, err)
	k, err := kernel.Open(w.ctx, t.TempDir(), kernel.Options{})
	check(t, err)
	t.Cleanup(func() { check(t, k.Close()) })
	p := &party{key: key, kernel: k, token: playnet.NewToken()}
	_, err = w.ledger.OpenWallet(w.ctx, name, p.token)
	check(t, err)
	p.wallet, err = playnet.Dial(w.bank.URL, p.token)
	check(t, err)
	t.Cleanup(p.wallet.Close)
	return p
}

func (w *world) balance(t *testing.T, p *party) int64 {
	t.Helper()
	wallet, err := w.ledger.Wallet(w.ctx, p.token)
	check(t, err)
	b, err := wallet.Balance(w.ctx)
	check(t, err)
	return b.SpendableMsats
}

// moved checks what came to the provider and what the buyer spent, with
// nothing left on its way.
func (w *world) moved(t *testing.T, customer *party, toSeller, fromCustomer int64) {
	t.Helper()
	totals, err := w.ledger.Audit(w.ctx)
	check(t, err)
	if totals.HeldMsats != 0 {
		t.Errorf("%d msats are still held", totals.HeldMsats)
	}
	if got := w.balance(t, w.seller) - faucetMsats; got != toSeller {
		t.Errorf("the provider got %d msats, want %d", got, toSeller)
	}
	if got := faucetMsats - w.balance(t, customer); got != fromCustomer {
		t.Errorf("the buyer spent %d msats, want %d", got, fromCustomer)
	}
}

// connect makes a party's view of the relays; it is served until the test ends.
func (w *world) connect(t *testing.T, key *relay.Key) *exchange.Market {
	t.Helper()
	m, stop := w.dial(t, key)
	t.Cleanup(stop)
	return m
}

func (w *world) dial(t *testing.T, key *relay.Key) (m *exchange.Market, stop func()) {
	t.Helper()
	m, err := exchange.New(exchange.Config{Relays: w.relays, Blobs: []string{"http://" + w.host}, Signer: key, AllowLoopback: true})
	check(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.ctx))
	done := make(chan error, 1)
	go func() { done <- m.Serve(ctx) }()
	return m, func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

// serve starts the provider and returns how to stop it. change may alter its
// configuration. Stopping twice is fine, and the end of the test stops it too.
func (w *world) serve(t *testing.T, change func(*provider.Config)) (stop func()) {
	t.Helper()
	m, hangUp := w.dial(t, w.seller.key)
	cfg := w.config(m)
	if change != nil {
		change(&cfg)
	}
	p, err := provider.New(cfg)
	check(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := p.Serve(ctx); err != nil {
			t.Errorf("provider: %v", err)
		}
		hangUp()
	}()
	w.store.life(cancel, done)
	w.selling = p
	stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	return stop
}

// config is how the provider is set up where a test does not change that.
func (w *world) config(m *exchange.Market) provider.Config {
	return provider.Config{
		Signer: w.seller.key, Store: w.store, Wallet: w.seller.wallet, Market: m, Runner: w.runner,
		RootSecret: bytes.Repeat([]byte{7}, 32), Policy: []byte(`{"version":1}`),
		Offers: []provider.Offer{{SchemaID: string(schemas.SandboxRun), Modes: allModes, PerMinuteMsats: rateMsats}},
		Images: provider.Images{HostDigest: toolchain().String(), Registered: func(string) bool { return false }},
	}
}

func toolchain() hashing.Digest { return hashing.Bytes([]byte("toolchain")) }

// permitted signs the kinds that it was asked to allow and no other, as a remote
// signer does.
type permitted struct {
	*relay.Key
	kinds []int
}

func (p permitted) Sign(ctx context.Context, ev *nostr.Event) error {
	if !slices.Contains(p.kinds, ev.Kind) {
		return fmt.Errorf("kind %d is not among those that are signed for this role", ev.Kind)
	}
	return p.Key.Sign(ctx, ev)
}

// order is the usual typed request, with more of its members.
func order(more string) []byte {
	return []byte(`{"sandbox":{"provider":"host","image_digest":"` + toolchain().String() +
		`","resources":{"timeout_secs":30}},"commands":[{"cmd":"count"}]` + more + `}`)
}

// customer is a buyer with its client.
type customer struct {
	*party
	client *buyer.Client
	market *exchange.Market
	store  buyer.Store
}

func (w *world) customer(t *testing.T, change func(*buyer.Config)) *customer {
	t.Helper()
	w.customers++
	p := w.party(t, fmt.Sprintf("buyer-%d", w.customers))
	c := &customer{party: p, market: w.connect(t, p.key), store: p.kernel.BuyerStore()}
	c.client = c.open(t, change)
	return c
}

// open makes another client on the same belongings, as after a restart.
func (c *customer) open(t *testing.T, change func(*buyer.Config)) *buyer.Client {
	t.Helper()
	cfg := buyer.Config{Signer: permitted{c.key, kinds.SignedByBuyer()}, Store: c.store, Wallet: c.wallet, Market: c.market, Modes: allModes}
	if change != nil {
		change(&cfg)
	}
	client, err := buyer.New(cfg)
	check(t, err)
	return client
}

func (w *world) place(t *testing.T, c *customer, mode receipts.Mode, input []byte) buyer.Purchase {
	t.Helper()
	p, err := c.client.Place(w.ctx, buyer.Order{
		Provider: w.seller.key.PublicKey(), SchemaID: string(schemas.SandboxRun), Input: input, MaxMsats: maxMsats, Mode: mode, Delivery: w.delivery,
	})
	check(t, err)
	return p
}

// following is a purchase that is followed in a goroutine of its own.
type following struct {
	done chan struct{}
	stop func()
	p    buyer.Purchase
	err  error
}

func (w *world) follow(t *testing.T, c *customer, id string, tell func(buyer.Progress)) *following {
	t.Helper()
	ctx, cancel := context.WithCancel(w.ctx)
	f := &following{done: make(chan struct{})}
	f.stop = func() { cancel(); <-f.done }
	client := c.client
	go func() {
		defer close(f.done)
		f.p, f.err = client.Follow(ctx, id, tell)
	}()
	t.Cleanup(f.stop)
	return f
}

func (f *following) wait() (buyer.Purchase, error) {
	<-f.done
	return f.p, f.err
}

// failed checks that the purchase ended as it should and with what reason.
func (f *following) failed(t *testing.T, code provider.Code) buyer.Purchase {
	t.Helper()
	p, err := f.wait()
	if !errors.Is(err, buyer.ErrFailed) || p.State != buyer.StateFailed && p.State != buyer.StateCanceled {
		t.Fatalf("purchase %s (%s), %v", p.State, p.Reason, err)
	}
	if !bytes.Contains([]byte(p.Reason), []byte(code)) || p.ReceiptID != "" {
		t.Errorf("reason %q, want %s; receipt %q", p.Reason, code, p.ReceiptID)
	}
	return p
}

// raw signs an event with a party's key, for tests that speak Nostr themselves.
func raw(t *testing.T, key *relay.Key, kind int, content string, tags ...nostr.Tag) nostr.Event {
	t.Helper()
	ev := nostr.Event{Kind: kind, CreatedAt: nostr.Now(), Tags: tags, Content: content}
	check(t, key.Sign(t.Context(), &ev))
	return ev
}
