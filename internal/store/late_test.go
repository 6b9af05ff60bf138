package store

import (
	"errors"
	"slices"
	"testing"

	"github.com/lightwork-market/lightwork/internal/store/sales"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// addLate says that came msats are here for a job in all, of which owed are new.
func addLate(t testing.TB, s *sales.Store, j job.Job, came, owed int64) {
	t.Helper()
	told := int64(0)
	got, err := s.AddLate(t.Context(), job.Credit{RequestID: j.RequestID, Buyer: j.Buyer, Msats: came}, func(msats int64) (job.OutEvent, error) {
		told = msats
		return eventFor(j, "late"), nil
	})
	if got != owed || told != owed || err != nil {
		t.Errorf("%d msats are new and %d told, want %d; %v", got, told, owed, err)
	}
}

// TestLateMoney: whatever comes for a job that has ended is owed, once.
func TestLateMoney(t *testing.T) {
	k := open(t)
	s := k.Sales("p")
	j := testJob("late", receipts.ModePrepay)
	toState(t, s, j, job.StateQuoted)
	credit := job.Credit{RequestID: j.RequestID, Buyer: j.Buyer, Msats: 700}
	never := func(int64) (job.OutEvent, error) { t.Error("told"); return job.OutEvent{}, nil }
	if _, err := s.AddLate(t.Context(), credit, never); !errors.Is(err, job.ErrConflict) {
		t.Errorf("of an open job: %v", err)
	}
	must(t, s.Close(t.Context(), j.RequestID, job.StateExpired, job.Reason{Code: "code"}, nil))
	if _, err := s.AddLate(t.Context(), credit, func(int64) (job.OutEvent, error) { return job.OutEvent{}, errors.ErrUnsupported }); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("that cannot be told: %v", err)
	}
	checkCredit(t, s, 0)
	addLate(t, s, j, 700, 700)
	addLate(t, s, j, 700, 0)
	k.reopen(t)
	s = k.Sales("p")
	addLate(t, s, j, 1_000, 300)
	addLate(t, s, j, 1_000, 0)
	checkCredit(t, s, 1_000)
	if list, err := s.Debts(t.Context()); err != nil || len(list) != 1 || list[0].Msats != 1_000 {
		t.Errorf("%+v, %v", list, err)
	}
	must(t, s.WriteOff(t.Context(), j.RequestID, 1_000, "cash"))
	checkCredit(t, s, 0)
}

// TestExcessIsOwed: with the receipt, in one transaction.
func TestExcessIsOwed(t *testing.T) {
	k := open(t)
	s := k.Sales("p")
	j := testJob("excess", receipts.ModePrepay)
	toState(t, s, j, job.StateDelivering)
	issue := issuer(j)
	must(t, s.Settle(t.Context(), j.RequestID, receipts.PurposeResult, settled(j), func(in job.Issue) (job.Issued, error) {
		out, err := issue(in)
		out.Excess = &job.Credit{RequestID: j.RequestID, Buyer: j.Buyer, Msats: 4_000}
		return out, err
	}))
	checkCredit(t, s, 4_000)
}

// TestPaymentOnTheChainIsReadBack: a purchase's is shown by its output.
func TestPaymentOnTheChainIsReadBack(t *testing.T) {
	k := open(t)
	b := k.Purchases()
	p := testPurchase("chain")
	must(t, b.AddPurchase(t.Context(), p))
	a := attemptOf(p)
	must(t, reserve(t.Context(), b, p))
	pay := payments.Payment{Hash: a.PaymentHash, State: payments.PaymentSucceeded, AmountMsats: a.AmountMsats, FeeMsats: 2}
	if err := b.Paid(t.Context(), p.RequestID, pay); err == nil {
		t.Error("a payment that nothing shows was taken")
	}
	pay.Outpoints = "ab:0"
	must(t, b.Paid(t.Context(), p.RequestID, pay))
	k.reopen(t)
	got, err := k.Purchases().Purchase(t.Context(), p.RequestID)
	if err != nil || got.Payment == nil || *got.Payment != pay {
		t.Errorf("%+v, %v", got.Payment, err)
	}
}

// TestUnknownPayments: a job that ended before its wallet answered is listed until it
// is known what came, also after a restart, and also if nothing did.
func TestUnknownPayments(t *testing.T) {
	k := open(t)
	s := k.Sales("p")
	check := func(want ...string) {
		t.Helper()
		got, err := s.UnknownPayments(t.Context())
		must(t, err)
		if !slices.Equal(got, want) {
			t.Errorf("unknown are %v, want %v", got, want)
		}
	}
	paid, unpaid, known := testJob("z", receipts.ModePrepay), testJob("a", receipts.ModePrepay), testJob("known", receipts.ModePrepay)
	for _, j := range []job.Job{paid, unpaid, known} {
		toState(t, s, j, job.StateQuoted)
		code := job.CodePaymentUnknown
		if j.RequestID == known.RequestID {
			code = job.CodePaymentExpired
		}
		must(t, s.Close(t.Context(), j.RequestID, job.StateExpired, job.Reason{Code: code}, nil))
	}
	check(paid.RequestID, unpaid.RequestID)
	k.reopen(t)
	s = k.Sales("p")

	c := job.Credit{RequestID: paid.RequestID, Buyer: paid.Buyer, Msats: 700}
	_, err := s.AddLate(t.Context(), c, func(int64) (job.OutEvent, error) { return job.OutEvent{}, errors.ErrUnsupported })
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("that cannot be told: %v", err)
	}
	check(paid.RequestID, unpaid.RequestID)
	addLate(t, s, paid, 700, 700)
	check(unpaid.RequestID)
	if msats, err := s.AddLate(t.Context(), job.Credit{RequestID: unpaid.RequestID, Buyer: unpaid.Buyer}, nil); msats != 0 || err != nil {
		t.Errorf("%d msats, %v", msats, err)
	}
	check()
}
