package cli

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
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
func openWallet(ctx context.Context, c *config, w walletConfig, role string, log *slog.Logger) (_ wallet, closeWallet func(), err error) {
	switch w.Backend {
	case "play":
		client, token, err := c.dialPlay(w.Play)
		if err != nil {
			return nil, nil, err
		}
		if err := client.OpenWallet(ctx, role+"-"+hashing.Bytes([]byte(token)).Hex()[:16]); err != nil {
			client.Close()
			return nil, nil, hinted(fmt.Errorf("play-money wallet: %w", err), "lightwork wallet play-serve runs the ledger")
		}
		return client, client.Close, nil
	case "lnd":
		client, err := openLND(c, w.LND, log)
		if err != nil {
			return nil, nil, err
		}
		return client, func() { client.Close() }, nil
	case "nwc":
		client, closeClient, err := openNWC(ctx, c.path(w.NWC.URIFile), log)
		if err != nil {
			return nil, nil, err
		}
		return client, closeClient, nil
	case backendOnchain:
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
func (c *config) dialPlay(w playWalletConfig) (client *playnet.Client, token string, err error) {
	if token, err = readSecret(c.path(w.TokenFile)); err != nil {
		return nil, "", err
	}
	if client, err = playnet.Dial(w.URL, token); err != nil {
		return nil, "", usage("restore it from your backup: a new token is another wallet", "%s: %w", c.path(w.TokenFile), err)
	}
	return client, token, nil
}

// readSecret reads a one-line secret from a file only its owner can read.
func readSecret(path string) (string, error) {
	st, err := os.Stat(path)
	if err != nil {
		return "", usage("lightwork init makes the files that are missing", "secret file: %w", err)
	}
	if st.Mode().Perm()&0o077 != 0 {
		return "", usage("chmod 600 "+path, "secret file %s is readable by others (mode %04o)", path, st.Mode().Perm())
	}
	if st.Size() > 4096 {
		return "", usage("", "secret file %s is too large", path)
	}
	raw, err := os.ReadFile(path)
	return strings.TrimSpace(string(raw)), err
}
