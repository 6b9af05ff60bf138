package wallet

import (
	"context"
	"fmt"
	"os"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node/wallets"
)

type walletCashuRestoreCmd struct {
	Words bool        `help:"Ask for the wallet's words first, from the terminal or the standard input; the seed file of a wallet that was never used is replaced by them."`
	Role  config.Side `help:"Whose wallet: provider or buyer. Left out: the only one there is; of two the buyer's." placeholder:"ROLE"`
}

// Run asks the mint for the notes of the seed that the data folder has not.
func (w walletCashuRestoreCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	if w.Words {
		c, role, conf, err := cashuRole(s, g, w.Role)
		if err != nil {
			return err
		}

		// They come by the terminal or a pipe: arguments are seen by every user of the
		// machine. Paper has them in several lines.
		text, err := app.SecretText(s, "words of the wallet")
		if err != nil {
			return err
		}
		if err := wallets.TakeWords(ctx, c.Config, conf, role, text, s.Log); err != nil {
			return err
		}
	}

	wal, role, closeWallet, err := openRoleCashu(ctx, s, g, w.Role)
	if err != nil {
		return err
	}
	defer closeWallet()

	tell, end := restoreProgress(s)
	r, err := wal.Restore(ctx, tell)
	end()
	if err != nil {
		return advice.Hint(err, wallets.RestoreHint(err, r))
	}
	fmt.Fprintf(s.Out, "%s in %d notes are back in the %s's wallet\n", display.Msats(r.Sats*1000), r.Notes, role)
	if r.PendingSats > 0 {
		fmt.Fprintf(s.Err, "lightwork: the mint is still paying with %s more: run this again later\n", display.Msats(r.PendingSats*1000))
	}
	return nil
}

// restoreProgress keeps a line of a terminal up to date while a mint answers, and
// ends it. Where nobody looks there is none.
func restoreProgress(s *app.Streams) (tell func(int64, wallets.RestoredNotes), end func()) {
	out, ok := s.Err.(*os.File)
	if !ok || !app.IsTerminal(out) {
		return nil, func() {}
	}
	said := false
	tell = func(asked int64, r wallets.RestoredNotes) {
		said = true
		fmt.Fprintf(out, "\rasked the mint about %d notes, found %s in %d ", asked, display.Msats(r.Sats*1000), r.Notes)
	}
	return tell, func() {
		if said {
			fmt.Fprintln(out)
		}
	}
}
