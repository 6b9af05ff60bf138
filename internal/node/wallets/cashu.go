package wallets

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node/keys"
	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/cashu"
	"github.com/lightwork-market/lightwork/payments/lud16"
	"github.com/lightwork-market/lightwork/relay"
)

// OpenCashu opens the role's notes and serves them until close. While another
// process has them open they can only be looked at.
func OpenCashu(ctx context.Context, c *config.Config, w config.Cashu, role string, log *slog.Logger) (*cashu.Wallet, func(), error) {
	seed, err := ReadSeed(c, w)
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
		Mint: w.Mint, Seed: seed, Relays: c.Relays, Messages: post, Lock: w.Lock, MaxMsats: w.MaxMsats, MaySpend: c.Spending().Check, Log: log,
		// Another mint is another wallet: notes of the first stay where they are.
		Path: filepath.Join(dir, "cashu-"+hashing.Bytes([]byte(w.Mint)).Hex()[:16]+".db"),
	}, nil
}

// CashuHint is the next step for who uses a mint.
func CashuHint(err error) string {
	switch {
	case errors.Is(err, payments.ErrSpendingStopped):
		return advice.ResumeSpending + " lets money go again; nothing was sent"
	case errors.Is(err, cashu.ErrCap):
		return advice.TakeNotesOut + " takes some out; cashu.max_msats is the bound"
	case errors.Is(err, sqlite.ErrReadOnly):
		return "another lightwork has the wallet open: stop it first"
	}
	if errors.Is(err, payments.ErrWalletUnavailable) {
		return advice.Check + " asks the mint; while it does not answer nothing is lost, and what is under way goes on when it does"
	}
	return advice.Check + " asks the mint"
}

// AddressInvoice asks the service of a Lightning address for an invoice.
func AddressInvoice(ctx context.Context, address string, msats int64) (string, error) {
	return lud16.New(lud16.Config{Client: relay.NewPublicClient(AddressDial)}).Invoice(ctx, address, msats)
}

// MeltHint is the next step where nothing was paid.
func MeltHint(err error) string {
	switch {
	case errors.Is(err, sqlite.ErrReadOnly), errors.Is(err, payments.ErrSpendingStopped):
		return CashuHint(err)
	case errors.Is(err, payments.ErrInsufficientFunds):
		return advice.ShowWallet + " shows what there is; fees come on top of the amount"
	case errors.Is(err, payments.ErrExpired), errors.As(err, new(*cashu.MintError)):
		return "nothing was paid; ask the payee for another invoice"
	case errors.Is(err, payments.ErrWrongNetwork), errors.Is(err, payments.ErrAmount):
		return "nothing was paid; a mint pays Lightning invoices that name an amount"
	}
	return CashuHint(err)
}

// RestoreHint is the next step where not all notes came back.
func RestoreHint(err error, r RestoredNotes) string {
	switch {
	case errors.Is(err, cashu.ErrRestoreLimit):
		return fmt.Sprintf("%s are back; run this again for more, if you have made that many payments: else the mint lies", display.Msats(r.Sats*1000))
	case r.Notes == 0:
		return CashuHint(err)
	}
	return fmt.Sprintf("%s are back already; run this again for the rest", display.Msats(r.Sats*1000))
}

// NewSeedFile makes the seed of a wallet of notes.
func NewSeedFile(path string) error {
	seed, err := cashu.NewSeed()
	if err != nil {
		return err
	}
	return relay.WriteKeyFile(path, seed.Text())
}

// ReadSeed reads the wallet's seed from its file.
func ReadSeed(c *config.Config, w config.Cashu) (cashu.Seed, error) {
	text, err := keys.ReadSecret(c.Path(w.SeedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return cashu.Seed{}, advice.Usage("put your backup of it there, or give its words to "+advice.RestoreWords+": without them the notes cannot be had again; "+advice.SetUp+" makes one for a new wallet", "%w", err)
	}
	if err != nil {
		return cashu.Seed{}, err
	}

	seed, err := cashu.ParseSeed(text)
	if err != nil {
		return seed, advice.Usage("restore it from your backup", "%s: %w", w.SeedFile, err)
	}
	return seed, nil
}

// TakeWords puts the seed of words that the user has in the place of one that was
// never used.
func TakeWords(ctx context.Context, c *config.Config, w config.Cashu, role, text string, log *slog.Logger) error {
	seed, err := cashu.ParseSeed(text)
	if err != nil {
		return advice.Usage("nothing was changed", "%w", err)
	}
	if there, err := ReadSeed(c, w); err == nil && there.Text() == seed.Text() {
		return nil
	}
	if err := admits(ctx, c, w, role, seed, log); err != nil {
		return err
	}

	path := c.Path(w.SeedFile)
	if err := keys.KeepOld(path); err != nil {
		return err
	}
	fresh := path + ".new"
	if err := relay.WriteKeyFile(fresh, seed.Text()); errors.Is(err, fs.ErrExist) {
		return advice.Usage("a run that was cut short left it, and it was never used: move it away", "%w", err)
	} else if err != nil {
		return err
	}

	return keys.SwapIn(fresh, path)
}

// admits reports why the role's notes are not for that seed, if they are another's.
func admits(ctx context.Context, c *config.Config, w config.Cashu, role string, seed cashu.Seed, log *slog.Logger) error {
	conf, err := cashuOf(c, w, role, seed, log)
	if err != nil {
		return err
	}

	wal, err := cashu.Open(ctx, conf)
	switch {
	case errors.Is(err, sqlite.ErrLocked):
		return advice.Hint(err, "another lightwork has the wallet open: stop it first")
	case errors.Is(err, payments.ErrBadRequest):
		return advice.Usage("nothing was changed; set up another node for these words: "+advice.With(advice.SetUpElsewhere, w.Mint), "%w", err)
	case err != nil:
		return err
	}

	return wal.Close()
}
