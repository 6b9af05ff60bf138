package provider_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay"
	"github.com/lightwork-market/lightwork/schemas"
)

// TestOpenJobsOfOtherSecrets: a provider that is started with another key, with
// another preimage secret, or without the means to open what is encrypted, does not go
// on with what it cannot deliver or settle: it says so, and the job goes on once it has
// its own again.
func TestOpenJobsOfOtherSecrets(t *testing.T) {
	w := markettest.New(t)
	w.Store.StopWhen(provider.StatePaid)
	w.Serve(t, w.ReadsHidden)
	c := w.NewCustomer(t, nil)
	c.Client = c.Open(t, func(cfg *buyer.Config) { cfg.Cipher = c.Key })
	p, err := c.Client.Place(w.Ctx, buyer.Order{
		Provider: w.Seller.Key.PublicKey(), SchemaID: string(schemas.SandboxRun), Input: markettest.SandboxInput(""), MaxMsats: markettest.MaxMsats,
		Mode: receipts.ModeHold, Encrypt: true,
	})
	markettest.Check(t, err)
	f := w.Follow(t, c, p.RequestID, nil)
	select {
	case <-w.Store.LifeOver():
	case <-w.Ctx.Done():
		t.Fatal("the provider was not stopped")
	}

	key, err := relay.GenerateKey()
	markettest.Check(t, err)
	for want, change := range map[error]func(*provider.Config){
		provider.ErrOtherKey:    func(cfg *provider.Config) { cfg.Signer = key },
		provider.ErrOtherSecret: func(cfg *provider.Config) { cfg.RootSecret = bytes.Repeat([]byte{8}, 32) },
		provider.ErrHidden:      func(cfg *provider.Config) { cfg.Cipher = nil },
	} {
		m, hangUp := w.Dial(t, w.Seller.Key)
		cfg := w.Config(m)
		w.ReadsHidden(&cfg)
		change(&cfg)
		selling, err := provider.New(cfg)
		markettest.Check(t, err)
		if err := selling.Serve(w.Ctx); !errors.Is(err, want) {
			t.Errorf("Serve = %v, want %v", err, want)
		}
		hangUp()
	}
	w.Serve(t, w.ReadsHidden)
	if p, err = f.Wait(); err != nil || p.State != buyer.StateDone {
		t.Fatalf("purchase %s (%s): %v", p.State, p.Reason, err)
	}
	w.Moved(t, c.Party, markettest.RateMsats, markettest.RateMsats+markettest.FeeMsats)
}
