package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/kernel"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

type buyerCmd struct {
	Discover buyerDiscoverCmd `cmd:"" help:"List providers, cheapest first."`
	Submit   buyerSubmitCmd   `cmd:"" help:"Buy a job and wait for the result and the receipt."`
	Resume   buyerResumeCmd   `cmd:"" help:"Go on with purchases that were interrupted."`
	List     buyerListCmd     `cmd:"" help:"List purchases."`
	Show     buyerShowCmd     `cmd:"" help:"Show one purchase."`
	Cancel   buyerCancelCmd   `cmd:"" help:"Ask the provider to stop a job."`
}

type buyerDiscoverCmd struct {
	Schema string `help:"Only providers that run this job type." placeholder:"ID"`
	JSON   bool   `help:"Print JSON."`
}

// Run lists providers.
func (b buyerDiscoverCmd) Run(ctx context.Context, s *streams, g *globals) error {
	return withBuyer(ctx, s, g, func(ctx context.Context, n *buyerNode) error {
		list, err := n.client.Discover(ctx, b.Schema, "")
		if err != nil {
			return hinted(err, "lightwork doctor checks the relays")
		}
		if b.JSON {
			return printJSON(s.out, append([]buyer.Listing{}, list...))
		}
		w := tabwriter.NewWriter(s.out, 2, 8, 2, ' ', 0)
		fmt.Fprintln(w, "PROVIDER\tNAME\tPER MINUTE\tJOBS DONE\tNETWORK\tJOB TYPES")
		for _, l := range list {
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\n", l.NPub, printable(l.Name), msats(l.PerMinuteMsats), l.Completed, printable(l.Network), printable(strings.Join(l.Jobs, ",")))
		}
		return w.Flush()
	})
}

type buyerSubmitCmd struct {
	Provider string        `help:"Whom to buy from (npub or hex); the cheapest that runs the job type if left out." placeholder:"KEY"`
	Schema   string        `help:"Job type." default:"oa.sandbox_run.v1"`
	Input    string        `help:"A file with the request document ('-' for stdin), instead of the flags below." placeholder:"FILE"`
	Repo     string        `help:"A folder to send along; it is mounted at /workspace." type:"existingdir" placeholder:"DIR"`
	Cmd      []string      `help:"A command to run in the sandbox; may be repeated." sep:"none" placeholder:"COMMAND"`
	Timeout  time.Duration `help:"The longest the job may take; it decides the price." default:"60s"`
	Memory   int64         `help:"Memory in MiB." default:"512"`
	MaxMsats int64         `help:"The most to pay, routing fees included." required:"" placeholder:"MSATS"`
	Mode     receipts.Mode `help:"Payment mode to ask for: hold, prepay, postpay or free." placeholder:"MODE"`
	Payee    string        `help:"Pay only this Lightning node (33-byte hex key)." placeholder:"NODE"`
	Out      string        `help:"Write the verifiable bundle to this folder." placeholder:"DIR"`
	JSON     bool          `help:"Print JSON."`
}

// Run buys one job.
func (b buyerSubmitCmd) Run(ctx context.Context, s *streams, g *globals) error {
	if b.MaxMsats < 0 {
		return usage("", "--max-msats cannot be negative")
	}
	return withBuyer(ctx, s, g, func(ctx context.Context, n *buyerNode) error {
		listing, err := b.choose(ctx, n)
		if err != nil {
			return err
		}
		input, err := b.input(s.in, listing)
		if err != nil {
			return err
		}
		payee := b.Payee
		if payee == "" {
			payee = listing.PayeeNode
		}
		p, err := n.client.Place(ctx, buyer.Order{
			Provider: listing.Provider, SchemaID: b.Schema, Input: input, MaxMsats: b.MaxMsats, Mode: b.Mode, PayeeNode: payee,
		})
		if err != nil {
			return usage("", "%w", err)
		}
		return follow(ctx, s, n, p.RequestID, b.Out, b.JSON)
	})
}

// choose finds whom to buy from.
func (b buyerSubmitCmd) choose(ctx context.Context, n *buyerNode) (buyer.Listing, error) {
	key := ""
	if b.Provider != "" {
		var err error
		if key, err = receipts.ParseKey(b.Provider); err != nil {
			return buyer.Listing{}, usage("an npub1... or 64 hex digits", "--provider: %w", err)
		}
	}
	list, err := n.client.Discover(ctx, b.Schema, key)
	if err != nil {
		return buyer.Listing{}, hinted(err, "lightwork doctor checks the relays")
	}
	if len(list) == 0 {
		return buyer.Listing{}, hinted(fmt.Errorf("nobody on these relays announces %s", b.Schema), "lightwork buyer discover lists who is there")
	}
	return list[0], nil
}

// input is the request document: a file's, or made of the flags.
func (b buyerSubmitCmd) input(stdin io.Reader, l buyer.Listing) ([]byte, error) {
	if b.Input != "" {
		r := stdin
		if b.Input != "-" {
			f, err := os.Open(b.Input)
			if err != nil {
				return nil, usage("", "--input: %w", err)
			}
			defer f.Close()
			r = f
		}
		return io.ReadAll(io.LimitReader(r, schemas.MaxRequestBytes+1))
	}
	if b.Schema != string(schemas.SandboxRun) {
		return nil, usage("lightwork schemas show "+b.Schema+" tells its form", "--input is needed for %s", b.Schema)
	}
	if len(b.Cmd) == 0 {
		return nil, usage("for example --cmd 'make test'", "at least one --cmd is needed")
	}
	var archive []byte
	if b.Repo != "" {
		var err error
		if archive, err = packFS(os.DirFS(b.Repo)); err != nil {
			return nil, usage("", "--repo: %w", err)
		}
	}
	return sandboxRequest(l, archive, b.Cmd, b.Timeout, b.Memory)
}

// sandboxRequest makes a request for the provider's own toolchain. It leaves
// verification out, so that its defaults apply.
func sandboxRequest(l buyer.Listing, archive []byte, cmds []string, timeout time.Duration, memoryMB int64) ([]byte, error) {
	image, err := hashing.ParseDigest(l.HostImage)
	if err != nil {
		return nil, usage("give the request with --input", "the provider announces no host image")
	}
	commands := make([]schemas.SandboxCommand, len(cmds))
	for i, c := range cmds {
		commands[i].Cmd = c
	}
	repo := schemas.SandboxRepo{MountPath: "/workspace"}
	if archive != nil {
		repo.Source = schemas.InlineArchive(archive)
	}
	return json.Marshal(map[string]any{
		"sandbox": schemas.Sandbox{
			Provider: schemas.HostProvider, ImageDigest: image, NetworkPolicy: "none",
			Resources: schemas.SandboxResources{MemoryMB: memoryMB, CPUs: 1, TimeoutSecs: int64((timeout + time.Second - 1) / time.Second)},
		},
		"repo": repo, "commands": commands,
	})
}

type buyerResumeCmd struct {
	ID   string `arg:"" optional:"" help:"One purchase (id or its beginning); all open ones if left out."`
	Out  string `help:"Write the verifiable bundle to this folder." placeholder:"DIR"`
	JSON bool   `help:"Print JSON."`
}

// Run goes on with open purchases, one after the other.
func (b buyerResumeCmd) Run(ctx context.Context, s *streams, g *globals) error {
	return withBuyer(ctx, s, g, func(ctx context.Context, n *buyerNode) error {
		ids, err := n.store.OpenPurchases(ctx)
		if err != nil {
			return err
		}
		if b.ID != "" {
			p, err := find(ctx, n.store, b.ID)
			if err != nil {
				return err
			}
			ids = []string{p.RequestID}
		}
		if len(ids) == 0 {
			fmt.Fprintln(s.err, "lightwork: no purchase is open")
			return nil
		}
		var last error
		for _, id := range ids {
			if err := follow(ctx, s, n, id, b.Out, b.JSON); err != nil {
				last = err
			}
		}
		return last
	})
}

// follow carries a purchase to its end, tells what happens on stderr, and
// prints the outcome on stdout.
func follow(ctx context.Context, s *streams, n *buyerNode, id, out string, asJSON bool) error {
	show := newTimeline(s.err)
	p, err := n.client.Follow(ctx, id, show.step)
	if err == nil && out != "" && p.ReceiptID != "" {
		err = writeBundle(ctx, n, id, out)
	}
	if asJSON {
		if jerr := printJSON(s.out, viewOf(p)); jerr != nil {
			return jerr
		}
	} else if p.Output != nil {
		showOutput(s.out, p)
	}
	switch {
	case errors.Is(err, buyer.ErrIncomplete), errors.Is(err, context.Canceled):
		return &codedError{exitOpen, "lightwork buyer resume " + short(id), err}
	case err != nil:
		return hinted(err, "lightwork buyer show "+short(id))
	}
	return nil
}

func writeBundle(ctx context.Context, n *buyerNode, id, out string) error {
	b, err := n.client.Bundle(ctx, id)
	if err != nil {
		return err
	}
	return writeFolder(out, b)
}

// writeFolder writes a bundle into a new or empty folder.
func writeFolder(dir string, b *receipts.Bundle) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if old, err := os.ReadDir(dir); err != nil || len(old) > 0 {
		return usage("name a new folder", "%s is not empty", dir)
	}
	for name, data := range b.Files() {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// showOutput prints what the commands printed, as far as the result has it.
func showOutput(w io.Writer, p buyer.Purchase) {
	var res schemas.SandboxRunResult
	if p.SchemaID != string(schemas.SandboxRun) || json.Unmarshal(p.Output, &res) != nil {
		fmt.Fprintln(w, string(p.Output))
		return
	}
	for _, r := range res.Runs {
		fmt.Fprintf(w, "$ %s\n%s%s[exit %d, %d ms]\n", printable(r.Cmd), printable(r.StdoutPreview), printable(r.StderrPreview), r.ExitCode, r.DurationMS)
	}
	for _, a := range res.Artifacts {
		fmt.Fprintf(w, "artifact %s  %s  %d bytes\n", printable(a.Path), a.SHA256, a.SizeBytes)
	}
}

// purchaseView is a purchase as --json shows it.
type purchaseView struct {
	RequestID   string          `json:"request_id"`
	State       buyer.State     `json:"state"`
	Reason      string          `json:"reason,omitempty"`
	Provider    string          `json:"provider"`
	SchemaID    string          `json:"schema_id"`
	JobHash     string          `json:"job_hash"`
	MaxMsats    int64           `json:"max_msats"`
	PaidMsats   int64           `json:"paid_msats"`
	FeeMsats    int64           `json:"fee_msats"`
	Mode        receipts.Mode   `json:"mode,omitempty"`
	ReceiptID   string          `json:"receipt_id,omitempty"`
	SettledFast bool            `json:"settled_before_result,omitempty"`
	AddedAt     time.Time       `json:"added_at"`
	Output      json.RawMessage `json:"output,omitempty"`
}

func viewOf(p buyer.Purchase) purchaseView {
	v := purchaseView{
		RequestID: p.RequestID, State: p.State, Reason: p.Reason, Provider: p.Provider, SchemaID: p.SchemaID,
		JobHash: p.JobHash.String(), MaxMsats: p.MaxMsats, ReceiptID: p.ReceiptID, SettledFast: p.SettledTooEarly,
		AddedAt: p.AddedAt, Output: p.Output,
	}
	if p.Payment != nil && p.State != buyer.StateFailed {
		v.PaidMsats, v.FeeMsats = p.Payment.AmountMsats, p.Payment.FeeMsats
	}
	if q, err := receipts.ParseQuote(p.Quote); err == nil {
		v.Mode = q.Mode
	}
	return v
}

type buyerListCmd struct {
	Limit int  `help:"How many at most." default:"50"`
	JSON  bool `help:"Print JSON."`
}

// Run lists purchases, newest first.
func (b buyerListCmd) Run(ctx context.Context, s *streams, g *globals) error {
	return readBuyer(ctx, s, g, func(store *kernel.BuyerStore) error {
		list, err := store.Purchases(ctx, b.Limit)
		if err != nil {
			return err
		}
		if b.JSON {
			views := make([]purchaseView, len(list))
			for i, p := range list {
				views[i] = viewOf(p)
				views[i].Output = nil
			}
			return printJSON(s.out, views)
		}
		w := tabwriter.NewWriter(s.out, 2, 8, 2, ' ', 0)
		fmt.Fprintln(w, "ID\tSTATE\tJOB TYPE\tPAID\tRECEIPT\tREASON")
		for _, p := range list {
			v := viewOf(p)
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", short(p.RequestID), p.State, p.SchemaID, msats(v.PaidMsats), p.ReceiptID, printable(p.Reason))
		}
		return w.Flush()
	})
}

type buyerShowCmd struct {
	ID   string `arg:"" help:"The purchase (id or its beginning)."`
	JSON bool   `help:"Print JSON."`
}

// Run shows one purchase.
func (b buyerShowCmd) Run(ctx context.Context, s *streams, g *globals) error {
	return readBuyer(ctx, s, g, func(store *kernel.BuyerStore) error {
		p, err := find(ctx, store, b.ID)
		if err != nil {
			return err
		}
		v := viewOf(p)
		if b.JSON {
			return printJSON(s.out, v)
		}
		fmt.Fprintf(s.out, "request    %s\nstate      %s %s\nprovider   %s\njob type   %s\njob hash   %s\nmode       %s\npaid       %s, fee %s\nreceipt    %s\n",
			p.RequestID, p.State, printable(p.Reason), p.Provider, p.SchemaID, p.JobHash, v.Mode, msats(v.PaidMsats), msats(v.FeeMsats), p.ReceiptID)
		if p.SettledTooEarly {
			fmt.Fprintln(s.out, "note       the provider took the money before it delivered")
		}
		if p.Output != nil {
			showOutput(s.out, p)
		}
		return nil
	})
}

type buyerCancelCmd struct {
	ID string `arg:"" help:"The purchase (id or its beginning)."`
}

// Run asks the provider to stop, and follows until it is known what became of
// the money.
func (b buyerCancelCmd) Run(ctx context.Context, s *streams, g *globals) error {
	return withBuyer(ctx, s, g, func(ctx context.Context, n *buyerNode) error {
		p, err := find(ctx, n.store, b.ID)
		if err != nil {
			return err
		}
		if err := n.client.Cancel(ctx, p.RequestID); err != nil {
			return err
		}
		fmt.Fprintln(s.err, "lightwork: asked the provider to stop", short(p.RequestID))
		p, err = n.store.Purchase(ctx, p.RequestID)
		if err != nil || p.State.Terminal() {
			return err
		}
		return follow(ctx, s, n, p.RequestID, "", false)
	})
}

// withBuyer opens the buyer for writing and connects it.
func withBuyer(ctx context.Context, s *streams, g *globals, do func(context.Context, *buyerNode) error) error {
	c, err := loadConfig(g.Config)
	if err != nil {
		return err
	}
	n, err := openBuyer(ctx, c, s.log)
	if err != nil {
		return err
	}
	return n.use(ctx, func(ctx context.Context) error { return do(ctx, n) })
}

// readBuyer opens the buyer's database for reading, also beside a running one.
func readBuyer(ctx context.Context, s *streams, g *globals, do func(*kernel.BuyerStore) error) error {
	c, err := loadConfig(g.Config)
	if err != nil {
		return err
	}
	k, err := kernel.Open(ctx, c.dataDir("buyer"), kernel.Options{ReadOnly: true, Logger: s.log})
	if err != nil {
		return hinted(err, "lightwork buyer submit makes the first purchase")
	}
	return firstError(do(k.BuyerStore()), k.Close())
}

func find(ctx context.Context, store *kernel.BuyerStore, id string) (buyer.Purchase, error) {
	p, err := store.FindPurchase(ctx, id)
	if err != nil {
		return p, usage("lightwork buyer list shows the ids", "purchase %q: %w", id, err)
	}
	return p, nil
}
