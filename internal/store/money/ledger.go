package money

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/internal/store/row"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// The ledger holds reserved + spent + free = budget after every commit: a
// reservation is made with the invoice it is for, and ends with the payment's
// outcome, each in one transaction.

// Ledger is a transaction as far as it is about what a buyer reserves and spends.
type Ledger struct{ *row.Tx }

// dayOf names the budget day of an instant.
func dayOf(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// CheckFirst refuses a second payment, whatever state the first is in,
// and an invoice that any purchase has seen.
func (tx Ledger) CheckFirst(requestID, provider, bolt11 string, a purchase.Attempt) error {
	var n int
	err := tx.QueryRow(`SELECT count(*) FROM attempts
		WHERE request_id = ? AND provider = ? AND purpose = ? OR payment_hash = ? OR bolt11 = ?`,
		requestID, provider, a.Purpose, a.PaymentHash[:], bolt11).Scan(&n)
	if err != nil {
		return fmt.Errorf("look for attempts: %w", err)
	}
	if n > 0 {
		return fmt.Errorf("purchase %s: %w", requestID, purchase.ErrSecondPayment)
	}
	return nil
}

// Reserve reserves the amount and the fee limit of a payment that is about to be begun,
// within the job's maximum and the limits.
func (tx Ledger) Reserve(requestID, provider string, maxMsats int64, c purchase.Charge, l purchase.Limits) error {
	a := *c.Attempt
	var before int64 // an engagement fee counts against the job's own maximum
	err := tx.QueryRow("SELECT coalesce(sum(reserved_msats + spent_msats), 0) FROM ledger WHERE request_id = ?", requestID).Scan(&before)
	if err != nil {
		return fmt.Errorf("sum ledger: %w", err)
	}
	if err := tx.CheckBudget(provider, maxMsats-before, a, l); err != nil {
		return err
	}

	_, err = tx.Exec(`INSERT INTO attempts(request_id, provider, purpose, payment_hash, amount_msats, fee_limit_msats, rule_id,
			quote, bolt11, acceptance, reserved_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		requestID, provider, a.Purpose, a.PaymentHash[:], a.AmountMsats, a.FeeLimitMsats, a.RuleID,
		row.NotNull(c.Quote), c.BOLT11, row.NotNull(c.Acceptance), a.ReservedAt.UnixMilli())
	if err != nil {
		return fmt.Errorf("record attempt: %w", err)
	}
	if err := SetPayer(tx.Tx, a.PaymentHash, a.Wallet); err != nil {
		return err
	}

	return tx.addLedger(ledgerRow{
		day: dayOf(a.ReservedAt), requestID: requestID, provider: provider, purpose: a.Purpose,
		entry: "reserve", reserved: a.AmountMsats + a.FeeLimitMsats,
	})
}

// CheckBudget compares the worst case of the payment with every limit.
func (tx Ledger) CheckBudget(provider string, maxMsats int64, a purchase.Attempt, l purchase.Limits) error {
	if err := payments.CheckMsats(a.AmountMsats); err != nil {
		return fmt.Errorf("amount: %w", err)
	}
	if err := payments.CheckMsats(a.FeeLimitMsats); err != nil {
		return fmt.Errorf("fee limit: %w", err)
	}

	want := a.AmountMsats + a.FeeLimitMsats
	if want > maxMsats {
		return &purchase.BudgetError{Limit: "job", WantMsats: want, FreeMsats: max(maxMsats, 0)}
	}

	for _, limit := range []struct {
		name, provider string
		msats          int64
	}{{"day", "", l.DayMsats}, {"provider", provider, l.ProviderMsats}} {
		if limit.msats == 0 {
			continue
		}
		b, err := tx.budget(dayOf(a.ReservedAt), limit.provider)
		if err != nil {
			return err
		}
		if free := limit.msats - b.ReservedMsats - b.SpentMsats; want > free {
			return &purchase.BudgetError{Limit: limit.name, WantMsats: want, FreeMsats: max(free, 0)}
		}
	}

	return nil
}

// The sums of a day, of all providers and of one.
const (
	dayBudget      = "SELECT coalesce(sum(reserved_msats), 0), coalesce(sum(spent_msats), 0) FROM ledger_days WHERE day = ?"
	providerBudget = dayBudget + " AND provider = ?"
)

// budget sums the ledger of a day, of one provider or, if that is "", of all.
func (tx Ledger) budget(day, provider string) (purchase.Budget, error) {
	b := purchase.Budget{Day: day}
	query, args := dayBudget, []any{day}
	if provider != "" {
		query, args = providerBudget, append(args, provider)
	}
	if err := tx.QueryRow(query, args...).Scan(&b.ReservedMsats, &b.SpentMsats); err != nil {
		return b, fmt.Errorf("sum ledger: %w", err)
	}
	return b, nil
}

// BudgetOf gives the ledger of the day of at (UTC).
func (tx Ledger) BudgetOf(at time.Time) (purchase.Budget, error) { return tx.budget(dayOf(at), "") }

type ledgerRow struct {
	day, requestID, provider, purpose, entry string
	reserved, spent                          int64
}

func (tx Ledger) addLedger(r ledgerRow) error {
	_, err := tx.Exec(`INSERT INTO ledger(day, request_id, provider, purpose, entry, reserved_msats, spent_msats, at_ms)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, r.day, r.requestID, r.provider, r.purpose, r.entry, r.reserved, r.spent, tx.Now().UnixMilli())
	if err != nil {
		return fmt.Errorf("write ledger: %w", err)
	}
	return nil
}

// Resolve ends the reservation of a payment with its outcome.
func (tx Ledger) Resolve(requestID string, purpose receipts.Purpose, p payments.Payment) error {
	end, err := tx.endOfReservation(requestID, p)
	if err != nil {
		return err
	}
	if err := tx.addLedger(end); err != nil {
		return err
	}

	_, err = tx.Exec(`INSERT INTO purchase_payments(request_id, purpose, payment_hash, state, amount_msats, fee_msats, preimage, failure_reason, at_ms, outpoints)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		requestID, string(purpose), p.Hash[:], string(p.State), p.AmountMsats, p.FeeMsats, row.Blob(p.Preimage), p.FailureReason, tx.Now().UnixMilli(), p.Outpoints)
	if err != nil {
		return fmt.Errorf("record payment: %w", err)
	}
	return nil
}

// PurposeOf is what the payment with this hash is for.
func (tx Ledger) PurposeOf(requestID string, hash payments.Hash) (purpose receipts.Purpose, err error) {
	err = tx.QueryRow("SELECT purpose FROM attempts WHERE request_id = ? AND payment_hash = ?", requestID, hash[:]).Scan(&purpose)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", fmt.Errorf("payment %s is not that of purchase %s: %w", hash, requestID, purchase.ErrConflict)
	case err != nil:
		return "", fmt.Errorf("look for attempts: %w", err)
	}
	return purpose, nil
}

// endOfReservation is the ledger's row for the outcome. It belongs to the day
// of the reservation, so that no day's reserved sum outlives its payments. What
// was spent is what the wallet says, even above the reservation: the money is
// gone. It is never less than the invoice: a wallet that forgets to say how much
// it paid must not leave room for more.
func (tx Ledger) endOfReservation(requestID string, p payments.Payment) (ledgerRow, error) {
	r := ledgerRow{requestID: requestID, entry: "release"}
	var invoiced int64
	err := tx.QueryRow(`SELECT l.day, l.provider, l.purpose, -l.reserved_msats, a.amount_msats
		FROM ledger l JOIN attempts a ON a.request_id = l.request_id AND a.purpose = l.purpose
		WHERE l.request_id = ? AND l.entry = 'reserve' AND a.payment_hash = ?`, requestID, p.Hash[:]).
		Scan(&r.day, &r.provider, &r.purpose, &r.reserved, &invoiced)
	if err != nil {
		return r, row.NotFound(err, "reservation of "+requestID)
	}

	switch {
	case p.State == payments.PaymentSucceeded:
		r.entry, r.spent = "spend", max(p.AmountMsats, invoiced)+p.FeeMsats
	case p.FeeMsats > 0: // what a mint takes of notes that come back
		r.entry, r.spent = "spend", p.FeeMsats
	}

	return r, nil
}

// ReadAttempt reads what is paid for a purpose into c; nothing before an offer was
// accepted.
func (tx Ledger) ReadAttempt(requestID string, purpose receipts.Purpose, c *purchase.Charge) error {
	var a purchase.Attempt
	var reserved int64
	err := tx.QueryRow(`SELECT purpose, payment_hash, amount_msats, fee_limit_msats, rule_id, quote, bolt11, acceptance, reserved_ms
		FROM attempts WHERE request_id = ? AND purpose = ?`, requestID, string(purpose)).
		Scan(&a.Purpose, row.Into(&a.PaymentHash), &a.AmountMsats, &a.FeeLimitMsats, &a.RuleID, &c.Quote, &c.BOLT11, &c.Acceptance, &reserved)

	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return err
	}

	if len(c.Quote) == 0 { // a plain NIP-90 provider's invoice comes without
		c.Quote, c.Acceptance = nil, nil
	}
	a.ReservedAt = row.FromMs(reserved)
	if err := tx.attemptWallet(&a); err != nil {
		return err
	}
	c.Attempt = &a
	c.Payment, err = tx.PaymentFor(requestID, purpose)
	return err
}

// PaymentFor returns how a payment ended, nil while it has not.
func (tx Ledger) PaymentFor(requestID string, purpose receipts.Purpose) (*payments.Payment, error) {
	var p payments.Payment
	err := tx.QueryRow(`SELECT payment_hash, state, amount_msats, fee_msats, preimage, failure_reason, outpoints
		FROM purchase_payments WHERE request_id = ? AND purpose = ?`, requestID, string(purpose)).
		Scan(row.Into(&p.Hash), &p.State, &p.AmountMsats, &p.FeeMsats, row.Into(&p.Preimage), &p.FailureReason, &p.Outpoints)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &p, err
}

// attemptWallet reads which wallet an attempt is paid by, and how often that was
// told to.
func (tx Ledger) attemptWallet(a *purchase.Attempt) (err error) {
	if a.Wallet, err = Payer(tx.Tx, a.PaymentHash); err != nil {
		return err
	}
	if err := tx.QueryRow("SELECT count(*) FROM sent_payments WHERE payment_hash = ?", a.PaymentHash[:]).Scan(&a.Sent); err != nil {
		return fmt.Errorf("count how often a payment was sent: %w", err)
	}
	return nil
}
