package wallets

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/payments/nwc"
)

// nwcApp is an app as the node keeps it.
type nwcApp struct {
	Wallet string `json:"wallet_secret"`
	Client string `json:"client_public_key"`
}

// App lets another application use a wallet of this node, within a budget
// (NIP-47).
type App struct {
	Name        string // of the app
	Role        string // whose wallet
	BudgetMsats int64  // what may be spent in a period, fees included
	Period      time.Duration
}

// Serve answers the app until ctx ends. say is told what the operator has to know.
func (w App) Serve(ctx context.Context, c *config.Config, log *slog.Logger, say func(string)) error {
	dir := filepath.Join(c.DataDir(w.Role), "nwc")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	// Nothing is written, and no wallet opened, while another process serves here.
	book, err := nwc.OpenBook(ctx, filepath.Join(dir, "book.db"), log)
	if err != nil {
		return err
	}
	return cmp.Or(w.serveBook(ctx, c, book, log, say), book.Close())
}

func (w App) serveBook(ctx context.Context, c *config.Config, book *nwc.Book, log *slog.Logger, say func(string)) error {
	app, err := w.open(filepath.Join(c.DataDir(w.Role), "nwc"), c.Relays, say)
	if err != nil {
		return err
	}
	conf := c.WalletOf(w.Role)
	if conf.Backend == config.BackendOnchain {
		return advice.Usage("set "+w.Role+".wallet.backend to lnd: its channels can be offered", "payments on the chain have no preimage, and NIP-47 has no other proof")
	}
	wal, closeWallet, err := Open(ctx, c, conf, w.Role, log)
	if err != nil {
		return err
	}
	defer closeWallet()

	if wal == nil {
		return advice.Usage("set "+w.Role+".wallet.backend to lnd or play", "the %s has no wallet", w.Role)
	}
	service, err := nwc.NewService(nwc.ServiceConfig{Wallet: wal, Book: book, Apps: []nwc.App{app}, Relays: c.Relays, Log: log})
	if err != nil {
		return advice.Usage("", "%w", err)
	}
	say(fmt.Sprintf("%s may spend %s a period of the %s's wallet", display.Printable(w.Name), display.Msats(w.BudgetMsats), w.Role))
	return service.Serve(ctx)
}

// open reads the app's keys, or makes them and writes the address for the app
// into a file: it is a secret, and no line on a screen.
func (w App) open(dir string, relays []string, say func(string)) (nwc.App, error) {
	file, address := filepath.Join(dir, w.Name+".json"), filepath.Join(dir, w.Name+".uri")
	var kept nwcApp

	doc, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		app, connection, err := nwc.NewApp(w.Name, relays)
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

		say(fmt.Sprintf("the address for %s is in %s; whoever has it can spend the budget", display.Printable(w.Name), address))
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
		Name: w.Name, Wallet: secret, Client: kept.Client, Methods: nwc.AllMethods(), BudgetMsats: w.BudgetMsats, Period: w.Period,
	}, nil
}
