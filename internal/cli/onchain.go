package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/lightwork-market/lightwork/payments/lnd"
	"github.com/lightwork-market/lightwork/payments/onchain"
	"github.com/lightwork-market/lightwork/receipts"
)

const backendOnchain = "onchain"

// onchainConfig says how the coins of an lnd are used; wallet.lnd says whose.
type onchainConfig struct {
	Confirmations  int64 `yaml:"confirmations"`     // that make a payment final; 3
	TargetBlocks   int   `yaml:"target_blocks"`     // within which an own payment should be in one; 6
	MaxSatPerVByte int64 `yaml:"max_sat_per_vbyte"` // at most paid for that; 100
}

// onchainReceiptTimeout is how long a result and a receipt may take after a
// payment: the provider may want more confirmations than we do.
const onchainReceiptTimeout = 2 * time.Hour

func (c onchainConfig) check(path string) *configError {
	switch {
	case c.Confirmations < 0 || c.Confirmations > 100:
		return &configError{path + ".confirmations", "must be from 1 to 100"}
	case c.TargetBlocks < 0 || c.TargetBlocks > 1008:
		return &configError{path + ".target_blocks", "must be from 1 to 1008"}
	case c.MaxSatPerVByte < 0:
		return &configError{path + ".max_sat_per_vbyte", "cannot be negative"}
	}
	return nil
}

// checkOnchain refuses what the chain cannot do: hold a payment.
func (c *config) checkOnchain() *configError {
	if c.Provider.Wallet.Backend == backendOnchain {
		for i, o := range c.Provider.Offers {
			at := fmt.Sprintf("$.provider.offers[%d]", i)
			if bad := chainModes(at+".modes", o.Modes); bad != nil {
				return bad
			}
			if o.EngagementMsats > 0 {
				return &configError{at + ".engagement_msats", "cannot be asked for on the chain: it would take two transactions"}
			}
		}
	}
	if c.Buyer.Wallet.Backend == backendOnchain {
		if len(c.Buyer.Modes) == 0 {
			return &configError{"$.buyer.modes", "must name prepay, which trusts providers with the price: on the chain nothing else is paid"}
		}
		return chainModes("$.buyer.modes", c.Buyer.Modes)
	}
	return nil
}

func chainModes(path string, modes []receipts.Mode) *configError {
	for i, m := range modes {
		if m != receipts.ModePrepay && m != receipts.ModeFree {
			return &configError{fmt.Sprintf("%s[%d]", path, i), string(m) + " needs Lightning; on the chain jobs are paid beforehand: prepay, or free"}
		}
	}
	return nil
}

// leastMsats is the smallest payment that the provider's wallet can take.
func (c *config) leastMsats() int64 {
	if c.Provider.Wallet.Backend == backendOnchain {
		return onchain.DustSats * 1000
	}
	return 0
}

// openOnchain opens the role's book of payments on the chain, and lnd.
func openOnchain(ctx context.Context, c *config, w walletConfig, role string, log *slog.Logger) (*onchain.Wallet, func(), error) {
	node, err := openLND(c, w.LND, log)
	if err != nil {
		return nil, nil, err
	}
	dir := c.dataDir(role)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, errors.Join(err, node.Close())
	}
	book, err := onchain.OpenBook(ctx, filepath.Join(dir, "onchain.db"), log)
	if err != nil {
		return nil, nil, errors.Join(err, node.Close())
	}
	closeAll := func() {
		if err := errors.Join(book.Close(), node.Close()); err != nil {
			log.Error("close the wallet on the chain", "err", err)
		}
	}
	wal, err := onchain.New(onchain.Config{
		Chain: node, Book: book, Confirmations: w.Onchain.Confirmations,
		TargetBlocks: w.Onchain.TargetBlocks, MaxSatPerVByte: w.Onchain.MaxSatPerVByte, Log: log,
	})
	if err != nil {
		closeAll()
		return nil, nil, err
	}
	return wal, closeAll, nil
}

func openLND(c *config, w lndConfig, log *slog.Logger) (*lnd.Wallet, error) {
	client, err := lnd.Open(lnd.Config{
		Address: w.Address, TLSCertFile: c.path(w.TLSCertFile),
		MacaroonFile: c.path(w.MacaroonFile), Network: w.Network, Log: log,
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usage("put lnd's tls.cert and a macaroon there: lightwork wallet permissions --help says how to bake one", "%w", err)
	}
	if err != nil {
		return nil, hinted(err, "lightwork doctor checks the wallet")
	}
	return client, nil
}

// checkCoins warns of an lnd without coins to pay with.
func checkCoins(ctx context.Context, w *onchain.Wallet, name, role string, conf walletConfig) finding {
	balance, err := w.Balance(ctx)
	switch {
	case err != nil:
		return finding{name, "fail", err.Error(), walletHint(err, role, conf)}
	case role == "buyer" && balance.SpendableMsats == 0:
		return finding{name, "warn", "this lnd has no confirmed coins to spend", "send coins to an address of lncli newaddress p2wkh"}
	}
	return finding{}
}
