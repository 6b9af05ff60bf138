package buyer_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/receipts"
)

// TestBuyerStopsAndGoesOn interrupts Follow after each durable step and goes on
// with another client on the same store.
func TestBuyerStopsAndGoesOn(t *testing.T) {
	for _, mode := range []receipts.Mode{receipts.ModeHold, receipts.ModePostpay} {
		for _, at := range []string{"Reserve", "SendPayment", "Paid", "SetResult", "SetReceipt"} {
			t.Run(string(mode)+"/"+at, func(t *testing.T) {
				t.Parallel()
				w := markettest.New(t)
				w.Serve(t, nil)
				c := w.NewCustomer(t, nil)
				next := c.Client
				ctx, stop := context.WithCancel(w.Ctx)
				i := &markettest.StepStore{Store: c.Store, At: at, Stop: stop}
				c.Client = c.Open(t, func(cfg *buyer.Config) {
					cfg.Store, cfg.Wallet = i, &markettest.GatedWallet{Client: c.Wallet, AfterSend: func() { _ = i.Done("SendPayment", nil) }}
				})
				p := w.Place(t, c, mode, markettest.SandboxInput(""))
				if _, err := c.Client.Follow(ctx, p.RequestID, nil); !errors.Is(err, context.Canceled) {
					t.Fatalf("following was not interrupted: %v", err)
				}
				c.Client = next
				w.Sold(t, c, w.Follow(t, c, p.RequestID, nil), mode)
			})
		}
	}
}

// TestResumeWithoutWallet: a payment is under way and the wallet was taken out
// of the configuration; the purchase stays open, whole.
func TestResumeWithoutWallet(t *testing.T) {
	w := markettest.New(t)
	w.Serve(t, nil)
	c := w.NewCustomer(t, nil)
	next := c.Client
	ctx, stop := context.WithCancel(w.Ctx)
	defer stop()
	c.Client = c.Open(t, func(cfg *buyer.Config) { cfg.Store = &markettest.StepStore{Store: c.Store, At: "Reserve", Stop: stop} })
	p := w.Place(t, c, receipts.ModeHold, markettest.SandboxInput(""))
	_, err := c.Client.Follow(ctx, p.RequestID, nil)
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	poor := c.Open(t, func(cfg *buyer.Config) { cfg.Wallet = nil })
	if p, err := poor.Follow(w.Ctx, p.RequestID, nil); err == nil || !strings.Contains(err.Error(), "no wallet") || p.State != buyer.StatePaying {
		t.Fatalf("purchase %s, %v", p.State, err)
	}
	c.Client = next
	w.Sold(t, c, w.Follow(t, c, p.RequestID, nil), receipts.ModeHold)
}

// TestLostRelaysAreNamed: when listening ends, following says why.
func TestLostRelaysAreNamed(t *testing.T) {
	w := markettest.New(t)
	c := w.NewCustomer(t, func(cfg *buyer.Config) { cfg.Market = gone{cfg.Market} })
	p := w.Place(t, c, receipts.ModeHold, markettest.SandboxInput(""))
	if _, err := c.Client.Follow(w.Ctx, p.RequestID, nil); !errors.Is(err, errGone) {
		t.Errorf("got %v", err)
	}
}

var errGone = errors.New("all relays are gone")

type gone struct{ buyer.Market }

func (gone) Listen(_ context.Context, _ nostr.Filters, ready func(), _ func(nostr.Event)) error {
	ready()
	return errGone
}

// TestSilentProvider: nobody answers, nothing is paid, and the purchase is
// cancelled, so that an answer that comes later finds nobody.
func TestSilentProvider(t *testing.T) {
	w := markettest.New(t)
	c := w.NewCustomer(t, func(cfg *buyer.Config) { cfg.AnswerTimeout = 1 })
	p := w.Place(t, c, receipts.ModeHold, markettest.SandboxInput(""))
	p, err := c.Client.Follow(w.Ctx, p.RequestID, nil)
	if !errors.Is(err, buyer.ErrFailed) || p.State != buyer.StateFailed || !strings.HasPrefix(p.Reason, "no_answer: ") {
		t.Errorf("purchase %s for %q, %v", p.State, p.Reason, err)
	}
	w.Moved(t, c.Party, 0, 0)
}
