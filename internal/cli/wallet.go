package cli

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/lnd"
	"github.com/lightwork-market/lightwork/payments/playnet"
)

// walletTimeout bounds what a listing waits for a wallet.
const walletTimeout = 20 * time.Second

type walletCmd struct {
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
	Role side `help:"Whose wallet: provider or buyer. Left out: the only one there is; of two the buyer's." placeholder:"ROLE"`
	JSON bool `help:"Print JSON."`
}

// Run asks the wallet who it is and what it has.
func (w walletStatusCmd) Run(ctx context.Context, s *streams, g *globals) error {
	c, err := loadConfig(g.Config)
	if err != nil {
		return err
	}
	role := w.Role.of(c)
	conf := c.walletOf(role)
	ctx, cancel := context.WithTimeout(ctx, walletTimeout)
	defer cancel()
	wal, closeWallet, err := openWallet(ctx, c, conf, role, s.log)
	if err != nil {
		return err
	}
	defer closeWallet()
	if wal == nil {
		return usage("set "+role+".wallet.backend to lnd, nwc, cashu, onchain or play, or name the other --role", "the %s has no wallet", role)
	}
	node, err := wal.Node(ctx)
	if err != nil {
		return hinted(err, walletHint(err, role, conf))
	}
	balance, err := wal.Balance(ctx)
	if err != nil {
		return hinted(err, walletHint(err, role, conf))
	}
	if w.JSON {
		return printJSON(s.out, map[string]any{
			"role": role, "backend": conf.Backend, "node": node, "balance": balance,
			"asset_id": payments.AssetID(node.Network), "play_money": node.Network == payments.Play,
		})
	}
	if node.Network == payments.Play {
		fmt.Fprintln(s.out, "PLAY MONEY: worth nothing")
	}
	fmt.Fprintf(s.out, "role       %s\nnode       %s\nnetwork    %s\nspendable  %s\nreserved   %s\n",
		role, node.PubKey, node.Network, msats(balance.SpendableMsats), msats(balance.ReservedMsats))
	if mint, ok := node.Network.CashuMint(); ok {
		fmt.Fprintf(s.out, "custody    the mint %s holds the bitcoin; the wallet holds its promise\n", printable(mint))
	}
	if node, ok := wal.(*lnd.Wallet); ok {
		receivable, err := node.Receivable(ctx)
		if err != nil {
			return hinted(err, walletHint(err, role, conf))
		}
		fmt.Fprintf(s.out, "receivable %s\n", msats(receivable))
	}
	return nil
}

type walletPermissionsCmd struct {
	Role  string `help:"provider, refunds (may pay and receive: for either side of a prepaid job that is paid back), buyer, or both (provider and buyer)." default:"both" enum:"provider,refunds,buyer,both"`
	Chain bool   `help:"For the backend onchain: provider and buyer on the chain, with lnd's coins."`
}

// Run prints one command a role.
func (w walletPermissionsCmd) Run(s *streams) error {
	backend := "lnd"
	if w.Chain {
		backend = backendOnchain
	}
	for _, role := range []string{"provider", "refunds", "buyer"} {
		if w.Role == role || w.Role == "both" && role != "refunds" {
			fmt.Fprintln(s.out, bakeCommand(backend, role))
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
func (w walletPlayServeCmd) Run(ctx context.Context, s *streams, g *globals) error {
	c, err := loadConfig(g.Config)
	if err != nil {
		return err
	}
	listen := firstText(w.Listen, playAddress(c.Provider.Wallet), playAddress(c.Buyer.Wallet), defaultLedger)
	addr, err := net.ResolveTCPAddr("tcp", listen)
	if err != nil {
		return usage("for example --listen "+defaultLedger, "listen: %w", err)
	}
	if !addr.IP.IsLoopback() {
		return usage("for example --listen "+defaultLedger, "play money is served on loopback only, not on %s", listen)
	}
	dir := c.dataDir("play")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	ledger, err := playnet.Open(ctx, filepath.Join(dir, "ledger.db"), playnet.Config{Logger: s.log})
	if err != nil {
		return err
	}
	ln, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return firstError(usage("--listen and wallet.play.url name another address", "listen: %w", err), ledger.Close())
	}
	s.told.Info(fmt.Sprintf("PLAY MONEY ledger on http://%s: nothing on it is worth anything", ln.Addr()))
	err = playnet.NewServer(ledger, s.log).Serve(ctx, ln)
	s.told.Info("ledger stopped")
	return firstError(err, ledger.Close())
}

// playAddress is the host and port at which a wallet looks for its ledger.
func playAddress(w walletConfig) string {
	u, err := url.Parse(w.Play.URL)
	if w.Backend != "play" || err != nil {
		return ""
	}
	return u.Host
}
