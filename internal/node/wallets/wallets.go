// Package wallets opens the wallets of a node's roles, and says the next step where one
// does not answer as it should.
package wallets

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/node/keys"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/lnd"
	"github.com/lightwork-market/lightwork/payments/onchain"
	"github.com/lightwork-market/lightwork/payments/playnet"
	"github.com/lightwork-market/lightwork/relay"
)

// Wallet is what every backend offers.
type Wallet = payments.Wallet

// Open connects to the configured backend; nil and no error for none. A
// play-money wallet is made on first use, named for its role and its token: many
// nodes may share a ledger.
func Open(ctx context.Context, c *config.Config, w config.Wallet, role string, log *slog.Logger) (_ Wallet, closeWallet func(), err error) {
	switch w.Backend {
	case "play":
		client, token, err := DialPlay(c, w.Play)
		if err != nil {
			return nil, nil, err
		}
		client.MaySpend = c.Spending().Check
		if err := client.OpenWallet(ctx, role+"-"+hashing.Bytes([]byte(token)).Hex()[:16]); err != nil {
			client.Close()
			return nil, nil, advice.Hint(fmt.Errorf("play-money wallet: %w", err), advice.ServePlayMoney+" runs the ledger")
		}
		return client, client.Close, nil
	case "lnd":
		client, err := OpenLND(c, w.LND, log)
		if err != nil {
			return nil, nil, err
		}
		return client, func() { client.Close() }, nil
	case "nwc":
		client, closeClient, err := openNWC(ctx, c.Path(w.NWC.URIFile), c.Spending().Check, log)
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
		client, closeClient, err := OpenCashu(ctx, c, w.Cashu, role, log)
		if err != nil {
			return nil, nil, err
		}
		return client, closeClient, nil
	}

	return nil, func() {}, nil
}

// DialPlay makes the client of a play-money wallet; nothing is sent yet.
func DialPlay(c *config.Config, w config.Play) (client *playnet.Client, token string, err error) {
	if token, err = keys.ReadSecret(c.Path(w.TokenFile)); err != nil {
		return nil, "", err
	}
	if client, err = playnet.Dial(w.URL, token); err != nil {
		return nil, "", advice.Usage("restore it from your backup: a new token is another wallet", "%s: %w", c.Path(w.TokenFile), err)
	}
	return client, token, nil
}

// ReceivableBy is what others can pay to a wallet, for one whose channels bound it.
func ReceivableBy(ctx context.Context, w Wallet) (msats int64, counted bool, err error) {
	node, ok := w.(*lnd.Wallet)
	if !ok {
		return 0, false, nil
	}
	msats, err = node.Receivable(ctx)
	return msats, true, err
}

// Confirmations are how many make a payment of a wallet on the chain final.
func Confirmations(w config.Wallet) int64 {
	return cmp.Or(w.Onchain.Confirmations, onchain.DefaultConfirmations)
}

// NewTokenFile makes the token of a wallet of play money.
func NewTokenFile(path string) error { return relay.WriteKeyFile(path, playnet.NewToken()) }
