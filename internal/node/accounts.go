package node

import (
	"context"

	"github.com/lightwork-market/lightwork/internal/store/money"
)

// Accounts are added up by the store.
type (
	// Period is what an account is of, and by what it is added up.
	Period = money.Period
	// Grouping is what an account is added up by.
	Grouping = money.Grouping
	// Sum is what purchases cost, or sales brought, added up.
	Sum = money.Sum
)

// ByParty adds up by whom was paid, or who paid.
const ByParty = money.ByParty

// Spendings adds up what was paid for purchases, whoever ordered them.
func (p *Purchases) Spendings(ctx context.Context, of Period) ([]Sum, error) {
	return p.store.Spendings(ctx, of)
}

// Earnings adds up what came for sales.
func (s *Sales) Earnings(ctx context.Context, of Period) ([]Sum, error) {
	return s.store.Earnings(ctx, of)
}
