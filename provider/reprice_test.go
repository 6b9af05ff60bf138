package provider_test

import (
	"context"
	"sync"
	"testing"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// dearer are the offers of the world's provider at another price, and the policy that
// says so.
func dearer(perMinute int64) ([]provider.Offer, receipts.Policy) {
	policy := markettest.Policy()
	policy.Prices = []receipts.PolicyPrice{{SchemaID: string(schemas.SandboxRun), Modes: markettest.AllModes, Price: receipts.Price{PerMinuteMsats: perMinute}}}
	return []provider.Offer{{SchemaID: string(schemas.SandboxRun), Modes: markettest.AllModes, PerMinuteMsats: perMinute}}, policy
}

// TestReprice: other prices are announced and quoted while a job that was quoted before
// ends at its own, under its own policy.
func TestReprice(t *testing.T) {
	w := markettest.New(t)
	c := w.NewCustomer(t, nil)
	begun, goOn := make(chan struct{}, 1), make(chan struct{})
	w.Runner.Do = func(ctx context.Context, _ provider.Run) (provider.Outcome, error) {
		begun <- struct{}{}
		select {
		case <-goOn:
			return w.Runner.Good(nil)
		case <-ctx.Done():
			return provider.Outcome{}, ctx.Err()
		}
	}
	w.Serve(t, nil)
	before, _ := awaitAnnounced(t, w, c, func(provider.Announcement) bool { return true })
	old := w.Follow(t, c, w.Place(t, c, receipts.ModeHold, markettest.SandboxInput("")).RequestID, nil)
	<-begun

	offers, policy := dearer(2 * markettest.RateMsats)
	markettest.Check(t, w.Selling.Reprice(t.Context(), offers, policy))
	manifest, err := policy.Canonical()
	markettest.Check(t, err)
	id := hashing.Bytes(manifest)
	after, _ := awaitAnnounced(t, w, c, func(a provider.Announcement) bool { return a.Lightwork.PolicyBundleID == id.String() })
	if got := after.Lightwork.Prices[string(schemas.SandboxRun)].PerMinuteMsats; got != 2*markettest.RateMsats || before.Lightwork.PolicyBundleID == id.String() {
		t.Errorf("announced %d msats a minute under %s", got, after.Lightwork.PolicyBundleID)
	}

	close(goOn)
	p := w.Sold(t, c, old, receipts.ModeHold)
	if j := w.Job(t, p.RequestID); j.PriceMsats != markettest.RateMsats || j.PolicyID.String() != before.Lightwork.PolicyBundleID {
		t.Errorf("the job under way ended at %d msats under %s", j.PriceMsats, j.PolicyID)
	}

	id2 := w.Place(t, c, receipts.ModeHold, markettest.SandboxInput("")).RequestID
	if p, err := w.Follow(t, c, id2, nil).Wait(); err != nil {
		t.Fatalf("the next purchase: %s, %v", p.Reason, err)
	}
	if j := w.Job(t, id2); j.PriceMsats != 2*markettest.RateMsats || j.PolicyID != id {
		t.Errorf("the next job was quoted %d msats under %s", j.PriceMsats, j.PolicyID)
	}
}

// TestRepriceRefused: what cannot be sold changes nothing.
func TestRepriceRefused(t *testing.T) {
	s := openShop(t, nil)
	offers, policy := dearer(7)
	other := append([]provider.Offer{{SchemaID: string(schemas.Embedding), Modes: markettest.AllModes, BaseMsats: 1}}, offers...)
	free := []provider.Offer{{SchemaID: string(schemas.SandboxRun), Modes: []receipts.Mode{receipts.ModeHold}}}
	for name, bad := range map[string]struct {
		offers []provider.Offer
		policy receipts.Policy
	}{
		"another job type":   {other[:1], policy},
		"a further job type": {other, policy},
		"none":               {nil, policy},
		"no price":           {free, policy},
		"no such policy":     {offers, receipts.Policy{}},
	} {
		if err := s.sells.Reprice(t.Context(), bad.offers, bad.policy); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	ev := s.request(nil)
	s.wantQuote(ev)
	if j, err := s.store.Job(t.Context(), ev.ID); err != nil || j.PriceMsats != minute {
		t.Errorf("quoted %d msats, %v", j.PriceMsats, err)
	}
}

// TestRepriceBesideRequests: whatever comes while prices change is quoted at one list:
// its price is what its policy says.
func TestRepriceBesideRequests(t *testing.T) {
	s := openShop(t, func(cfg *provider.Config) {
		cfg.Limits.Unpaid, cfg.Limits.QueuePerBuyer = 1000, 1000
		cfg.Offers, cfg.Policy = dearer(1000)
	})
	priceOf := map[hashing.Digest]int64{}
	for i := range int64(10) {
		_, policy := dearer(1000 * (i + 1))
		manifest, err := policy.Canonical()
		markettest.Check(t, err)
		priceOf[hashing.Bytes(manifest)] = 1000 * (i + 1)
	}

	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for i := int64(0); ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			offers, policy := dearer(1000 * (i%10 + 1))
			if err := s.sells.Reprice(context.Background(), offers, policy); err != nil {
				t.Error(err)
				return
			}
		}
	})

	seen := map[int64]bool{}
	for range 60 {
		ev := s.request(nil)
		s.wantQuote(ev)
		j, err := s.store.Job(t.Context(), ev.ID)
		markettest.Check(t, err)
		if want := priceOf[j.PolicyID]; j.PriceMsats != want || want == 0 {
			t.Errorf("a quote asks %d msats under a policy that says %d", j.PriceMsats, want)
		}
		seen[j.PriceMsats] = true
	}
	if len(seen) < 2 {
		t.Errorf("quoted at %v alone: nothing has changed", seen)
	}
	close(stop)
	wg.Wait()
}
