package panel

import (
	"fmt"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/schemas"
)

// feeOf is the engagement fee that a provider announces for a judged or merged job.
func feeOf(l buyer.Listing, req *schemas.Request, rule Rule) int64 {
	if !rule.subjective() {
		return 0
	}
	return l.Prices[string(req.SchemaID)].Engagement(req, true)
}

// chosen divides the maximum where all may ask a fee and one is paid its price:
// each member may take what the fees of the others, with as much again for their
// routing, leave of it.
func (o Order) chosen(req *schemas.Request) ([]int64, error) {
	parts, fees := make([]int64, len(o.Members)), int64(0)
	for _, l := range o.Members {
		fee := feeOf(l, req, o.Rule)
		if fee < 0 || fee > payments.MaxMsats/64 {
			return nil, fmt.Errorf("provider %s announces an engagement fee of %d msats", l.Provider, fee)
		}
		fees += 2 * fee
	}

	for i, l := range o.Members {
		fee := feeOf(l, req, o.Rule)
		parts[i] = o.MaxMsats - (fees - 2*fee)
		if price, ok := l.Price(req); parts[i] < fee || ok && parts[i] < price+fee {
			return nil, fmt.Errorf("the engagement fees of the %d providers and the price of one are above the maximum of %d msats", len(o.Members), o.MaxMsats)
		}
	}
	return parts, nil
}
