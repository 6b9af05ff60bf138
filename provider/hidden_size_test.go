package provider_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// TestHiddenSizes: results around and above what NIP-44 once took travel in
// boxes; a request that fits no event is refused where it is made.
func TestHiddenSizes(t *testing.T) {
	w := markettest.New(t)
	size := make(chan int, 1)
	w.Runner.Do = func(context.Context, provider.Run) (provider.Outcome, error) {
		doc, err := json.Marshal(schemas.TextResult{Text: strings.Repeat("x", <-size), Provenance: schemas.Provenance{ModelID: "m", ProviderPubkey: w.Runner.Key}})
		return provider.Outcome{Output: doc}, err
	}
	w.Serve(t, func(cfg *provider.Config) {
		w.ReadsHidden(cfg)
		cfg.Offers = []provider.Offer{markettest.TextOffer()}
	})
	c := w.NewCustomer(t, nil)
	c.Client = c.Open(t, func(cfg *buyer.Config) { cfg.Cipher = c.Key })
	place := func(prompt int) (buyer.Purchase, error) {
		return c.Client.Place(w.Ctx, buyer.Order{
			Provider: w.Seller.Key.PublicKey(), SchemaID: string(schemas.TextGeneration), MaxMsats: markettest.MaxMsats, Mode: receipts.ModeFree, Encrypt: true,
			Input: fmt.Appendf(nil, `{"prompt":%q}`, strings.Repeat("p", prompt)),
		})
	}
	for _, n := range []int{65_535, 65_536, 70_000} {
		size <- n
		p, err := place(40_000)
		markettest.Check(t, err)
		p, err = w.Follow(t, c, p.RequestID, nil).Wait()
		if err != nil || p.State != buyer.StateDone || !strings.Contains(string(p.Output), strings.Repeat("x", n)) {
			t.Fatalf("%d bytes: %s (%s), %v", n, p.State, p.Reason, err)
		}
	}
	if _, err := place(41_000); err == nil || !strings.Contains(err.Error(), "at most 40960 fit an event encrypted") {
		t.Errorf("a request that fits no event: %v", err)
	}
}
