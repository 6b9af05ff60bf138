package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/cashu"
	"github.com/lightwork-market/lightwork/payments/lud16"
	"github.com/lightwork-market/lightwork/relay"
)

// openCashu opens the role's notes and serves them until close. While another
// process has them open they can only be looked at.
func openCashu(ctx context.Context, c *config.Config, w config.Cashu, role string, log *slog.Logger) (*cashu.Wallet, func(), error) {
	seed, err := readSeed(c, w)
	if err != nil {
		return nil, nil, err
	}
	conf, err := cashuOf(c, w, role, seed, log)
	if err != nil {
		return nil, nil, err
	}
	wal, err := cashu.Open(ctx, conf)
	if errors.Is(err, sqlite.ErrLocked) {
		conf.ReadOnly = true
		wal, err = cashu.Open(ctx, conf)
	}
	if err != nil {
		return nil, nil, err
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	if !conf.ReadOnly {
		wg.Go(func() {
			if err := wal.Serve(serving); err != nil {
				log.Error("cashu wallet", "err", err)
			}
		})
	}
	return wal, func() {
		stop()
		wg.Wait()
		if err := wal.Close(); err != nil {
			log.Error("close cashu wallet", "err", err)
		}
	}, nil
}

// cashuOf is how the role's notes are opened with a seed.
func cashuOf(c *config.Config, w config.Cashu, role string, seed cashu.Seed, log *slog.Logger) (conf cashu.Config, err error) {
	dir := c.DataDir(role)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return conf, err
	}
	post, err := cashu.NewPost(seed, c.Relays, log)
	if err != nil {
		return conf, advice.Usage("relays names those that payments go over", "%w", err)
	}
	return cashu.Config{
		Mint: w.Mint, Seed: seed, Relays: c.Relays, Courier: post, Lock: w.Lock, MaxMsats: w.MaxMsats, Log: log,
		// Another mint is another wallet: notes of the first stay where they are.
		Path: filepath.Join(dir, "cashu-"+hashing.Bytes([]byte(w.Mint)).Hex()[:16]+".db"),
	}, nil
}

// cashuRole finds the role of a command that is for Cashu alone, and its wallet's
// settings.
func cashuRole(s *app.Streams, g *app.Globals, named config.Side) (c *node, role string, w config.Cashu, err error) {
	if c, err = openNode(s, g); err != nil {
		return nil, "", w, err
	}
	role = named.Of(c.Config)
	wallet := c.WalletOf(role)
	if wallet.Backend != "cashu" {
		err = advice.Usage("set "+role+".wallet.backend to cashu, or name the other --role", "the %s's wallet is not on a mint", role)
	}
	return c, role, wallet.Cashu, err
}

// openRoleCashu opens the role's wallet for a command that is for Cashu alone,
// and says whose it is.
func openRoleCashu(ctx context.Context, s *app.Streams, g *app.Globals, named config.Side) (*cashu.Wallet, string, func(), error) {
	c, role, w, err := cashuRole(s, g, named)
	if err != nil {
		return nil, role, nil, err
	}
	wal, closeWallet, err := openCashu(ctx, c.Config, w, role, s.Log)
	return wal, role, closeWallet, err
}

type walletCashuTopupCmd struct {
	Sats int64       `arg:"" help:"How much, in sats."`
	Role config.Side `help:"Whose wallet: provider or buyer. Left out: the only one there is; of two the buyer's." placeholder:"ROLE"`
}

// Run prints the mint's invoice and waits for the notes. Interrupted, the
// wallet fetches them when it runs again.
func (w walletCashuTopupCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	wal, role, closeWallet, err := openRoleCashu(ctx, s, g, w.Role)
	if err != nil {
		return err
	}
	defer closeWallet()
	t, err := wal.Topup(ctx, w.Sats)
	if err != nil {
		return advice.Hint(err, cashuHint(err))
	}
	fmt.Fprintln(s.Out, t.Invoice)
	fmt.Fprintln(s.Err, "lightwork: pay this invoice of the mint's with any Lightning wallet")
	if err := wal.AwaitTopup(ctx, t); err != nil {
		return advice.Hint(err, "once it is paid the notes are fetched whenever the wallet runs")
	}
	fmt.Fprintf(s.Err, "lightwork: %s more in the %s's wallet\n", display.Msats(w.Sats*1000), role)
	return nil
}

type walletCashuExportCmd struct {
	Sats int64       `arg:"" optional:"" help:"How much, in sats; left out, what was taken out before is listed."`
	Role config.Side `help:"Whose wallet: provider or buyer. Left out: the only one there is; of two the buyer's." placeholder:"ROLE"`
	JSON bool        `help:"Print the token, or the list, as JSON."`
}

// Run prints a token, or the tokens made before.
func (w walletCashuExportCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	wal, _, closeWallet, err := openRoleCashu(ctx, s, g, w.Role)
	if err != nil {
		return err
	}
	defer closeWallet()
	if w.Sats == 0 {
		return listTokens(ctx, s, wal, w.JSON)
	}
	t, err := wal.Export(ctx, w.Sats)
	if err != nil {
		return advice.Hint(err, cashuHint(err))
	}
	if w.JSON {
		err = app.PrintJSON(s.Out, tokenView{At: t.At.UTC(), Sats: t.Sats, Token: t.Text})
	} else {
		_, err = fmt.Fprintln(s.Out, t.Text)
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(s.Err, "lightwork: whoever has this token has the money; lightwork wallet cashu-export shows it again")
	return nil
}

// cashuHint is the next step for who uses a mint.
func cashuHint(err error) string {
	switch {
	case errors.Is(err, cashu.ErrCap):
		return "lightwork wallet cashu-export takes some out; cashu.max_msats is the bound"
	case errors.Is(err, sqlite.ErrReadOnly):
		return "another lightwork has the wallet open: stop it first"
	}
	if errors.Is(err, payments.ErrWalletUnavailable) {
		return "lightwork doctor asks the mint; while it does not answer nothing is lost, and what is under way goes on when it does"
	}
	return "lightwork doctor asks the mint"
}

// What a command does with notes of a mint.
type (
	notes         = cashu.Wallet
	mintPayment   = cashu.Melt
	restoredNotes = cashu.Restored
)

// isUnpaid reports a payment that the mint was not yet asked for, or has failed to
// make.
func isUnpaid(m mintPayment) bool { return m.State == cashu.MeltQuoted || m.State == cashu.MeltFailed }

// addressInvoice asks the service of a Lightning address for an invoice.
func addressInvoice(ctx context.Context, address string, msats int64) (string, error) {
	return lud16.New(lud16.Config{Client: relay.NewPublicClient(addressDial)}).Invoice(ctx, address, msats)
}

// meltHint is the next step where nothing was paid.
func meltHint(err error) string {
	switch {
	case errors.Is(err, sqlite.ErrReadOnly):
		return cashuHint(err)
	case errors.Is(err, payments.ErrInsufficientFunds):
		return "lightwork wallet status shows what there is; fees come on top of the amount"
	case errors.Is(err, payments.ErrExpired), errors.As(err, new(*cashu.MintError)):
		return "nothing was paid; ask the payee for another invoice"
	case errors.Is(err, payments.ErrWrongNetwork), errors.Is(err, payments.ErrAmount):
		return "nothing was paid; a mint pays Lightning invoices that name an amount"
	}
	return cashuHint(err)
}

// restoreHint is the next step where not all notes came back.
func restoreHint(err error, r restoredNotes) string {
	switch {
	case errors.Is(err, cashu.ErrRestoreLimit):
		return fmt.Sprintf("%s are back; run this again for more, if you have made that many payments: else the mint lies", display.Msats(r.Sats*1000))
	case r.Notes == 0:
		return cashuHint(err)
	}
	return fmt.Sprintf("%s are back already; run this again for the rest", display.Msats(r.Sats*1000))
}
