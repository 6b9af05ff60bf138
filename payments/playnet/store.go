package playnet

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/payments"
)

// All SQL but the schema and the audit is in this file. Its functions run inside one
// transaction of the ledger's and decide nothing.

// The accounts that are nobody's wallet; a wallet's name has no @.
const (
	accountIssued = "@issued"
	accountHeld   = "@held"
	accountFees   = "@fees"
)

type invoiceRow struct {
	hash            payments.Hash
	wallet          string
	bolt11          string
	amountMsats     int64
	descriptionHash hashing.Digest
	expirySeconds   int64
	hold            bool
	preimage        payments.Preimage // zero while the ledger does not know it
	state           payments.InvoiceState
	deadline        time.Time // zero once settled or canceled
	settledAt       time.Time
	canceledWhy     string
}

type paymentRow struct {
	hash        payments.Hash
	payer       string
	state       payments.PaymentState
	amountMsats int64
	feeMsats    int64
	failure     string
}

type walletRow struct {
	name      string
	tokenHash [32]byte
	nodeKey   [32]byte
	pubKey    string
}

// insertMove moves money; the trigger of the schema changes both balances.
func insertMove(tx *sqlite.Tx, at time.Time, src, dst string, msats int64, why string, hash *payments.Hash) error {
	var h []byte
	if hash != nil {
		h = hash[:]
	}
	_, err := tx.Exec(`INSERT INTO moves (at_ms, src, dst, msats, why, payment_hash) VALUES (?, ?, ?, ?, ?, ?)`,
		millis(at), src, dst, msats, why, h)
	if err != nil {
		return fmt.Errorf("move money (%s): %w", why, err)
	}
	return nil
}

func selectBalance(tx *sqlite.Tx, account string) (msats int64, err error) {
	err = tx.QueryRow(`SELECT balance_msats FROM accounts WHERE name = ?`, account).Scan(&msats)
	return msats, wrapRead("balance", err)
}

func insertWallet(tx *sqlite.Tx, at time.Time, w walletRow) error {
	if _, err := tx.Exec(`INSERT INTO accounts (name) VALUES (?)`, w.name); err != nil {
		return fmt.Errorf("write account: %w", err)
	}
	_, err := tx.Exec(`INSERT INTO wallets (name, token_hash, node_key, pub_key, opened_ms) VALUES (?, ?, ?, ?, ?)`,
		w.name, w.tokenHash[:], w.nodeKey[:], w.pubKey, millis(at))
	if err != nil {
		return fmt.Errorf("write wallet: %w", err)
	}
	return nil
}

func countWallets(tx *sqlite.Tx) (n int, err error) {
	err = tx.QueryRow(`SELECT count(*) FROM wallets`).Scan(&n)
	return n, wrapRead("wallets", err)
}

const walletColumns = `SELECT name, token_hash, node_key, pub_key FROM wallets WHERE `

func selectWalletByName(tx *sqlite.Tx, name string) (walletRow, error) {
	return scanWallet(tx.QueryRow(walletColumns+`name = ?`, name))
}

func selectWalletByToken(tx *sqlite.Tx, hash [32]byte) (walletRow, error) {
	return scanWallet(tx.QueryRow(walletColumns+`token_hash = ?`, hash[:]))
}

func scanWallet(row *sqlite.Row) (w walletRow, err error) {
	err = row.Scan(&w.name, blob32{&w.tokenHash}, blob32{&w.nodeKey}, &w.pubKey)
	return w, wrapRead("wallet", err)
}

func insertInvoice(tx *sqlite.Tx, r invoiceRow) error {
	var preimage []byte
	if !r.preimage.IsZero() {
		preimage = r.preimage[:]
	}
	_, err := tx.Exec(`INSERT INTO invoices (payment_hash, wallet, bolt11, amount_msats, description_hash, expiry_s, hold,
		preimage, state, deadline_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'open', ?)`,
		r.hash[:], r.wallet, r.bolt11, r.amountMsats, r.descriptionHash[:], r.expirySeconds, r.hold, preimage, millis(r.deadline))
	if err != nil {
		return fmt.Errorf("write invoice: %w", err)
	}
	return nil
}

// selectInvoice returns payments.ErrNotFound where there is none.
func selectInvoice(tx *sqlite.Tx, hash payments.Hash) (invoiceRow, error) {
	r := invoiceRow{hash: hash}
	var deadline, settled sql.NullInt64
	var why sql.NullString
	err := tx.QueryRow(`SELECT wallet, bolt11, amount_msats, description_hash, expiry_s, hold, preimage, state,
		deadline_ms, settled_ms, canceled_why FROM invoices WHERE payment_hash = ?`, hash[:]).
		Scan(&r.wallet, &r.bolt11, &r.amountMsats, blob32{(*[32]byte)(&r.descriptionHash)}, &r.expirySeconds, &r.hold,
			blob32{(*[32]byte)(&r.preimage)}, &r.state, &deadline, &settled, &why)
	r.deadline, r.settledAt, r.canceledWhy = fromMillis(deadline), fromMillis(settled), why.String
	return r, wrapRead("invoice", err)
}

func updateHeld(tx *sqlite.Tx, hash payments.Hash, settleBy time.Time) error {
	return execOne(tx, "hold invoice", `UPDATE invoices SET state = 'held', deadline_ms = ? WHERE payment_hash = ? AND state = 'open'`,
		millis(settleBy), hash[:])
}

func updateSettled(tx *sqlite.Tx, hash payments.Hash, preimage payments.Preimage, at time.Time) error {
	return execOne(tx, "settle invoice", `UPDATE invoices SET state = 'settled', deadline_ms = NULL, settled_ms = ?, preimage = ?
		WHERE payment_hash = ? AND state IN ('open', 'held')`, millis(at), preimage[:], hash[:])
}

func updateCanceled(tx *sqlite.Tx, hash payments.Hash, why string) error {
	return execOne(tx, "cancel invoice", `UPDATE invoices SET state = 'canceled', deadline_ms = NULL, canceled_why = ?
		WHERE payment_hash = ? AND state IN ('open', 'held')`, why, hash[:])
}

// putPayment writes an attempt over a failed one of the same payer; over any
// other it fails.
func putPayment(tx *sqlite.Tx, p paymentRow) error {
	return execOne(tx, "write payment", `INSERT INTO payments (payment_hash, payer, state, amount_msats, fee_msats, failure)
		VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (payment_hash, payer) DO UPDATE SET state = excluded.state,
		amount_msats = excluded.amount_msats, fee_msats = excluded.fee_msats, failure = excluded.failure
		WHERE payments.state = 'failed'`, p.hash[:], p.payer, p.state, p.amountMsats, p.feeMsats, p.failure)
}

func updatePaymentEnded(tx *sqlite.Tx, hash payments.Hash, state payments.PaymentState, failure string) error {
	return execOne(tx, "end payment", `UPDATE payments SET state = ?, failure = ? WHERE payment_hash = ? AND state = 'in_flight'`,
		state, failure, hash[:])
}

const paymentColumns = `SELECT payer, state, amount_msats, fee_msats, failure FROM payments WHERE payment_hash = ? AND `

func selectPayment(tx *sqlite.Tx, hash payments.Hash, payer string) (paymentRow, error) {
	return scanPayment(hash, tx.QueryRow(paymentColumns+`payer = ?`, hash[:], payer))
}

func selectInFlight(tx *sqlite.Tx, hash payments.Hash) (paymentRow, error) {
	return scanPayment(hash, tx.QueryRow(paymentColumns+`state = 'in_flight'`, hash[:]))
}

func scanPayment(hash payments.Hash, row *sqlite.Row) (paymentRow, error) {
	p := paymentRow{hash: hash}
	err := row.Scan(&p.payer, &p.state, &p.amountMsats, &p.feeMsats, &p.failure)
	return p, wrapRead("payment", err)
}

// sumReserved is what the wallet has in flight, fees included.
func sumReserved(tx *sqlite.Tx, payer string) (msats int64, err error) {
	err = tx.QueryRow(`SELECT coalesce(sum(amount_msats + fee_msats), 0) FROM payments WHERE payer = ? AND state = 'in_flight'`,
		payer).Scan(&msats)
	return msats, wrapRead("payments", err)
}

func sumReceived(tx *sqlite.Tx, wallet string) (msats int64, err error) {
	err = tx.QueryRow(`SELECT coalesce(sum(amount_msats), 0) FROM invoices WHERE wallet = ? AND state = 'settled'`,
		wallet).Scan(&msats)
	return msats, wrapRead("invoices", err)
}

// selectNextDeadline is the zero time when nothing is open or held.
func selectNextDeadline(tx *sqlite.Tx) (time.Time, error) {
	var ms sql.NullInt64
	err := tx.QueryRow(`SELECT min(deadline_ms) FROM invoices WHERE deadline_ms IS NOT NULL`).Scan(&ms)
	return fromMillis(ms), wrapRead("deadlines", err)
}

func selectOverdue(tx *sqlite.Tx, now time.Time, limit int) ([]payments.Hash, error) {
	return selectHashes(tx, `SELECT payment_hash FROM invoices WHERE deadline_ms <= ? ORDER BY deadline_ms LIMIT ?`, millis(now), limit)
}

func insertChange(tx *sqlite.Tx, wallet string, hash payments.Hash) error {
	if _, err := tx.Exec(`INSERT INTO changes (wallet, payment_hash) VALUES (?, ?)`, wallet, hash[:]); err != nil {
		return fmt.Errorf("write change: %w", err)
	}
	return nil
}

// selectLastChange is 0 before the first.
func selectLastChange(tx *sqlite.Tx) (seq int64, err error) {
	err = tx.QueryRow(`SELECT coalesce(max(seq), 0) FROM changes`).Scan(&seq)
	return seq, wrapRead("changes", err)
}

// selectChanges lists the hashes that changed after seq, each once, with the
// sequence number to go on from.
func selectChanges(tx *sqlite.Tx, wallet string, after int64, limit int) (hashes []payments.Hash, last int64, err error) {
	rows, err := tx.Query(`SELECT seq, payment_hash FROM changes WHERE wallet = ? AND seq > ? ORDER BY seq LIMIT ?`, wallet, after, limit)
	if err != nil {
		return nil, 0, fmt.Errorf("read changes: %w", err)
	}
	defer rows.Close()

	seen := map[payments.Hash]bool{}
	last = after
	for rows.Next() {
		var h payments.Hash
		if err := rows.Scan(&last, blob32{(*[32]byte)(&h)}); err != nil {
			return nil, 0, fmt.Errorf("read changes: %w", err)
		}
		if !seen[h] {
			seen[h] = true
			hashes = append(hashes, h)
		}
	}

	return hashes, last, wrapRead("changes", rows.Err())
}

func selectHashes(tx *sqlite.Tx, query string, args ...any) ([]payments.Hash, error) {
	rows, err := tx.Query(query, args...)
	if err != nil {
		return nil, fmt.Errorf("read invoices: %w", err)
	}
	defer rows.Close()

	var hashes []payments.Hash
	for rows.Next() {
		var h payments.Hash
		if err := rows.Scan(blob32{(*[32]byte)(&h)}); err != nil {
			return nil, fmt.Errorf("read invoices: %w", err)
		}
		hashes = append(hashes, h)
	}

	return hashes, wrapRead("invoices", rows.Err())
}

// execOne demands that exactly one row is written.
func execOne(tx *sqlite.Tx, what, query string, args ...any) error {
	result, err := tx.Exec(query, args...)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		return fmt.Errorf("%s: %d rows in place of one (%v)", what, n, err)
	}
	return nil
}

func wrapRead(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("%w: %s", payments.ErrNotFound, what)
	}
	return fmt.Errorf("read %s: %w", what, err)
}
