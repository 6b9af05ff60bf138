package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/examples"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

const (
	// demoMarker is in a folder that a demo made and another may replace; the
	// demo that runs holds a lock on it.
	demoMarker  = ".lightwork-demo"
	demoFolder  = "lightwork-demo"
	demoPrice   = 21_000 // msats a minute
	demoMax     = 100_000
	demoTimeout = 2 * time.Minute
)

type demoCmd struct {
	Job  string `enum:"sandbox_run,code_chunk_analysis,retrieval_rerank,embedding" default:"sandbox_run" help:"What to order: sandbox_run, code_chunk_analysis, retrieval_rerank or embedding."`
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
	pins  []string // what the verifier was told of the parties, as flags
}

// real reports whether the wallets are lnd nodes of the user.
func (d demoCmd) real() bool { return d.ProviderLND != "" && d.BuyerLND != "" }

// Run is the whole market on one machine: relay, provider with its agent,
// buyer, two wallets. Everything between provider and buyer goes over the
// websocket; they share no folder.
func (d demoCmd) Run(ctx context.Context, s *streams, g *globals) error {
	if err := sandboxReady(ctx, s, g, "lightwork demo"); err != nil {
		return err
	}
	dir, unlock, err := d.folder()
	if err != nil {
		return err
	}
	defer unlock()
	timed, cancel := context.WithTimeout(ctx, demoTimeout)
	defer cancel()
	out, err := d.market(timed, dir, s)
	switch {
	case err != nil && ctx.Err() != nil:
		return errors.New("demo: interrupted")
	case err != nil:
		return hinted(fmt.Errorf("demo: %w", err), "lightwork doctor says what is missing; --log-level info shows more")
	case d.JSON:
		if err := printJSON(s.out, out); err != nil {
			return err
		}
	}
	return exitCode(claimsCode(out.Claims))
}

// market runs the market until the bundle is verified.
func (d demoCmd) market(ctx context.Context, dir string, s *streams) (demoOutcome, error) {
	began := time.Now()
	say := func(format string, a ...any) {
		if !d.JSON {
			fmt.Fprintf(s.out, format+"\n", a...)
		}
	}
	var out demoOutcome
	m, err := d.open(ctx, dir, s)
	if err != nil {
		return out, err
	}
	d.intro(say, m)
	g, gctx := errgroup.WithContext(ctx)
	serve, stop := context.WithCancel(gctx)
	m.serve(serve, g)
	g.Go(func() error {
		defer stop()
		var err error
		out, err = d.buy(gctx, m, s, say)
		return err
	})
	if err := g.Wait(); err != nil {
		return out, err
	}
	out.ElapsedMs = time.Since(began).Milliseconds()
	d.outro(say, m, out)
	return out, nil
}

// buy is the buyer's side, from discovery to the verified bundle.
func (d demoCmd) buy(ctx context.Context, m *demoMarket, s *streams, say func(string, ...any)) (demoOutcome, error) {
	var out demoOutcome
	select {
	case <-m.ready:
	case <-ctx.Done():
		return out, context.Cause(ctx)
	}
	n, err := openBuyer(ctx, m.config, asker(s), s.log)
	if err != nil {
		return out, err
	}
	err = n.use(ctx, func(ctx context.Context) error {
		listing, err := discover(ctx, n, d.schema())
		if err != nil {
			return err
		}
		say("  provider  %s", listing.NPub)
		say("            announces %s at %s a minute\n", d.schema(), msats(listing.PerMinuteMsats))
		if out.pins, err = demoPins(ctx, n, listing); err != nil {
			return err
		}
		p, err := d.place(ctx, n, listing)
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
	report, err := verifyApart(ctx, out.Bundle, out.pins)
	if err != nil {
		return out, err
	}
	out.Claims, out.asset = map[string]string{}, report.AssetID
	for _, c := range report.Claims {
		out.Claims[c.Name] = string(c.State)
	}
	return out, nil
}

// demoPins are whom the buyer means to deal with, on which network.
func demoPins(ctx context.Context, n *buyerNode, l buyer.Listing) ([]string, error) {
	me, err := receipts.Npub(n.client.PublicKey())
	if err != nil {
		return nil, err
	}
	node, err := n.wallet.Node(ctx)
	if err != nil {
		return nil, err
	}
	return []string{"--network", string(node.Network), "--provider", l.NPub, "--buyer", me, "--payee", l.PayeeNode}, nil
}

// discover waits for the provider's announcement to reach the relay.
func discover(ctx context.Context, n *buyerNode, id schemas.ID) (buyer.Listing, error) {
	for {
		list, err := n.client.Discover(ctx, string(id), "")
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

// schema is the job type of the demo.
func (d demoCmd) schema() schemas.ID { return schemas.ID("oa." + d.Job + ".v1") }

// place orders the demo's job.
func (d demoCmd) place(ctx context.Context, n *buyerNode, l buyer.Listing) (buyer.Purchase, error) {
	input, err := d.input(l)
	if err != nil {
		return buyer.Purchase{}, err
	}
	return n.client.Place(ctx, buyer.Order{
		Provider: l.Provider, SchemaID: string(d.schema()), Input: input,
		MaxMsats: demoMax, Mode: receipts.ModeHold, PayeeNode: l.PayeeNode,
	})
}

// input is the checks of the example repository, or an example on text.
func (d demoCmd) input(l buyer.Listing) ([]byte, error) {
	if d.schema() != schemas.SandboxRun {
		return examples.Jobs.ReadFile("jobs/" + d.Job + ".json")
	}
	repo, err := fs.Sub(examples.Wordstat, "wordstat")
	if err != nil {
		return nil, err
	}
	parcel, err := packFS(repo)
	if err != nil {
		return nil, err
	}
	files := schemas.SandboxRepo{MountPath: workspace, Source: schemas.InlineArchive(parcel.archive)}
	return sandboxDocument(schemas.HostProvider, l.HostImage, files, []string{"./check.sh"}, "none", time.Minute, 256, false)
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
	bundle := shellWord(fromHere(out.Bundle))
	say("\n  lightwork-verify, offline, on %s", bundle)
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
	say("  %s --explain \\", program("lightwork-verify"))
	for i := 0; i < len(out.pins); i += 2 {
		say("    %s %s \\", out.pins[i], out.pins[i+1])
	}
	say("    %s", bundle)
	g := globals{Config: fromHere(filepath.Join(m.dir, defaultConfig))}
	say("  %s", g.spell("lightwork replay show "+bundle))
	say("  %s", g.spell("lightwork buyer list"))
}

// program is how to type a program of ours: its name if the path finds it,
// else where it lies from here.
func program(name string) string {
	beside := filepath.Join(filepath.Dir(self()), name)
	if found, err := exec.LookPath(name); err == nil && found == beside {
		return name
	}
	if here := fromHere(beside); here != name {
		return here
	}
	return "./" + name // a shell does not look here
}

// fromHere shortens a path that lies below the current folder.
func fromHere(path string) string {
	if wd, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(wd, path); err == nil && !strings.HasPrefix(rel, "..") {
			return rel
		}
	}
	return path
}
