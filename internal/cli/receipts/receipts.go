// Package receipts has the commands that list, verify, show and publish receipts.
package receipts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/cli/jobs"
	"github.com/lightwork-market/lightwork/internal/cli/purchase"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/internal/node/keys"
	"github.com/lightwork-market/lightwork/receipts"
)

// Cmd is lightwork receipts.
type Cmd struct {
	List    receiptsListCmd    `cmd:"" help:"List receipts."`
	Show    receiptsShowCmd    `cmd:"" help:"Print a receipt."`
	Verify  receiptsVerifyCmd  `cmd:"" help:"Have a bundle proved by lightwork-verify, offline."`
	Export  receiptsExportCmd  `cmd:"" help:"Write the bundle that proves a purchase."`
	Publish receiptsPublishCmd `cmd:"" help:"Publish an event that points to a receipt, or take it back."`
	Page    receiptsPageCmd    `cmd:"" help:"Write a page that verifies bundles in a browser."`
}

// receiptView is a receipt as a listing shows it.
type receiptView struct {
	ReceiptID   string        `json:"receipt_id"`
	Timestamp   string        `json:"timestamp"`
	RequestID   string        `json:"request_id"`
	AmountMsats int64         `json:"amount_msats"`
	AssetID     string        `json:"asset_id"`
	Mode        receipts.Mode `json:"mode"`
	// Purpose is engagement for the receipt of a fee.
	Purpose  receipts.Purpose `json:"purpose"`
	Provider string           `json:"provider_id"`
	Buyer    string           `json:"buyer_id"`
	doc      []byte
}

type receiptsListCmd struct {
	Role  config.Side `help:"Whose: buyer or provider. Left out: of the only wallet there is; of two the buyer." placeholder:"ROLE"`
	Limit int         `help:"How many at most; 0 for all." default:"50"`
	JSON  bool        `help:"Print JSON."`
}

// Run lists receipts, newest first.
func (c receiptsListCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	list, err := readReceipts(ctx, s, g, c.Role, func(store receiptStore) ([]node.StoredReceipt, error) { return store.Receipts(ctx, c.Limit) })
	if err != nil {
		return err
	}
	if c.JSON {
		return app.PrintJSON(s.Out, list)
	}

	w := app.NewTable(s.Out, 4, 5, 3)
	fmt.Fprintln(w, "RECEIPT\tTIME\tAMOUNT\tASSET\tMODE\tFOR\tREQUEST")
	for _, v := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", display.ShortReceipt(v.ReceiptID), display.LocalTime(v.Timestamp), display.Msats(v.AmountMsats), v.AssetID, v.Mode, v.Purpose, display.Short(v.RequestID))
	}
	return w.Flush()
}

// receiptStore is a side's database as far as receipts go.
type receiptStore interface {
	Receipts(ctx context.Context, limit int) ([]node.StoredReceipt, error)
	FindReceipts(ctx context.Context, name string) ([]node.StoredReceipt, error)
}

// readReceipts views what query finds in a side's database.
func readReceipts(ctx context.Context, s *app.Streams, g *app.Globals, named config.Side, query func(receiptStore) ([]node.StoredReceipt, error)) ([]receiptView, error) {
	c, err := app.Open(s, g)
	if err != nil {
		return nil, err
	}
	list := []receiptView{}
	if named.Of(c.Config) == "provider" {
		err = jobs.ReadProvider(ctx, s, g, func(store *node.Sales) error {
			if store == nil {
				return nil
			}

			found, err := query(store)
			for _, r := range found {
				v, err := viewReceipt(r, r.Doc)
				if err != nil {
					return err
				}
				list = append(list, v)
			}
			return err
		})
		return list, err
	}

	err = purchase.ReadBuyer(ctx, s, g, func(store *node.Purchases) error {
		if store == nil {
			return nil
		}

		found, err := query(store)
		for _, r := range found {
			ev, err := receipts.ParseEvent(r.Doc, 1<<20)
			if err != nil {
				return fmt.Errorf("stored receipt %s: %w", r.ReceiptID, err)
			}
			v, err := viewReceipt(r, []byte(ev.Content))
			if err != nil {
				return err
			}
			list = append(list, v)
		}

		return err
	})
	return list, err
}

func viewReceipt(stored node.StoredReceipt, doc []byte) (receiptView, error) {
	r, err := receipts.ParseReceipt(doc)
	if err != nil {
		return receiptView{}, fmt.Errorf("stored receipt %s: %w", stored.ReceiptID, err)
	}
	return receiptView{
		r.ReceiptID, r.Timestamp, r.RequestEventID, r.AmountMsats, r.AssetID, r.Mode, r.PaidFor(), r.ProviderID, r.BuyerID, doc,
	}, nil
}

type receiptsShowCmd struct {
	ID   string      `arg:"" help:"Receipt id or request id, or its beginning."`
	Role config.Side `help:"Whose: buyer or provider. Left out: of the only wallet there is; of two the buyer." placeholder:"ROLE"`
}

// Run prints one receipt.
func (c receiptsShowCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	found, err := findReceipt(ctx, s, g, c.Role, c.ID)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(s.Out, display.PrettyJSON(found.doc))
	return err
}

// findReceipt resolves a receipt's or a request's id, or its beginning.
func findReceipt(ctx context.Context, s *app.Streams, g *app.Globals, named config.Side, id string) (receiptView, error) {
	var found []receiptView
	if len(id) >= node.MinName {
		var err error
		found, err = readReceipts(ctx, s, g, named, func(store receiptStore) ([]node.StoredReceipt, error) { return store.FindReceipts(ctx, id) })
		if err != nil {
			return receiptView{}, err
		}
	}

	if len(found) == 2 && found[0].RequestID == found[1].RequestID { // a request id: the receipt of the result
		found = slices.DeleteFunc(found, func(v receiptView) bool { return v.Purpose == receipts.PurposeEngagement })
	}
	if len(found) != 1 {
		return receiptView{}, advice.Usage("lightwork receipts list shows the ids", "%s match %q (at least %d characters)", receiptsOf(len(found)), id, node.MinName)
	}
	return found[0], nil
}

// receiptsOf: of more than two it is not counted how many they are.
func receiptsOf(n int) string {
	if n > 2 {
		return "several receipts"
	}
	return fmt.Sprintf("%d receipts", n)
}

type receiptsVerifyCmd struct {
	Bundle   string `arg:"" help:"A folder, a .tar file, - for a tar archive on standard input, or the id of a purchase or receipt that is here; with --all a folder of bundles."`
	All      bool   `help:"Verify every bundle in a folder, and what they show of each provider's chain."`
	Provider string `help:"The provider is this one (npub or hex)." placeholder:"KEY"`
	Buyer    string `help:"The buyer is this one (npub or hex)." placeholder:"KEY"`
	Payee    string `help:"The invoice is of this Lightning node (hex)." placeholder:"KEY"`
	Network  string `help:"The network that the money must be on; cashu:HOST for a mint, chain:NAME for the chain." placeholder:"NAME"`
	Require  string `help:"Claims that must be proved beside the first seven." placeholder:"LIST"`

	Also []string `help:"Take this key (npub or hex), and those that key changes join it with, for one holder's." sep:"none" placeholder:"KEY"`
	Keys string   `help:"The key changes that are known, as lightwork keys changes writes them; left out, those of this node." type:"existingfile" placeholder:"FILE"`

	Explain bool `help:"Show every step."`
	JSON    bool `help:"Print the report as JSON."`
}

// Run hands over to the verifier, a program that can reach no network and no
// database, and ends with its exit code.
func (c receiptsVerifyCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	verifier, err := display.FindVerifier()
	if err != nil {
		return err
	}
	if _, err := os.Stat(c.Bundle); errors.Is(err, fs.ErrNotExist) && c.Bundle != "-" {
		if c.All || !receiptOrRequest.MatchString(c.Bundle) {
			return advice.Usage("lightwork receipts list shows ids, which may stand here too", "%s: no such folder or file", c.Bundle)
		}
		dir, err := os.MkdirTemp("", "lightwork-bundle-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)

		export := receiptsExportCmd{ID: c.Bundle, Out: filepath.Join(dir, "bundle.tar")}
		if err := export.Run(ctx, s, g); err != nil {
			return err
		}
		c.Bundle = export.Out
	}

	args, done, err := c.keyArgs(s, g)
	if err != nil {
		return err
	}
	defer done()
	for _, f := range []struct{ name, value string }{
		{"provider", c.Provider}, {"buyer", c.Buyer}, {"payee", c.Payee}, {"network", c.Network}, {"require", c.Require},
	} {
		if f.value != "" {
			args = append(args, "--"+f.name+"="+f.value)
		}
	}

	if c.All {
		args = append(args, "--all")
	}
	if c.Explain {
		args = append(args, "--explain")
	}
	if c.JSON {
		args = append(args, "--json")
	}
	cmd := exec.CommandContext(ctx, verifier, append(args, "--", c.Bundle)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.In, s.Out, s.Err
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return advice.Exit(exit.ExitCode())
	}
	return err
}

// keyArgs names the file of key changes to the verifier; done removes what was written
// for it.
func (c receiptsVerifyCmd) keyArgs(s *app.Streams, g *app.Globals) (args []string, done func(), err error) {
	done = func() {}
	for _, key := range c.Also {
		args = append(args, "--also="+key)
	}
	if c.Keys != "" || len(c.Also) == 0 {
		if c.Keys != "" {
			args = append(args, "--keys="+c.Keys)
		}
		return args, done, nil
	}

	conf, err := app.Open(s, g)
	if err != nil {
		return nil, done, err
	}
	var own []byte
	for _, role := range []string{"provider", "buyer"} {
		events, _, err := keys.ChangesOf(conf.Config, role).Read()
		if err != nil {
			return nil, done, err
		}
		for _, ev := range events {
			own = append(append(own, ev.JSON()...), '\n')
		}
	}
	if len(own) == 0 {
		return nil, done, advice.Usage("lightwork keys changes KEY --out FILE asks the relays, and --keys FILE names what they said", "--also: no key change is known here")
	}
	f, err := os.CreateTemp("", "lightwork-keys-")
	if err != nil {
		return nil, done, err
	}
	done = func() { os.Remove(f.Name()) }
	_, err = f.Write(own)
	return append(args, "--keys="+f.Name()), done, cmp.Or(err, f.Close())
}

// receiptOrRequest is how an id, or its beginning, is written.
var receiptOrRequest = regexp.MustCompile(`^(rcpt_)?[0-9a-f]{4,64}$`)

type receiptsExportCmd struct {
	ID    string      `arg:"" optional:"" help:"Receipt id or request id, or its beginning."`
	Role  config.Side `help:"Whose: buyer or provider. Left out: of the only wallet there is; of two the buyer." placeholder:"ROLE"`
	All   bool        `help:"Every receipt of the buyer, each as RECEIPT.tar in the folder --out. Those that are there already stay as they are."`
	Since string      `help:"With --all: leave out what came before this day (UTC)." placeholder:"YYYY-MM-DD"`
	Out   string      `help:"A new folder, or a file that ends in .tar." required:"" placeholder:"PATH"`
}

// Run writes the evidence of a purchase, of all, or of a sale.
func (c receiptsExportCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	switch {
	case c.All == (c.ID != ""):
		return advice.Usage("give the id of a receipt, or --all", "one receipt or all are exported")
	case c.Since != "" && !c.All:
		return advice.Usage("leave it out, or give --all", "--since is for --all")
	case c.All && c.Role == "provider":
		return advice.Usage("give the id of a receipt", "--all is for what was bought")
	case c.All:
		return c.exportAll(ctx, s, g)
	}
	conf, err := app.Open(s, g)
	if err != nil {
		return err
	}
	if c.Role.Of(conf.Config) == "provider" {
		b, err := saleOf(ctx, s, g, conf, c.ID)
		if err != nil {
			return err
		}
		return c.write(b)
	}

	return purchase.ReadBuyer(ctx, s, g, func(store *node.Purchases) error {
		p, err := purchase.Find(ctx, store, c.ID)
		if err != nil {
			return err
		}
		purpose := receipts.PurposeResult
		if e := p.Engagement; e != nil && e.ReceiptID != "" && strings.HasPrefix(e.ReceiptID, c.ID) {
			purpose = receipts.PurposeEngagement
		}
		b, err := bundleOf(ctx, store, p, purpose)
		if err != nil {
			return err
		}
		return c.write(b)
	})
}

func (c receiptsExportCmd) write(b *receipts.Bundle) error {
	if !strings.HasSuffix(c.Out, ".tar") {
		return purchase.WriteFolder(c.Out, b)
	}
	f, err := os.OpenFile(c.Out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return advice.Usage("name a new file", "--out: %w", err)
	}
	return cmp.Or(b.WriteTar(f), f.Close())
}

func bundleOf(ctx context.Context, store *node.Purchases, p buyer.Purchase, purpose receipts.Purpose) (*receipts.Bundle, error) {
	prove := buyer.BundleOf
	if purpose == receipts.PurposeEngagement {
		prove = buyer.EngagementBundleOf
	}
	b, err := prove(ctx, store, p)
	if err != nil {
		return nil, advice.Hint(err, "lightwork buyer resume waits for a receipt that has not come yet")
	}
	return b, nil
}

// exportAll writes a bundle for each receipt that is not in the folder yet. A file has
// its name only once it is whole, so an export that was interrupted goes on.
func (c receiptsExportCmd) exportAll(ctx context.Context, s *app.Streams, g *app.Globals) error {
	since, err := app.Day("--since", c.Since)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.Out, 0o755); err != nil {
		return advice.Usage("name a folder", "--out: %w", err)
	}

	return purchase.ReadBuyer(ctx, s, g, func(store *node.Purchases) error {
		var list []node.ReceivedReceipt
		if store != nil { // else nothing was bought yet
			if list, err = store.ReceivedSince(ctx, since); err != nil {
				return err
			}
		}

		there, failed := 0, []error(nil)
		for i, r := range list {
			name := filepath.Join(c.Out, r.ReceiptID+".tar")
			if _, err := os.Lstat(name); err == nil {
				there++
				continue
			}
			if err := c.exportOne(ctx, store, r, name); err != nil {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				failed = append(failed, fmt.Errorf("receipt %s: %w", r.ReceiptID, err))
			}
			if (i+1)%100 == 0 {
				fmt.Fprintf(s.Err, "lightwork: %d of %s\n", i+1, display.Count(int64(len(list)), "receipt"))
			}
		}
		fmt.Fprintf(s.Out, "%s written to %s, %d were there\n", display.Count(int64(len(list)-there-len(failed)), "bundle"), display.Printable(c.Out), there)
		return errors.Join(failed...)
	})
}

func (c receiptsExportCmd) exportOne(ctx context.Context, store *node.Purchases, r node.ReceivedReceipt, name string) error {
	p, err := store.Purchase(ctx, r.RequestID)
	if err != nil {
		return err
	}
	b, err := bundleOf(ctx, store, p, r.Purpose)
	if err != nil {
		return err
	}

	f, err := os.CreateTemp(c.Out, ".export-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if err := cmp.Or(b.WriteTar(f), f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
