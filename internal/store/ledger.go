package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/internal/store/money"
	"github.com/lightwork-market/lightwork/internal/store/row"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// The ledger holds reserved + spent + free = budget after every commit: a
// reservation is made with the invoice it is for, and ends with the payment's
// outcome, each in one transaction.

// dayOf names the budget day of an instant.
func dayOf(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// Reserve moves requested to paying and reserves amount + fee limit.
func (s *BuyerStore) Reserve(ctx context.Context, requestID string, c buyer.Charge, l buyer.Limits) error {
	return s.update(ctx, func(tx *Tx) error { return tx.reserve(requestID, c, l) })
}

func (tx *Tx) reserve(requestID string, c buyer.Charge, l buyer.Limits) error {
	if c.Attempt == nil {
		return fmt.Errorf("reserve for purchase %s: the charge names no payment: %w", requestID, buyer.ErrConflict)
	}

	a := *c.Attempt
	var provider string
	var maxMsats int64
	err := tx.QueryRow("SELECT provider, max_msats FROM purchases WHERE request_id = ?", requestID).Scan(&provider, &maxMsats)
	if err != nil {
		return row.NotFound(err, "purchase "+requestID)
	}
	if err := tx.checkFirstAttempt(requestID, provider, c.BOLT11, a); err != nil {
		return err
	}
	if _, err := tx.purchaseIn(requestID, buyer.StateRequested); err != nil {
		return err
	}

	var before int64 // an engagement fee counts against the job's own maximum
	err = tx.QueryRow("SELECT coalesce(sum(reserved_msats + spent_msats), 0) FROM ledger WHERE request_id = ?", requestID).Scan(&before)
	if err != nil {
		return fmt.Errorf("sum ledger: %w", err)
	}
	if err := tx.checkBudget(provider, maxMsats-before, a, l); err != nil {
		return err
	}

	_, err = tx.Exec(`INSERT INTO attempts(request_id, provider, purpose, payment_hash, amount_msats, fee_limit_msats, rule_id,
			quote, bolt11, acceptance, reserved_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		requestID, provider, a.Purpose, a.PaymentHash[:], a.AmountMsats, a.FeeLimitMsats, a.RuleID,
		row.NotNull(c.Quote), c.BOLT11, row.NotNull(c.Acceptance), a.ReservedAt.UnixMilli())
	if err != nil {
		return fmt.Errorf("record attempt: %w", err)
	}
	if err := money.SetPayer(tx.Tx, a.PaymentHash, a.Wallet); err != nil {
		return err
	}

	err = tx.addLedger(ledgerRow{
		day: dayOf(a.ReservedAt), requestID: requestID, provider: provider, purpose: a.Purpose,
		entry: "reserve", reserved: a.AmountMsats + a.FeeLimitMsats,
	})
	if err != nil {
		return err
	}
	if err := tx.Correlate(requestID, journal.NamePaymentHash, a.PaymentHash.String()); err != nil {
		return err
	}

	return tx.appendPurchaseState(requestID, buyer.StatePaying, "")
}

// checkFirstAttempt refuses a second payment, whatever state the first is in,
// and an invoice that any purchase has seen.
func (tx *Tx) checkFirstAttempt(requestID, provider, bolt11 string, a buyer.Attempt) error {
	var n int
	err := tx.QueryRow(`SELECT count(*) FROM attempts
		WHERE request_id = ? AND provider = ? AND purpose = ? OR payment_hash = ? OR bolt11 = ?`,
		requestID, provider, a.Purpose, a.PaymentHash[:], bolt11).Scan(&n)
	if err != nil {
		return fmt.Errorf("look for attempts: %w", err)
	}
	if n > 0 {
		return fmt.Errorf("purchase %s: %w", requestID, buyer.ErrSecondPayment)
	}
	return nil
}

// checkBudget compares the worst case of the payment with every limit.
func (tx *Tx) checkBudget(provider string, maxMsats int64, a buyer.Attempt, l buyer.Limits) error {
	if err := payments.CheckMsats(a.AmountMsats); err != nil {
		return fmt.Errorf("amount: %w", err)
	}
	if err := payments.CheckMsats(a.FeeLimitMsats); err != nil {
		return fmt.Errorf("fee limit: %w", err)
	}

	want := a.AmountMsats + a.FeeLimitMsats
	if want > maxMsats {
		return &buyer.BudgetError{Limit: "job", WantMsats: want, FreeMsats: max(maxMsats, 0)}
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
			return &buyer.BudgetError{Limit: limit.name, WantMsats: want, FreeMsats: max(free, 0)}
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
func (tx *Tx) budget(day, provider string) (buyer.Budget, error) {
	b := buyer.Budget{Day: day}
	query, args := dayBudget, []any{day}
	if provider != "" {
		query, args = providerBudget, append(args, provider)
	}
	if err := tx.QueryRow(query, args...).Scan(&b.ReservedMsats, &b.SpentMsats); err != nil {
		return b, fmt.Errorf("sum ledger: %w", err)
	}
	return b, nil
}

// Fits reports whether a payment would be within the limits now.
func (s *BuyerStore) Fits(ctx context.Context, provider string, maxMsats int64, a buyer.Attempt, l buyer.Limits) error {
	return s.view(ctx, func(tx *Tx) error { return tx.checkBudget(provider, maxMsats, a, l) })
}

// BudgetOf gives the ledger of the day of at (UTC).
func (s *BuyerStore) BudgetOf(ctx context.Context, at time.Time) (b buyer.Budget, err error) {
	err = s.view(ctx, func(tx *Tx) error {
		b, err = tx.budget(dayOf(at), "")
		return err
	})
	return b, err
}

type ledgerRow struct {
	day, requestID, provider, purpose, entry string
	reserved, spent                          int64
}

func (tx *Tx) addLedger(r ledgerRow) error {
	_, err := tx.Exec(`INSERT INTO ledger(day, request_id, provider, purpose, entry, reserved_msats, spent_msats, at_ms)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, r.day, r.requestID, r.provider, r.purpose, r.entry, r.reserved, r.spent, tx.Now().UnixMilli())
	if err != nil {
		return fmt.Errorf("write ledger: %w", err)
	}
	return nil
}

// Paid moves paying to paid: the reservation becomes spending.
func (s *BuyerStore) Paid(ctx context.Context, requestID string, p payments.Payment) error {
	if !p.Shown() {
		return fmt.Errorf("payment of %s is not proved (%s): %w", requestID, p.State, buyer.ErrConflict)
	}
	return s.resolve(ctx, requestID, p, buyer.StatePaid, "") // or requested again
}

// Unpaid releases the reservation of a payment that failed for good, but for what
// the attempt has cost.
func (s *BuyerStore) Unpaid(ctx context.Context, requestID string, p payments.Payment, to buyer.State, reason string) error {
	if to != buyer.StateFailed && to != buyer.StateCanceled {
		return fmt.Errorf("an unpaid purchase ends as failed or canceled, not as %s: %w", to, buyer.ErrConflict)
	}
	if p.State != payments.PaymentFailed {
		return fmt.Errorf("payment of %s has not failed (%s): %w", requestID, p.State, buyer.ErrConflict)
	}
	p.Preimage, p.Outpoints = payments.Preimage{}, "" // of a failed payment there is none
	return s.resolve(ctx, requestID, p, to, reason)
}

// resolve ends the reservation with the outcome p. The same outcome again
// changes nothing; another is refused.
func (s *BuyerStore) resolve(ctx context.Context, requestID string, p payments.Payment, to buyer.State, reason string) error {
	return s.update(ctx, func(tx *Tx) error {
		if _, err := tx.purchaseIn(requestID, allPurchaseStates()...); err != nil {
			return err
		}
		purpose, err := tx.purposeOf(requestID, p.Hash)
		if err != nil {
			return err
		}
		known, err := tx.paymentFor(requestID, purpose)
		if err != nil {
			return fmt.Errorf("read payment: %w", err)
		}
		if known != nil && *known == p {
			return nil
		}
		if _, err := tx.purchaseIn(requestID, buyer.StatePaying); err != nil {
			return err
		}

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
		if purpose == receipts.PurposeEngagement && to == buyer.StatePaid {
			to = buyer.StateRequested // what comes next is what comes first without a fee
		}
		return tx.appendPurchaseState(requestID, to, reason)
	})
}

// purposeOf is what the payment with this hash is for.
func (tx *Tx) purposeOf(requestID string, hash payments.Hash) (purpose receipts.Purpose, err error) {
	err = tx.QueryRow("SELECT purpose FROM attempts WHERE request_id = ? AND payment_hash = ?", requestID, hash[:]).Scan(&purpose)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", fmt.Errorf("payment %s is not that of purchase %s: %w", hash, requestID, buyer.ErrConflict)
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
func (tx *Tx) endOfReservation(requestID string, p payments.Payment) (ledgerRow, error) {
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
