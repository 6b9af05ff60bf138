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

// Config says which mint to use and where the wallet is kept. Mint, Seed, Path,
// Relays and Messages are needed; the rest may be left zero.
type Config struct {
	Mint string // as payments.CashuNetwork has it: mint.example.com
	Seed Seed
	Path string // of the SQLite file; one for each mint and seed

	// Relays are those that Messages listens on and sends to. Invoices name
	// them; an invoice that names none of them cannot be paid.
	Relays   []string
	Messages MessageTransport

	// Lock is for how long a payer must lock the notes of our invoices: a held
	// payment that is not settled goes back after it, and not before. 0 means
	// one hour; payers lock none for more than a day.
	Lock time.Duration

	// MaxMsats bounds what may be at the mint: it is the mint's promise and no
	// more. Payments that would bring more wait until there is room, or until
	// their lock ends. 0 means no bound.
	MaxMsats int64

	// Poll is how often the mint is asked about a payment that was just sent;
	// the older it is, the seldomer. 0 means one second.
	Poll time.Duration

	// CallTimeout bounds each question to the mint. 0 means 30 s.
	CallTimeout time.Duration

	// RestoreMost bounds how many numbers that the file does not know of one
	// Restore asks for, of all keysets: a mint can say that it has signed every
	// one. 0 means 200,000, the notes of about 10,000 payments.
	RestoreMost int

	// ReadOnly is for looking while another process has the wallet open: what
	// changes something is refused, and Serve is not called.
	ReadOnly bool

	// Transport carries the questions. Nil means http.DefaultTransport.
	Transport http.RoundTripper

	// Log receives what the mint and payers do wrong. Nil discards it.
	Log *slog.Logger
}

// maxLock is the longest lock that a payer accepts: so long its money may be away.
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

// Wallet is a wallet backend on one mint. Its methods may be called from many
// goroutines; what they begin is done by Serve.
type Wallet struct {
	cfg     Config
	network payments.Network
	key     *btcec.PrivateKey
	node    string // its public key, compressed, in hex
	db      *sqlite.DB
	mint    *mint

	kick  chan struct{} // capacity 1: there is something to do
	ended chan struct{} // closed when Serve returns

	mu       sync.Mutex
	keysets  map[string]*keyset // as the mint last listed them; nil before
	asked    time.Time          // when it was asked for them
	changed  chan struct{}      // closed and replaced when something changed
	watchers map[chan payments.Hash]struct{}
}

// Open opens or creates the wallet's file. It asks the mint nothing.
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

// Node is the wallet's key and its mint.
func (w *Wallet) Node(context.Context) (payments.Node, error) {
	return payments.Node{PubKey: w.node, Network: w.network, Alias: "cashu: " + w.cfg.Mint}, nil
}

// Balance adds up the notes. It says what the mint has promised, not what it
// can pay.
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

// wake lets Serve look at once.
func (w *Wallet) wake() {
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// tell wakes everybody who waits for a change, and hints at an invoice unless
// the hash is zero.
func (w *Wallet) tell(invoice payments.Hash) {
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
		default: // hints may be lost
		}
	}
}

// change is closed at the next change.
func (w *Wallet) change() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}

// await looks after each change until look says done.
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

// shared reports whether one of the relays is ours.
func (w *Wallet) shared(relays []string) bool {
	for _, theirs := range relays {
		for _, ours := range w.cfg.Relays {
			if strings.TrimSuffix(theirs, "/") == strings.TrimSuffix(ours, "/") {
				return true
			}
		}
	}
	return false
}

// refused reports an error that is the mint's own no.
func refused(err error) bool {
	var m *MintError
	return errors.As(err, &m)
}

// room refuses more than may be at the mint: what is there or may come back,
// what is held, what open top-ups bring once they are paid, and msats more. It
// binds only in the transaction that writes what takes the room. Invoices that
// nobody has paid take none: anybody may ask for them, and whoever asked for
// enough would keep the payers out.
func (w *Wallet) room(tx *sqlite.Tx, msats int64) error {
	if w.cfg.MaxMsats == 0 {
		return nil
	}

	now := millis(time.Now())
	var ours, away, held, asked int64
	for _, sum := range []struct {
		to    *int64
		query string
		args  []any
	}{
		{&ours, `SELECT COALESCE(SUM(sats), 0) * 1000 FROM notes WHERE state <> 'spent'`, nil},
		// Locked for a payee, and ours again if it does not take them.
		{&away, `SELECT COALESCE(SUM(amount_msats + fee_msats), 0) FROM payments WHERE state IN ('sent', 'refunding')`, nil},
		{&held, `SELECT COALESCE(SUM(json_extract(n.value, '$.amount')), 0) * 1000 FROM invoices, json_each(invoices.notes) AS n
			WHERE invoices.state IN ('held', 'claiming')`, nil},
		// The mint may hear of a payment a little later than it was made.
		{
			&asked, `SELECT COALESCE(SUM(json_extract(o.value, '$.amount')), 0) * 1000 FROM ops, json_each(ops.outputs) AS o
			WHERE ops.state = 'open' AND ops.kind = 'topup'
			AND (ops.unsure_ms <> 0 OR CASE ops.until_ms WHEN 0 THEN ops.at_ms + ?1 ELSE ops.until_ms + ?2 END > ?3)`,
			[]any{topupKept.Milliseconds(), lateAnswer.Milliseconds(), now},
		},
	} {
		if err := tx.QueryRow(sum.query, sum.args...).Scan(sum.to); err != nil {
			return fmt.Errorf("add up what is at the mint: %w", err)
		}
	}

	over := ours + away + held + asked + msats - w.cfg.MaxMsats
	switch {
	case over <= 0:
		return nil
	case over <= asked:
		return fmt.Errorf("%w: %w: %d msats more than the %d allowed, with %d in top-ups that nobody has paid yet: pay those, or wait until they expire",
			payments.ErrAmount, ErrCap, over, w.cfg.MaxMsats, asked)
	}

	return fmt.Errorf("%w: %w: %d msats more than the %d allowed: withdraw some first", payments.ErrAmount, ErrCap, over, w.cfg.MaxMsats)
}
