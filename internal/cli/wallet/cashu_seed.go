package wallet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node/wallets"
)

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
	seed, err := wallets.ReadSeed(c.Config, conf)
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
