package wallets

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/payments/lnd"
	"github.com/lightwork-market/lightwork/payments/onchain"
)

// ChainReceiptTimeout is how long a result and a receipt may take after a
// payment: the provider may want more confirmations than we do.
const ChainReceiptTimeout = 2 * time.Hour

// LeastMsats is the smallest payment that the provider's wallet can take.
func LeastMsats(c *config.Config) int64 {
	if c.Provider.Wallet.Backend == config.BackendOnchain {
		return onchain.DustSats * 1000
	}
	return 0
}

// openOnchain opens the role's book of payments on the chain, and lnd.
func openOnchain(ctx context.Context, c *config.Config, w config.Wallet, role string, log *slog.Logger) (*onchain.Wallet, func(), error) {
	node, err := OpenLND(c, w.LND, log)
	if err != nil {
		return nil, nil, err
	}
	dir := c.DataDir(role)
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
		TargetBlocks: w.Onchain.TargetBlocks, MaxSatPerVByte: w.Onchain.MaxSatPerVByte, MaySpend: c.Spending().Check, Log: log,
	})
	if err != nil {
		closeAll()
		return nil, nil, err
	}

	return wal, closeAll, nil
}

// OpenLND connects to an lnd.
func OpenLND(c *config.Config, w config.LND, log *slog.Logger) (*lnd.Wallet, error) {
	client, err := lnd.Open(lnd.Config{
		Address: w.Address, TLSCertFile: c.Path(w.TLSCertFile),
		MacaroonFile: c.Path(w.MacaroonFile), Network: w.Network, MaySpend: c.Spending().Check, Log: log,
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, advice.Usage("put lnd's tls.cert and a macaroon there: "+advice.ExplainRights+" says how to bake one", "%w", err)
	}
	if err != nil {
		return nil, advice.Hint(err, advice.Check+" checks the wallet")
	}
	return client, nil
}
