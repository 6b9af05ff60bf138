package money_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/internal/store/storetest"
	"github.com/lightwork-market/lightwork/market/job"
)

// TestRefundIsRetriedOneAtATime: a further attempt is recorded only once the one
// before failed for good, takes the credit again, and ends by its own number.
func TestRefundIsRetriedOneAtATime(t *testing.T) {
	k := storetest.Open(t)
	s := k.Sales("p")
	j := storetest.Owe(t, s, "x", 21_000)
	again := *storetest.DebtOf(j, 21_000).Refund
	retry := func(r job.Refund, want error) {
		t.Helper()
		if n, err := s.RetryRefund(t.Context(), r); !errors.Is(err, want) || want == nil && n != 2 {
			t.Errorf("attempt %d: %v, want %v", n, err, want)
		}
	}
	retry(again, job.ErrRefundOpen)
	storetest.Must(t, s.EndRefund(t.Context(), j.RequestID, storetest.FailedAt(1)))
	storetest.CheckCredit(t, s, 21_000)

	more := again
	more.Msats = 21_001
	retry(more, job.ErrCreditSpent)
	retry(again, nil)
	storetest.CheckCredit(t, s, 0)
	retry(again, job.ErrRefundOpen)
	if err := s.WriteOff(t.Context(), j.RequestID, 1, "by hand"); !errors.Is(err, job.ErrRefundOpen) {
		t.Errorf("written off while a payment is on its way: %v", err)
	}

	k.Reopen(t)
	s = k.Sales("p")
	opened, err := s.OpenRefunds(t.Context())
	if err != nil || len(opened) != 1 || opened[0].Attempt != 2 || opened[0].BOLT11 != again.BOLT11 {
		t.Fatalf("open %+v, %v", opened, err)
	}
	// The end of the first attempt, said again, does not end the second.
	storetest.Must(t, s.EndRefund(t.Context(), j.RequestID, storetest.FailedAt(1)))
	if err := s.EndRefund(t.Context(), j.RequestID, storetest.FailedAt(3)); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("an attempt that was not made: %v", err)
	}
	end := storetest.RefundedFor(j)
	end.Attempt = 2
	storetest.Must(t, s.EndRefund(t.Context(), j.RequestID, end))
	retry(again, job.ErrDebtSettled)
	storetest.CheckCredit(t, s, 0)
	debts, err := s.Debts(t.Context())
	if err != nil || len(debts) != 1 || len(debts[0].Attempts) != 2 || debts[0].Refund.Attempt != 2 || debts[0].Attempts[0].End.Reason != "no route" {
		t.Errorf("%+v, %v", debts, err)
	}
}

// TestRetryWithoutAFirstAttempt: a debt that became credit at once may be paid
// later, but not to an invoice that serves another debt.
func TestRetryWithoutAFirstAttempt(t *testing.T) {
	k := storetest.Open(t)
	s := k.Sales("p")
	other, j := storetest.Owe(t, s, "other", 21_000), storetest.Owe(t, s, "x", 0)
	r := *storetest.DebtOf(j, 21_000).Refund
	taken := r
	taken.PaymentHash, taken.BOLT11 = storetest.RefundSecret(other).Hash(), "lnplay"+other.RequestID
	if _, err := s.RetryRefund(t.Context(), taken); !errors.Is(err, job.ErrRefundTaken) {
		t.Errorf("the invoice of another debt: %v", err)
	}
	if n, err := s.RetryRefund(t.Context(), r); n != 1 || err != nil {
		t.Errorf("attempt %d: %v", n, err)
	}
	storetest.CheckCredit(t, s, 0)
	if _, err := s.RetryRefund(t.Context(), job.Refund{RequestID: storetest.HexID("nobody")}); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("no debt: %v", err)
	}
}

// TestSentRefunds: how often the wallet was told of an attempt is counted for each,
// and neither of one that is not there nor of one that has ended.
func TestSentRefunds(t *testing.T) {
	s := storetest.Open(t).Sales("p")
	j := storetest.Owe(t, s, "sent", 20_000)
	sent := func() (all []int) {
		d, err := s.DebtOf(t.Context(), j.RequestID)
		storetest.Must(t, err)
		for _, r := range d.Attempts {
			all = append(all, r.Sent)
		}
		return all
	}
	storetest.Must(t, s.SetRefundSent(t.Context(), j.RequestID, 1))
	storetest.Must(t, s.SetRefundSent(t.Context(), j.RequestID, 1))
	if err := s.SetRefundSent(t.Context(), j.RequestID, 2); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("of an attempt that nobody made: %v", err)
	}
	storetest.Must(t, s.EndRefund(t.Context(), j.RequestID, storetest.FailedAt(1)))
	if err := s.SetRefundSent(t.Context(), j.RequestID, 1); !errors.Is(err, job.ErrConflict) {
		t.Errorf("of an attempt that has ended: %v", err)
	}
	if _, err := s.RetryRefund(t.Context(), *storetest.DebtOf(j, 20_000).Refund); err != nil {
		t.Fatal(err)
	}
	if got := sent(); !slices.Equal(got, []int{2, 0}) {
		t.Errorf("sent %v, want 2 and 0", got)
	}
	storetest.Must(t, s.SetRefundSent(t.Context(), j.RequestID, 2))
	if open, err := s.OpenRefunds(t.Context()); err != nil || len(open) != 1 || open[0].Sent != 1 {
		t.Errorf("open %+v, %v", open, err)
	}
}

// TestOpenRefunds: refunds on their way are listed by their latest attempt, the oldest
// first, until that attempt has ended.
func TestOpenRefunds(t *testing.T) {
	k := storetest.Open(t)
	s := k.Sales("p")
	check := func(want ...int) {
		t.Helper()
		list, err := s.OpenRefunds(t.Context())
		storetest.Must(t, err)
		var got []int
		for _, r := range list {
			got = append(got, r.Attempt)
		}
		if !slices.Equal(got, want) {
			t.Errorf("attempts %v are open, want %v", got, want)
		}
	}
	ended, tried := storetest.Owe(t, s, "ended", 20_000), storetest.Owe(t, s, "tried", 20_000)
	storetest.Must(t, s.EndRefund(t.Context(), ended.RequestID, storetest.RefundedFor(ended)))
	storetest.Must(t, s.EndRefund(t.Context(), tried.RequestID, storetest.FailedAt(1)))
	check()

	k.Now = k.Now.Add(time.Second)
	if _, err := s.RetryRefund(t.Context(), *storetest.DebtOf(tried, 20_000).Refund); err != nil {
		t.Fatal(err)
	}
	k.Now = k.Now.Add(time.Second)
	last := storetest.Owe(t, s, "z", 20_000)
	check(2, 1)

	storetest.Must(t, s.EndRefund(t.Context(), tried.RequestID, storetest.FailedAt(2)))
	check(1)
	storetest.Must(t, s.EndRefund(t.Context(), last.RequestID, storetest.FailedAt(1)))
	check()
}

// TestWriteOffLowersCredit: what was settled otherwise is no credit, once, and
// never more than is left.
func TestWriteOffLowersCredit(t *testing.T) {
	k := storetest.Open(t)
	s := k.Sales("p")
	j := storetest.Owe(t, s, "x", 0)
	user := storetest.Job("user", "hold")
	user.CreditMsats = 5_000
	storetest.Must(t, s.AddJob(t.Context(), user))
	if err := s.WriteOff(t.Context(), j.RequestID, 16_001, "cash"); !errors.Is(err, job.ErrCreditSpent) {
		t.Errorf("more than is left: %v", err)
	}
	storetest.Must(t, s.WriteOff(t.Context(), j.RequestID, 16_000, "cash", storetest.EventFor(j, "settled")))
	storetest.CheckCredit(t, s, 0)
	if err := s.WriteOff(t.Context(), j.RequestID, 1, "cash"); !errors.Is(err, job.ErrDebtSettled) {
		t.Errorf("again: %v", err)
	}
	if _, err := s.RetryRefund(t.Context(), *storetest.DebtOf(j, 1_000).Refund); !errors.Is(err, job.ErrDebtSettled) {
		t.Errorf("refunded after it: %v", err)
	}
	k.Reopen(t)
	debts, err := k.Sales("p").Debts(t.Context())
	if err != nil || len(debts) != 1 || debts[0].WriteOff == nil || *debts[0].WriteOff != (job.WriteOff{Msats: 16_000, Note: "cash", At: storetest.Start}) {
		t.Errorf("%+v, %v", debts, err)
	}
}
