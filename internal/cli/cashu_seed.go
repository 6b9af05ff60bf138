package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/cashu"
	"github.com/lightwork-market/lightwork/relay"
)

func newSeedFile(path string) error {
	seed, err := cashu.NewSeed()
	if err != nil {
		return err
	}
	return relay.WriteKeyFile(path, seed.Text())
}

// readSeed reads the wallet's seed from its file.
func readSeed(c *config.Config, w config.Cashu) (cashu.Seed, error) {
	text, err := readSecret(c.Path(w.SeedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return cashu.Seed{}, advice.Usage("put your backup of it there, or give its words to lightwork wallet cashu-restore --words: without them the notes cannot be had again; lightwork init makes one for a new wallet", "%w", err)
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

type walletCashuSeedCmd struct {
	Role config.Side `help:"Whose wallet: provider or buyer. Left out: the only one there is; of two the buyer's." placeholder:"ROLE"`
}

// Run shows the words to who sits at the terminal and has said so: output that
// goes elsewhere is kept in places that nobody thinks of.
func (w walletCashuSeedCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	c, role, conf, err := cashuRole(s, g, w.Role)
	if err != nil {
		return err
	}
	seed, err := readSeed(c.Config, conf)
	if err != nil {
		return err
	}
	if seed.Words() == "" {
		return advice.Usage("back "+conf.SeedFile+" up as it is: it is all of the secret", "the seed of the %s's wallet was made without words", role)
	}
	in, ok1 := s.In.(*os.File)
	out, ok2 := s.Out.(*os.File)
	if !ok1 || !ok2 || !app.IsTerminal(in) || !app.IsTerminal(out) {
		return advice.Usage("on a terminal; for a backup copy "+conf.SeedFile+", which holds just them", "the words are shown on a terminal alone")
	}
	fmt.Fprintf(s.Err, "Whoever sees the words has the money of the %s's wallet. Show them? [y/N] ", role)
	if answer, err := app.ReadLine(ctx, in); err != nil || answer != "y" && answer != "yes" {
		return cmp.Or(err, errors.New("nothing was shown"))
	}
	fmt.Fprintln(out, seed.Words())
	fmt.Fprintf(s.Err, "lightwork: write them down. With them and the mint %s, lightwork wallet cashu-restore --words and other Cashu wallets (NUT-13) find the notes; two wallets must not use them at one time\n", display.Printable(conf.Mint))
	return nil
}

// takeWords puts the seed of words that the user has in the place of one that was
// never used.
func takeWords(ctx context.Context, c *config.Config, w config.Cashu, role, text string, log *slog.Logger) error {
	seed, err := cashu.ParseSeed(text)
	if err != nil {
		return advice.Usage("nothing was changed", "%w", err)
	}
	if there, err := readSeed(c, w); err == nil && there.Text() == seed.Text() {
		return nil
	}
	if err := admits(ctx, c, w, role, seed, log); err != nil {
		return err
	}
	path := c.Path(w.SeedFile)
	if err := keepOld(path); err != nil {
		return err
	}
	fresh := path + ".new"
	if err := relay.WriteKeyFile(fresh, seed.Text()); errors.Is(err, fs.ErrExist) {
		return advice.Usage("a run that was cut short left it, and it was never used: move it away", "%w", err)
	} else if err != nil {
		return err
	}
	return swapIn(fresh, path)
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
		return advice.Usage("nothing was changed; set up another node for these words: lightwork init --dir DIR --wallet cashu --mint "+w.Mint, "%w", err)
	case err != nil:
		return err
	}
	return wal.Close()
}
