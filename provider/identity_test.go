package provider_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay"
)

// TestOpenJobsOfOtherSecrets: a provider that is started with another key, or with
// another preimage secret, does not go on with what it cannot deliver or settle:
// it says so, and the job goes on once it has its own again.
func TestOpenJobsOfOtherSecrets(t *testing.T) {
	w := newWorld(t)
	w.store.stopWhen(provider.StatePaid)
	w.serve(t, nil)
	c := w.customer(t, nil)
	p := w.place(t, c, receipts.ModeHold, order(""))
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
	} {
		m, hangUp := w.dial(t, w.seller.key)
		cfg := w.config(m)
		change(&cfg)
		selling, err := provider.New(cfg)
		check(t, err)
		if err := selling.Serve(w.ctx); !errors.Is(err, want) {
			t.Errorf("Serve = %v, want %v", err, want)
		}
		hangUp()
	}
	w.serve(t, nil)
	w.sold(t, c, f, receipts.ModeHold)
}
