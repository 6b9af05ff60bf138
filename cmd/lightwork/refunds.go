package main

import (
	"time"

	"github.com/lightwork-market/lightwork/payments/lud16"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/relay"
)

// addressDial bounds connecting to the service of a Lightning address.
const addressDial = 5 * time.Second

// refundFeeMsats is what a refund may cost in routing fees unless configured.
const refundFeeMsats = 5000

// refundConfig says how failed prepaid jobs are paid back.
type refundConfig struct {
	CreditOnly  bool  `yaml:"credit_only"`
	MaxFeeMsats int64 `yaml:"max_fee_msats"`
}

// refunds is nil where debts become credit: on the chain they always do.
func (c *config) refunds(w wallet) *provider.Refunds {
	r := c.Provider.Refunds
	if r.CreditOnly || w == nil || c.Provider.Wallet.Backend == backendOnchain {
		return nil
	}
	fee := r.MaxFeeMsats
	if fee == 0 {
		fee = refundFeeMsats
	}
	return &provider.Refunds{
		Wallet: w, MaxFeeMsats: fee,
		Addresses: lud16.New(lud16.Config{Client: relay.NewPublicClient(addressDial)}),
	}
}
