package nwc

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/playnet"
)

// TestHostilePayAnswers: only a clear refusal is a failure, and only the
// preimage is a success. All else leaves the outcome open.
func TestHostilePayAnswers(t *testing.T) {
	url := startRelay(t)
	l := openLedger(t, playnet.Config{})
	payee, node := openWallet(t, l, "payee"), openWallet(t, l, "node")
	var other payments.Preimage
	rand.Read(other[:])
	stranger, err := NewSecret()
	if err != nil {
		t.Fatal(err)
	}
	raw := func(text string) func(f *fake, ev nostr.Event, b bill) []nostr.Event {
		return func(f *fake, ev nostr.Event, b bill) []nostr.Event {
			return []nostr.Event{f.sealed(ev.ID, strings.ReplaceAll(text, "PREIMAGE", b.preimage.String()))}
		}
	}
	code := func(c Code) func(f *fake, ev nostr.Event, b bill) []nostr.Event {
		return func(f *fake, ev nostr.Event, _ bill) []nostr.Event { return f.refuse(ev, PayInvoice, c) }
	}
	const good = `{"result_type":"pay_invoice","result":{"preimage":"PREIMAGE","fees_paid":3}}`
	cases := map[string]struct {
		answer func(f *fake, ev nostr.Event, b bill) []nostr.Event
		want   error // nil: paid
		silent bool  // no answer to this request
	}{
		"good":                     {raw(good), nil, false},
		"good with unknown fields": {raw(`{"result_type":"pay_invoice","x":{},"error":null,"result":{"preimage":"PREIMAGE","y":[1]}}`), nil, false},
		"twice":                    {func(f *fake, ev nostr.Event, b bill) []nostr.Event { e := raw(good)(f, ev, b); return append(e, e...) }, nil, false},
		"a refusal and then good": {func(f *fake, ev nostr.Event, b bill) []nostr.Event {
			return append(f.refuse(ev, PayInvoice, CodePaymentFailed), raw(good)(f, ev, b)...)
		}, payments.ErrNoRoute, false},
		"by a stranger, then good": {func(f *fake, ev nostr.Event, b bill) []nostr.Event {
			e := f.refuse(ev, PayInvoice, CodePaymentFailed)
			if err := stranger.sign(&e[0]); err != nil {
				t.Error(err)
			}
			return append(e, raw(good)(f, ev, b)...)
		}, nil, false},
		"for another request": {func(f *fake, ev nostr.Event, b bill) []nostr.Event {
			return []nostr.Event{f.sealed(strings.Repeat("ab", 32), strings.ReplaceAll(good, "PREIMAGE", b.preimage.String()))}
		}, payments.ErrUnknownOutcome, true},
		"never":               {func(*fake, nostr.Event, bill) []nostr.Event { return nil }, payments.ErrUnknownOutcome, true},
		"another's preimage":  {raw(`{"result_type":"pay_invoice","result":{"preimage":"` + other.String() + `"}}`), payments.ErrUnknownOutcome, false},
		"all-zero preimage":   {raw(`{"result_type":"pay_invoice","result":{"preimage":"` + strings.Repeat("0", 64) + `"}}`), payments.ErrUnknownOutcome, false},
		"no preimage":         {raw(`{"result_type":"pay_invoice","result":{}}`), payments.ErrUnknownOutcome, false},
		"negative fee":        {raw(`{"result_type":"pay_invoice","result":{"preimage":"PREIMAGE","fees_paid":-1}}`), payments.ErrUnknownOutcome, false},
		"fractional fee":      {raw(`{"result_type":"pay_invoice","result":{"preimage":"PREIMAGE","fees_paid":0.5}}`), payments.ErrUnknownOutcome, false},
		"wrong result_type":   {raw(`{"result_type":"get_balance","result":{"preimage":"PREIMAGE"}}`), payments.ErrUnknownOutcome, false},
		"wrong type of error": {raw(`{"result_type":"get_balance","error":{"code":"PAYMENT_FAILED"}}`), payments.ErrUnknownOutcome, false},
		"field twice":         {raw(`{"result_type":"pay_invoice","result":{"preimage":"PREIMAGE"},"result":{}}`), payments.ErrUnknownOutcome, false},
		"neither":             {raw(`{"result_type":"pay_invoice","error":null,"result":null}`), payments.ErrUnknownOutcome, false},
		"no JSON":             {raw(`PREIMAGE`), payments.ErrUnknownOutcome, false},
		"huge":                {raw(`{"result_type":"` + strings.Repeat("x", 40_000) + `"}`), payments.ErrUnknownOutcome, false},
		"deep":                {raw(strings.Repeat("[", 30_000)), payments.ErrUnknownOutcome, false},
		"garbage": {func(f *fake, ev nostr.Event, _ bill) []nostr.Event {
			return []nostr.Event{f.signed(nostr.Event{Kind: kindResponse, CreatedAt: nostr.Now(), Content: strings.Repeat("A", 500), Tags: nostr.Tags{{"p", f.app.Client}, {"e", ev.ID}}})}
		}, payments.ErrUnknownOutcome, false},
		"error without a code": {raw(`{"result_type":"pay_invoice","error":{"message":"no"}}`), payments.ErrUnknownOutcome, false},
		"error and result":     {raw(`{"result_type":"pay_invoice","error":{"code":"INTERNAL"},"result":{"preimage":"PREIMAGE"}}`), payments.ErrUnknownOutcome, false},
		"internal":             {code(CodeInternal), payments.ErrUnknownOutcome, false},
		"other":                {code(CodeOther), payments.ErrUnknownOutcome, false},
		"unheard of":           {code("WHATEVER"), payments.ErrUnknownOutcome, false},
		"payment failed":       {code(CodePaymentFailed), payments.ErrNoRoute, false},
		"no money":             {code(CodeInsufficientBalance), payments.ErrInsufficientFunds, false},
		"no quota":             {code(CodeQuotaExceeded), payments.ErrInsufficientFunds, false},
		"restricted":           {code(CodeRestricted), payments.ErrUnauthorized, false},
		"unauthorized":         {code(CodeUnauthorized), payments.ErrUnauthorized, false},
		"not implemented":      {code(CodeNotImplemented), payments.ErrUnsupported, false},
		"too fast":             {code(CodeRateLimited), payments.ErrWalletUnavailable, false},
	}
	n, err := node.Node(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBill(t, payee)
			f := startFake(t, url, n, func(f *fake, ev nostr.Event, r request) []nostr.Event {
				if r.Method == PayInvoice {
					return c.answer(f, ev, b)
				}
				return f.refuse(ev, r.Method, CodeNotFound)
			})
			timeout := patience
			if c.silent {
				timeout = 5 * time.Second // it is waited for
			}
			client := startClient(t, Config{Connection: f.conn, CallTimeout: timeout})
			err := client.SendPayment(t.Context(), b.pay())
			checkOutcome(t, client, b, err, c.want)
			if n := f.count(PayInvoice); n != 1 {
				t.Errorf("pay_invoice was sent %d times", n)
			}
		})
	}
}

// checkOutcome: SendPayment's error is want, and LookupPayment agrees.
func checkOutcome(t *testing.T, client *Client, b bill, err, want error) {
	t.Helper()
	if !errors.Is(err, want) || want != payments.ErrUnknownOutcome && errors.Is(err, payments.ErrUnknownOutcome) {
		t.Fatalf("error %v, want %v", err, want)
	}
	p, err := client.LookupPayment(t.Context(), b.PaymentHash)
	switch {
	case want == nil:
		if err != nil || p.State != payments.PaymentSucceeded || p.Preimage != b.preimage {
			t.Errorf("payment %+v, %v", p, err)
		}
	case want == payments.ErrUnknownOutcome:
		// Unknown while the request may be acted on; then it may be sent again.
		if err == nil && p.State != payments.PaymentUnknown || err != nil && !errors.Is(err, payments.ErrNotFound) {
			t.Errorf("payment %+v, %v", p, err)
		}
	default:
		if err == nil && p.State == payments.PaymentSucceeded {
			t.Errorf("payment %+v", p)
		}
	}
}

// TestUnansweredIsNotSentAgain: while a request may still be acted on, asking
// again sends nothing, and the late answer is believed.
func TestUnansweredIsNotSentAgain(t *testing.T) {
	url := startRelay(t)
	l := openLedger(t, playnet.Config{})
	b := newBill(t, openWallet(t, l, "payee"))
	node, err := openWallet(t, l, "node").Node(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	requests := make(chan nostr.Event, 10)
	f := startFake(t, url, node, func(f *fake, ev nostr.Event, r request) []nostr.Event {
		if r.Method == PayInvoice {
			requests <- ev
			return nil
		}
		return f.refuse(ev, r.Method, CodeNotFound)
	})
	client := startClient(t, Config{Connection: f.conn, CallTimeout: patience})
	impatient, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		requests <- <-requests
	}()
	p := b.pay()
	if err := client.SendPayment(impatient, p); !errors.Is(err, payments.ErrUnknownOutcome) {
		t.Fatalf("given up: %v", err)
	}
	again := make(chan error, 1)
	go func() { again <- client.SendPayment(t.Context(), p) }()
	ev := <-requests
	for f.count(LookupInvoice) < 3 { // the second call has looked, and waits
		time.Sleep(time.Millisecond) // only the pace of looking
	}
	for _, e := range f.result(ev, PayInvoice, payResult{Preimage: b.preimage.String()}) {
		f.publish(e)
	}
	if err := <-again; err != nil {
		t.Error(err)
	}
	if n := f.count(PayInvoice); n != 1 {
		t.Errorf("pay_invoice was sent %d times", n)
	}
	if got, err := client.TrackPayment(t.Context(), b.PaymentHash); err != nil || got.Preimage != b.preimage {
		t.Errorf("payment %+v, %v", got, err)
	}
}

// TestAlreadyPaid: a wallet that refuses to pay twice is asked what it paid.
func TestAlreadyPaid(t *testing.T) {
	url := startRelay(t)
	l := openLedger(t, playnet.Config{})
	b := newBill(t, openWallet(t, l, "payee"))
	node, err := openWallet(t, l, "node").Node(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var asked bool // by the fake's goroutine
	f := startFake(t, url, node, func(f *fake, ev nostr.Event, r request) []nostr.Event {
		switch {
		case r.Method == PayInvoice:
			asked = true
			return f.refuse(ev, r.Method, CodeOther)
		case !asked:
			return f.refuse(ev, r.Method, CodeNotFound)
		}
		return f.result(ev, LookupInvoice, transaction{
			Type: typeOutgoing, State: stateSettled, Invoice: b.BOLT11, PaymentHash: b.PaymentHash.String(),
			Preimage: b.preimage.String(), Amount: b.AmountMsats, FeesPaid: 2,
		})
	})
	client := startClient(t, Config{Connection: f.conn})
	if err := client.SendPayment(t.Context(), b.pay()); err != nil {
		t.Fatal(err)
	}
	want := payments.Payment{Hash: b.PaymentHash, State: payments.PaymentSucceeded, AmountMsats: b.AmountMsats, FeeMsats: 2, Preimage: b.preimage}
	if p, err := client.TrackPayment(t.Context(), b.PaymentHash); err != nil || p != want {
		t.Errorf("payment %+v, %v", p, err)
	}
}
