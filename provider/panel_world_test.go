package provider_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay"
	"github.com/lightwork-market/lightwork/relay/exchange"
	"github.com/lightwork-market/lightwork/schemas"
)

// slow is how long a test waits for what never comes. Honest providers here need
// a fraction of a second.
const slow = 6 * time.Second

// rival is one of several providers on the same relay.
type rival struct {
	*party
	runner *runner
	secret []byte
	rate   int64 // a minute
	fee    int64 // for the attempt at what is judged
}

// signer lets a rival change what its provider says before it is signed: an
// attacker whose every event is well formed and truly its own.
type signer struct {
	*relay.Key
	lie func(ctx context.Context, ev *nostr.Event) error
}

func (s signer) Sign(ctx context.Context, ev *nostr.Event) error {
	if s.lie != nil {
		if err := s.lie(ctx, ev); err != nil {
			return err
		}
	}
	return permitted{s.Key, kinds.SignedByProvider()}.Sign(ctx, ev)
}

// rival makes a provider's belongings; open begins to sell with them.
func (w *world) rival(t *testing.T, name string) *rival {
	t.Helper()
	r := &rival{party: w.party(t, name), runner: &runner{}, secret: secretOf(name), rate: rateMsats}
	r.runner.key = r.key.PublicKey()
	return r
}

func secretOf(name string) []byte {
	d := hashing.Bytes([]byte(name))
	return d[:]
}

func (w *world) open(t *testing.T, r *rival, lie func(context.Context, *nostr.Event) error) {
	t.Helper()
	w.openWith(t, r, lie, schemas.SandboxRun)
}

func (w *world) openWith(t *testing.T, r *rival, lie func(context.Context, *nostr.Event) error, job schemas.ID) {
	t.Helper()
	m := w.connect(t, r.key)
	p, err := provider.New(provider.Config{
		Signer: signer{r.key, lie}, Store: r.kernel.ProviderStore("paid-job"), Wallet: r.wallet, Market: m, Runner: r.runner, Cipher: r.key,
		RootSecret: r.secret, Policy: []byte(`{"version":1}`),
		Offers: []provider.Offer{{SchemaID: string(job), Modes: allModes, PerMinuteMsats: r.rate, EngagementMsats: r.fee}},
		Images: provider.Images{HostDigest: toolchain().String(), Registered: func(string) bool { return false }},
	})
	check(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := p.Serve(ctx); err != nil {
			t.Errorf("provider: %v", err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// honest makes n providers that do what they should.
func (w *world) honest(t *testing.T, n int) (list []*rival) {
	t.Helper()
	for i := range n {
		r := w.rival(t, fmt.Sprintf("honest-%d", i))
		w.open(t, r, nil)
		list = append(list, r)
	}
	return list
}

func seatsOf(rivals ...*rival) (seats []buyer.Listing) {
	for _, r := range rivals {
		seats = append(seats, buyer.Listing{
			Provider: r.key.PublicKey(), PerMinuteMsats: rateMsats, BaseMsats: map[string]int64{string(schemas.SandboxRun): 0},
		})
	}
	return seats
}

// panel orders the usual job from the rivals; they may take the price and 10
// msats each, and not one msat more.
func (w *world) panel(t *testing.T, c *customer, rule buyer.Rule, rivals ...*rival) buyer.Panel {
	t.Helper()
	p, err := c.client.PlacePanel(w.ctx, buyer.PanelOrder{
		SchemaID: string(schemas.SandboxRun), Input: order(""), Seats: seatsOf(rivals...), Rule: rule,
		MaxMsats: int64(len(rivals)) * (rateMsats + 10), CommitTimeout: slow,
	})
	check(t, err)
	return p
}

// earned is what came to a rival.
func (w *world) earned(t *testing.T, r *rival) int64 {
	t.Helper()
	return w.balance(t, r.party) - faucetMsats
}

// unhurried is the configuration of panels' buyers here.
func unhurried(cfg *buyer.Config) { cfg.AnswerTimeout = slow }

// see waits until an event is on the relay that matches.
func (w *world) see(ctx context.Context, m *exchange.Market, f nostr.Filter, matches func(nostr.Event) bool) (found nostr.Event, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	err = m.Listen(ctx, nostr.Filters{f}, func() {}, func(ev nostr.Event) {
		if found.ID == "" && matches(ev) {
			found = ev
			stop()
		}
	})
	if found.ID != "" {
		return found, nil
	}
	return found, err
}

func isReveal(ev nostr.Event) bool {
	t := ev.Tags.Find("status")
	return t != nil && t[1] == receipts.StatusReveal
}

// spyOn tells what an honest provider commits to and reveals.
type spy struct {
	w      *world
	m      *exchange.Market
	victim string
}

func (s spy) commit(ctx context.Context) (string, error) {
	ev, err := s.w.see(ctx, s.m, nostr.Filter{Kinds: []int{6050}, Authors: []string{s.victim}}, func(ev nostr.Event) bool { return ev.Tags.Find(receipts.TagCommit) != nil })
	if err != nil {
		return "", err
	}
	return ev.Tags.Find(receipts.TagCommit)[1], nil
}

func (s spy) reveal(ctx context.Context) (receipts.Reveal, error) {
	ev, err := s.w.see(ctx, s.m, nostr.Filter{Kinds: []int{7000}, Authors: []string{s.victim}}, isReveal)
	if err != nil {
		return receipts.Reveal{}, err
	}
	return receipts.ParseReveal([]byte(ev.Content))
}

// rubbish is an outcome that took no work: valid, and wrong.
func rubbish(r *runner) func(context.Context, provider.Run) (provider.Outcome, error) {
	return func(context.Context, provider.Run) (provider.Outcome, error) {
		return r.good(func(res *schemas.SandboxRunResult) { res.Runs[0].ExitCode, res.Status = 1, schemas.StatusFailed })
	}
}

// proved checks that a seat's purchase ended with a receipt that a stranger can
// verify.
func (w *world) proved(t *testing.T, c *customer, seat buyer.Seat) {
	t.Helper()
	p, err := c.store.Purchase(w.ctx, seat.RequestID)
	check(t, err)
	if p.State != buyer.StateDone || p.ReceiptID == "" {
		t.Errorf("seat of %s is %s (%s)", seat.Provider, p.State, p.Reason)
		return
	}
	b, err := c.client.Bundle(w.ctx, p.RequestID)
	check(t, err)
	report := receipts.Verify(b, receipts.Pins{
		Provider: seat.Provider, Buyer: c.key.PublicKey(), Network: payments.Play, Required: []string{receipts.ClaimBuyerAccepted},
	})
	if report.ExitCode() != receipts.ExitProved {
		t.Errorf("seat of %s: %+v", seat.Provider, report.Claims)
	}
	if !bytes.Contains(p.Request, []byte(`\"redundancy\":`)) {
		t.Errorf("the request that the receipt binds says nothing of redundancy: %s", p.Request)
	}
}

// settledUp checks that nothing of the buyer's budget is left reserved, and that
// what it spent is what left its wallet.
func (w *world) settledUp(t *testing.T, c *customer, spent int64) {
	t.Helper()
	b := w.budget(t, c.store)
	if b.ReservedMsats != 0 || b.SpentMsats != spent {
		t.Errorf("reserved %d, spent %d msats; want 0 and %d", b.ReservedMsats, b.SpentMsats, spent)
	}
	if got := faucetMsats - w.balance(t, c.party); got != spent {
		t.Errorf("%d msats left the wallet, want %d", got, spent)
	}
	totals, err := w.ledger.Audit(w.ctx)
	check(t, errors.Join(err))
	if totals.HeldMsats != 0 {
		t.Errorf("%d msats are still held", totals.HeldMsats)
	}
}
