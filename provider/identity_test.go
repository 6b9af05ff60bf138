package provider_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
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
	w := newWorld(t)
	w.store.stopWhen(provider.StatePaid)
	w.serve(t, w.hidden)
	c := w.customer(t, nil)
	c.client = c.open(t, func(cfg *buyer.Config) { cfg.Cipher = c.key })
	p, err := c.client.Place(w.ctx, buyer.Order{
		Provider: w.seller.key.PublicKey(), SchemaID: string(schemas.SandboxRun), Input: order(""), MaxMsats: maxMsats,
		Mode: receipts.ModeHold, Encrypt: true,
	})
	check(t, err)
	f := w.follow(t, c, p.RequestID, nil)
	select {
	case <-w.store.lifeOver():
	case <-w.ctx.Done():
		t.Fatal("the provider was not stopped")
	}

	key, err := relay.GenerateKey()
	check(t, err)
	for want, change := range map[error]func(*provider.Config){
		provider.ErrOtherKey:    func(cfg *provider.Config) { cfg.Signer = key },
		provider.ErrOtherSecret: func(cfg *provider.Config) { cfg.RootSecret = bytes.Repeat([]byte{8}, 32) },
		provider.ErrHidden:      func(cfg *provider.Config) { cfg.Cipher = nil },
	} {
		m, hangUp := w.dial(t, w.seller.key)
		cfg := w.config(m)
		w.hidden(&cfg)
		change(&cfg)
		selling, err := provider.New(cfg)
		check(t, err)
		if err := selling.Serve(w.ctx); !errors.Is(err, want) {
			t.Errorf("Serve = %v, want %v", err, want)
		}
		hangUp()
	}
	w.serve(t, w.hidden)
	if p, err = f.wait(); err != nil || p.State != buyer.StateDone {
		t.Fatalf("purchase %s (%s): %v", p.State, p.Reason, err)
	}
	w.moved(t, c.party, rateMsats, rateMsats+feeMsats)
}
