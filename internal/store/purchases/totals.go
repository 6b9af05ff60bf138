package purchases

import (
	"context"
	"fmt"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/store/money"
)

// Totals are sums over all purchases.
type Totals struct {
	States               map[buyer.State]int
	PaidMsats, FeesMsats int64 // of payments for results, routing fees apart
	RefundedMsats        int64
	ReservedMsats        int64 // of payments under way, or held
	UnknownMsats         int64 // of those given up with their wallet
}

const (
	endedTotals = "SELECT done, failed, canceled, paid_msats, fees_msats, refunded_msats FROM purchase_totals"
	openCounts  = `SELECT c.state, count(*) FROM open_purchases o CROSS JOIN purchase_current c USING (request_id) GROUP BY c.state`
	openSum     = `SELECT coalesce(sum(a.amount_msats), 0) FROM open_purchases o CROSS JOIN attempts a USING (request_id)
		LEFT JOIN purchase_payments m ON m.request_id = o.request_id AND m.purpose = 'result' AND m.state = 'succeeded'
		WHERE a.purpose = 'result' AND m.request_id IS NULL`
	givenUpIDs = "SELECT DISTINCT request_id FROM purchase_states WHERE state = 'paying' AND reason <> ''"
)

// Totals adds up the purchases, of which it reads the open ones and those given up.
func (s *Store) Totals(ctx context.Context) (t Totals, err error) {
	err = s.view(ctx, func(tx *transaction) error {
		if t, err = tx.purchaseTotals(); err != nil {
			return fmt.Errorf("add up purchases: %w", err)
		}
		return nil
	})
	return t, err
}

func (tx *transaction) purchaseTotals() (t Totals, err error) {
	var done, failed, canceled int
	if err := tx.QueryRow(endedTotals).Scan(&done, &failed, &canceled, &t.PaidMsats, &t.FeesMsats, &t.RefundedMsats); err != nil {
		return t, err
	}
	t.States = map[buyer.State]int{buyer.StateDone: done, buyer.StateFailed: failed, buyer.StateCanceled: canceled}
	if err := tx.QueryRow(openSum).Scan(&t.ReservedMsats); err != nil {
		return t, err
	}
	rows, err := tx.Query(openCounts)
	if err != nil {
		return t, err
	}
	defer rows.Close()

	for rows.Next() {
		var state buyer.State
		var n int
		if err := rows.Scan(&state, &n); err != nil {
			return t, err
		}
		t.States[state] = n
	}

	if err := rows.Err(); err != nil {
		return t, err
	}
	givenUp, err := tx.Strings(givenUpIDs)
	if err != nil {
		return t, err
	}

	for _, id := range givenUp {
		p, err := tx.purchase(id)
		if err != nil {
			return t, err
		}
		if p.GivenUp() { // or its wallet was found again
			t.States[p.State]++
			t.UnknownMsats += p.GivenUpMsats()
		}
	}

	return t, nil
}

// Spendings adds up what was paid for purchases.
func (s *Store) Spendings(ctx context.Context, p money.Period) ([]money.Sum, error) {
	return money.Spendings(ctx, s.db, p)
}
