package wallet

import (
	"context"
	"fmt"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/internal/node/wallets"
)

// cashuRole finds the role of a command that is for Cashu alone, and its wallet's
// settings.
func cashuRole(s *app.Streams, g *app.Globals, named config.Side) (c *node.Node, role string, w config.Cashu, err error) {
	if c, err = app.Open(s, g); err != nil {
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
func openRoleCashu(ctx context.Context, s *app.Streams, g *app.Globals, named config.Side) (*wallets.Notes, string, func(), error) {
	c, role, w, err := cashuRole(s, g, named)
	if err != nil {
		return nil, role, nil, err
	}
	wal, closeWallet, err := wallets.OpenNotes(ctx, c.Config, w, role, s.Log)
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

	invoice, arrive, err := wal.Topup(ctx, w.Sats)
	if err != nil {
		return advice.Hint(err, wallets.CashuHint(err))
	}
	fmt.Fprintln(s.Out, invoice)
	fmt.Fprintln(s.Err, "lightwork: pay this invoice of the mint's with any Lightning wallet")
	if err := arrive(ctx); err != nil {
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
	t, err := wal.TakeOut(ctx, w.Sats)
	if err != nil {
		return advice.Hint(err, wallets.CashuHint(err))
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
