package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/nwc"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
)

// nwcConfig is a wallet that somebody else runs, over Nostr Wallet Connect.
type nwcConfig struct {
	// URIFile holds the nostr+walletconnect:// address, which is a secret.
	URIFile string `yaml:"uri_file"`
}

// readConnection reads the address of a wallet service.
func readConnection(file string) (nwc.Connection, error) {
	text, err := readSecret(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nwc.Connection{}, usage("the wallet's app makes a connection for this node: put its nostr+walletconnect:// address into the file, mode 0600", "%w", err)
	}
	if err != nil {
		return nwc.Connection{}, err
	}
	connection, err := nwc.ParseURI(text)
	if err != nil {
		return connection, usage("the wallet's app gives an address that begins with nostr+walletconnect://", "%s: %w", file, err)
	}
	return connection, nil
}

// openNWC connects to a wallet service; close ends the connection.
func openNWC(ctx context.Context, file string, log *slog.Logger) (*nwc.Client, func(), error) {
	connection, err := readConnection(file)
	if err != nil {
		return nil, nil, err
	}
	client, err := nwc.Open(nwc.Config{Connection: connection, Log: log})
	if err != nil {
		return nil, nil, err
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := client.Serve(serving); err != nil {
			log.Error("wallet connection", "err", err)
		}
	})
	return client, func() { stop(); wg.Wait() }, nil
}

// Why a wallet service cannot be paid.
const (
	lacksHold     = "the wallet makes no hold invoices (make_hold_invoice, settle_hold_invoice, cancel_hold_invoice, lookup_invoice)"
	lacksInvoices = "the wallet makes no invoices (make_invoice, lookup_invoice)"
	lacksPreimage = "the wallet makes no invoices with a preimage of ours (make_invoice, make_invoice_preimage, lookup_invoice)"
	// choosesHash is what else there is to say of a wallet that can be paid.
	choosesHash = "the wallet chooses the payment hash itself: quotes name none, nothing is delivered sealed, and receipts are weaker by that (docs/use/nwc.md)"
)

// lacksFor is why a wallet service cannot be paid in a mode, "" if it can.
func lacksFor(info nwc.Info, mode receipts.Mode) string {
	switch {
	case mode == receipts.ModeHold && !info.CanHold():
		return lacksHold
	case (mode == receipts.ModePrepay || mode == receipts.ModePostpay) && !info.CanChoose():
		return lacksInvoices
	}
	return ""
}

// choosesIn reports whether a wallet service chooses the payment hash of what is sold
// in one of the modes.
func choosesIn(info nwc.Info, modes []receipts.Mode) bool {
	return !info.CanPrepay() && (slices.Contains(modes, receipts.ModePrepay) || slices.Contains(modes, receipts.ModePostpay))
}

// makerOf makes the invoices of a wallet that chooses their payment hashes, nil of
// another.
func makerOf(ctx context.Context, w wallet) (func(context.Context, payments.NewInvoice, time.Time) (payments.Invoice, error), error) {
	client, ok := w.(*nwc.Client)
	if !ok {
		return nil, nil
	}
	info, err := client.Info(ctx)
	if err != nil || info.CanPrepay() || !info.CanChoose() {
		return nil, err
	}
	return client.MakeInvoice, nil
}

// payable leaves of each offer the modes that the wallet can be paid in, so that no
// other is announced or quoted. unpaid says, by job type, why nothing of an offer can
// be sold, and less what else is not sold as it is configured. Wallets that are no
// service of somebody else's can be paid in every mode.
func payable(ctx context.Context, w wallet, offers []provider.Offer) (left []provider.Offer, unpaid map[string]string, less []string, err error) {
	client, ok := w.(*nwc.Client)
	if !ok {
		return offers, nil, nil, nil
	}
	info, err := client.Info(ctx)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("ask the wallet what it can: %w", err)
	}

	unpaid = map[string]string{}
	for _, o := range offers {
		var modes []receipts.Mode
		var lacks []string
		for _, m := range o.Modes {
			if why := lacksFor(info, m); why != "" {
				lacks = append(lacks, fmt.Sprintf("not in %s: %s", m, why))
			} else {
				modes = append(modes, m)
			}
		}

		switch {
		case o.EngagementMsats > 0 && !info.CanPrepay():
			unpaid[o.SchemaID] = "its engagement fee is prepaid, and " + lacksPreimage
		case len(modes) == 0:
			unpaid[o.SchemaID] = strings.Join(lacks, "; ")
		default:
			o.Modes = modes
			for _, why := range lacks {
				less = append(less, o.SchemaID+" is sold in "+modesText(modes)+", "+why)
			}
			if choosesIn(info, modes) {
				less = append(less, o.SchemaID+" is sold in "+modesText(modes)+", and "+choosesHash)
			}
		}
		left = append(left, o)
	}
	return left, unpaid, less, nil
}

type walletNWCServeCmd struct {
	App    string        `help:"Name of the app that may use the wallet; its address is made at the first time." required:"" placeholder:"NAME"`
	Role   side          `help:"Whose wallet: provider or buyer. Left out: the only one there is; of two the buyer's." placeholder:"ROLE"`
	Budget int64         `name:"budget-msats" help:"What the app may spend in a period, fees included." default:"0" placeholder:"MSATS"`
	Period time.Duration `help:"The budget's period; 0 for once and for all." default:"24h"`
}

// nwcApp is an app as the node keeps it.
type nwcApp struct {
	Wallet string `json:"wallet_secret"`
	Client string `json:"client_public_key"`
}

// Run offers a wallet of this node to another application until interrupted.
func (w walletNWCServeCmd) Run(ctx context.Context, s *streams, g *globals) error {
	c, err := loadConfig(g.Config)
	if err != nil {
		return err
	}
	if w.Budget < 0 || w.Period < 0 || filepath.Base(w.App) != w.App || w.App == "." || w.App == ".." {
		return usage("for example --app phone --budget-msats 100000", "a budget and a period cannot be negative, and a name is one word")
	}
	role := w.Role.of(c)
	dir := filepath.Join(c.dataDir(role), "nwc")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	// Nothing is written, and no wallet opened, while another process serves here.
	book, err := nwc.OpenBook(ctx, filepath.Join(dir, "book.db"), s.log)
	if err != nil {
		return err
	}
	return firstError(w.serve(ctx, c, role, book, s), book.Close())
}

func (w walletNWCServeCmd) serve(ctx context.Context, c *config, role string, book *nwc.Book, s *streams) error {
	app, err := w.open(filepath.Join(c.dataDir(role), "nwc"), c.Relays, s)
	if err != nil {
		return err
	}
	conf := c.walletOf(role)
	if conf.Backend == backendOnchain {
		return usage("set "+role+".wallet.backend to lnd: its channels can be offered", "payments on the chain have no preimage, and NIP-47 has no other proof")
	}
	wal, closeWallet, err := openWallet(ctx, c, conf, role, s.log)
	if err != nil {
		return err
	}
	defer closeWallet()
	if wal == nil {
		return usage("set "+role+".wallet.backend to lnd or play", "the %s has no wallet", role)
	}
	service, err := nwc.NewService(nwc.ServiceConfig{Wallet: wal, Book: book, Apps: []nwc.App{app}, Relays: c.Relays, Log: s.log})
	if err != nil {
		return usage("", "%w", err)
	}
	fmt.Fprintf(s.err, "lightwork: %s may spend %s a period of the %s's wallet\n", printable(w.App), msats(w.Budget), role)
	return service.Serve(ctx)
}

// open reads the app's keys, or makes them and writes the address for the app
// into a file: it is a secret, and no line on a screen.
func (w walletNWCServeCmd) open(dir string, relays []string, s *streams) (nwc.App, error) {
	file, address := filepath.Join(dir, w.App+".json"), filepath.Join(dir, w.App+".uri")
	var kept nwcApp
	doc, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		app, connection, err := nwc.NewApp(w.App, relays)
		if err != nil {
			return app, err
		}
		if doc, err = json.Marshal(nwcApp{Wallet: app.Wallet.Hex(), Client: app.Client}); err != nil {
			return app, err
		}
		if err := os.WriteFile(address, []byte(connection.URI()+"\n"), 0o600); err != nil {
			return app, err
		}
		if err := os.WriteFile(file, doc, 0o600); err != nil {
			return app, err
		}
		fmt.Fprintf(s.err, "lightwork: the address for %s is in %s; whoever has it can spend the budget\n", printable(w.App), address)
	case err != nil:
		return nwc.App{}, err
	}
	if err := json.Unmarshal(doc, &kept); err != nil {
		return nwc.App{}, fmt.Errorf("%s: %w", file, err)
	}
	secret, err := nwc.ParseSecret(kept.Wallet)
	if err != nil {
		return nwc.App{}, fmt.Errorf("%s: %w", file, err)
	}
	return nwc.App{
		Name: w.App, Wallet: secret, Client: kept.Client, Methods: nwc.AllMethods(), BudgetMsats: w.Budget, Period: w.Period,
	}, nil
}
