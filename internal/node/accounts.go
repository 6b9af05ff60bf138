package node

import (
	"context"

	"github.com/lightwork-market/lightwork/buyer"
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

// StopSpending keeps all money in the wallets of this node, at once and for every
// process, until [Node.ResumeSpending]. What a wallet was told before goes on.
func (c *Node) StopSpending(why string) error { return c.Spending().Stop(why) }

// ResumeSpending lets money go again. What waited goes on.
func (c *Node) ResumeSpending() error { return c.Spending().Resume() }

// KeptBack are the payments that wait while spending is stopped, and those that a wallet
// was told of before, which go on.
type KeptBack struct {
	Purchases    int   `json:"purchases_waiting"`
	InFlight     int   `json:"purchases_in_flight"`
	BuyingMsats  int64 `json:"purchases_msats"` // of both, fees included
	Refunds      int   `json:"refunds"`         // that have not ended
	RefundsMsats int64 `json:"refunds_msats"`
}

// KeptBack counts the payments that have not ended.
func (c *Node) KeptBack(ctx context.Context) (k KeptBack, err error) {
	err = c.Databases().ReadPurchases(ctx, func(bought *Purchases) error {
		if bought == nil {
			return nil
		}
		list, err := bought.store.Purchases(ctx, 0)
		for _, p := range list {
			due, _ := p.Due()
			if p.State != buyer.StatePaying || p.GivenUp() || due == nil {
				continue
			}
			k.BuyingMsats += due.AmountMsats + due.FeeLimitMsats
			if due.Sent == 0 {
				k.Purchases++
			} else {
				k.InFlight++
			}
		}
		return err
	})
	if err != nil {
		return k, err
	}

	err = c.Databases().ReadSales(ctx, func(sold *Sales) error {
		if sold == nil {
			return nil
		}
		list, err := sold.store.OpenRefunds(ctx)
		for _, r := range list {
			k.Refunds++
			k.RefundsMsats += r.Msats
		}
		return err
	})
	return k, err
}
