package wallets

import (
	"cmp"
	"time"

	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/payments/lud16"
	"github.com/lightwork-market/lightwork/payments/onchain"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/relay"
)

// AddressDial bounds connecting to the service of a Lightning address.
const AddressDial = 5 * time.Second

// What a refund may cost in fees unless configured: over Lightning, and on the
// chain.
const (
	refundFeeMsats      = 5000
	chainRefundFeeMsats = 2_000_000
)

// Refunds is nil where debts become credit.
func Refunds(c *config.Config, w Wallet) *provider.Refunds {
	r := c.Provider.Refunds
	if r.CreditOnly || w == nil {
		return nil
	}
	if w, ok := w.(*onchain.Wallet); ok {
		return &provider.Refunds{Wallet: w, Chain: w, MaySpend: c.Spending().Check, MaxFeeMsats: cmp.Or(r.MaxFeeMsats, chainRefundFeeMsats)}
	}
	return &provider.Refunds{
		Wallet: w, MaySpend: c.Spending().Check, MaxFeeMsats: cmp.Or(r.MaxFeeMsats, refundFeeMsats),
		Addresses: lud16.New(lud16.Config{Client: relay.NewPublicClient(AddressDial)}),
	}
}
