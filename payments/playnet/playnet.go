// Package playnet is a Lightning network with play money, for demonstrations and
// tests: a ledger in which each wallet behaves like a node.
//
// Invoices are real BOLT 11, signed by the payee's own key. Their prefix is lnplay,
// so that no Lightning wallet pays one or takes it for a real one. Preimages, hold
// invoices, expiry, deadlines, fees and failures work as on lnd. The money has no
// value.
//
// A [Ledger] keeps the money in one SQLite file; each movement is one transaction.
// A [Server] offers it over loopback HTTP, and a [Client] has the methods of a
// wallet backend (see package payments).
package playnet

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"sync"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/payments"
)

// ErrWalletExists is returned for a name that belongs to another token.
var ErrWalletExists = errors.New("playnet: a wallet of that name exists")

const (
	defaultFaucetMsats = 1_000_000_000
	defaultHoldTime    = time.Hour

	maxWallets = 10_000
	sweepBatch = 1000 // late invoices in one batch
)

// Config configures a [Ledger]. The zero value is usable.
type Config struct {
	// FaucetMsats is the initial balance of a new wallet. 0 means 1 000 000 000; a
	// negative value means nothing.
	FaucetMsats int64
	// FeeMsats is the flat fee of every payment, on top of its amount.
	FeeMsats int64
	// HoldTime is how long a payment may be held before the ledger returns it, like
	// the final CLTV on Lightning. 0 means one hour.
	HoldTime time.Duration
	// Logger receives messages of the database; if it is nil, nothing is logged.
	Logger *slog.Logger
}

func (c Config) validate() (Config, error) {
	switch {
	case c.FaucetMsats == 0:
		c.FaucetMsats = defaultFaucetMsats
	case c.FaucetMsats < 0:
		c.FaucetMsats = 0
	}

	if c.HoldTime == 0 {
		c.HoldTime = defaultHoldTime
	}
	if c.HoldTime < 0 {
		return c, fmt.Errorf("%w: hold time %v", payments.ErrBadRequest, c.HoldTime)
	}
	if err := payments.CheckMsats(c.FaucetMsats); err != nil {
		return c, fmt.Errorf("faucet: %w", err)
	}
	if err := payments.CheckMsats(c.FeeMsats); err != nil {
		return c, fmt.Errorf("fee: %w", err)
	}

	return c, nil
}

// Ledger is both the bank and the network. It is safe for concurrent use and starts
// no goroutines besides the database's.
type Ledger struct {
	cfg Config
	db  *sqlite.DB

	mu      sync.Mutex
	changed chan struct{} // closed and replaced after every write; guarded by mu
}

// Open opens or creates the ledger in the file at path and locks out other
// processes.
func Open(ctx context.Context, path string, cfg Config) (*Ledger, error) {
	cfg, err := cfg.validate()
	if err != nil {
		return nil, fmt.Errorf("open play-money ledger: %w", err)
	}
	db, err := sqlite.Open(ctx, path, sqlite.Options{Migrations: []string{schema}, ExclusiveLock: true, Logger: cfg.Logger})
	if err != nil {
		return nil, fmt.Errorf("open play-money ledger: %w", err)
	}
	return &Ledger{cfg: cfg, db: db, changed: make(chan struct{})}, nil
}

// Close waits for running transactions and closes the file.
func (l *Ledger) Close() error { return l.db.Close() }

// NewToken returns a credential for a new wallet: 64 hex digits. Store it before
// you open the wallet with it, so that nothing is lost if the answer is.
func NewToken() string {
	var b [32]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

var (
	walletName  = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)
	walletToken = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// OpenWallet creates the token's wallet with its own node key and the faucet's
// money, or finds it, whatever its name. Names are 1 to 32 of a-z, 0-9 and hyphen.
// The ledger stores only the token's hash.
func (l *Ledger) OpenWallet(ctx context.Context, name, token string) (*Wallet, error) {
	if !walletName.MatchString(name) {
		return nil, fmt.Errorf("%w: wallet names are 1 to 32 of a-z, 0-9 and hyphen", payments.ErrBadRequest)
	}
	if !walletToken.MatchString(token) {
		return nil, fmt.Errorf("%w: a token is 64 hex digits", payments.ErrBadRequest)
	}

	key, err := btcec.NewPrivateKey()
	if err != nil {
		return nil, fmt.Errorf("make node key: %w", err)
	}
	row := walletRow{
		name:      name,
		tokenHash: sha256.Sum256([]byte(token)),
		nodeKey:   [32]byte(key.Serialize()),
		pubKey:    hex.EncodeToString(key.PubKey().SerializeCompressed()),
	}
	err = l.update(ctx, func(tx *sqlite.Tx, now time.Time) error {
		old, err := selectWalletByToken(tx, row.tokenHash)
		if err == nil {
			row = old
			return nil
		}
		if !errors.Is(err, payments.ErrNotFound) {
			return err
		}

		switch _, err = selectWalletByName(tx, name); {
		case err == nil:
			return fmt.Errorf("%w: %q", ErrWalletExists, name)
		case !errors.Is(err, payments.ErrNotFound):
			return err
		}

		return l.createWallet(tx, now, row)
	})
	if err != nil {
		return nil, fmt.Errorf("open wallet: %w", err)
	}
	return l.wallet(row), nil
}

func (l *Ledger) createWallet(tx *sqlite.Tx, now time.Time, row walletRow) error {
	n, err := countWallets(tx)
	if err != nil {
		return err
	}
	if n >= maxWallets {
		return fmt.Errorf("%w: the ledger has no room for more wallets", payments.ErrWalletUnavailable)
	}
	if err := insertWallet(tx, now, row); err != nil {
		return err
	}

	issued, err := selectBalance(tx, accountIssued)
	if err != nil {
		return err
	}
	if l.cfg.FaucetMsats == 0 {
		return nil
	}

	// No sum of balances may exceed the largest amount; issued is negative.
	if l.cfg.FaucetMsats > payments.MaxMsats+issued {
		return fmt.Errorf("%w: the faucet is empty", payments.ErrWalletUnavailable)
	}

	return insertMove(tx, now, accountIssued, row.name, l.cfg.FaucetMsats, "faucet", nil)
}

// Wallet returns the wallet of a token, or payments.ErrUnauthorized.
func (l *Ledger) Wallet(ctx context.Context, token string) (*Wallet, error) {
	var row walletRow
	hash := sha256.Sum256([]byte(token))
	err := l.db.View(ctx, func(tx *sqlite.Tx) (err error) {
		row, err = selectWalletByToken(tx, hash)
		return err
	})

	// The index is on the hash, whose bytes nobody can choose. The comparison is
	// repeated here so that it does not depend on the database alone.
	if errors.Is(err, payments.ErrNotFound) || err == nil && subtle.ConstantTimeCompare(row.tokenHash[:], hash[:]) != 1 {
		return nil, payments.ErrUnauthorized
	}
	if err != nil {
		return nil, fmt.Errorf("find wallet: %w", err)
	}

	return l.wallet(row), nil
}

func (l *Ledger) wallet(row walletRow) *Wallet {
	key, _ := btcec.PrivKeyFromBytes(row.nodeKey[:])
	return &Wallet{ledger: l, name: row.name, key: key, pubKey: row.pubKey}
}

// Totals shows where the money is. Always WalletsMsats + HeldMsats + FeesMsats =
// IssuedMsats.
type Totals struct {
	IssuedMsats  int64 // paid out by the faucet
	WalletsMsats int64 // spendable
	HeldMsats    int64 // reserved by payments in flight
	FeesMsats    int64 // fees of succeeded payments
}
