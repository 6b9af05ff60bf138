package node

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"github.com/lightwork-market/lightwork/payments/playnet"
)

// PlayLedger keeps the accounts of play money.
type PlayLedger struct {
	ledger *playnet.Ledger
	log    *slog.Logger
}

// PlayLedger opens the ledger of this node, or makes it.
func (c *Node) PlayLedger(ctx context.Context) (*PlayLedger, error) {
	dir := c.DataDir("play")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	ledger, err := playnet.Open(ctx, filepath.Join(dir, "ledger.db"), playnet.Config{Logger: c.log})
	if err != nil {
		return nil, err
	}
	return &PlayLedger{ledger, c.log}, nil
}

// Serve answers on ln until ctx ends, and closes the ledger.
func (l *PlayLedger) Serve(ctx context.Context, ln net.Listener) error {
	err := playnet.NewServer(l.ledger, l.log).Serve(ctx, ln)
	return cmp.Or(err, l.Close())
}

// Close closes a ledger that is not served.
func (l *PlayLedger) Close() error { return l.ledger.Close() }
