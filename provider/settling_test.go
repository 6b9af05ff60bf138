package provider

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider/internal/admission"
	"github.com/lightwork-market/lightwork/receipts"
)

// flapping calls a payment settled and never final, and is away at every other look.
type flapping struct {
	Wallet
	looks int
}

var errAway = errors.New("away")

func (f *flapping) LookupInvoice(_ context.Context, hash payments.Hash) (payments.Invoice, error) {
	if f.looks++; f.looks%2 == 0 {
		return payments.Invoice{}, errAway
	}
	return payments.Invoice{PaymentHash: hash, State: payments.InvoiceSettled}, nil
}

// TestSettlingOutlivesAFlappingWallet: the operator hears once of a payment that is
// settled and not final, though no wait for it is longer than some seconds, and the
// job leaves its place to others.
func TestSettlingOutlivesAFlappingWallet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		job := Job{RequestID: "job", Buyer: "buyer"}
		p := &Provider{
			cfg: Config{Wallet: &flapping{}}, limits: Limits{LookupEvery: 5 * time.Second},
			log: slog.New(slog.NewTextHandler(&log, nil)), wakes: map[string]*jobSignal{"job": {}},
		}
		p.gate = admission.New(admission.Config{Limits: Limits{QueuePerBuyer: 1}.WithDefaults(), Access: Access{Allow: []string{"buyer"}}, Log: p.log})
		enters := func() bool {
			_, err := p.gate.Enter(t.Context(), "another", "buyer", receipts.ModePostpay, false)
			return err == nil
		}
		p.gate.Resume(job)
		if enters() {
			t.Fatal("the job has no place")
		}

		for began := time.Now(); time.Since(began) < 5*time.Minute; time.Sleep(time.Second) {
			if _, err := p.finalInvoice(t.Context(), job, payments.Hash{1}); !errors.Is(err, errAway) {
				t.Fatal(err)
			}
			said := strings.Count(log.String(), "its channel has not settled it yet")
			if waited := time.Since(began); said > 1 || said == 0 && waited > finalSoon+10*time.Second || said == 1 && waited < finalSoon {
				t.Fatalf("said %d times after %v", said, waited)
			}
		}
		if !enters() {
			t.Error("the job keeps its place")
		}
		if _, err := p.finalInvoice(t.Context(), job, payments.Hash{2}); !errors.Is(err, errAway) {
			t.Fatal(err)
		}
		if s := p.wakes["job"].settling; s.hash != (payments.Hash{2}) || s.told {
			t.Errorf("of another payment: %+v", s)
		}
	})
}
