package cli

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/lnd"
	"github.com/lightwork-market/lightwork/payments/onchain"
	"github.com/lightwork-market/lightwork/payments/playnet"
	"github.com/lightwork-market/lightwork/provider"
)

// wallet is what every backend offers.
type wallet interface {
	provider.Wallet
	buyer.Wallet
	Balance(ctx context.Context) (payments.Balance, error)
}

// openWallet connects to the configured backend; nil and no error for none. A
// play-money wallet is made on first use, named for its role and its token: many
// nodes may share a ledger.
func openWallet(ctx context.Context, c *config.Config, w config.Wallet, role string, log *slog.Logger) (_ wallet, closeWallet func(), err error) {
	switch w.Backend {
	case "play":
		client, token, err := dialPlay(c, w.Play)
		if err != nil {
			return nil, nil, err
		}
		if err := client.OpenWallet(ctx, role+"-"+hashing.Bytes([]byte(token)).Hex()[:16]); err != nil {
			client.Close()
			return nil, nil, advice.Hint(fmt.Errorf("play-money wallet: %w", err), "lightwork wallet play-serve runs the ledger")
		}
		return client, client.Close, nil
	case "lnd":
		client, err := openLND(c, w.LND, log)
		if err != nil {
			return nil, nil, err
		}
		return client, func() { client.Close() }, nil
	case "nwc":
		client, closeClient, err := openNWC(ctx, c.Path(w.NWC.URIFile), log)
		if err != nil {
			return nil, nil, err
		}
		return client, closeClient, nil
	case config.BackendOnchain:
		client, closeClient, err := openOnchain(ctx, c, w, role, log)
		if err != nil {
			return nil, nil, err
		}
		return client, closeClient, nil
	case "cashu":
		client, closeClient, err := openCashu(ctx, c, w.Cashu, role, log)
		if err != nil {
			return nil, nil, err
		}
		return client, closeClient, nil
	}
	return nil, func() {}, nil
}

// dialPlay makes the client of a play-money wallet; nothing is sent yet.
func dialPlay(c *config.Config, w config.Play) (client *playnet.Client, token string, err error) {
	if token, err = readSecret(c.Path(w.TokenFile)); err != nil {
		return nil, "", err
	}
	if client, err = playnet.Dial(w.URL, token); err != nil {
		return nil, "", advice.Usage("restore it from your backup: a new token is another wallet", "%s: %w", c.Path(w.TokenFile), err)
	}
	return client, token, nil
}

// readSecret reads a one-line secret from a file only its owner can read.
func readSecret(path string) (string, error) {
	st, err := os.Stat(path)
	if err != nil {
		return "", advice.Usage("lightwork init makes the files that are missing", "secret file: %w", err)
	}
	if st.Mode().Perm()&0o077 != 0 {
		return "", advice.Usage("chmod 600 "+path, "secret file %s is readable by others (mode %04o)", path, st.Mode().Perm())
	}
	if st.Size() > 4096 {
		return "", advice.Usage("", "secret file %s is too large", path)
	}
	raw, err := os.ReadFile(path)
	return strings.TrimSpace(string(raw)), err
}

// receivableBy is what others can pay to a wallet, for one whose channels bound it.
func receivableBy(ctx context.Context, w wallet) (msats int64, counted bool, err error) {
	node, ok := w.(*lnd.Wallet)
	if !ok {
		return 0, false, nil
	}
	msats, err = node.Receivable(ctx)
	return msats, true, err
}

// playLedger keeps the accounts of play money.
type playLedger struct {
	ledger *playnet.Ledger
	log    *slog.Logger
}

// openLedger opens the ledger of a configuration, or makes it.
func openLedger(ctx context.Context, c *config.Config, log *slog.Logger) (*playLedger, error) {
	dir := c.DataDir("play")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	ledger, err := playnet.Open(ctx, filepath.Join(dir, "ledger.db"), playnet.Config{Logger: log})
	if err != nil {
		return nil, err
	}
	return &playLedger{ledger, log}, nil
}

// serve answers on ln until ctx ends, and closes the ledger.
func (l *playLedger) serve(ctx context.Context, ln net.Listener) error {
	err := playnet.NewServer(l.ledger, l.log).Serve(ctx, ln)
	return cmp.Or(err, l.close())
}

func (l *playLedger) close() error { return l.ledger.Close() }

// confirmations are how many make a payment of a wallet on the chain final.
func confirmations(w config.Wallet) int64 {
	return cmp.Or(w.Onchain.Confirmations, onchain.DefaultConfirmations)
}
