// Package onchain is a wallet backend that pays and is paid on the bitcoin
// chain, with the coins of an lnd.
//
// What a payee sends to be paid is an ordinary BOLT 11 text: it names a fresh
// address as its fallback, the amount, and the quote's hash as its description
// hash, and the node's key signs it. The invoice behind it is cancelled in lnd
// at once, so that it cannot be paid over Lightning. A payment is settled with
// the configured number of confirmations; less money, more money, late money and
// reorganisations of the chain each have their state (see LookupInvoice).
//
// There are no hold invoices and no preimages: only prepay.
package onchain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/lnd"
)

// ErrDust: the chain carries no output this small.
var ErrDust = errors.New("below what the chain carries")

const (
	// DustSats is the least that is taken or sent, in satoshi: the highest of the
	// dust limits of output types.
	DustSats = 546
	// DefaultConfirmations make a payment final unless configured. One block can be
	// replaced by bad luck, two rarely.
	DefaultConfirmations = 3
	msatsPerSat          = 1000
)

// Chain is lnd's wallet, by payments/lnd.
type Chain interface {
	Node(ctx context.Context) (payments.Node, error)
	CheckPermissions(ctx context.Context, role lnd.Role) error
	ChainBalance(ctx context.Context) (freeSats, otherSats int64, err error)
	receiver
	sender
}

// receiver is what taking a payment asks of lnd.
type receiver interface {
	NewAddress(ctx context.Context) (string, error)
	SignRequest(ctx context.Context, want payments.NewInvoice, address string) (string, error)
	Received(ctx context.Context, since int64) ([]lnd.ChainOutput, int64, error)
}

// sender is what making a payment asks of lnd.
type sender interface {
	Ready(ctx context.Context) error
	FeeRate(ctx context.Context, blocks int) (satPerVByte int64, err error)
	SignSend(ctx context.Context, s lnd.ChainSend) (raw []byte, feeSats int64, err error)
	Release(ctx context.Context, lease [32]byte) error
	Publish(ctx context.Context, raw []byte, label string) error
	Transaction(ctx context.Context, txid string) (lnd.ChainTx, error)
	Published(ctx context.Context, address string, sats int64, since time.Time) ([]lnd.ChainPayment, error)
}

// Config says how payments are taken and made. Chain and Book are needed.
type Config struct {
	Chain Chain
	Book  *Book
	// Confirmations make a payment final; 0 means DefaultConfirmations.
	Confirmations int64
	// TargetBlocks is how soon an own transaction should be in a block; 0 means 6.
	TargetBlocks int
	// MaxSatPerVByte is the most that is paid for that; 0 means 100. The fee limit
	// of each payment counts beside it.
	MaxSatPerVByte int64
	// PollEvery is how often the chain is looked at; 0 means 10 s.
	PollEvery time.Duration
	// MaySpend is asked before a transaction is signed, and before it is published.
	MaySpend payments.MaySpend
	// Log receives losses by reorganisation. Nil discards them.
	Log *slog.Logger
}

func (c *Config) setDefaults() {
	if c.Confirmations == 0 {
		c.Confirmations = DefaultConfirmations
	}
	if c.TargetBlocks == 0 {
		c.TargetBlocks = 6
	}
	if c.MaxSatPerVByte == 0 {
		c.MaxSatPerVByte = 100
	}
	if c.PollEvery == 0 {
		c.PollEvery = 10 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

// Wallet pays and is paid on the chain. Its methods may be used concurrently.
type Wallet struct {
	cfg   Config
	sends chan struct{} // held by the one who begins a payment
}

// New makes a wallet. It asks nothing yet.
func New(cfg Config) (*Wallet, error) {
	switch {
	case cfg.Chain == nil, cfg.Book == nil:
		return nil, fmt.Errorf("%w: onchain: chain and book are needed", payments.ErrBadRequest)
	case cfg.Confirmations < 0, cfg.TargetBlocks < 0, cfg.MaxSatPerVByte < 0, cfg.PollEvery < 0:
		return nil, fmt.Errorf("%w: onchain: negative number", payments.ErrBadRequest)
	}
	cfg.setDefaults()
	return &Wallet{cfg: cfg, sends: make(chan struct{}, 1)}, nil
}

// Node asks lnd who it is. The network is that of transactions on its chain.
func (w *Wallet) Node(ctx context.Context) (payments.Node, error) {
	node, err := w.cfg.Chain.Node(ctx)
	node.Network = node.Network.OnChain()
	return node, err
}

// CheckPermissions is nil if lnd permits all that the role calls; see
// [lnd.Wallet.CheckPermissions].
func (w *Wallet) CheckPermissions(ctx context.Context, role lnd.Role) error {
	return w.cfg.Chain.CheckPermissions(ctx, role)
}

// Balance is what the wallet can send now; ReservedMsats is what is leased or in
// no block yet, and ReceivedMsats the sum of settled requests.
func (w *Wallet) Balance(ctx context.Context) (payments.Balance, error) {
	free, other, err := w.cfg.Chain.ChainBalance(ctx)
	if err != nil {
		return payments.Balance{}, err
	}
	received, err := w.cfg.Book.received(ctx)
	return payments.Balance{
		SpendableMsats: max(0, free) * msatsPerSat, ReservedMsats: max(0, other) * msatsPerSat, ReceivedMsats: received * msatsPerSat,
	}, err
}

// satsFor is an amount in whole satoshi, rounded up: the chain knows no less.
func satsFor(msats int64) (int64, error) {
	sats := (msats + msatsPerSat - 1) / msatsPerSat
	if sats < DustSats {
		return 0, fmt.Errorf("%w: %w: %d sat, at least %d (smaller sums go over Lightning)", payments.ErrAmount, ErrDust, sats, DustSats)
	}
	return sats, nil
}
