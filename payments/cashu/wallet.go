package cashu

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/payments"
)

// Config configures a [Wallet]. Mint, Seed, Path, Relays and Messages are required.
type Config struct {
	Mint string // in the form of payments.CashuNetwork: mint.example.com
	Seed Seed
	Path string // of the SQLite file; each mint and seed needs its own

	// Relays are the relays that Messages uses. Invoices list them; an invoice that
	// lists none of them cannot be paid.
	Relays   []string
	Messages MessageTransport

	// Lock is how long payers must lock the notes for our invoices: a held payment
	// that is not settled goes back after that time, and not before. 0 means one
	// hour. Payers accept no more than a day.
	Lock time.Duration

	// MaxMsats bounds the money at the mint, which is only the mint's promise. A
	// payment that would exceed it waits until there is room or its lock ends. 0
	// means no bound.
	MaxMsats int64

	// Poll is the interval for asking the mint about a new payment; it grows with
	// the age of the payment. 0 means one second.
	Poll time.Duration

	// CallTimeout bounds each request to the mint. 0 means 30 s.
	CallTimeout time.Duration

	// RestoreMost bounds the numbers, unknown to the file, that one Restore asks
	// for in all keysets together, because a mint can claim to have signed every
	// one. 0 means 200,000, the notes of about 10,000 payments.
	RestoreMost int

	// ReadOnly is for reading while another process has the wallet open. All
	// changes are refused, and Serve must not be called.
	ReadOnly bool

	// MaySpend is asked before notes are reserved for somebody, and again before they
	// leave. What was begun before waits until it may go on.
	MaySpend payments.MaySpend

	// Transport sends the requests. Nil means http.DefaultTransport.
	Transport http.RoundTripper

	// Log receives faults of the mint and of payers. If it is nil, nothing is
	// logged.
	Log *slog.Logger
}

// maxLock is the longest lock that a payer accepts, since its money is unavailable
// that long.
const maxLock = 24 * time.Hour

func (c *Config) setDefaults() {
	if c.Lock <= 0 {
		c.Lock = time.Hour
	}
	if c.Poll <= 0 {
		c.Poll = time.Second
	}
	if c.CallTimeout <= 0 {
		c.CallTimeout = 30 * time.Second
	}
	if c.RestoreMost <= 0 {
		c.RestoreMost = 200_000
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

// Wallet is a wallet backend on one mint. It is safe for concurrent use;
// [Wallet.Serve] carries out what the methods start.
type Wallet struct {
	cfg     Config
	network payments.Network
	key     *btcec.PrivateKey
	node    string // the wallet's public key, compressed, in hex
	db      *sqlite.DB
	mint    *mint

	kick  chan struct{} // capacity 1: there is work to do
	ended chan struct{} // closed when Serve returns

	mu        sync.Mutex
	keysets   map[string]*keyset // latest list of the mint; nil before the first
	keysetsAt time.Time          // when it was fetched
	changed   chan struct{}      // closed and replaced at every change
	watchers  map[chan payments.Hash]struct{}
}

// Open opens or creates the wallet's file. It does not contact the mint.
func Open(ctx context.Context, cfg Config) (*Wallet, error) {
	cfg.setDefaults()
	network, err := payments.CashuNetwork(cfg.Mint)
	if err != nil {
		return nil, fmt.Errorf("open cashu wallet: %w", err)
	}
	if len(cfg.Relays) == 0 || cfg.Messages == nil {
		return nil, fmt.Errorf("open cashu wallet: %w: no relays to receive payments on", payments.ErrBadRequest)
	}
	if cfg.Seed.secret == nil {
		return nil, fmt.Errorf("open cashu wallet: %w", ErrSeed)
	}

	key := cfg.Seed.nodeKey()
	w := &Wallet{
		cfg: cfg, network: network, key: key, node: pointText(key.PubKey()),
		mint: newMint(payments.MintURL(cfg.Mint), cfg.Transport, cfg.CallTimeout),
		kick: make(chan struct{}, 1), ended: make(chan struct{}), changed: make(chan struct{}),
		watchers: map[chan payments.Hash]struct{}{},
	}
	if w.db, err = openStore(ctx, cfg, w.node); err != nil {
		return nil, err
	}
	if cfg.ReadOnly {
		close(w.ended)
	}
	return w, nil
}

// Close closes the file. Serve must have returned.
func (w *Wallet) Close() error { return w.db.Close() }

// Node returns the wallet's key and its mint.
func (w *Wallet) Node(context.Context) (payments.Node, error) {
	return payments.Node{PubKey: w.node, Network: w.network, Alias: "cashu: " + w.cfg.Mint}, nil
}

// Balance adds up the notes. It shows what the mint promised, not what it can pay.
func (w *Wallet) Balance(ctx context.Context) (b payments.Balance, err error) {
	err = w.db.View(ctx, func(tx *sqlite.Tx) error {
		free, err := sumNotes(tx, "free")
		if err != nil {
			return err
		}
		b.SpendableMsats = free * 1000
		if err := tx.QueryRow(`SELECT COALESCE(SUM(amount_msats + fee_msats), 0) FROM payments WHERE state IN ('locking', 'sent', 'refunding')`).Scan(&b.ReservedMsats); err != nil {
			return err
		}
		var melting int64
		if err := tx.QueryRow(`SELECT COALESCE(SUM(cost_sats), 0) FROM melts WHERE state IN ('splitting', 'paying')`).Scan(&melting); err != nil {
			return err
		}
		b.ReservedMsats += melting * 1000
		return tx.QueryRow(`SELECT COALESCE(SUM(amount_msats), 0) FROM invoices WHERE state = 'settled'`).Scan(&b.ReceivedMsats)
	})
	if err != nil {
		return b, fmt.Errorf("balance: %w", err)
	}
	return b, nil
}

// wake starts Serve's next round at once.
func (w *Wallet) wake() {
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// notify notifies everybody who waits for a change, and sends a hint about the
// invoice unless the hash is zero.
func (w *Wallet) notify(invoice payments.Hash) {
	w.mu.Lock()
	defer w.mu.Unlock()

	close(w.changed)
	w.changed = make(chan struct{})
	if invoice.IsZero() {
		return
	}

	for c := range w.watchers {
		select {
		case c <- invoice:
		default: // a hint may be lost
		}
	}
}

// change returns a channel that is closed at the next change.
func (w *Wallet) change() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}

// await calls look after each change until it reports done.
func (w *Wallet) await(ctx context.Context, look func() (done bool, err error)) error {
	for {
		changed := w.change()
		if done, err := look(); done || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-w.ended:
			return fmt.Errorf("%w: the wallet is closed", payments.ErrWalletUnavailable)
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", payments.ErrWalletUnavailable, ctx.Err())
		}
	}
}

// sharesRelay reports whether one of the relays is ours.
func (w *Wallet) sharesRelay(relays []string) bool {
	for _, relay := range relays {
		for _, own := range w.cfg.Relays {
			if strings.TrimSuffix(relay, "/") == strings.TrimSuffix(own, "/") {
				return true
			}
		}
	}
	return false
}

// refused reports whether an error is a refusal by the mint.
func refused(err error) bool {
	var m *MintError
	return errors.As(err, &m)
}

// checkCap returns an error if msats more would exceed MaxMsats. It counts the notes at
// the mint and those that may come back, held notes, and open top-ups. It must be
// called in the transaction that writes what needs the room. Unpaid invoices do not
// count: anybody may request them, and with enough of them could block real payers.
func (w *Wallet) checkCap(tx *sqlite.Tx, msats int64) error {
	if w.cfg.MaxMsats == 0 {
		return nil
	}

	now := millis(time.Now())
	var own, sent, heldMsats, topups int64
	for _, sum := range []struct {
		to    *int64
		query string
		args  []any
	}{
		{&own, `SELECT COALESCE(SUM(sats), 0) * 1000 FROM notes WHERE state <> 'spent'`, nil},
		// Locked for a payee; ours again if the payee does not take them.
		{&sent, `SELECT COALESCE(SUM(amount_msats + fee_msats), 0) FROM payments WHERE state IN ('sent', 'refunding')`, nil},
		{&heldMsats, `SELECT COALESCE(SUM(json_extract(n.value, '$.amount')), 0) * 1000 FROM invoices, json_each(invoices.notes) AS n
			WHERE invoices.state IN ('held', 'claiming')`, nil},
		// The mint may learn of a payment a little after it was made.
		{
			&topups, `SELECT COALESCE(SUM(json_extract(o.value, '$.amount')), 0) * 1000 FROM ops, json_each(ops.outputs) AS o
			WHERE ops.state = 'open' AND ops.kind = 'topup'
			AND (ops.unsure_ms <> 0 OR CASE ops.until_ms WHEN 0 THEN ops.at_ms + ?1 ELSE ops.until_ms + ?2 END > ?3)`,
			[]any{topupKept.Milliseconds(), lateAnswer.Milliseconds(), now},
		},
	} {
		if err := tx.QueryRow(sum.query, sum.args...).Scan(sum.to); err != nil {
			return fmt.Errorf("add up what is at the mint: %w", err)
		}
	}

	over := own + sent + heldMsats + topups + msats - w.cfg.MaxMsats
	switch {
	case over <= 0:
		return nil
	case over <= topups:
		return fmt.Errorf("%w: %w: %d msats more than the %d allowed, with %d in top-ups that nobody has paid yet: pay those, or wait until they expire",
			payments.ErrAmount, ErrCap, over, w.cfg.MaxMsats, topups)
	}

	return fmt.Errorf("%w: %w: %d msats more than the %d allowed: withdraw some first", payments.ErrAmount, ErrCap, over, w.cfg.MaxMsats)
}
