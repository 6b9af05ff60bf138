package provider_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
)

// fullWallet takes no more money.
type fullWallet struct{ provider.Wallet }

func (fullWallet) CreateInvoice(context.Context, payments.NewInvoice) (payments.Invoice, error) {
	return payments.Invoice{}, fmt.Errorf("create invoice: %w: more than may be kept there", payments.ErrAmount)
}

// A provider whose wallet can take no payment says so, and keeps nobody waiting.
func TestWalletIsFull(t *testing.T) {
	s := openShop(t, func(c *provider.Config) { c.Wallet = fullWallet{c.Wallet} })
	status := s.answer(s.request(nil)).Tags.Find("status")
	if status[1] != "error" || !strings.HasPrefix(status[2], "over_capacity: ") {
		t.Errorf("%v", status)
	}
	jobs, err := s.store.Jobs(t.Context(), 0)
	if err != nil || len(jobs) != 1 || jobs[0].State != provider.StateFailed {
		t.Errorf("%+v, %v", jobs, err)
	}
}
