package lnd

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/lightningnetwork/lnd/lnrpc"
	"github.com/lightningnetwork/lnd/lnrpc/routerrpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
)

const (
	initiated = lnrpc.Payment_INITIATED
	inFlight  = lnrpc.Payment_IN_FLIGHT
	succeeded = lnrpc.Payment_SUCCEEDED
	gaveUp    = lnrpc.Payment_FAILED
)

// testPay pays an invoice of another node.
func testPay(t *testing.T) payments.Pay {
	return payments.Pay{
		BOLT11:      encodeInvoice(t, otherKey, testHash, 5_000, description, time.Hour, payments.Simnet),
		AmountMsats: 5_000, FeeLimitMsats: 77, Timeout: 1500 * time.Millisecond,
	}
}

// update is lnd's view of the payment of testPay.
func update(t *testing.T, state lnrpc.Payment_PaymentStatus) *lnrpc.Payment {
	p := &lnrpc.Payment{
		PaymentHash: testHash.String(), PaymentRequest: testPay(t).BOLT11,
		CreationTimeNs: time.Now().UnixNano(), ValueMsat: 5_000, FeeMsat: 3, Status: state,
	}
	switch state {
	case succeeded:
		p.PaymentPreimage = testPreimage.String()
	case inFlight:
		p.Htlcs = []*lnrpc.HTLCAttempt{attempt(lnrpc.HTLCAttempt_FAILED, 5_000), attempt(lnrpc.HTLCAttempt_IN_FLIGHT, 5_000)}
	}
	return p
}

// attempt is one part of a payment, for which 3 msats of fee are paid.
func attempt(state lnrpc.HTLCAttempt_HTLCStatus, msats int64) *lnrpc.HTLCAttempt {
	return &lnrpc.HTLCAttempt{Status: state, Route: &lnrpc.Route{TotalAmtMsat: msats + 3, TotalFeesMsat: 3}}
}

// notBegun is what lnd says of a payment before its first attempt, in words of
// IN_FLIGHT, and of one that has only some of its parts on the way.
func notBegun(t *testing.T, parts ...*lnrpc.HTLCAttempt) *lnrpc.Payment {
	p := update(t, inFlight)
	p.Htlcs = parts
	return p
}

func updateFailed(t *testing.T, reason lnrpc.PaymentFailureReason) *lnrpc.Payment {
	p := update(t, gaveUp)
	p.FailureReason = reason
	return p
}

// sends is a SendPaymentV2 that registers the payment and streams its states.
// With end the stream then breaks in that error, else it stays open.
func (f *fakeLND) sends(end error, updates ...*lnrpc.Payment) {
	f.send = func(_ *routerrpc.SendPaymentRequest, stream routerrpc.Router_SendPaymentV2Server) error {
		for _, u := range updates {
			f.tell(testHash, u)
			if err := stream.Send(u); err != nil {
				return err
			}
		}
		if end != nil {
			return end
		}
		<-stream.Context().Done()
		return nil
	}
}

func TestSendPaymentAsksForWhatWasSaid(t *testing.T) {
	fake := &fakeLND{}
	fake.sends(nil, update(t, initiated), update(t, inFlight))
	w := fake.start(t, Config{})
	if err := w.SendPayment(t.Context(), testPay(t)); err != nil {
		t.Fatal(err)
	}
	req := fake.sent[0]
	if req.PaymentRequest != testPay(t).BOLT11 || req.FeeLimitMsat != 77 || req.FeeLimitSat != 0 || req.AmtMsat != 0 ||
		req.CltvLimit != 80+bolt11.RouteBlocks || req.TimeoutSeconds != 2 || req.Cancelable || req.NoInflightUpdates || req.AllowSelfPayment {
		t.Errorf("lnd was asked %v", req)
	}
	// The payment is begun: a repetition sends nothing.
	if err := w.SendPayment(t.Context(), testPay(t)); err != nil || len(fake.sent) != 1 {
		t.Errorf("repetition: %v, sent %d times", err, len(fake.sent))
	}
}

func TestSendPaymentOutcomes(t *testing.T) {
	const (
		noRoute   = lnrpc.PaymentFailureReason_FAILURE_REASON_NO_ROUTE
		timeout   = lnrpc.PaymentFailureReason_FAILURE_REASON_TIMEOUT
		balance   = lnrpc.PaymentFailureReason_FAILURE_REASON_INSUFFICIENT_BALANCE
		incorrect = lnrpc.PaymentFailureReason_FAILURE_REASON_INCORRECT_PAYMENT_DETAILS
	)
	refusal := func(words string) error { return status.Error(codes.Unknown, words) }
	tests := []struct {
		name    string
		updates []*lnrpc.Payment
		end     error
		want    error
		hint    string
	}{
		{"in flight", []*lnrpc.Payment{update(t, initiated), update(t, inFlight)}, nil, nil, ""},
		{"in parts", []*lnrpc.Payment{notBegun(t, attempt(lnrpc.HTLCAttempt_IN_FLIGHT, 3_000), attempt(lnrpc.HTLCAttempt_SUCCEEDED, 2_000))}, nil, nil, ""},
		{"only a part", []*lnrpc.Payment{notBegun(t), notBegun(t, attempt(lnrpc.HTLCAttempt_IN_FLIGHT, 3_000)), updateFailed(t, balance)}, nil, payments.ErrInsufficientFunds, ""},
		{"done at once", []*lnrpc.Payment{update(t, succeeded)}, nil, nil, ""},
		{"no route", []*lnrpc.Payment{update(t, initiated), updateFailed(t, noRoute)}, nil, payments.ErrNoRoute, "the fee limit was 77 msats"},
		{"too slow", []*lnrpc.Payment{updateFailed(t, timeout)}, nil, payments.ErrNoRoute, "timeout"},
		{"too poor", []*lnrpc.Payment{updateFailed(t, balance)}, nil, payments.ErrInsufficientFunds, "no active channel"},
		{"payee refuses", []*lnrpc.Payment{updateFailed(t, incorrect)}, nil, payments.ErrInvoiceCanceled, "refused by the payee"},
		{"expired", nil, refusal("invoice expired. Valid until 2020"), payments.ErrExpired, ""},
		{"own", nil, refusal("self-payments not allowed"), payments.ErrSelfPayment, ""},
		{"not permitted", nil, refusal("permission denied"), payments.ErrUnauthorized, "uri:/routerrpc.Router/SendPaymentV2"},
		{"lost before it was known", nil, errLost, payments.ErrUnknownOutcome, ""},
		{"lost before it began", []*lnrpc.Payment{update(t, initiated)}, errLost, payments.ErrUnknownOutcome, ""},
		{"ended by lnd", []*lnrpc.Payment{notBegun(t)}, refusal("routerrpc server shutting down"), payments.ErrUnknownOutcome, ""},
		{"exists", nil, status.Error(codes.AlreadyExists, "payment is in transition"), payments.ErrAlreadyPaid, ""},
	}
	for _, test := range tests {
		fake := &fakeLND{}
		fake.sends(test.end, test.updates...)
		w := fake.start(t, Config{})
		err := w.SendPayment(t.Context(), testPay(t))
		if !errors.Is(err, test.want) || (err != nil && !strings.Contains(err.Error(), test.hint)) {
			t.Errorf("%s: %v; want %v with %q", test.name, err, test.want, test.hint)
		}
		if unknown := errors.Is(err, payments.ErrUnknownOutcome); unknown != (test.want == payments.ErrUnknownOutcome) {
			t.Errorf("%s: %v: unknown = %v", test.name, err, unknown)
		}
	}
}

// lnd pays a hash once. Somebody else may have got there between our question
// and our request; whose invoice it was decides.
func TestSendPaymentAlreadyExists(t *testing.T) {
	other := update(t, inFlight)
	other.PaymentRequest = "lnsb1other"
	for want, known := range map[error]*lnrpc.Payment{nil: update(t, inFlight), payments.ErrAlreadyPaid: other} {
		fake := &fakeLND{}
		w := fake.start(t, Config{})
		fake.send = func(*routerrpc.SendPaymentRequest, routerrpc.Router_SendPaymentV2Server) error {
			fake.tell(testHash, known)
			return status.Error(codes.AlreadyExists, "payment is in transition")
		}
		if err := w.SendPayment(t.Context(), testPay(t)); !errors.Is(err, want) {
			t.Errorf("race: %v, want %v", err, want)
		}
		if err := w.SendPayment(t.Context(), testPay(t)); !errors.Is(err, want) || len(fake.sent) != 1 {
			t.Errorf("known before: %v, want %v; sent %d times", err, want, len(fake.sent))
		}
	}
}

// Only a failed payment is sent again.
func TestSendPaymentAfterFailure(t *testing.T) {
	fake := &fakeLND{}
	fake.sends(nil, update(t, inFlight))
	w := fake.start(t, Config{})
	fake.tell(testHash, updateFailed(t, lnrpc.PaymentFailureReason_FAILURE_REASON_NO_ROUTE))
	if err := w.SendPayment(t.Context(), testPay(t)); err != nil || len(fake.sent) != 1 {
		t.Errorf("after a failure: %v, sent %d times", err, len(fake.sent))
	}
	fake.tell(testHash, update(t, succeeded))
	if err := w.SendPayment(t.Context(), testPay(t)); err != nil || len(fake.sent) != 1 {
		t.Errorf("after success: %v, sent %d times", err, len(fake.sent))
	}
}

// What lnd tells of an earlier, failed attempt says nothing about a new one
// whose stream broke: it may still reach lnd.
func TestSendPaymentLostAfterFailure(t *testing.T) {
	fake := &fakeLND{}
	w := fake.start(t, Config{})
	const noRoute = lnrpc.PaymentFailureReason_FAILURE_REASON_NO_ROUTE
	old, again, running := updateFailed(t, noRoute), updateFailed(t, noRoute), update(t, inFlight)
	old.PaymentIndex, again.PaymentIndex, running.PaymentIndex = 1, 2, 2
	tests := []struct {
		name  string
		after *lnrpc.Payment
		end   error
		want  error
	}{
		{"nothing new", old, errLost, payments.ErrUnknownOutcome},
		{"nothing new, refused", old, status.Error(codes.Unknown, "invoice expired"), payments.ErrExpired},
		{"failed anew", again, errLost, payments.ErrNoRoute},
		{"begun anew", running, errLost, nil},
	}
	for _, test := range tests {
		fake.tell(testHash, old)
		fake.send = func(*routerrpc.SendPaymentRequest, routerrpc.Router_SendPaymentV2Server) error {
			fake.tell(testHash, test.after)
			return test.end
		}
		if err := w.SendPayment(t.Context(), testPay(t)); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
	}
}

// A payment that is begun by somebody else is waited for, too.
func TestSendPaymentJoins(t *testing.T) {
	fake := &fakeLND{}
	w := fake.start(t, Config{})
	for want, end := range map[error]*lnrpc.Payment{
		nil:                           update(t, inFlight),
		payments.ErrInsufficientFunds: updateFailed(t, lnrpc.PaymentFailureReason_FAILURE_REASON_INSUFFICIENT_BALANCE),
		payments.ErrUnknownOutcome:    notBegun(t), // and the stream ends
	} {
		fake.tell(testHash, notBegun(t), end)
		if err := w.SendPayment(t.Context(), testPay(t)); !errors.Is(err, want) {
			t.Errorf("joined: %v, want %v", err, want)
		}
	}
	if len(fake.sent) != 0 {
		t.Errorf("sent %d times", len(fake.sent))
	}
}

// The caller going away leaves the payment as it is: unknown.
func TestSendPaymentAbandoned(t *testing.T) {
	fake := &fakeLND{}
	asked := make(chan struct{})
	fake.send = func(_ *routerrpc.SendPaymentRequest, stream routerrpc.Router_SendPaymentV2Server) error {
		close(asked)
		<-stream.Context().Done()
		return nil
	}
	w := fake.start(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	err := w.SendPayment(ctx, testPay(t))
	if !errors.Is(err, payments.ErrUnknownOutcome) || !errors.Is(err, context.Canceled) {
		t.Errorf("abandoned: %v, want ErrUnknownOutcome and context.Canceled", err)
	}
}

func TestSendPaymentRefusesBeforeAsking(t *testing.T) {
	own := func(key *btcec.PrivateKey, network payments.Network) func(*payments.Pay) {
		return func(p *payments.Pay) {
			p.BOLT11 = encodeInvoice(t, key, testHash, 5_000, description, time.Hour, network)
		}
	}
	tests := []struct {
		name  string
		spoil func(*payments.Pay)
		want  error
	}{
		{"not an invoice", func(p *payments.Pay) { p.BOLT11 = "lnsb1nonsense" }, payments.ErrBadRequest},
		{"other amount", func(p *payments.Pay) { p.AmountMsats++ }, payments.ErrAmount},
		{"any amount", func(p *payments.Pay) {
			p.BOLT11 = encodeInvoice(t, otherKey, testHash, 0, description, time.Hour, payments.Simnet)
			p.AmountMsats = 0
		}, payments.ErrAmount},
		{"negative fee", func(p *payments.Pay) { p.FeeLimitMsats = -1 }, payments.ErrAmount},
		{"negative timeout", func(p *payments.Pay) { p.Timeout = -1 }, payments.ErrBadRequest},
		{"mainnet", own(otherKey, payments.Mainnet), payments.ErrWrongNetwork},
		{"our own", own(nodeKey, payments.Simnet), payments.ErrSelfPayment},
	}
	fake := &fakeLND{}
	w := fake.start(t, Config{})
	for _, test := range tests {
		pay := testPay(t)
		test.spoil(&pay)
		if err := w.SendPayment(t.Context(), pay); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
	}
	if n := fake.count(rpcSendPayment) + fake.count(rpcTrackPayment); n != 0 {
		t.Errorf("lnd was asked %d times", n)
	}
}

func TestLookupPayment(t *testing.T) {
	fake := &fakeLND{}
	w := fake.start(t, Config{})
	if _, err := w.LookupPayment(t.Context(), testHash); !errors.Is(err, payments.ErrNotFound) || errors.Is(err, payments.ErrUnknownOutcome) {
		t.Errorf("never heard of: %v, want ErrNotFound", err)
	}
	base := payments.Payment{Hash: testHash, AmountMsats: 5_000, FeeMsats: 3}
	with := func(change func(*payments.Payment)) payments.Payment { p := base; change(&p); return p }
	tests := map[*lnrpc.Payment]payments.Payment{
		update(t, initiated): with(func(p *payments.Payment) { p.State = payments.PaymentInFlight }),
		update(t, inFlight):  with(func(p *payments.Payment) { p.State = payments.PaymentInFlight }),
		update(t, 0):         with(func(p *payments.Payment) { p.State = payments.PaymentUnknown }),
		update(t, 99):        with(func(p *payments.Payment) { p.State = payments.PaymentUnknown }),
		update(t, succeeded): with(func(p *payments.Payment) { p.State, p.Preimage = payments.PaymentSucceeded, testPreimage }),
		updateFailed(t, 1): with(func(p *payments.Payment) {
			p.State, p.FailureReason, p.FeeMsats = payments.PaymentFailed, "timeout: no route was found in time", 0
		}),
		updateFailed(t, 4): with(func(p *payments.Payment) {
			p.State, p.FailureReason, p.FeeMsats = payments.PaymentFailed, "refused by the payee: incorrect payment details", 0
		}),
		updateFailed(t, lnrpc.PaymentFailureReason_FAILURE_REASON_CANCELED): with(func(p *payments.Payment) {
			p.State, p.FailureReason, p.FeeMsats = payments.PaymentFailed, "canceled", 0
		}),
	}
	for raw, want := range tests {
		fake.tell(testHash, raw)
		if got, err := w.LookupPayment(t.Context(), testHash); err != nil || got != want {
			t.Errorf("%v: %+v, %v; want %+v", raw.Status, got, err, want)
		}
	}
}

// Silence and nonsense are unknown, never failed.
func TestLookupPaymentUnknown(t *testing.T) {
	wrongPreimage, wrongHash := update(t, succeeded), update(t, inFlight)
	wrongPreimage.PaymentPreimage = strings.Repeat("0", 64)
	wrongHash.PaymentHash = strings.Repeat("0", 64)
	for name, updates := range map[string][]*lnrpc.Payment{
		"stream without a word": {}, "wrong preimage": {wrongPreimage}, "wrong hash": {wrongHash},
	} {
		fake := &fakeLND{}
		w := fake.start(t, Config{})
		fake.tell(testHash, updates...)
		if got, err := w.LookupPayment(t.Context(), testHash); !errors.Is(err, payments.ErrUnknownOutcome) {
			t.Errorf("%s: %+v, %v; want ErrUnknownOutcome", name, got, err)
		}
	}
	fake := &fakeLND{refuse: func(string) error { return errLost }}
	if _, err := fake.start(t, Config{}).LookupPayment(t.Context(), testHash); !errors.Is(err, payments.ErrUnknownOutcome) || !errors.Is(err, payments.ErrWalletUnavailable) {
		t.Errorf("node away: %v, want ErrUnknownOutcome and ErrWalletUnavailable", err)
	}
}

// A stream that ends or a node that restarts is waited out.
func TestTrackPaymentOutlivesTheStream(t *testing.T) {
	fake := &fakeLND{}
	tries := 0
	fake.refuse = func(rpc string) error {
		if rpc != rpcTrackPayment {
			return nil
		}
		tries++
		switch tries {
		case 1: // ends after IN_FLIGHT
			fake.tell(testHash, update(t, initiated), update(t, inFlight))
		case 2:
			return errLost
		case 3:
			return status.Error(codes.Unknown, "wallet locked, unlock it to enable full RPC access")
		case 4:
			fake.tell(testHash, update(t, inFlight), update(t, succeeded))
		}
		return nil
	}
	w := fake.start(t, Config{})
	got, err := w.TrackPayment(t.Context(), testHash)
	if err != nil || got.State != payments.PaymentSucceeded || got.Preimage != testPreimage || tries != 4 {
		t.Errorf("%+v, %v after %d tries", got, err, tries)
	}
}

func TestTrackPaymentEnds(t *testing.T) {
	fake := &fakeLND{}
	w := fake.start(t, Config{})
	if _, err := w.TrackPayment(t.Context(), testHash); !errors.Is(err, payments.ErrNotFound) {
		t.Errorf("never heard of: %v, want ErrNotFound", err)
	}
	fake.tell(testHash, update(t, inFlight)) // and the stream ends, again and again
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := w.TrackPayment(ctx, testHash); !errors.Is(err, payments.ErrUnknownOutcome) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("in flight to the end: %v, want ErrUnknownOutcome and DeadlineExceeded", err)
	}
	fake.tell(testHash, updateFailed(t, lnrpc.PaymentFailureReason_FAILURE_REASON_NO_ROUTE))
	if got, err := w.TrackPayment(t.Context(), testHash); err != nil || got.State != payments.PaymentFailed || !strings.HasPrefix(got.FailureReason, "no route within the fee limit") {
		t.Errorf("failed: %+v, %v", got, err)
	}
}
