package charge

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider/internal/openjob"
)

// flapping calls a payment settled and never final, and is away at every other look.
type flapping struct {
	payments.Payee
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
		places := map[string]bool{"job": true}
		c := New(Config{
			Wallet: &flapping{}, Times: Times{LookupEvery: 5 * time.Second},
			Log: slog.New(slog.NewTextHandler(&log, nil)), Leave: func(id string) { delete(places, id) },
		})
		b := c.Bill(&openjob.Job{Job: job.Job{RequestID: "job", Buyer: "buyer"}})

		for began := time.Now(); time.Since(began) < 5*time.Minute; time.Sleep(time.Second) {
			if _, err := b.final(t.Context(), payments.Hash{1}); !errors.Is(err, errAway) {
				t.Fatal(err)
			}
			said := strings.Count(log.String(), "its channel has not settled it yet")
			if waited := time.Since(began); said > 1 || said == 0 && waited > finalSoon+10*time.Second || said == 1 && waited < finalSoon {
				t.Fatalf("said %d times after %v", said, waited)
			}
		}
		if places["job"] {
			t.Error("the job keeps its place")
		}
		if _, err := b.final(t.Context(), payments.Hash{2}); !errors.Is(err, errAway) {
			t.Fatal(err)
		}
		if s := b.settling; s.hash != (payments.Hash{2}) || s.told {
			t.Errorf("of another payment: %+v", s)
		}
	})
}
