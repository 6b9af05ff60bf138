package markettest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay"
	"github.com/lightwork-market/lightwork/schemas"
)

// Slow is how long a test waits for what never comes. Honest providers here need
// a fraction of a second.
const Slow = 6 * time.Second

// Rival is one of several providers on the same relay.
type Rival struct {
	*Party
	Runner *Runner
	secret []byte
	Rate   int64 // a minute
	Fee    int64 // for the attempt at what is judged
}

// NewRival makes a provider's belongings; [World.Open] begins to sell with them.
func (w *World) NewRival(t *testing.T, name string) *Rival {
	t.Helper()
	r := &Rival{Party: w.NewParty(t, name), Runner: &Runner{}, secret: secretOf(name), Rate: RateMsats}
	r.Runner.Key = r.Key.PublicKey()
	return r
}

func secretOf(name string) []byte {
	d := hashing.Bytes([]byte(name))
	return d[:]
}

// Open begins to sell the usual job in all modes. lie may change what is signed.
func (w *World) Open(t *testing.T, r *Rival, lie func(context.Context, *nostr.Event) error) {
	t.Helper()
	w.OpenWith(t, r, lie, schemas.SandboxRun)
}

// OpenWith is Open for a job type of the test's.
func (w *World) OpenWith(t *testing.T, r *Rival, lie func(context.Context, *nostr.Event) error, job schemas.ID) {
	t.Helper()
	w.Sell(t, r, func(cfg *provider.Config) {
		cfg.Offers = []provider.Offer{{SchemaID: string(job), Modes: AllModes, PerMinuteMsats: r.Rate, EngagementMsats: r.Fee}}
	}, lie)
}

// Honest makes n providers that do what they should.
func (w *World) Honest(t *testing.T, n int) (list []*Rival) {
	t.Helper()
	for i := range n {
		r := w.NewRival(t, fmt.Sprintf("honest-%d", i))
		w.Open(t, r, nil)
		list = append(list, r)
	}
	return list
}

// Earned is what came to a rival.
func (w *World) Earned(t *testing.T, r *Rival) int64 {
	t.Helper()
	return w.Balance(t, r.Party) - FaucetMsats
}

// Sell opens a rival's shop with further changes to what it offers, and returns how
// to close it.
func (w *World) Sell(t *testing.T, r *Rival, change func(*provider.Config), lie func(context.Context, *nostr.Event) error) (stop func()) {
	t.Helper()
	m, hangUp := w.Dial(t, r.Key)
	cfg := provider.Config{
		Signer: LyingSigner{r.Key, lie}, Store: r.DB.Sales("paid-job"), Wallet: r.Wallet, Market: m, Runner: r.Runner, Cipher: r.Key,
		RootSecret: r.secret, Policy: Policy(),
		Offers: []provider.Offer{{SchemaID: SandboxRun, Modes: []receipts.Mode{receipts.ModeHold}, PerMinuteMsats: r.Rate}},
		Images: provider.Images{HostDigest: Toolchain().String(), Registered: func(string) bool { return false }},
	}
	if change != nil {
		change(&cfg)
	}

	_, cancel, done := run(t, w, cfg, hangUp)
	stop = sync.OnceFunc(cancel)
	t.Cleanup(func() { stop(); <-done })
	return stop
}

// Ghost announces a price and a beat, and is not there.
func (w *World) Ghost(t *testing.T, c *Customer, price receipts.Price) {
	t.Helper()
	key, err := relay.GenerateKey()
	Check(t, err)
	doc, err := json.Marshal(map[string]any{
		"name": "ghost", "capabilities": map[string]any{"supported_jobs": []string{SandboxRun}},
		"lightwork": map[string]any{
			"modes": map[string]any{SandboxRun: []string{"hold"}}, "prices": map[string]any{SandboxRun: price}, "network": payments.Play,
			"host_image_digest": Toolchain().String(),
		},
	})
	Check(t, err)
	Check(t, c.Market.Send(w.Ctx, SignedEvent(t, key, 31990, string(doc), nostr.Tag{"d", "lightwork"}, nostr.Tag{"k", "5050"}, domain.Announcement.Tag())))
	Check(t, c.Market.Send(w.Ctx, SignedEvent(t, key, 11998, "", nostr.Tag{"d", "lightwork"})))
}

// Alive waits until the rivals are on the relay with announcement and beat.
func (w *World) Alive(t *testing.T, c *Customer, rivals ...*Rival) {
	t.Helper()
	for _, r := range rivals {
		for _, kind := range []int{31990, 11998} {
			_, err := w.See(w.Ctx, c.Market, nostr.Filter{Kinds: []int{kind}, Authors: []string{r.Key.PublicKey()}}, func(nostr.Event) bool { return true })
			Check(t, err)
		}
	}
}

// RivalAt is NewRival with a price a minute of its own.
func (w *World) RivalAt(t *testing.T, name string, rate int64) *Rival {
	t.Helper()
	r := w.NewRival(t, name)
	r.Rate = rate
	return r
}

// GivesBack has whatever is held for a rival come back, as it does when nobody takes
// it in time.
func (w *World) GivesBack(t *testing.T, r *Rival) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = r.Wallet.WatchInvoices(ctx, func(hash payments.Hash) {
			inv, err := r.Wallet.LookupInvoice(ctx, hash)
			if err == nil && inv.State == payments.InvoiceHeld {
				err = r.Wallet.CancelInvoice(ctx, hash)
			}
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
}
