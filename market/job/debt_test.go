package job

import (
	"testing"

	"github.com/lightwork-market/lightwork/payments"
)

// TestWhatARefundSends: on the chain the URI says what the buyer gets, and the rest of
// the refund is the miners'; an invoice is paid all that was taken from the credit.
func TestWhatARefundSends(t *testing.T) {
	for text, want := range map[string]struct {
		rail  payments.Rail
		msats int64
	}{
		"bitcoin:bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4?amount=0.00014": {payments.RailOnChain, 14_000_000},
		"lnbc150u1invoice": {payments.RailLightning, 15_000_000},
	} {
		r := Refund{BOLT11: text, Msats: 15_000_000}
		if r.Rail() != want.rail || r.SentMsats() != want.msats {
			t.Errorf("%s: %d msats on %s", text, r.SentMsats(), r.Rail())
		}
	}
}

// TestLeftOfADebt: an attempt on its way counts as sent, one that failed does not, and of
// one that succeeded what the miners did not need is left.
func TestLeftOfADebt(t *testing.T) {
	attempt := func(msats int64, end *RefundEnd) Refund { return Refund{Msats: msats, End: end} }
	for name, tt := range map[string]struct {
		attempts []Refund
		left     int64
	}{
		"none":           {nil, 10_000},
		"on its way":     {[]Refund{attempt(4_000, nil)}, 6_000},
		"failed":         {[]Refund{attempt(4_000, &RefundEnd{State: payments.PaymentFailed})}, 10_000},
		"succeeded":      {[]Refund{attempt(4_000, &RefundEnd{State: payments.PaymentSucceeded, UnusedMsats: 500})}, 6_500},
		"more than owed": {[]Refund{attempt(11_000, nil)}, 0},
	} {
		d := Debt{Credit: Credit{Msats: 10_000}, Attempts: tt.attempts}
		if got := d.LeftMsats(); got != tt.left {
			t.Errorf("%s: %d msats are left, want %d", name, got, tt.left)
		}
	}
}
