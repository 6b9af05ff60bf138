package crashtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/payments/playnet"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay"
	"github.com/lightwork-market/lightwork/relay/exchange"
	"github.com/lightwork-market/lightwork/schemas"
)

// envLife holds what the process is to be: a life. Without it the process is
// the test.
const envLife = "LIGHTWORK_CRASHTEST_LIFE"

// What a child says on its standard output.

func jobsLine(all, open int) string      { return fmt.Sprintf("jobs %d, open %d", all, open) }
func endedLine(state buyer.State) string { return "ended " + string(state) }

const (
	rateMsats = 21_000 // a minute
	maxMsats  = 50_000
	feeMsats  = markettest.FeeMsats
)

// life is one process's view of the world.
type life struct {
	Role   string // "provider" or "buyer"
	Dir    string
	Relay  string // host:port
	Ledger string // URL
	Token  string // of its wallet
	Seller string // buyer: the provider's key
	Mode   receipts.Mode
	Fail   bool   // provider: every run fails
	KillAt string // "" to live
	Full   bool   // its disk is full from KillAt on, in place of a kill
}

func TestMain(m *testing.M) {
	if raw := os.Getenv(envLife); raw != "" {
		if err := live(raw); err != nil {
			fmt.Fprintln(os.Stderr, "crashtest child:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// live is the child's main: it lives until its work is done or its standard
// input ends, which it does with the parent.
func live(raw string) error {
	var l life
	if err := json.Unmarshal([]byte(raw), &l); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	k := &killer{point: l.KillAt, full: l.Full, dir: l.Dir, names: map[string]string{}}
	k.note(newLife)
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if l.Role == "buyer" {
		return l.buy(ctx, k, log)
	}
	return l.sell(ctx, k, log)
}

// parts are what both roles open.
type parts struct {
	key    *relay.Key
	db     *store.Store
	wallet *playnet.Client
	market *exchange.Market
}

func (l life) open(ctx context.Context) (p parts, err error) {
	if p.key, err = relay.LoadKey(filepath.Join(l.Dir, "key")); err != nil {
		return p, err
	}
	if p.db, err = store.Open(ctx, l.Dir, store.Options{}); err != nil {
		return p, err
	}
	if p.wallet, err = playnet.Dial(l.Ledger, l.Token); err != nil {
		return p, errors.Join(err, p.db.Close())
	}
	p.market, err = newMarket(l.Relay, p.key)
	return p, err
}

// newMarket is one relay with its blob server, at host:port.
func newMarket(host string, signer relay.Signer) (*exchange.Market, error) {
	return exchange.New(exchange.Config{
		Relays: []string{"ws://" + host}, Blobs: []string{"http://" + host}, Signer: signer, AllowLoopback: true,
	})
}

func (p parts) close() error {
	p.wallet.Close()
	return p.db.Close()
}

func (l life) sell(ctx context.Context, k *killer, log *slog.Logger) error {
	p, err := l.open(ctx)
	if err != nil {
		return err
	}
	store := jobStore{p.db.Sales("paid-job"), k}
	sold, err := provider.New(provider.Config{
		Signer: p.key, Store: store, Wallet: payee{p.wallet, k}, Market: stall{p.market, k},
		Runner: worker{k, p.key.PublicKey(), l.Fail}, Log: log,
		RootSecret: bytes.Repeat([]byte{7}, 32), Policy: l.policy(),
		Offers:  []provider.Offer{{SchemaID: string(schemas.SandboxRun), Modes: []receipts.Mode{l.Mode}, PerMinuteMsats: rateMsats}},
		Images:  provider.Images{HostDigest: image().String(), Registered: func(string) bool { return false }},
		Refunds: &provider.Refunds{Wallet: debtor{p.wallet, k}, MaxFeeMsats: feeMsats},
	})
	if err != nil {
		return err
	}
	if err := store.tell(ctx); err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return ended(gctx, p.market.Serve(gctx)) })
	g.Go(func() error { return sold.Serve(gctx) })
	return errors.Join(g.Wait(), p.close())
}

// policy is another one, and shorter, in the lives after a kill: a node is
// upgraded while it is down, and the jobs that it has go on under their own.
func (l life) policy() receipts.Policy {
	if _, err := os.Stat(filepath.Join(l.Dir, killedFile)); err == nil {
		return receipts.Policy{Version: 1, Producer: "2"}
	}
	return receipts.Policy{Version: 1, Producer: "first"}
}

// ended drops the error that only says that ctx ended.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

func (l life) client(p parts, k *killer, log *slog.Logger) (*buyer.Client, error) {
	return buyer.New(buyer.Config{
		Signer: p.key, Store: purchaseStore{p.db.Purchases(), k}, Wallet: payer{p.wallet, k},
		Market: customer{p.market, k}, Log: log, Modes: []receipts.Mode{l.Mode}, Receiver: p.wallet, RefundTimeout: patience,
	})
}

// buy makes one purchase, or goes on with the one that an earlier life began.
func (l life) buy(ctx context.Context, k *killer, log *slog.Logger) error {
	p, err := l.open(ctx)
	if err != nil {
		return err
	}
	client, err := l.client(p, k, log)
	if err != nil {
		return err
	}
	serve, stop := context.WithCancel(ctx)
	var g errgroup.Group
	g.Go(func() error { return ended(serve, p.market.Serve(serve)) })
	err = l.purchase(ctx, p, client)
	stop()
	return errors.Join(err, g.Wait(), p.close())
}

func (l life) purchase(ctx context.Context, p parts, client *buyer.Client) error {
	known, err := p.db.Purchases().Purchases(ctx, 0)
	if err != nil {
		return err
	}
	if len(known) == 0 {
		placed, err := client.Place(ctx, buyer.Order{
			Provider: l.Seller, SchemaID: string(schemas.SandboxRun), Input: order(), MaxMsats: maxMsats, Mode: l.Mode, Announced: announced(),
		})
		if err != nil {
			return err
		}
		known = append(known, placed)
	}
	got, err := client.Follow(ctx, known[0].RequestID, nil)
	if err != nil && !errors.Is(err, buyer.ErrFailed) {
		return err
	}
	fmt.Println(endedLine(got.State))
	return nil
}

func image() hashing.Digest { return hashing.Bytes([]byte("toolchain")) }

// order is the typed request.
func order() []byte {
	return fmt.Appendf(nil, `{"sandbox":{"provider":"host","image_digest":%q,"resources":{"timeout_secs":30}},"commands":[{"cmd":"count"}]}`, image())
}

// worker is the agent: it hashes for a moment and reports what came out.
type worker struct {
	k    *killer
	key  string
	fail bool
}

func (worker) Tool(string) string { return "worker/count" }

func (w worker) Run(ctx context.Context, r provider.Run) (out provider.Outcome, err error) {
	err = w.k.step("run:work", func() error {
		sum := hashing.Bytes(r.Input)
		for range 20_000 {
			sum = hashing.Bytes(sum[:])
		}
		out, err = w.report(sum)
		return err
	})
	if w.fail {
		return provider.Outcome{}, &provider.RunError{Reason: provider.Reason{Code: provider.CodeAgentFailed, Detail: "as told"}}
	}
	return out, errors.Join(err, ctx.Err())
}

func (w worker) report(sum hashing.Digest) (provider.Outcome, error) {
	file := []byte(sum.String())
	doc, err := json.Marshal(schemas.SandboxRunResult{
		EnvInfo:    schemas.SandboxEnv{ImageDigest: image()},
		Runs:       []schemas.SandboxRunInfo{{Cmd: "count", StdoutSHA256: hashing.Bytes(file), StderrSHA256: hashing.Bytes(nil), StdoutPreview: sum.String()}},
		Artifacts:  []schemas.SandboxArtifact{{Path: "sum.txt", SHA256: hashing.Bytes(file), SizeBytes: int64(len(file))}},
		Status:     schemas.StatusSuccess,
		Provenance: schemas.Provenance{ModelID: "worker", ProviderPubkey: w.key},
	})
	if err != nil {
		return provider.Outcome{}, err
	}
	s, _ := schemas.Lookup(string(schemas.SandboxRun))
	res, err := s.FinishResult(doc, w.key)
	if err != nil {
		return provider.Outcome{}, err
	}
	return provider.Outcome{Output: res.Canonical, Artifacts: [][]byte{file}}, nil
}
