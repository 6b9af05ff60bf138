package money_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/internal/store/storetest"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/payments"
)

// TestRefundFromRecordToEnd reads a refund back after every step, each time from
// a database that was closed and opened.
func TestRefundFromRecordToEnd(t *testing.T) {
	k := storetest.Open(t)
	s := k.Sales("p")
	j := storetest.Owe(t, s, "x", 21_000)
	again := func() {
		k.Reopen(t)
		s = k.Sales("p")
	}
	again()
	want := *storetest.DebtOf(j, 21_000).Refund
	open, err := s.OpenRefunds(t.Context())
	if diff := cmp.Diff([]job.Refund{want}, open); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	storetest.CheckCredit(t, s, 0) // it is on its way

	end := storetest.RefundedFor(j)
	unproved, lost := end, job.RefundEnd{Attempt: 1, State: payments.PaymentInFlight}
	unproved.Preimage = storetest.Preimage("another")
	for _, bad := range []job.RefundEnd{unproved, lost, {Attempt: 1}} {
		if err := s.EndRefund(t.Context(), j.RequestID, bad); !errors.Is(err, job.ErrConflict) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	storetest.Must(t, s.EndRefund(t.Context(), j.RequestID, end, storetest.EventFor(j, "refund")))
	storetest.Must(t, s.EndRefund(t.Context(), j.RequestID, end, storetest.EventFor(j, "refund again")))
	if err := s.EndRefund(t.Context(), j.RequestID, job.RefundEnd{Attempt: 1, State: payments.PaymentFailed, Reason: "no"}); !errors.Is(err, job.ErrConflict) {
		t.Errorf("a second end: %v", err)
	}
	if err := s.EndRefund(t.Context(), storetest.HexID("nobody"), end); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("no refund: %v", err)
	}
	again()
	end.At = storetest.Start
	want.End = &end
	debts, err := s.Debts(t.Context())
	if err != nil || len(debts) != 1 || debts[0].CreditMsats != 0 {
		t.Fatalf("%+v, %v", debts, err)
	}
	if diff := cmp.Diff(&want, debts[0].Refund); diff != "" {
		t.Error(diff)
	}
	if open, err := s.OpenRefunds(t.Context()); len(open) != 0 || err != nil {
		t.Errorf("open %+v, %v", open, err)
	}
}

// TestRefundsStayWithinWhatIsOwed: a refund is recorded once an invoice and never
// for more than the buyer's credit; one that failed gives it back.
func TestRefundsStayWithinWhatIsOwed(t *testing.T) {
	k := storetest.Open(t)
	s := k.Sales("p")
	first := storetest.Owe(t, s, "first", 20_000)
	storetest.CheckCredit(t, s, 1_000)
	storetest.Must(t, s.EndRefund(t.Context(), first.RequestID, job.RefundEnd{Attempt: 1, State: payments.PaymentFailed, Reason: "no route"}))
	storetest.CheckCredit(t, s, 21_000)

	second := storetest.Job("second", "prepay")
	storetest.ToState(t, s, second, job.StatePaid)
	end := func(c *job.Credit) error {
		return s.Close(t.Context(), second.RequestID, job.StateFailed, job.Reason{Code: "code"}, c)
	}
	taken := storetest.DebtOf(second, 21_000)
	taken.Refund.PaymentHash = storetest.RefundSecret(first).Hash()
	if err := end(taken); !errors.Is(err, job.ErrRefundTaken) || errors.Is(err, job.ErrConflict) {
		t.Errorf("the invoice of another refund: %v", err)
	}
	if err := end(storetest.DebtOf(second, 42_001)); err == nil {
		t.Error("a refund of more than is owed was recorded")
	}
	storetest.Must(t, end(storetest.DebtOf(second, 21_000)))
	storetest.CheckCredit(t, s, 21_000)
}

// TestCreditIsUsedOnce: of many quotes at the same time, no more are lowered
// than the credit covers; what failed jobs used comes back.
func TestCreditIsUsedOnce(t *testing.T) {
	k := storetest.Open(t)
	s := k.Sales("p")
	storetest.Owe(t, s, "owed", 0)
	const each, fit, all = 2_000, 10, 64
	var mu sync.Mutex
	var admitted []job.Job
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() {
			j := storetest.Job(fmt.Sprint("user ", i), "hold")
			j.CreditMsats = each
			err := s.AddJob(context.Background(), j)
			if err != nil && !errors.Is(err, job.ErrCreditSpent) {
				t.Error(err)
			}
			if err == nil {
				mu.Lock()
				admitted = append(admitted, j)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(admitted) != fit {
		t.Fatalf("%d quotes use %d msats each of 21,000", len(admitted), each)
	}
	storetest.CheckCredit(t, s, 1_000)
	if j, err := s.Job(t.Context(), admitted[0].RequestID); err != nil || j.CreditMsats != each {
		t.Errorf("credit of the job: %d, %v", j.CreditMsats, err)
	}
	for _, state := range []job.State{job.StateExpired, job.StateCanceled, job.StateFailed} {
		storetest.Must(t, s.Close(t.Context(), admitted[0].RequestID, state, job.Reason{}, nil))
		admitted = admitted[1:]
	}
	storetest.CheckCredit(t, s, 1_000+3*each)
	for _, name := range storetest.PathTo("hold", job.StateSucceeded) {
		storetest.Must(t, storetest.DoStep(t, s, admitted[0], name))
	}
	storetest.CheckCredit(t, s, 1_000+3*each)
}

// TestResultTakenIsCreditUsed: who has the result of a postpaid job in the clear
// and does not pay the rest has used the credit; a sealed one is nobody's yet.
func TestResultTakenIsCreditUsed(t *testing.T) {
	k := storetest.Open(t)
	s := k.Sales("p")
	storetest.Owe(t, s, "owed", 0)
	for quote, left := range map[string]int64{`{"delivery":"sealed"}`: 21_000, `{"delivery":"plain"}`: 19_000} {
		j := storetest.Job(quote, "postpay")
		j.CreditMsats, j.Quote = 2_000, []byte(quote)
		storetest.Must(t, s.AddJob(t.Context(), j))
		for _, name := range storetest.PathTo("postpay", job.StateDelivering) {
			storetest.Must(t, storetest.DoStep(t, s, j, name))
		}
		before, err := s.CreditOf(t.Context(), j.Buyer)
		storetest.Must(t, err)
		storetest.Must(t, s.Close(t.Context(), j.RequestID, job.StateExpired, job.Reason{}, nil))
		if after, err := s.CreditOf(t.Context(), j.Buyer); err != nil || after-before != map[bool]int64{true: 2_000, false: 0}[left == 21_000] {
			t.Errorf("%s: %d msats, then %d, %v", quote, before, after, err)
		}
	}
}

// TestRefundAddressIsOneBuyers: whose request named it first; the other's leaves
// nothing.
func TestRefundAddressIsOneBuyers(t *testing.T) {
	k := storetest.Open(t)
	s := k.Sales("p")
	j, again, other := storetest.Job("first", "prepay"), storetest.Job("again", "prepay"), storetest.Job("other", "prepay")
	j.RefundAddress, again.RefundAddress, other.RefundAddress = "bc1q", "bc1q", "bc1q"
	other.Buyer = storetest.HexID("another buyer")
	storetest.Must(t, s.AddJob(t.Context(), j))
	storetest.Must(t, s.AddJob(t.Context(), again))
	before := k.Dump(t)
	if err := s.AddJob(t.Context(), other); !errors.Is(err, job.ErrRefundOfAnother) || errors.Is(err, job.ErrConflict) {
		t.Errorf("%v", err)
	}
	if diff := cmp.Diff(before, k.Dump(t)); diff != "" {
		t.Error(diff)
	}
	other.RefundAddress = "bc1p"
	storetest.Must(t, s.AddJob(t.Context(), other))
}
