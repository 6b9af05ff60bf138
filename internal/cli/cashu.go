package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/cashu"
)

// cashuConfig is a wallet of notes of one mint.
type cashuConfig struct {
	Mint     string        `yaml:"mint"`      // the one that is trusted
	SeedFile string        `yaml:"seed_file"` // 12 words, or 128 hex digits
	MaxMsats int64         `yaml:"max_msats"` // what may be at the mint; 0: no bound
	Lock     time.Duration `yaml:"lock"`      // of payments to us; 1h
}

func (c cashuConfig) check(path string) *configError {
	if _, err := payments.CashuNetwork(c.Mint); err != nil {
		return &configError{path + ".mint", "must be a mint's host, such as mint.example.com, without https://"}
	}
	switch {
	case c.SeedFile == "":
		return &configError{path + ".seed_file", "is needed: lightwork init --wallet cashu makes one"}
	case c.MaxMsats < 0:
		return &configError{path + ".max_msats", "cannot be negative"}
	case c.Lock != 0 && (c.Lock < time.Minute || c.Lock > 24*time.Hour):
		return &configError{path + ".lock", "must be from 1m to 24h"}
	}
	return nil
}

// openCashu opens the role's notes and serves them until close. While another
// process has them open they can only be looked at.
func openCashu(ctx context.Context, c *config, w cashuConfig, role string, log *slog.Logger) (*cashu.Wallet, func(), error) {
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
func cashuOf(c *config, w cashuConfig, role string, seed cashu.Seed, log *slog.Logger) (conf cashu.Config, err error) {
	dir := c.dataDir(role)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return conf, err
	}
	post, err := cashu.NewPost(seed, c.Relays, log)
	if err != nil {
		return conf, usage("relays names those that payments go over", "%w", err)
	}
	return cashu.Config{
		Mint: w.Mint, Seed: seed, Relays: c.Relays, Courier: post, Lock: w.Lock, MaxMsats: w.MaxMsats, Log: log,
		// Another mint is another wallet: notes of the first stay where they are.
		Path: filepath.Join(dir, "cashu-"+hashing.Bytes([]byte(w.Mint)).Hex()[:16]+".db"),
	}, nil
}

// cashuRole finds the role of a command that is for Cashu alone, and its wallet's
// settings.
func cashuRole(g *globals, named side) (c *config, role string, w cashuConfig, err error) {
	if c, err = loadConfig(g.Config); err != nil {
		return nil, "", w, err
	}
	role = named.of(c)
	wallet := c.walletOf(role)
	if wallet.Backend != "cashu" {
		err = usage("set "+role+".wallet.backend to cashu, or name the other --role", "the %s's wallet is not on a mint", role)
	}
	return c, role, wallet.Cashu, err
}

// openRoleCashu opens the role's wallet for a command that is for Cashu alone,
// and says whose it is.
func openRoleCashu(ctx context.Context, g *globals, named side, log *slog.Logger) (*cashu.Wallet, string, func(), error) {
	c, role, w, err := cashuRole(g, named)
	if err != nil {
		return nil, role, nil, err
	}
	wal, closeWallet, err := openCashu(ctx, c, w, role, log)
	return wal, role, closeWallet, err
}

type walletCashuTopupCmd struct {
	Sats int64 `arg:"" help:"How much, in sats."`
	Role side  `help:"Whose wallet: provider or buyer. Left out: the only one there is; of two the buyer's." placeholder:"ROLE"`
}

// Run prints the mint's invoice and waits for the notes. Interrupted, the
// wallet fetches them when it runs again.
func (w walletCashuTopupCmd) Run(ctx context.Context, s *streams, g *globals) error {
	wal, role, closeWallet, err := openRoleCashu(ctx, g, w.Role, s.log)
	if err != nil {
		return err
	}
	defer closeWallet()
	t, err := wal.Topup(ctx, w.Sats)
	if err != nil {
		return hinted(err, cashuHint(err))
	}
	fmt.Fprintln(s.out, t.Invoice)
	fmt.Fprintln(s.err, "lightwork: pay this invoice of the mint's with any Lightning wallet")
	if err := wal.AwaitTopup(ctx, t); err != nil {
		return hinted(err, "once it is paid the notes are fetched whenever the wallet runs")
	}
	fmt.Fprintf(s.err, "lightwork: %s more in the %s's wallet\n", msats(w.Sats*1000), role)
	return nil
}

type walletCashuExportCmd struct {
	Sats int64 `arg:"" optional:"" help:"How much, in sats; left out, what was taken out before is listed."`
	Role side  `help:"Whose wallet: provider or buyer. Left out: the only one there is; of two the buyer's." placeholder:"ROLE"`
	JSON bool  `help:"Print the token, or the list, as JSON."`
}

// Run prints a token, or the tokens made before.
func (w walletCashuExportCmd) Run(ctx context.Context, s *streams, g *globals) error {
	wal, _, closeWallet, err := openRoleCashu(ctx, g, w.Role, s.log)
	if err != nil {
		return err
	}
	defer closeWallet()
	if w.Sats == 0 {
		return listTokens(ctx, s, wal, w.JSON)
	}
	t, err := wal.Export(ctx, w.Sats)
	if err != nil {
		return hinted(err, cashuHint(err))
	}
	if w.JSON {
		err = printJSON(s.out, tokenView{At: t.At.UTC(), Sats: t.Sats, Token: t.Text})
	} else {
		_, err = fmt.Fprintln(s.out, t.Text)
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(s.err, "lightwork: whoever has this token has the money; lightwork wallet cashu-export shows it again")
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

// checkMint asks the mint for its keys, and says what the money is.
func checkMint(ctx context.Context, w *cashu.Wallet, name string, node payments.Node) finding {
	if err := w.Check(ctx); err != nil {
		return finding{name, "fail", err.Error(), "is the mint right, and does it run? lightwork knows mints with locked notes (NUT-14), proofs (NUT-12) and keys for sats"}
	}
	return finding{name, "ok", fmt.Sprintf("%s on %s, which holds the bitcoin: keep no more there than you would lose; lightwork wallet cashu-seed shows the words to write down", node.PubKey, node.Network), ""}
}
