package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/lightwork-market/lightwork/payments/cashu"
)

type walletCashuRestoreCmd struct {
	Words bool `help:"Ask for the wallet's words first, from the terminal or the standard input; the seed file of a wallet that was never used is replaced by them."`
	Role  side `help:"Whose wallet: provider or buyer. Left out: the only one there is; of two the buyer's." placeholder:"ROLE"`
}

// Run asks the mint for the notes of the seed that the data folder has not.
func (w walletCashuRestoreCmd) Run(ctx context.Context, s *streams, g *globals) error {
	if w.Words {
		c, role, conf, err := cashuRole(g, w.Role)
		if err != nil {
			return err
		}
		if err := takeWords(ctx, s, c, conf, role); err != nil {
			return err
		}
	}
	wal, role, closeWallet, err := openRoleCashu(ctx, g, w.Role, s.log)
	if err != nil {
		return err
	}
	defer closeWallet()
	tell, end := restoreProgress(s)
	r, err := wal.Restore(ctx, tell)
	end()
	if err != nil {
		return hinted(err, restoreHint(err, r))
	}
	fmt.Fprintf(s.out, "%s in %d notes are back in the %s's wallet\n", msats(r.Sats*1000), r.Notes, role)
	if r.PendingSats > 0 {
		fmt.Fprintf(s.err, "lightwork: the mint is still paying with %s more: run this again later\n", msats(r.PendingSats*1000))
	}
	return nil
}

// restoreProgress keeps a line of a terminal up to date while a mint answers, and
// ends it. Where nobody looks there is none.
func restoreProgress(s *streams) (tell func(int64, cashu.Restored), end func()) {
	out, ok := s.err.(*os.File)
	if !ok || !isTerminal(out) {
		return nil, func() {}
	}
	said := false
	tell = func(asked int64, r cashu.Restored) {
		said = true
		fmt.Fprintf(out, "\rasked the mint about %d notes, found %s in %d ", asked, msats(r.Sats*1000), r.Notes)
	}
	return tell, func() {
		if said {
			fmt.Fprintln(out)
		}
	}
}

func restoreHint(err error, r cashu.Restored) string {
	switch {
	case errors.Is(err, cashu.ErrRestoreLimit):
		return fmt.Sprintf("%s are back; run this again for more, if you have made that many payments: else the mint lies", msats(r.Sats*1000))
	case r.Notes == 0:
		return cashuHint(err)
	}
	return fmt.Sprintf("%s are back already; run this again for the rest", msats(r.Sats*1000))
}
