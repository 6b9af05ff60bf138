package buyer_test

import (
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// TestBuyerWorksForFreeJobs: the buyer does the work that the announcement asks
// for, within reason.
func TestBuyerWorksForFreeJobs(t *testing.T) {
	w := markettest.New(t)
	w.Serve(t, func(cfg *provider.Config) { cfg.Limits.FreePoW = 8 })
	c := w.NewCustomer(t, nil)
	place := func(bits int) (buyer.Purchase, error) {
		return c.Client.Place(w.Ctx, buyer.Order{
			Provider: w.Seller.Key.PublicKey(), SchemaID: string(schemas.SandboxRun), Input: markettest.SandboxInput(""), Mode: receipts.ModeFree,
			Announced: &buyer.Listing{FreePoW: bits},
		})
	}
	p, err := place(8)
	markettest.Check(t, err)
	w.Sold(t, c, w.Follow(t, c, p.RequestID, nil), receipts.ModeFree)
	if _, err := place(40); err == nil || !strings.Contains(err.Error(), "40 bits") {
		t.Errorf("40 bits: %v", err)
	}
}
