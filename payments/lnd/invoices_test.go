package lnd

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lightningnetwork/lnd/lnrpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
)

var errLost = status.Error(codes.Unavailable, "transport is closing")

func holdInvoice() payments.NewInvoice {
	return payments.NewInvoice{
		PaymentHash: testHash, Hold: true, AmountMsats: 5_000, DescriptionHash: description, Expiry: 10 * time.Minute,
	}
}

func prepayInvoice() payments.NewInvoice {
	want := holdInvoice()
	want.Hold, want.Preimage = false, testPreimage
	return want
}

// A reply that is lost leaves an invoice, which the repetition finds.
func TestCreateInvoiceIsRepeatable(t *testing.T) {
	for name, want := range map[string]payments.NewInvoice{"hold": holdInvoice(), "prepay": prepayInvoice()} {
		t.Run(name, func(t *testing.T) {
			fake := &fakeLND{afterAdd: func() error { return errLost }}
			w := fake.start(t, Config{})
			if _, err := w.CreateInvoice(t.Context(), want); !errors.Is(err, payments.ErrWalletUnavailable) {
				t.Fatalf("lost reply: %v, want ErrWalletUnavailable", err)
			}
			got, err := w.CreateInvoice(t.Context(), want)
			if err != nil {
				t.Fatal(err)
			}
			if got.State != payments.InvoiceOpen || got.PaymentHash != testHash || got.AmountMsats != 5_000 || got.BOLT11 == "" {
				t.Errorf("second try gives %+v", got)
			}
			fake.afterAdd = nil
			if again, err := w.CreateInvoice(t.Context(), want); err != nil || again != got {
				t.Errorf("third try gives %+v, %v; want the same", again, err)
			}
			if len(fake.invoices) != 1 {
				t.Errorf("lnd has %d invoices, want 1", len(fake.invoices))
			}
		})
	}
}

func TestCreateInvoiceMismatch(t *testing.T) {
	tests := map[string]func(*payments.NewInvoice){
		"amount":      func(n *payments.NewInvoice) { n.AmountMsats++ },
		"description": func(n *payments.NewInvoice) { n.DescriptionHash = hashing.Bytes([]byte("another quote")) },
		"expiry":      func(n *payments.NewInvoice) { n.Expiry += time.Second },
		"not a hold":  func(n *payments.NewInvoice) { n.Hold, n.Preimage = false, testPreimage },
	}
	w := new(fakeLND).start(t, Config{})
	if _, err := w.CreateInvoice(t.Context(), holdInvoice()); err != nil {
		t.Fatal(err)
	}
	for name, change := range tests {
		want := holdInvoice()
		change(&want)
		if got, err := w.CreateInvoice(t.Context(), want); !errors.Is(err, payments.ErrInvoiceMismatch) || got.BOLT11 != "" {
			t.Errorf("%s: %+v, %v; want ErrInvoiceMismatch", name, got, err)
		}
	}
}

// lnd's refusal of an invoice it does not have is told as it is.
func TestCreateInvoiceRefused(t *testing.T) {
	fake := &fakeLND{refuse: func(rpc string) error {
		if rpc == rpcAddHoldInvoice {
			return status.Error(codes.Unknown, "expiry of 1e9 seconds greater than max expiry")
		}
		return nil
	}}
	w := fake.start(t, Config{})
	_, err := w.CreateInvoice(t.Context(), holdInvoice())
	var e *Error
	if !errors.As(err, &e) || e.RPC != rpcAddHoldInvoice || errors.Is(err, payments.ErrNotFound) {
		t.Errorf("got %v, want lnd's own words", err)
	}
	bad := holdInvoice()
	bad.AmountMsats = 0
	if _, err := w.CreateInvoice(t.Context(), bad); !errors.Is(err, payments.ErrAmount) {
		t.Errorf("amount 0: %v, want ErrAmount", err)
	}
}

func TestSettleBy(t *testing.T) {
	htlc := func(expiry int32, state lnrpc.InvoiceHTLCState) *lnrpc.InvoiceHTLC {
		return &lnrpc.InvoiceHTLC{ExpiryHeight: expiry, State: state}
	}
	const accepted, canceled = lnrpc.InvoiceHTLCState_ACCEPTED, lnrpc.InvoiceHTLCState_CANCELED
	tests := []struct {
		name  string
		htlcs []*lnrpc.InvoiceHTLC
		want  time.Duration // from now, at height 500
	}{
		{"a fresh hold", []*lnrpc.InvoiceHTLC{htlc(580, accepted)}, 52 * time.Minute},
		{"the lowest counts", []*lnrpc.InvoiceHTLC{htlc(580, accepted), htlc(540, accepted), htlc(590, accepted)}, 12 * time.Minute},
		{"those given back do not", []*lnrpc.InvoiceHTLC{htlc(510, canceled), htlc(580, accepted)}, 52 * time.Minute},
		{"at the margin", []*lnrpc.InvoiceHTLC{htlc(528, accepted)}, 0},
		{"past it", []*lnrpc.InvoiceHTLC{htlc(501, accepted)}, 0},
		{"no HTLC", nil, 0},
		{"absurd height", []*lnrpc.InvoiceHTLC{htlc(1<<31-1, accepted)}, 2016 * time.Minute},
	}
	for _, test := range tests {
		fake := &fakeLND{}
		w := fake.start(t, Config{BlockTime: time.Minute, SettleMarginBlocks: 10})
		fake.invoices[testHash] = &lnrpc.Invoice{
			RHash: testHash[:], State: lnrpc.Invoice_ACCEPTED, ValueMsat: 5_000, AmtPaidMsat: 5_001, Htlcs: test.htlcs,
		}
		before := time.Now()
		inv, err := w.LookupInvoice(t.Context(), testHash)
		after := time.Now()
		if err != nil || inv.State != payments.InvoiceHeld || inv.PaidMsats != 5_001 {
			t.Errorf("%s: %+v, %v", test.name, inv, err)
		}
		if inv.SettleBy.Before(before.Add(test.want)) || inv.SettleBy.After(after.Add(test.want)) {
			t.Errorf("%s: settle by %v from now, want %v", test.name, inv.SettleBy.Sub(before), test.want)
		}
	}
}

// Settled is not yet paid: the resolutions of the HTLCs decide.
func TestFinal(t *testing.T) {
	type answer struct {
		reply *lnrpc.LookupHtlcResolutionResponse
		err   error
	}
	paid := answer{reply: &lnrpc.LookupHtlcResolutionResponse{Settled: true}}
	lost := answer{reply: &lnrpc.LookupHtlcResolutionResponse{Settled: false}}
	pending := answer{err: status.Error(codes.NotFound, "htlc unknown")}
	notStored := answer{err: status.Error(codes.Unavailable, "cannot lookup with flag --store-final-htlc-resolutions=false")}
	tests := []struct {
		name    string
		answers []answer
		state   payments.InvoiceState
		paid    int64
		lost    int64
		final   bool
	}{
		{"paid", []answer{paid}, payments.InvoiceSettled, 1_000, 0, true},
		{"not locked in yet", []answer{pending}, payments.InvoiceSettled, 1_000, 0, false},
		{"one part not yet", []answer{paid, pending}, payments.InvoiceSettled, 2_000, 0, false},
		{"one part lost", []answer{paid, lost}, payments.InvoiceSettled, 1_000, 1_000, true},
		{"all lost", []answer{lost, lost}, payments.InvoiceCanceled, 0, 2_000, false},
		{"lost and pending", []answer{lost, pending}, payments.InvoiceSettled, 1_000, 1_000, false},
		{"a node that stores none", []answer{notStored}, payments.InvoiceSettled, 1_000, 0, true},
		{"no HTLC", nil, payments.InvoiceSettled, 0, 0, false},
	}
	for _, test := range tests {
		fake := &fakeLND{resolution: func(index uint64) (*lnrpc.LookupHtlcResolutionResponse, error) {
			return test.answers[index].reply, test.answers[index].err
		}}
		w := fake.start(t, Config{})
		raw := &lnrpc.Invoice{RHash: testHash[:], State: lnrpc.Invoice_SETTLED, SettleDate: 1_800_000_000}
		for i := range test.answers {
			raw.AmtPaidMsat += 1_000
			raw.Htlcs = append(raw.Htlcs, &lnrpc.InvoiceHTLC{HtlcIndex: uint64(i), AmtMsat: 1_000, State: lnrpc.InvoiceHTLCState_SETTLED})
		}
		fake.invoices[testHash] = raw
		inv, err := w.LookupInvoice(t.Context(), testHash)
		if err != nil || inv.State != test.state || inv.PaidMsats != test.paid || inv.LostMsats != test.lost || inv.Final != test.final {
			t.Errorf("%s: %+v, %v", test.name, inv, err)
		}
		if settled := inv.State == payments.InvoiceSettled; settled != inv.SettledAt.Equal(time.Unix(1_800_000_000, 0)) {
			t.Errorf("%s: settled at %v", test.name, inv.SettledAt)
		}
	}
	// A connection that breaks is no answer.
	fake := &fakeLND{resolution: func(uint64) (*lnrpc.LookupHtlcResolutionResponse, error) { return nil, errLost }}
	w := fake.start(t, Config{})
	fake.invoices[testHash] = &lnrpc.Invoice{
		RHash: testHash[:], State: lnrpc.Invoice_SETTLED,
		Htlcs: []*lnrpc.InvoiceHTLC{{State: lnrpc.InvoiceHTLCState_SETTLED}},
	}
	if inv, err := w.LookupInvoice(t.Context(), testHash); !errors.Is(err, payments.ErrWalletUnavailable) {
		t.Errorf("broken connection: %+v, %v; want ErrWalletUnavailable", inv, err)
	}
}

func TestLookupInvoiceRefuses(t *testing.T) {
	fake := &fakeLND{}
	w := fake.start(t, Config{})
	if _, err := w.LookupInvoice(t.Context(), testHash); !errors.Is(err, payments.ErrNotFound) {
		t.Errorf("unknown: %v, want ErrNotFound", err)
	}
	fake.invoices[testHash] = &lnrpc.Invoice{RHash: make([]byte, 32)}
	if _, err := w.LookupInvoice(t.Context(), testHash); !errors.Is(err, payments.ErrInvoiceMismatch) {
		t.Errorf("another invoice: %v, want ErrInvoiceMismatch", err)
	}
	fake.invoices[testHash] = &lnrpc.Invoice{RHash: testHash[:], State: 99}
	if _, err := w.LookupInvoice(t.Context(), testHash); !errors.Is(err, payments.ErrUnsupported) {
		t.Errorf("unknown state: %v, want ErrUnsupported", err)
	}
}

// A repetition is fine only where the invoice already is what was asked.
func TestSettleAndCancelAreRepeatable(t *testing.T) {
	const open, held = lnrpc.Invoice_OPEN, lnrpc.Invoice_ACCEPTED
	const settled, canceled = lnrpc.Invoice_SETTLED, lnrpc.Invoice_CANCELED
	tests := []struct {
		name   string
		state  lnrpc.Invoice_InvoiceState
		settle error
		cancel error
	}{
		{"open", open, payments.ErrNotHeld, nil},
		{"held", held, nil, nil},
		{"settled", settled, nil, payments.ErrInvoiceSettled},
		{"canceled", canceled, payments.ErrInvoiceCanceled, nil},
	}
	for _, test := range tests {
		fake := &fakeLND{resolution: func(uint64) (*lnrpc.LookupHtlcResolutionResponse, error) {
			return &lnrpc.LookupHtlcResolutionResponse{Settled: true}, nil
		}}
		w := fake.start(t, Config{})
		put := func() {
			fake.invoices[testHash] = &lnrpc.Invoice{
				RHash: testHash[:], State: test.state,
				Htlcs: []*lnrpc.InvoiceHTLC{{State: lnrpc.InvoiceHTLCState_SETTLED}},
			}
		}
		for range 2 { // the second time the reply to the first was lost
			put()
			if err := w.SettleInvoice(t.Context(), testPreimage); !errors.Is(err, test.settle) {
				t.Errorf("settle %s: %v, want %v", test.name, err, test.settle)
			}
			if err := w.SettleInvoice(t.Context(), testPreimage); !errors.Is(err, test.settle) {
				t.Errorf("settle %s again: %v, want %v", test.name, err, test.settle)
			}
			put()
			if err := w.CancelInvoice(t.Context(), testHash); !errors.Is(err, test.cancel) {
				t.Errorf("cancel %s: %v, want %v", test.name, err, test.cancel)
			}
			if err := w.CancelInvoice(t.Context(), testHash); !errors.Is(err, test.cancel) {
				t.Errorf("cancel %s again: %v, want %v", test.name, err, test.cancel)
			}
		}
	}
}

func TestSettleAndCancelFailures(t *testing.T) {
	fake := &fakeLND{afterChange: func() error { return errLost }}
	w := fake.start(t, Config{})
	if err := w.SettleInvoice(t.Context(), payments.Preimage{}); !errors.Is(err, payments.ErrBadRequest) {
		t.Errorf("zero preimage: %v, want ErrBadRequest", err)
	}
	if err := w.SettleInvoice(t.Context(), testPreimage); !errors.Is(err, payments.ErrNotFound) {
		t.Errorf("settle unknown: %v, want ErrNotFound", err)
	}
	if err := w.CancelInvoice(t.Context(), testHash); !errors.Is(err, payments.ErrNotFound) {
		t.Errorf("cancel unknown: %v, want ErrNotFound", err)
	}
	// A macaroon that lacks the right is told of that right, not of the lookup's.
	fake.refuse = func(string) error { return status.Error(codes.Unknown, "permission denied") }
	if err := w.SettleInvoice(t.Context(), testPreimage); !errors.Is(err, payments.ErrUnauthorized) || !strings.Contains(err.Error(), "uri:"+rpcSettleInvoice) {
		t.Errorf("not permitted: %v, want ErrUnauthorized that names %s", err, rpcSettleInvoice)
	}
	fake.refuse = nil
	// The effect without the reply: the caller repeats.
	fake.invoices[testHash] = &lnrpc.Invoice{RHash: testHash[:], State: lnrpc.Invoice_ACCEPTED}
	if err := w.SettleInvoice(t.Context(), testPreimage); !errors.Is(err, payments.ErrWalletUnavailable) {
		t.Errorf("lost reply: %v, want ErrWalletUnavailable", err)
	}
	if err := w.SettleInvoice(t.Context(), testPreimage); err != nil {
		t.Errorf("repetition: %v", err)
	}
}
