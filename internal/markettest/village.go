package markettest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/payments/playnet"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay"
	"github.com/lightwork-market/lightwork/relay/exchange"
	"github.com/lightwork-market/lightwork/relay/server"
	"github.com/lightwork-market/lightwork/schemas"
)

// Village is a whole market for the examples: the embedded relay, a ledger of
// play money, and sellers. What fails panics: an example has no test to fail.
type Village struct {
	ctx    context.Context
	dir    string
	host   string
	ledger *playnet.Ledger
	g      errgroup.Group
	ends   []func()

	// Store is that of the buyer which Config makes.
	Store PurchaseStore
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// NewVillage makes a market with sellers of embeddings and texts.
func NewVillage(ctx context.Context, sellers int) *Village {
	v := &Village{dir: must(os.MkdirTemp("", "lightwork-example-"))}
	var stop context.CancelFunc
	v.ctx, stop = context.WithCancel(ctx)
	rel := must(server.New(v.ctx, server.Config{Dir: filepath.Join(v.dir, "relay"), Uploaders: []string{server.Anyone}}))
	v.ledger = must(playnet.Open(v.ctx, filepath.Join(v.dir, "ledger.db"), playnet.Config{}))
	ln := must(net.Listen("tcp", "127.0.0.1:0"))
	v.host = ln.Addr().String()
	v.ends = append(v.ends, func() { os.RemoveAll(v.dir) }, func() { v.ledger.Close() }, stop)
	v.g.Go(func() error { return rel.Serve(v.ctx, ln) })
	for i := range sellers {
		v.sell(fmt.Sprintf("seller-%d", i))
	}
	return v
}

// Close stops all of it; the last that was begun first.
func (v *Village) Close() {
	v.ends[len(v.ends)-1]()
	_ = v.g.Wait()
	for i := len(v.ends) - 2; i >= 0; i-- {
		v.ends[i]()
	}
}

// Relay is the address of the relay.
func (v *Village) Relay() string { return "ws://" + v.host }

// Blobs is the address of the blob server.
func (v *Village) Blobs() string { return "http://" + v.host }

// Wallet is a full play-money wallet.
func (v *Village) Wallet(name string) *playnet.Wallet {
	return must(v.ledger.OpenWallet(v.ctx, name, playnet.NewToken()))
}

// connect is the market as the holder of a key sees it.
func (v *Village) connect(key *relay.Key) *exchange.Market {
	m := must(exchange.New(exchange.Config{
		Relays: []string{v.Relay()}, Blobs: []string{v.Blobs()}, Signer: key, AllowLoopback: true,
	}))
	v.g.Go(func() error { return m.Serve(v.ctx) })
	return m
}

// worker embeds any text as its length: what all honest sellers agree on. To a
// prompt each has an answer of its own.
type worker struct{ key, name string }

func (worker) Tool(string) string { return "example/answer" }

func (w worker) Run(_ context.Context, r provider.Run) (provider.Outcome, error) {
	if r.SchemaID == string(schemas.TextGeneration) {
		doc, err := json.Marshal(schemas.TextResult{
			Text: "An answer by " + w.name, Provenance: schemas.Provenance{ModelID: "example", ProviderPubkey: w.key},
		})
		return provider.Outcome{Output: doc}, err
	}
	var in schemas.EmbeddingRequest
	if err := json.Unmarshal(r.Input, &in); err != nil {
		return provider.Outcome{}, err
	}
	out := schemas.EmbeddingResult{
		ModelID: "length", Dimensions: 1, Provenance: schemas.Provenance{ModelID: "length", ProviderPubkey: w.key},
	}
	for _, text := range in.Texts {
		out.Embeddings = append(out.Embeddings, []float64{float64(len(text))})
	}
	doc, err := json.Marshal(out)
	return provider.Outcome{Output: doc}, err
}

// ConfigOfSeller is all that a provider needs: a seller of embeddings and texts.
func (v *Village) ConfigOfSeller(name string) provider.Config {
	key := must(relay.GenerateKey())
	k := must(store.Open(v.ctx, filepath.Join(v.dir, name), store.Options{}))
	v.ends = append([]func(){v.ends[0], func() { k.Close() }}, v.ends[1:]...)
	return provider.Config{
		Signer: key, Store: k.Sales("paid-job"), Market: v.connect(key), Runner: worker{key.PublicKey(), name}, Cipher: key,
		Wallet: v.Wallet(name), RootSecret: bytes.Repeat([]byte{1}, 32), Policy: receipts.Policy{Version: 1, Producer: "test"},
		Offers: []provider.Offer{
			{SchemaID: string(schemas.Embedding), Modes: []receipts.Mode{receipts.ModeHold, receipts.ModePostpay}, BaseMsats: 21_000},
			{SchemaID: string(schemas.TextGeneration), Modes: []receipts.Mode{receipts.ModePostpay}, BaseMsats: 21_000, EngagementMsats: 1_000},
		},
	}
}

// sell begins to sell, and returns when the announcement is out.
func (v *Village) sell(name string) {
	cfg := v.ConfigOfSeller(name)
	p := must(provider.New(cfg))
	v.g.Go(func() error { return p.Serve(v.ctx) })
	announced(v.ctx, cfg.Market, cfg.Signer.PublicKey())
}

// announced waits for a seller's announcement.
func announced(ctx context.Context, m provider.Market, key string) {
	ctx, heard := context.WithCancel(ctx)
	_ = m.Listen(ctx, nostr.Filters{{Kinds: []int{31990}, Authors: []string{key}}}, func() {}, func(nostr.Event) { heard() })
}

// BuyOne waits until a seller has announced itself, and buys one job from it.
func (v *Village) BuyOne(seller, schemaID, input string) buyer.Purchase {
	cfg := v.Config()
	announced(v.ctx, v.connect(must(relay.GenerateKey())), seller)
	client := must(buyer.New(cfg))
	list := must(client.Discover(v.ctx, schemaID, seller))
	p := must(client.Place(v.ctx, buyer.Order{
		Provider: seller, Announced: &list[0], PayeeNode: list[0].PayeeNode, SchemaID: schemaID, Input: []byte(input), MaxMsats: 25_000,
	}))
	return must(client.Follow(v.ctx, p.RequestID, nil))
}

// Config is all that a buyer needs, with a full play-money wallet.
func (v *Village) Config() buyer.Config {
	key := must(relay.GenerateKey())
	k := must(store.Open(v.ctx, filepath.Join(v.dir, "buyer"), store.Options{}))
	v.ends = append([]func(){v.ends[0], func() { k.Close() }}, v.ends[1:]...)
	v.Store = k.Purchases()
	return buyer.Config{
		Signer: key, Cipher: key, Store: v.Store, Wallet: v.Wallet("buyer"), Market: v.connect(key),
	}
}
