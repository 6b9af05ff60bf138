package provider_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// TestHiddenSizes: results around and above what NIP-44 once took travel in
// boxes; a request that fits no event is refused where it is made.
func TestHiddenSizes(t *testing.T) {
	w := newWorld(t)
	size := make(chan int, 1)
	w.runner.do = func(context.Context, provider.Run) (provider.Outcome, error) {
		doc, err := json.Marshal(schemas.TextResult{Text: strings.Repeat("x", <-size), Provenance: schemas.Provenance{ModelID: "m", ProviderPubkey: w.runner.key}})
		return provider.Outcome{Output: doc}, err
	}
	w.serve(t, func(cfg *provider.Config) {
		w.hidden(cfg)
		cfg.Offers = []provider.Offer{textOffer()}
	})
	c := w.customer(t, nil)
	c.client = c.open(t, func(cfg *buyer.Config) { cfg.Cipher = c.key })
	place := func(prompt int) (buyer.Purchase, error) {
		return c.client.Place(w.ctx, buyer.Order{
			Provider: w.seller.key.PublicKey(), SchemaID: string(schemas.TextGeneration), MaxMsats: maxMsats, Mode: receipts.ModeFree, Encrypt: true,
			Input: fmt.Appendf(nil, `{"prompt":%q}`, strings.Repeat("p", prompt)),
		})
	}
	for _, n := range []int{65_535, 65_536, 70_000} {
		size <- n
		p, err := place(40_000)
		check(t, err)
		p, err = w.follow(t, c, p.RequestID, nil).wait()
		if err != nil || p.State != buyer.StateDone || !strings.Contains(string(p.Output), strings.Repeat("x", n)) {
			t.Fatalf("%d bytes: %s (%s), %v", n, p.State, p.Reason, err)
		}
	}
	if _, err := place(41_000); err == nil || !strings.Contains(err.Error(), "at most 40960 fit an event encrypted") {
		t.Errorf("a request that fits no event: %v", err)
	}
}
