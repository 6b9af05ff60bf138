package markettest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/buyer/panel"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay/exchange"
	"github.com/lightwork-market/lightwork/schemas"
)

// Customer is a buyer with its client.
type Customer struct {
	*Party
	Client *buyer.Client
	Market *exchange.Market
	Store  PurchaseStore
	// Judge chooses among the results of a panel that is judged.
	Judge func(ctx context.Context, question string) (answer string, err error)

	cfg buyer.Config // of Client
}

// PurchaseStore keeps all that a buyer has: purchases, and panels of them.
type PurchaseStore interface {
	buyer.Store
	panel.Store
	OpenPurchases(ctx context.Context) ([]string, error)
	OpenOrders(ctx context.Context) ([]string, error)
	OpenPanels(ctx context.Context) ([]string, error)
}

// NewCustomer makes a buyer with money.
func (w *World) NewCustomer(t *testing.T, change func(*buyer.Config)) *Customer {
	t.Helper()
	w.customers++
	p := w.NewParty(t, fmt.Sprintf("buyer-%d", w.customers))
	c := &Customer{Party: p, Market: w.Connect(t, p.Key), Store: p.DB.Purchases()}
	c.Client = c.Open(t, change)
	return c
}

// Open makes another client on the same belongings, as after a restart.
func (c *Customer) Open(t *testing.T, change func(*buyer.Config)) *buyer.Client {
	t.Helper()
	cfg := buyer.Config{Signer: KindSigner{c.Key, kinds.SignedByBuyer()}, Store: c.Store, Wallet: c.Wallet, Market: c.Market, Modes: AllModes}
	if change != nil {
		change(&cfg)
	}
	client, err := buyer.New(cfg)
	Check(t, err)
	c.cfg = cfg
	return client
}

// Panels buys with several providers, by the client that was opened last.
func (c *Customer) Panels(t *testing.T) *panel.Client {
	t.Helper()
	store, ok := c.cfg.Store.(panel.Store)
	if !ok {
		store = c.Store
	}
	panels, err := panel.New(panel.Config{
		Buyer: c.Client, Store: store, Market: c.cfg.Market, Judge: c.Judge, AnswerTimeout: c.cfg.AnswerTimeout,
	})
	Check(t, err)
	return panels
}

// Place orders a job of the world's provider.
func (w *World) Place(t *testing.T, c *Customer, mode receipts.Mode, input []byte) buyer.Purchase {
	t.Helper()
	p, err := c.Client.Place(w.Ctx, buyer.Order{
		Provider: w.Seller.Key.PublicKey(), SchemaID: string(schemas.SandboxRun), Input: input, MaxMsats: MaxMsats, Mode: mode, Delivery: w.Delivery,
	})
	Check(t, err)
	return p
}

// Following is a purchase that is followed in a goroutine of its own.
type Following struct {
	Done chan struct{}
	Stop func()
	P    buyer.Purchase
	err  error
}

// Follow follows a purchase until it ends, the test does, or Stop.
func (w *World) Follow(t *testing.T, c *Customer, id string, tell func(buyer.Progress)) *Following {
	t.Helper()
	ctx, cancel := context.WithCancel(w.Ctx)
	f := &Following{Done: make(chan struct{})}
	f.Stop = func() { cancel(); <-f.Done }
	client := c.Client
	go func() {
		defer close(f.Done)
		f.P, f.err = client.Follow(ctx, id, tell)
	}()
	t.Cleanup(f.Stop)
	return f
}

// Wait returns what Follow did.
func (f *Following) Wait() (buyer.Purchase, error) {
	<-f.Done
	return f.P, f.err
}

// Failed checks that the purchase ended as it should and with what reason.
func (f *Following) Failed(t *testing.T, code provider.Code) buyer.Purchase {
	t.Helper()
	p, err := f.Wait()
	if !errors.Is(err, buyer.ErrFailed) || p.State != buyer.StateFailed && p.State != buyer.StateCanceled {
		t.Fatalf("purchase %s (%s), %v", p.State, p.Reason, err)
	}
	if !bytes.Contains([]byte(p.Reason), []byte(code)) || p.ReceiptID != "" {
		t.Errorf("reason %q, want %s; receipt %q", p.Reason, code, p.ReceiptID)
	}
	return p
}

// SandboxInput is the usual typed request, with more of its members.
func SandboxInput(more string) []byte {
	return []byte(`{"sandbox":{"provider":"host","image_digest":"` + Toolchain().String() +
		`","resources":{"timeout_secs":30}},"commands":[{"cmd":"count"}]` + more + `}`)
}

// SendSigned publishes an event that the buyer has stored.
func (c *Customer) SendSigned(ctx context.Context, signed []byte) error {
	var ev nostr.Event
	if err := ev.UnmarshalJSON(signed); err != nil {
		return err
	}
	return c.Market.Send(ctx, ev)
}

// The fee for an attempt, and what an order may expect of its result.
const (
	AttemptMsats = 4_000 // the engagement fee
	Expects      = `,"verification":{"expected":{"exit_codes":[0]}}`
	UnmetHopes   = `,"verification":{"expected":{"exit_codes":[3]}}`
)

// Engaging makes a provider that asks a fee for attempts.
func Engaging(cfg *provider.Config) { cfg.Offers[0].EngagementMsats = AttemptMsats }

// Engages makes a buyer that pays such a fee.
func Engages(cfg *buyer.Config) { cfg.MaxEngagementMsats = AttemptMsats }

// Listing is what such a provider announces.
func (w *World) Listing(feeMsats int64) *buyer.Listing {
	schema := string(schemas.SandboxRun)
	return &buyer.Listing{
		Provider: w.Seller.Key.PublicKey(), Jobs: []string{schema}, Modes: map[string][]receipts.Mode{schema: AllModes},
		Prices: map[string]receipts.Price{schema: {PerMinuteMsats: RateMsats, EngagementMsats: feeMsats}},
	}
}

// Engage orders the usual job, with a fee for the attempt.
func (w *World) Engage(t *testing.T, c *Customer, mode receipts.Mode, input string) buyer.Purchase {
	t.Helper()
	p, err := c.Client.Place(w.Ctx, buyer.Order{
		Provider: w.Seller.Key.PublicKey(), SchemaID: string(schemas.SandboxRun), Input: SandboxInput(input), MaxMsats: MaxMsats,
		Mode: mode, Announced: w.Listing(AttemptMsats),
	})
	Check(t, err)
	return p
}

// ReadsHidden makes a provider that reads encrypted requests.
func (w *World) ReadsHidden(c *provider.Config) { c.Cipher = w.Seller.Key }

// Unhurried makes a buyer that waits for slow providers.
func Unhurried(cfg *buyer.Config) { cfg.AnswerTimeout = Slow }

// Refunding lets the provider pay failed prepaid jobs back.
func (w *World) Refunding(cfg *provider.Config) {
	cfg.Refunds = &provider.Refunds{Wallet: w.Seller.Wallet, MaxFeeMsats: FeeMsats}
}

// Prepay places a prepaid job of the usual price that asks for its refund.
func (w *World) Prepay(t *testing.T, c *Customer, refund string) buyer.Purchase {
	t.Helper()
	p, err := c.Client.Place(w.Ctx, buyer.Order{
		Provider: w.Seller.Key.PublicKey(), SchemaID: "oa.sandbox_run.v1", Input: SandboxInput(""), MaxMsats: MaxMsats, Mode: receipts.ModePrepay,
		Announced: &buyer.Listing{
			BaseMsats: map[string]int64{"oa.sandbox_run.v1": 0}, PerMinuteMsats: RateMsats,
		}, Refund: refund,
	})
	Check(t, err)
	return p
}
