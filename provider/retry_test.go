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
func (w *world) owes(t *testing.T, c *customer, refund string) provider.Debt {
	t.Helper()
	tags := nostr.Tags{{"param", "payment_mode", "prepay"}}
	if refund != "" {
		tags = append(tags, nostr.Tag{"param", "refund", refund})
	}
	req := w.request(t, c.key, order(""), tags...)
	w.payByHand(t, c, req)
	w.await(t, req.ID, provider.StateFailed)
	return w.debt(t, req.ID)
}

// attempt waits until the n-th attempt to pay a debt has ended.
func (w *world) attempt(t *testing.T, id string, n int) provider.Debt {
	t.Helper()
	for {
		change := w.store.changed()
		if d := w.debt(t, id); len(d.Attempts) == n && d.Refund.End != nil {
			return d
		}
		select {
		case <-change:
		case <-w.ctx.Done():
			t.Fatalf("no end of attempt %d", n)
		}
	}
}

// TestRefundIsTriedAgain: a refund that failed for its fee is sent at the
// operator's word, to the same invoice, once; nothing is sent while one is on
// its way or after one succeeded.
func TestRefundIsTriedAgain(t *testing.T) {
	requirements.Covers(t, "K-48")
	w := newWorld(t)
	w.failing()
	stop := w.serve(t, func(cfg *provider.Config) { w.refunding(cfg); cfg.Refunds.MaxFeeMsats = feeMsats - 1 })
	c := w.customer(t, nil)
	d := w.owes(t, c, w.invoice(t, c.party, rateMsats, time.Hour))
	if d.Refund.End.State != payments.PaymentFailed || d.Refund.End.Reason == "" || d.CreditMsats != rateMsats {
		t.Fatalf("debt %+v, refund %+v", d, d.Refund)
	}
	r, err := w.selling.RetryRefund(w.ctx, d.RequestID, "")
	check(t, err)
	if d = w.attempt(t, d.RequestID, 2); r.Attempt != 2 || d.Refund.End.State != payments.PaymentFailed {
		t.Errorf("the same limit again: %+v", d.Refund)
	}
	stop()

	// Now the fee may be paid, and the third attempt is recorded just before the
	// provider dies: the next life sends it.
	r.Msats, r.FeeLimitMsats = rateMsats, feeMsats
	if n, err := w.store.RetryRefund(w.ctx, r); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	w.serve(t, w.refunding)
	if _, err := w.selling.RetryRefund(w.ctx, d.RequestID, ""); err == nil {
		t.Error("a fourth attempt was begun beside the third")
	}
	d = w.attempt(t, d.RequestID, 3)
	if d.Refund.End.State != payments.PaymentSucceeded || d.CreditMsats != 0 {
		t.Errorf("debt %+v, refund %+v", d, d.Refund)
	}
	if _, err := w.selling.RetryRefund(w.ctx, d.RequestID, ""); !errors.Is(err, provider.ErrDebtSettled) {
		t.Errorf("after it was paid: %v", err)
	}
	w.moved(t, c.party, -feeMsats, feeMsats)
}

// TestRefundToAnAddress: the request's Lightning address is asked for an invoice
// of what is owed; one that gives none leaves a credit, which the operator can
// have paid later.
func TestRefundToAnAddress(t *testing.T) {
	requirements.Covers(t, "K-48")
	w := newWorld(t)
	w.failing()
	c := w.customer(t, nil)
	down := true
	w.serve(t, func(cfg *provider.Config) {
		w.refunding(cfg)
		cfg.Refunds.Addresses = addressBook(func(address string, msats int64) (string, error) {
			if address != "me@example.com" || msats != rateMsats {
				t.Errorf("asked %s for %d msats", address, msats)
			}
			if down {
				return "", errors.New("it is down")
			}
			return w.invoice(t, c.party, msats, time.Hour), nil
		})
	})
	d := w.owes(t, c, "me@example.com")
	if d.Refund != nil || d.CreditMsats != rateMsats {
		t.Errorf("debt %+v", d)
	}
	if text := w.told(t, c, d.RequestID); !strings.Contains(text, "its Lightning address gives no invoice: it is down") {
		t.Errorf("told %q", text)
	}
	down = false
	_, err := w.selling.RetryRefund(w.ctx, d.RequestID, "")
	check(t, err)
	if d = w.attempt(t, d.RequestID, 1); d.Refund.End.State != payments.PaymentSucceeded {
		t.Errorf("refund %+v", d.Refund)
	}
	w.moved(t, c.party, -feeMsats, feeMsats)
}

// TestRefundTellsNothingOfOurNetwork: a buyer names any host, and everybody reads why
// it gave no invoice. Which name server knows the host, and where we would have gone,
// is not said.
func TestRefundTellsNothingOfOurNetwork(t *testing.T) {
	w := newWorld(t)
	w.failing()
	c := w.customer(t, nil)
	inside := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "db.corp.example", Server: "10.0.0.53:53"}}
	}}}
	w.serve(t, func(cfg *provider.Config) {
		w.refunding(cfg)
		cfg.Refunds.Addresses = lud16.New(lud16.Config{Client: inside})
	})
	d := w.owes(t, c, "me@db.corp.example")
	text := w.told(t, c, d.RequestID)
	if !strings.Contains(text, "its Lightning address gives no invoice: its service cannot be reached") || strings.Contains(text, "10.0.0.53") || strings.Contains(text, "lookup") {
		t.Errorf("told %q", text)
	}
}

// TestDebtIsWrittenOff: what the operator settled otherwise lowers no price, and
// the buyer is told how.
func TestDebtIsWrittenOff(t *testing.T) {
	w := newWorld(t)
	w.failing()
	w.serve(t, w.refunding)
	c := w.customer(t, nil)
	d := w.owes(t, c, "")
	if _, err := w.selling.RetryRefund(w.ctx, d.RequestID, ""); err == nil || !strings.Contains(err.Error(), "name an invoice") {
		t.Errorf("a refund to nowhere: %v", err)
	}
	if _, err := w.selling.RetryRefund(w.ctx, d.RequestID, w.invoice(t, c.party, rateMsats+1, time.Hour)); err == nil || !strings.Contains(err.Error(), "not for 1 to 21000") {
		t.Errorf("a refund of more than is owed: %v", err)
	}
	if _, err := w.selling.WriteOff(w.ctx, d.RequestID, " "); err == nil {
		t.Error("written off without a word")
	}
	if n, err := w.selling.WriteOff(w.ctx, d.RequestID, "paid by bank"); n != rateMsats || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if text := w.told(t, c, d.RequestID); !strings.Contains(text, "21000 msats are settled otherwise: paid by bank") {
		t.Errorf("told %q", text)
	}
	if credit, err := w.store.CreditOf(w.ctx, d.Buyer); credit != 0 || err != nil {
		t.Errorf("credit %d, %v", credit, err)
	}
	for _, err := range []error{
		func() error { _, err := w.selling.WriteOff(w.ctx, d.RequestID, "again"); return err }(),
		func() error { _, err := w.selling.RetryRefund(w.ctx, d.RequestID, "lnplay1"); return err }(),
	} {
		if !errors.Is(err, provider.ErrDebtSettled) {
			t.Errorf("after it: %v", err)
		}
	}
	if _, err := w.selling.WriteOff(w.ctx, strings.Repeat("0", 64), "x"); !errors.Is(err, provider.ErrNotFound) {
		t.Errorf("no such job: %v", err)
	}
}
