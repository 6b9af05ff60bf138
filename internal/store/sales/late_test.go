package sales_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/lightwork-market/lightwork/internal/store/storetest"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// TestLateMoney: whatever comes for a job that has ended is owed, once.
func TestLateMoney(t *testing.T) {
	k := storetest.Open(t)
	s := k.Sales("p")
	j := storetest.Job("late", receipts.ModePrepay)
	storetest.ToState(t, s, j, job.StateQuoted)
	credit := job.Credit{RequestID: j.RequestID, Buyer: j.Buyer, Msats: 700}
	never := func(int64) (job.OutEvent, error) { t.Error("told"); return job.OutEvent{}, nil }
	if _, err := s.AddLate(t.Context(), credit, never); !errors.Is(err, job.ErrConflict) {
		t.Errorf("of an open job: %v", err)
	}
	storetest.Must(t, s.Close(t.Context(), j.RequestID, job.StateExpired, job.Reason{Code: "code"}, nil))
	if _, err := s.AddLate(t.Context(), credit, func(int64) (job.OutEvent, error) { return job.OutEvent{}, errors.ErrUnsupported }); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("that cannot be told: %v", err)
	}
	storetest.CheckCredit(t, s, 0)
	storetest.AddLate(t, s, j, 700, 700)
	storetest.AddLate(t, s, j, 700, 0)
	k.Reopen(t)
	s = k.Sales("p")
	storetest.AddLate(t, s, j, 1_000, 300)
	storetest.AddLate(t, s, j, 1_000, 0)
	storetest.CheckCredit(t, s, 1_000)
	if list, err := s.Debts(t.Context()); err != nil || len(list) != 1 || list[0].Msats != 1_000 {
		t.Errorf("%+v, %v", list, err)
	}
	storetest.Must(t, s.WriteOff(t.Context(), j.RequestID, 1_000, "cash"))
	storetest.CheckCredit(t, s, 0)
}

// TestExcessIsOwed: with the receipt, in one transaction.
func TestExcessIsOwed(t *testing.T) {
	k := storetest.Open(t)
	s := k.Sales("p")
	j := storetest.Job("excess", receipts.ModePrepay)
	storetest.ToState(t, s, j, job.StateDelivering)
	issue := storetest.Issuer(j)
	storetest.Must(t, s.Settle(t.Context(), j.RequestID, receipts.PurposeResult, storetest.Settled(j), func(in job.Issue) (job.Issued, error) {
		out, err := issue(in)
		out.Excess = &job.Credit{RequestID: j.RequestID, Buyer: j.Buyer, Msats: 4_000}
		return out, err
	}))
	storetest.CheckCredit(t, s, 4_000)
}

// TestPaymentOnTheChainIsReadBack: a purchase's is shown by its output.
func TestPaymentOnTheChainIsReadBack(t *testing.T) {
	k := storetest.Open(t)
	b := k.Purchases()
	p := storetest.Purchase("chain")
	storetest.Must(t, b.AddPurchase(t.Context(), p))
	a := storetest.AttemptOf(p)
	storetest.Must(t, storetest.Reserve(t.Context(), b, p))
	pay := payments.Payment{Hash: a.PaymentHash, State: payments.PaymentSucceeded, AmountMsats: a.AmountMsats, FeeMsats: 2}
	if err := b.Paid(t.Context(), p.RequestID, pay); err == nil {
		t.Error("a payment that nothing shows was taken")
	}
	pay.Outpoints = "ab:0"
	storetest.Must(t, b.Paid(t.Context(), p.RequestID, pay))
	k.Reopen(t)
	got, err := k.Purchases().Purchase(t.Context(), p.RequestID)
	if err != nil || got.Payment == nil || *got.Payment != pay {
		t.Errorf("%+v, %v", got.Payment, err)
	}
}

// TestUnknownPayments: a job that ended before its wallet answered is listed until it
// is known what came, also after a restart, and also if nothing did.
func TestUnknownPayments(t *testing.T) {
	k := storetest.Open(t)
	s := k.Sales("p")
	check := func(want ...string) {
		t.Helper()
		got, err := s.UnknownPayments(t.Context())
		storetest.Must(t, err)
		if !slices.Equal(got, want) {
			t.Errorf("unknown are %v, want %v", got, want)
		}
	}
	paid, unpaid, known := storetest.Job("z", receipts.ModePrepay), storetest.Job("a", receipts.ModePrepay), storetest.Job("known", receipts.ModePrepay)
	for _, j := range []job.Job{paid, unpaid, known} {
		storetest.ToState(t, s, j, job.StateQuoted)
		code := job.CodePaymentUnknown
		if j.RequestID == known.RequestID {
			code = job.CodePaymentExpired
		}
		storetest.Must(t, s.Close(t.Context(), j.RequestID, job.StateExpired, job.Reason{Code: code}, nil))
	}
	check(paid.RequestID, unpaid.RequestID)
	k.Reopen(t)
	s = k.Sales("p")

	c := job.Credit{RequestID: paid.RequestID, Buyer: paid.Buyer, Msats: 700}
	_, err := s.AddLate(t.Context(), c, func(int64) (job.OutEvent, error) { return job.OutEvent{}, errors.ErrUnsupported })
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("that cannot be told: %v", err)
	}
	check(paid.RequestID, unpaid.RequestID)
	storetest.AddLate(t, s, paid, 700, 700)
	check(unpaid.RequestID)
	if msats, err := s.AddLate(t.Context(), job.Credit{RequestID: unpaid.RequestID, Buyer: unpaid.Buyer}, nil); msats != 0 || err != nil {
		t.Errorf("%d msats, %v", msats, err)
	}
	check()
}
