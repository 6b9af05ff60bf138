package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/examples"
	"github.com/lightwork-market/lightwork/payments/playnet"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay/server"
	"github.com/lightwork-market/lightwork/schemas"
)

const (
	// demoMarker is in a folder that a demo made and another may replace.
	demoMarker  = ".lightwork-demo"
	demoFolder  = "lightwork-demo"
	demoPrice   = 21_000 // msats a minute
	demoMax     = 100_000
	demoTimeout = 2 * time.Minute
)

type demoCmd struct {
	Out  string `help:"Folder for the bundle, keys and databases; made anew." placeholder:"DIR"`
	JSON bool   `help:"Print one JSON object instead of the timeline."`

	ProviderLND string `name:"provider-lnd" help:"Use a real lnd as the provider's wallet: ADDRESS,TLS_CERT,MACAROON." env:"LIGHTWORK_DEMO_PROVIDER_LND" placeholder:"LND"`
	BuyerLND    string `name:"buyer-lnd" help:"Use a real lnd as the buyer's wallet." env:"LIGHTWORK_DEMO_BUYER_LND" placeholder:"LND"`
}

// demoOutcome is what --json prints.
type demoOutcome struct {
	Bundle    string            `json:"bundle"`
	ReceiptID string            `json:"receipt_id"`
	ElapsedMs int64             `json:"elapsed_ms"`
	Claims    map[string]string `json:"claims"`

	asset string
}

// Run is the whole market on one machine: relay, provider with its agent,
// buyer, two wallets. Everything between provider and buyer goes over the
// websocket; they share no folder.
func (d demoCmd) Run(ctx context.Context, s *streams) error {
	ctx, cancel := context.WithTimeout(ctx, demoTimeout)
	defer cancel()
	began := time.Now()
	dir, err := d.folder()
	if err != nil {
		return err
	}
	say := func(format string, a ...any) {
		if !d.JSON {
			fmt.Fprintf(s.out, format+"\n", a...)
		}
	}
	m, err := d.open(ctx, dir, s)
	if err != nil {
		return err
	}
	d.intro(say, m)
	g, gctx := errgroup.WithContext(ctx)
	serve, stop := context.WithCancel(gctx)
	m.serve(serve, g)
	var out demoOutcome
	g.Go(func() error {
		defer stop()
		var err error
		out, err = d.buy(gctx, m, s, say)
		return err
	})
	if err := g.Wait(); err != nil {
		return hinted(fmt.Errorf("demo: %w", err), "lightwork doctor says what is missing; --log-level info shows more")
	}
	out.ElapsedMs = time.Since(began).Milliseconds()
	if d.JSON {
		if err := printJSON(s.out, out); err != nil {
			return err
		}
	} else {
		d.outro(say, m, out)
	}
	return exitCode(claimsCode(out.Claims))
}

// folder makes an empty folder, replacing only what a demo made before.
func (d demoCmd) folder() (string, error) {
	dir := d.Out
	if dir == "" {
		dir = demoFolder
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	old, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return "", err
	case len(old) > 0:
		if _, err := os.Stat(filepath.Join(dir, demoMarker)); err != nil {
			return "", usage("name another folder with --out", "%s is not empty and not from a demo", dir)
		}
		if err := os.RemoveAll(dir); err != nil {
			return "", err
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, demoMarker), nil, 0o600)
}

// demoMarket is everything the demo runs.
type demoMarket struct {
	dir    string
	config *config
	streams
	relay    *server.Server
	relayOn  net.Listener
	ledger   *playnet.Ledger // nil with real wallets
	ledgerOn net.Listener
	ready    chan struct{} // closed when the provider sells
}

// real reports whether the wallets are lnd nodes of the user.
func (d demoCmd) real() bool { return d.ProviderLND != "" && d.BuyerLND != "" }

func (d demoCmd) open(ctx context.Context, dir string, s *streams) (*demoMarket, error) {
	if (d.ProviderLND == "") != (d.BuyerLND == "") {
		return nil, usage("", "--provider-lnd and --buyer-lnd go together")
	}
	m := &demoMarket{dir: dir, streams: *s, ready: make(chan struct{})}
	var err error
	if m.relayOn, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	set := setup{
		Wallet: "play", Relay: "ws://" + m.relayOn.Addr().String(), Name: "demo provider", PerMinuteMsats: demoPrice,
	}
	if d.real() {
		set.Wallet = "lnd"
		for at, to := range map[string]*lndConfig{d.ProviderLND: &set.ProviderLND, d.BuyerLND: &set.BuyerLND} {
			if *to, err = parseLND(at); err != nil {
				return nil, err
			}
		}
	} else {
		if m.ledgerOn, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return nil, err
		}
		set.PlayURL = "http://" + m.ledgerOn.Addr().String()
	}
	if err := writeSetup(dir, set); err != nil {
		return nil, err
	}
	if m.config, err = loadConfig(filepath.Join(dir, "lightwork.yaml")); err != nil {
		return nil, err
	}
	if m.relay, err = server.New(ctx, server.Config{Dir: m.config.dataDir("relay"), Log: s.log, Name: "lightwork demo relay"}); err != nil {
		return nil, err
	}
	if m.ledgerOn != nil {
		if err := os.MkdirAll(m.config.dataDir("play"), 0o700); err != nil {
			return nil, err
		}
		m.ledger, err = playnet.Open(ctx, filepath.Join(m.config.dataDir("play"), "ledger.db"), playnet.Config{Logger: s.log})
	}
	return m, err
}

// parseLND reads ADDRESS,TLS_CERT,MACAROON.
func parseLND(s string) (lndConfig, error) {
	parts := strings.Split(s, ",")
	if len(parts) != 3 {
		return lndConfig{}, usage("for example 127.0.0.1:10009,tls.cert,admin.macaroon", "an lnd is given as ADDRESS,TLS_CERT,MACAROON")
	}
	c := lndConfig{Address: parts[0]}
	var err error
	if c.TLSCertFile, err = filepath.Abs(parts[1]); err != nil {
		return c, err
	}
	c.MacaroonFile, err = filepath.Abs(parts[2])
	return c, err
}

// serve starts relay, ledger and provider; they end with ctx.
func (m *demoMarket) serve(ctx context.Context, g *errgroup.Group) {
	g.Go(func() error { return m.relay.Serve(ctx, m.relayOn) })
	if m.ledger != nil {
		g.Go(func() error {
			err := playnet.NewServer(m.ledger, m.log).Serve(ctx, m.ledgerOn)
			return firstError(err, m.ledger.Close())
		})
	}
	g.Go(func() error {
		return runProvider(ctx, m.config, m.log, func(string) { close(m.ready) })
	})
}

// buy is the buyer's side, from discovery to the verified bundle.
func (d demoCmd) buy(ctx context.Context, m *demoMarket, s *streams, say func(string, ...any)) (demoOutcome, error) {
	var out demoOutcome
	select {
	case <-m.ready:
	case <-ctx.Done():
		return out, context.Cause(ctx)
	}
	n, err := openBuyer(ctx, m.config, s.log)
	if err != nil {
		return out, err
	}
	var pins []string
	err = n.use(ctx, func(ctx context.Context) error {
		listing, err := discover(ctx, n)
		if err != nil {
			return err
		}
		say("  provider  %s", listing.NPub)
		say("            announces %s at %s a minute\n", schemas.SandboxRun, msats(listing.PerMinuteMsats))
		pins = []string{"--provider", listing.Provider, "--buyer", n.client.PublicKey(), "--payee", listing.PayeeNode}
		p, err := placeDemo(ctx, n, listing)
		if err != nil {
			return err
		}
		tell := func(buyer.Progress) {}
		if !d.JSON {
			tell = newTimeline(s.out).step
		}
		if p, err = n.client.Follow(ctx, p.RequestID, tell); err != nil {
			return err
		}
		out.ReceiptID, out.Bundle = p.ReceiptID, filepath.Join(m.dir, "bundle")
		return writeBundle(ctx, n, p.RequestID, out.Bundle)
	})
	if err != nil {
		return out, err
	}
	report, err := verifyApart(ctx, out.Bundle, pins)
	if err != nil {
		return out, err
	}
	out.Claims, out.asset = map[string]string{}, report.AssetID
	for _, c := range report.Claims {
		out.Claims[c.Name] = string(c.State)
	}
	return out, nil
}

// discover waits for the provider's announcement to reach the relay.
func discover(ctx context.Context, n *buyerNode) (buyer.Listing, error) {
	for {
		list, err := n.client.Discover(ctx, string(schemas.SandboxRun), "")
		if err == nil && len(list) > 0 {
			return list[0], nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return buyer.Listing{}, errors.Join(errors.New("no provider announced itself"), err)
		}
	}
}

// placeDemo orders the checks of the example repository.
func placeDemo(ctx context.Context, n *buyerNode, l buyer.Listing) (buyer.Purchase, error) {
	repo, err := fs.Sub(examples.Wordstat, "wordstat")
	if err != nil {
		return buyer.Purchase{}, err
	}
	archive, err := packFS(repo)
	if err != nil {
		return buyer.Purchase{}, err
	}
	input, err := sandboxRequest(l, archive, []string{"./check.sh"}, time.Minute, 256)
	if err != nil {
		return buyer.Purchase{}, err
	}
	return n.client.Place(ctx, buyer.Order{
		Provider: l.Provider, SchemaID: string(schemas.SandboxRun), Input: input,
		MaxMsats: demoMax, Mode: receipts.ModeHold, PayeeNode: l.PayeeNode,
	})
}

// verifyApart has the bundle proved by the other program, which knows nothing
// of this one's memory, keys or network, only whom the buyer meant to deal with.
func verifyApart(ctx context.Context, bundle string, pins []string) (receipts.Report, error) {
	var report receipts.Report
	verifier, err := findVerifier()
	if err != nil {
		return report, err
	}
	doc, err := exec.CommandContext(ctx, verifier, append(append([]string{"--json"}, pins...), bundle)...).Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return report, fmt.Errorf("run the verifier: %w", err)
	}
	if err := json.Unmarshal(doc, &report); err != nil {
		return report, fmt.Errorf("read the verifier's report: %w", err)
	}
	return report, nil
}

// demoRequired are the claims a demo must prove: the default ones and that the
// buyer accepted.
var demoRequired = []string{
	"signature", "job", "result", "trajectory", "preimage_matches_invoice", "amount", "invoice_commits_to_quote", "buyer_accepted",
}

func claimsCode(claims map[string]string) int {
	for _, name := range demoRequired {
		if claims[name] != string(receipts.Proved) {
			return exitFailed
		}
	}
	return exitOK
}

func (d demoCmd) intro(say func(string, ...any), m *demoMarket) {
	if d.real() {
		say("Lightwork demo: two real lnd nodes of yours, one job\n")
	} else {
		say("Lightwork demo: one job, bought and sold on this machine")
		say("PLAY MONEY: the wallets are a toy ledger, nothing here is worth anything\n")
	}
	say("  relay     %s", m.config.Relays[0])
}

func (d demoCmd) outro(say func(string, ...any), m *demoMarket, out demoOutcome) {
	say("\n  lightwork-verify, offline, on %s", out.Bundle)
	for _, name := range receipts.ClaimNames() {
		say("    %-26s %s", name, out.Claims[name])
	}
	money := "play money"
	if d.real() {
		money = out.asset
	}
	if claimsCode(out.Claims) == exitOK {
		say("\nA paid job, proved, in %.1f s (%s). Receipt %s", float64(out.ElapsedMs)/1000, money, out.ReceiptID)
	} else {
		say("\nNOT everything that this demo promises was proved.")
	}
	say("\nTry next:")
	say("  %s --explain %s", program("lightwork-verify"), out.Bundle)
	say("  %s replay show %s", program("lightwork"), filepath.Join(out.Bundle, receipts.FileReplay))
	say("  %s -c %s buyer list", program("lightwork"), filepath.Join(m.dir, "lightwork.yaml"))
}

// program is how to type a program of ours: its name if the path finds it,
// else where it lies from here.
func program(name string) string {
	beside := filepath.Join(filepath.Dir(self()), name)
	if found, err := exec.LookPath(name); err == nil && found == beside {
		return name
	}
	if wd, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(wd, beside); err == nil && !strings.HasPrefix(rel, "..") {
			return rel
		}
	}
	return beside
}
