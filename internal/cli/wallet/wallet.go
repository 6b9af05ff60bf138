// Package wallet has the commands about wallets: balance, play money, Cashu, Nostr
// Wallet Connect.
package wallet

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node/wallets"
	"github.com/lightwork-market/lightwork/payments"
)

// walletTimeout bounds what a listing waits for a wallet.
const walletTimeout = 20 * time.Second

// Cmd is lightwork wallet.
type Cmd struct {
	Status      walletStatusCmd      `cmd:"" help:"Show node, network and balance."`
	Permissions walletPermissionsCmd `cmd:"" help:"Print how to bake lnd macaroons that permit just what is needed."`
	PlayServe   walletPlayServeCmd   `cmd:"" help:"Run a ledger of play money, worth nothing."`
	NWCServe    walletNWCServeCmd    `cmd:"" name:"nwc-serve" help:"Let another application use a wallet of this node, within a budget (NIP-47)."`
	CashuTopup  walletCashuTopupCmd  `cmd:"" name:"cashu-topup" help:"Fill a Cashu wallet: prints an invoice of the mint's and waits until it is paid."`
	CashuMelt   walletCashuMeltCmd   `cmd:"" name:"cashu-melt" help:"Pay a Lightning invoice or address with a Cashu wallet's notes, through the mint."`
	CashuExport walletCashuExportCmd `cmd:"" name:"cashu-export" help:"Take money out of a Cashu wallet as a token that any Cashu wallet takes."`

	CashuRestore walletCashuRestoreCmd `cmd:"" name:"cashu-restore" help:"Find a Cashu wallet's notes by its seed alone, at its mint."`
	CashuSeed    walletCashuSeedCmd    `cmd:"" name:"cashu-seed" help:"Show the words that a Cashu wallet is restored from."`
}

type walletStatusCmd struct {
	Role config.Side `help:"Whose wallet: provider or buyer. Left out: the only one there is; of two the buyer's." placeholder:"ROLE"`
	JSON bool        `help:"Print JSON."`
}

// Run asks the wallet who it is and what it has.
func (w walletStatusCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	c, err := app.Open(s, g)
	if err != nil {
		return err
	}
	role := w.Role.Of(c.Config)
	conf := c.WalletOf(role)
	ctx, cancel := context.WithTimeout(ctx, walletTimeout)
	defer cancel()

	wal, closeWallet, err := wallets.Open(ctx, c.Config, conf, role, s.Log)
	if err != nil {
		return err
	}
	defer closeWallet()

	if wal == nil {
		return advice.Usage("set "+role+".wallet.backend to lnd, nwc, cashu, onchain or play, or name the other --role", "the %s has no wallet", role)
	}
	node, err := wal.Node(ctx)
	if err != nil {
		return advice.Hint(err, wallets.Hint(err, role, conf))
	}
	balance, err := wal.Balance(ctx)
	if err != nil {
		return advice.Hint(err, wallets.Hint(err, role, conf))
	}
	if w.JSON {
		return app.PrintJSON(s.Out, map[string]any{
			"role": role, "backend": conf.Backend, "node": node, "balance": balance,
			"asset_id": payments.AssetID(node.Network), "play_money": node.Network == payments.Play, "spending_stopped": c.SpendingStopped() != nil,
		})
	}

	if node.Network == payments.Play {
		fmt.Fprintln(s.Out, "PLAY MONEY: worth nothing")
	}
	fmt.Fprintf(s.Out, "role       %s\nnode       %s\nnetwork    %s\nspendable  %s\nreserved   %s\n",
		role, node.PubKey, node.Network, display.Msats(balance.SpendableMsats), display.Msats(balance.ReservedMsats))
	if mint, ok := node.Network.CashuMint(); ok {
		fmt.Fprintf(s.Out, "custody    the mint %s holds the bitcoin; the wallet holds its promise\n", display.Printable(mint))
	}
	if err := c.SpendingStopped(); err != nil {
		fmt.Fprintf(s.Out, "pays       nothing: %s\n", display.Printable(err.Error()))
	}
	receivable, counted, err := wallets.ReceivableBy(ctx, wal)
	if err != nil {
		return advice.Hint(err, wallets.Hint(err, role, conf))
	}
	if counted {
		fmt.Fprintf(s.Out, "receivable %s\n", display.Msats(receivable))
	}
	return nil
}

type walletPermissionsCmd struct {
	Role  string `help:"provider, refunds (may pay and receive: for either side of a prepaid job that is paid back), buyer, or both (provider and buyer)." default:"both" enum:"provider,refunds,buyer,both"`
	Chain bool   `help:"For the backend onchain: provider and buyer on the chain, with lnd's coins."`
}

// Run prints one command a role.
func (w walletPermissionsCmd) Run(s *app.Streams) error {
	backend := "lnd"
	if w.Chain {
		backend = config.BackendOnchain
	}
	for _, role := range []string{"provider", "refunds", "buyer"} {
		if w.Role == role || w.Role == "both" && role != "refunds" {
			fmt.Fprintln(s.Out, wallets.BakeCommand(backend, role))
		}
	}
	return nil
}

type walletPlayServeCmd struct {
	Listen string `help:"Loopback address to listen on; that of the configuration's play url if left out." placeholder:"ADDR"`
}

// defaultLedger is where the ledger listens if no wallet of the configuration
// says where it looks for one.
const defaultLedger = "127.0.0.1:7448"

// Run serves play money until interrupted.
func (w walletPlayServeCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	c, err := app.Open(s, g)
	if err != nil {
		return err
	}
	listen := cmp.Or(w.Listen, playAddress(c.Provider.Wallet), playAddress(c.Buyer.Wallet), defaultLedger)
	addr, err := net.ResolveTCPAddr("tcp", listen)
	if err != nil {
		return advice.Usage("for example --listen "+defaultLedger, "listen: %w", err)
	}
	if !addr.IP.IsLoopback() {
		return advice.Usage("for example --listen "+defaultLedger, "play money is served on loopback only, not on %s", listen)
	}

	ledger, err := c.PlayLedger(ctx)
	if err != nil {
		return err
	}
	ln, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return cmp.Or(advice.Usage("--listen and wallet.play.url name another address", "listen: %w", err), ledger.Close())
	}
	s.Told.Info(fmt.Sprintf("PLAY MONEY ledger on http://%s: nothing on it is worth anything", ln.Addr()))
	err = ledger.Serve(ctx, ln)
	s.Told.Info("ledger stopped")
	return err
}

// playAddress is the host and port at which a wallet looks for its ledger.
func playAddress(w config.Wallet) string {
	u, err := url.Parse(w.Play.URL)
	if w.Backend != "play" || err != nil {
		return ""
	}
	return u.Host
}
