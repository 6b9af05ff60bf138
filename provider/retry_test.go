package provider_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/lud16"
	"github.com/lightwork-market/lightwork/provider"
)

// addressBook stands for the services behind Lightning addresses.
type addressBook func(address string, msats int64) (string, error)

func (b addressBook) Invoice(_ context.Context, address string, msats int64) (string, error) {
	return b(address, msats)
}

// owes fails a prepaid job whose request names the refund, and returns its debt
// once the refund, if there was one, has ended.
func owes(t *testing.T, w *markettest.World, c *markettest.Customer, refund string) provider.Debt {
	t.Helper()
	tags := nostr.Tags{{"param", "payment_mode", "prepay"}}
	if refund != "" {
		tags = append(tags, nostr.Tag{"param", "refund", refund})
	}
	req := w.Request(t, c.Key, markettest.SandboxInput(""), tags...)
	payByHand(t, w, c, req)
	w.Await(t, req.ID, provider.StateFailed)
	return w.Debt(t, req.ID)
}

// attempt waits until the n-th attempt to pay a debt has ended.
func attempt(t *testing.T, w *markettest.World, id string, n int) provider.Debt {
	t.Helper()
	for {
		change := w.Store.Changed()
		if d := w.Debt(t, id); len(d.Attempts) == n && d.Refund.End != nil {
			return d
		}
		select {
		case <-change:
		case <-w.Ctx.Done():
			t.Fatalf("no end of attempt %d", n)
		}
	}
}

// TestRefundIsTriedAgain: a refund that failed for its fee is sent at the
// operator's word, to the same invoice, once; nothing is sent while one is on
// its way or after one succeeded.
func TestRefundIsTriedAgain(t *testing.T) {
	requirements.Covers(t, "K-48")
	w := markettest.New(t)
	w.Failing()
	stop := w.Serve(t, func(cfg *provider.Config) { w.Refunding(cfg); cfg.Refunds.MaxFeeMsats = markettest.FeeMsats - 1 })
	c := w.NewCustomer(t, nil)
	d := owes(t, w, c, invoice(t, w, c.Party, markettest.RateMsats, time.Hour))
	if d.Refund.End.State != payments.PaymentFailed || d.Refund.End.Reason == "" || d.CreditMsats != markettest.RateMsats {
		t.Fatalf("debt %+v, refund %+v", d, d.Refund)
	}
	r, err := w.Selling.RetryRefund(w.Ctx, d.RequestID, "")
	markettest.Check(t, err)
	if d = attempt(t, w, d.RequestID, 2); r.Attempt != 2 || d.Refund.End.State != payments.PaymentFailed {
		t.Errorf("the same limit again: %+v", d.Refund)
	}
	stop()

	// Now the fee may be paid, and the third attempt is recorded just before the
	// provider dies: the next life sends it.
	r.Msats, r.FeeLimitMsats = markettest.RateMsats, markettest.FeeMsats
	if n, err := w.Store.RetryRefund(w.Ctx, r); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	w.Serve(t, w.Refunding)
	if _, err := w.Selling.RetryRefund(w.Ctx, d.RequestID, ""); err == nil {
		t.Error("a fourth attempt was begun beside the third")
	}
	d = attempt(t, w, d.RequestID, 3)
	if d.Refund.End.State != payments.PaymentSucceeded || d.CreditMsats != 0 {
		t.Errorf("debt %+v, refund %+v", d, d.Refund)
	}
	if _, err := w.Selling.RetryRefund(w.Ctx, d.RequestID, ""); !errors.Is(err, provider.ErrDebtSettled) {
		t.Errorf("after it was paid: %v", err)
	}
	w.Moved(t, c.Party, -markettest.FeeMsats, markettest.FeeMsats)
}

// TestRefundToAnAddress: the request's Lightning address is asked for an invoice
// of what is owed; one that gives none leaves a credit, which the operator can
// have paid later.
func TestRefundToAnAddress(t *testing.T) {
	requirements.Covers(t, "K-48")
	w := markettest.New(t)
	w.Failing()
	c := w.NewCustomer(t, nil)
	down := true
	w.Serve(t, func(cfg *provider.Config) {
		w.Refunding(cfg)
		cfg.Refunds.Addresses = addressBook(func(address string, msats int64) (string, error) {
			if address != "me@example.com" || msats != markettest.RateMsats {
				t.Errorf("asked %s for %d msats", address, msats)
			}
			if down {
				return "", errors.New("it is down")
			}
			return invoice(t, w, c.Party, msats, time.Hour), nil
		})
	})
	d := owes(t, w, c, "me@example.com")
	if d.Refund != nil || d.CreditMsats != markettest.RateMsats {
		t.Errorf("debt %+v", d)
	}
	if text := w.Told(t, c, d.RequestID); !strings.Contains(text, "its Lightning address gives no invoice: it is down") {
		t.Errorf("told %q", text)
	}
	down = false
	_, err := w.Selling.RetryRefund(w.Ctx, d.RequestID, "")
	markettest.Check(t, err)
	if d = attempt(t, w, d.RequestID, 1); d.Refund.End.State != payments.PaymentSucceeded {
		t.Errorf("refund %+v", d.Refund)
	}
	w.Moved(t, c.Party, -markettest.FeeMsats, markettest.FeeMsats)
}

// TestRefundTellsNothingOfOurNetwork: a buyer names any host, and everybody reads why
// it gave no invoice. Which name server knows the host, and where we would have gone,
// is not said.
func TestRefundTellsNothingOfOurNetwork(t *testing.T) {
	w := markettest.New(t)
	w.Failing()
	c := w.NewCustomer(t, nil)
	inside := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "db.corp.example", Server: "10.0.0.53:53"}}
	}}}
	w.Serve(t, func(cfg *provider.Config) {
		w.Refunding(cfg)
		cfg.Refunds.Addresses = lud16.New(lud16.Config{Client: inside})
	})
	d := owes(t, w, c, "me@db.corp.example")
	text := w.Told(t, c, d.RequestID)
	if !strings.Contains(text, "its Lightning address gives no invoice: its service cannot be reached") || strings.Contains(text, "10.0.0.53") || strings.Contains(text, "lookup") {
		t.Errorf("told %q", text)
	}
}

// TestDebtIsWrittenOff: what the operator settled otherwise lowers no price, and
// the buyer is told how.
func TestDebtIsWrittenOff(t *testing.T) {
	w := markettest.New(t)
	w.Failing()
	w.Serve(t, w.Refunding)
	c := w.NewCustomer(t, nil)
	d := owes(t, w, c, "")
	if _, err := w.Selling.RetryRefund(w.Ctx, d.RequestID, ""); err == nil || !strings.Contains(err.Error(), "name an invoice") {
		t.Errorf("a refund to nowhere: %v", err)
	}
	if _, err := w.Selling.RetryRefund(w.Ctx, d.RequestID, invoice(t, w, c.Party, markettest.RateMsats+1, time.Hour)); err == nil || !strings.Contains(err.Error(), "not for 1 to 21000") {
		t.Errorf("a refund of more than is owed: %v", err)
	}
	if _, err := w.Selling.WriteOff(w.Ctx, d.RequestID, " "); err == nil {
		t.Error("written off without a word")
	}
	if n, err := w.Selling.WriteOff(w.Ctx, d.RequestID, "paid by bank"); n != markettest.RateMsats || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if text := w.Told(t, c, d.RequestID); !strings.Contains(text, "21000 msats are settled otherwise: paid by bank") {
		t.Errorf("told %q", text)
	}
	if credit, err := w.Store.CreditOf(w.Ctx, d.Buyer); credit != 0 || err != nil {
		t.Errorf("credit %d, %v", credit, err)
	}
	for _, err := range []error{
		func() error { _, err := w.Selling.WriteOff(w.Ctx, d.RequestID, "again"); return err }(),
		func() error { _, err := w.Selling.RetryRefund(w.Ctx, d.RequestID, "lnplay1"); return err }(),
	} {
		if !errors.Is(err, provider.ErrDebtSettled) {
			t.Errorf("after it: %v", err)
		}
	}
	if _, err := w.Selling.WriteOff(w.Ctx, strings.Repeat("0", 64), "x"); !errors.Is(err, provider.ErrNotFound) {
		t.Errorf("no such job: %v", err)
	}
}
