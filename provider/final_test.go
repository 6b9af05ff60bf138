package provider_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
)

// hasty is a wallet that calls payments settled before they are final, as lnd does,
// until the test says what becomes of them. payments/lnd has the same on a fake lnd.
type hasty struct {
	provider.Wallet
	looked chan struct{} // cap 1: a look at a payment that is settled and not final

	mu  sync.Mutex
	end func(payments.Invoice) payments.Invoice // nil: not final yet
}

func newHasty(w *markettest.World) *hasty {
	return &hasty{Wallet: w.Seller.Wallet, looked: make(chan struct{}, 1)}
}

func (h *hasty) LookupInvoice(ctx context.Context, hash payments.Hash) (payments.Invoice, error) {
	inv, err := h.Wallet.LookupInvoice(ctx, hash)
	if err != nil || inv.State != payments.InvoiceSettled {
		return inv, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.end != nil {
		return h.end(inv), nil
	}
	inv.Final = false
	select {
	case h.looked <- struct{}{}:
	default:
	}
	return inv, nil
}

// becomes ends the waiting.
func (h *hasty) becomes(end func(payments.Invoice) payments.Invoice) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.end = end
}

// awaitLooks waits until the provider has looked several times in vain.
func (h *hasty) awaitLooks(t *testing.T, ctx context.Context) {
	t.Helper()
	for range 5 {
		select {
		case <-h.looked:
		case <-ctx.Done(): // who looks no more has taken it for granted
			t.Fatal("nobody looks at the payment any more")
		}
	}
}

func final(inv payments.Invoice) payments.Invoice { return inv }

// wentBack is what lnd's wallet says once all HTLCs of a settled invoice went back.
func wentBack(inv payments.Invoice) payments.Invoice {
	return payments.Invoice{
		BOLT11: inv.BOLT11, PaymentHash: inv.PaymentHash, AmountMsats: inv.AmountMsats,
		State: payments.InvoiceCanceled, LostMsats: inv.AmountMsats,
	}
}

// partly says the same of all but 1000 msats.
func partly(inv payments.Invoice) payments.Invoice {
	inv.PaidMsats, inv.LostMsats = 1000, inv.AmountMsats-1000
	return inv
}

// paidModes are those in which something is paid, with each delivery.
var paidModes = []struct {
	mode     receipts.Mode
	delivery receipts.Delivery
}{
	{receipts.ModePrepay, receipts.DeliveryPlain},
	{receipts.ModePostpay, receipts.DeliveryPlain},
	{receipts.ModePostpay, receipts.DeliverySealed},
	{receipts.ModeHold, receipts.DeliveryPlain},
}

// settles brings a purchase to where its payment is settled and not final, and checks
// that the provider has taken nothing for granted.
func settles(t *testing.T, mode receipts.Mode, delivery receipts.Delivery) (*markettest.World, *hasty, *markettest.Customer, buyer.Purchase, *markettest.Following) {
	t.Helper()
	w := markettest.New(t)
	w.Delivery = delivery
	h := newHasty(w)
	w.Serve(t, func(cfg *provider.Config) { cfg.Wallet = h })
	c := w.NewCustomer(t, nil)
	p := w.Place(t, c, mode, markettest.SandboxInput(""))
	f := w.Follow(t, c, p.RequestID, nil)
	h.awaitLooks(t, w.Ctx)
	job := w.Job(t, p.RequestID)
	before, runs := provider.StateDelivering, 1
	if mode == receipts.ModePrepay {
		before, runs = provider.StateQuoted, 0
	}
	if job.State != before || w.Runner.Count() != runs || job.Receipt != nil {
		t.Errorf("job %s after %d runs, receipt %q", job.State, w.Runner.Count(), job.ReceiptID)
	}
	return w, h, c, p, f
}

// TestSettledAndThenFinal: once a payment is final the job goes on as ever.
func TestSettledAndThenFinal(t *testing.T) {
	for _, tt := range paidModes {
		t.Run(string(tt.mode)+" "+string(tt.delivery), func(t *testing.T) {
			t.Parallel()
			w, h, c, _, f := settles(t, tt.mode, tt.delivery)
			h.becomes(final)
			w.Sold(t, c, f, tt.mode)
		})
	}
}

// TestSettledAndThenLost: what was never paid is not worked for (prepay), and
// nowhere receipted, and both sides read why.
func TestSettledAndThenLost(t *testing.T) {
	for _, tt := range paidModes {
		t.Run(string(tt.mode)+" "+string(tt.delivery), func(t *testing.T) {
			t.Parallel()
			w, h, _, p, f := settles(t, tt.mode, tt.delivery)
			h.becomes(wentBack)
			job := wasLost(t, w, p)
			bought, err := f.Wait()
			told := provider.CodePaymentLost
			if tt.mode != receipts.ModePrepay { // a run had begun
				told = heard(told)
			}
			if bought.ReceiptID != "" || !strings.Contains(bought.Reason, string(told)) {
				t.Errorf("purchase %s (%s), receipt %q: %v", bought.State, bought.Reason, bought.ReceiptID, err)
			}
			// Its own wallet says that it has paid: what came for that it has, without a receipt.
			if tt.mode != receipts.ModePrepay && (err != nil || bought.State != buyer.StateDone || bought.Output == nil) {
				t.Errorf("purchase %s, output %q: %v", bought.State, bought.Output, err)
			}
			if runs := w.Runner.Count(); tt.mode == receipts.ModePrepay && (!errors.Is(err, buyer.ErrFailed) || runs != 0 || bought.Output != nil || job.Result != nil) {
				t.Errorf("%d runs, output %q: %v", runs, bought.Output, err)
			}
			if len(w.Store.Owed()) != 0 {
				t.Errorf("owed: %+v", w.Store.Owed())
			}
		})
	}
}

// wasLost checks the job of a payment that was lost.
func wasLost(t *testing.T, w *markettest.World, p buyer.Purchase) provider.Job {
	t.Helper()
	job := w.Await(t, p.RequestID, provider.StateFailed)
	if job.Reason.Code != provider.CodePaymentLost || !strings.Contains(job.Reason.Detail, "had called the payment settled") || job.ReceiptID != "" {
		t.Errorf("job %s (%s), receipt %q", job.State, job.Reason, job.ReceiptID)
	}
	return job
}

// TestSettledAndThenLostInPart: a part is not the price. It is the buyer's again
// where nothing was delivered for it.
func TestSettledAndThenLostInPart(t *testing.T) {
	for _, tt := range paidModes {
		t.Run(string(tt.mode)+" "+string(tt.delivery), func(t *testing.T) {
			t.Parallel()
			w, h, _, p, f := settles(t, tt.mode, tt.delivery)
			h.becomes(partly)
			wasLost(t, w, p)
			_, _ = f.Wait()
			owed := int64(0)
			for _, c := range w.Store.Owed() {
				owed += c.Msats
			}
			if want := map[bool]int64{true: 1000}[tt.mode == receipts.ModePrepay]; owed != want {
				t.Errorf("%d msats are owed, want %d", owed, want)
			}
		})
	}
}

// TestLostWhileAway: a provider that comes back finds out what became of a payment
// that it had left settled and not final.
func TestLostWhileAway(t *testing.T) {
	w, h, _, p, f := settles(t, receipts.ModePrepay, receipts.DeliveryPlain)
	w.Store.EndLife()
	<-w.Store.LifeOver()
	h.becomes(wentBack)
	w.Serve(t, func(cfg *provider.Config) { cfg.Wallet = h })
	wasLost(t, w, p)
	f.Failed(t, provider.CodePaymentLost)
	if w.Runner.Count() != 0 {
		t.Errorf("%d runs", w.Runner.Count())
	}
}

// TestCancelWhileNotFinal: what is on its way can neither be cancelled nor owed. Once
// it is known it is one of the two: owed if it came, and nothing if it is gone.
func TestCancelWhileNotFinal(t *testing.T) {
	for name, tt := range map[string]struct {
		end   func(payments.Invoice) payments.Invoice
		state provider.State
		code  provider.Code
		owed  int
	}{
		"final": {final, provider.StateCanceled, provider.CodeCanceled, 1},
		"lost":  {wentBack, provider.StateFailed, provider.CodePaymentLost, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, h, c, p, f := settles(t, receipts.ModePrepay, receipts.DeliveryPlain)
			f.Stop()
			markettest.Check(t, c.Client.Cancel(w.Ctx, p.RequestID))
			h.awaitLooks(t, w.Ctx)
			if job := w.Job(t, p.RequestID); job.State != provider.StateQuoted {
				t.Errorf("job %s (%s)", job.State, job.Reason)
			}
			h.becomes(tt.end)
			if job := w.Await(t, p.RequestID, tt.state); job.Reason.Code != tt.code || len(w.Store.Owed()) != tt.owed || w.Runner.Count() != 0 {
				t.Errorf("job %s (%s), owed %+v, %d runs", job.State, job.Reason, w.Store.Owed(), w.Runner.Count())
			}
		})
	}
}

// TestFeeLost: an engagement fee is believed no sooner than a price.
func TestFeeLost(t *testing.T) {
	w := markettest.New(t)
	h := newHasty(w)
	w.Serve(t, func(cfg *provider.Config) {
		markettest.Engaging(cfg)
		cfg.Wallet = h
	})
	c := w.NewCustomer(t, markettest.Engages)
	p := w.Engage(t, c, receipts.ModeHold, markettest.Expects)
	f := w.Follow(t, c, p.RequestID, nil)
	h.awaitLooks(t, w.Ctx)
	if job := w.Job(t, p.RequestID); job.Engagement.ReceiptID != "" || job.BOLT11 != "" {
		t.Errorf("receipt %q, invoice %q", job.Engagement.ReceiptID, job.BOLT11)
	}
	h.becomes(wentBack)
	if job := wasLost(t, w, p); job.Engagement.ReceiptID != "" || len(w.Store.Owed()) != 0 || w.Runner.Count() != 0 {
		t.Errorf("receipt %q, owed %+v, %d runs", job.Engagement.ReceiptID, w.Store.Owed(), w.Runner.Count())
	}
	_, _ = f.Wait()
}
