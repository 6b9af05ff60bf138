package cashu

import (
	"encoding/hex"
	"net/http"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/payments"
)

// However a payee spells the preimage so that a mint reads it, its payer does too.
func TestPreimageIsFoundInTheWitness(t *testing.T) {
	t.Parallel()
	preimage := payments.Preimage{0xab, 0xcd, 0xef, 31: 0xfe}
	text := preimage.String()
	for name, c := range map[string]struct {
		witness string
		want    bool
	}{
		"as we write it":     {`{"preimage":"` + text + `","signatures":["ab"]}`, true},
		"capitals":           {`{"preimage":"` + strings.ToUpper(text) + `","signatures":[]}`, true},
		"another member too": {`{"preimage":"` + text + `","Preimage":"00"}`, true},
		"padded":             {`{"memo":"` + strings.Repeat("f", 5000) + `","preimage":"` + text + `"}`, true},
		"behind other hex":   {`{"signatures":["` + strings.Repeat("0", 65) + text + `"]}`, true},
		"escaped":            {`{"preimage":"\u0061` + text[1:] + `"}`, true},
		"with blanks":        {`{"preimage":"` + text[:2] + ` ` + text[2:6] + `\n` + text[6:] + `"}`, true},
		"no strict JSON":     {`{"x":NaN,"preimage":"` + text + `"}`, true},
		"another":            {`{"preimage":"` + hex.EncodeToString(make([]byte, 32)) + `"}`, false},
		"cut":                {`{"preimage":"` + text[:63] + `"}`, false},
		"nothing":            {``, false},
	} {
		got, ok := preimageIn(c.witness, preimage.Hash())
		if ok != c.want || ok && got != preimage {
			t.Errorf("%s: %v", name, ok)
		}
	}
	if _, ok := preimageIn(`{"preimage":"`+text+`"}`, payments.Hash{1}); ok {
		t.Error("it opens another hash")
	}
}

// A payee that writes the preimage as only the mint reads it is paid, and the
// payer has what it paid for.
func TestPayeeHidesThePreimage(t *testing.T) {
	t.Parallel()
	m := newFakeMint(t, 0)
	b := newBench(t, m.place())
	payee, _ := b.open("payee")
	payer, _ := b.open("payer")
	b.fill(payer, 100)
	m.meddled("/v1/checkstate", func(status int, doc any) (int, any) {
		answer, _ := doc.(map[string]any)
		states, ok := answer["states"].([]noteState)
		if !ok {
			return http.StatusInternalServerError, "the test's mint answers otherwise"
		}
		for i := range states {
			upper := strings.ToUpper(states[i].Witness)
			states[i].Witness = strings.Replace(upper, "PREIMAGE", "preimage", 1)
		}
		return status, doc
	})
	preimage := b.secret()
	inv := must[payments.Invoice](b)(payee.CreateInvoice(t.Context(), ask(preimage, false, 50_000)))
	if err := payer.SendPayment(t.Context(), payments.Pay{BOLT11: inv.BOLT11, AmountMsats: 50_000, FeeLimitMsats: 10_000}); err != nil {
		t.Fatal(err)
	}
	paid := must[payments.Payment](b)(payer.TrackPayment(t.Context(), inv.PaymentHash))
	if paid.State != payments.PaymentSucceeded || paid.Preimage != preimage {
		t.Errorf("the payment is %s: %s", paid.State, paid.FailureReason)
	}
}
