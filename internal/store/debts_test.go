package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/store/sales"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/payments"
)

// owe brings a prepaid job to its failure, with a refund of msats; 0 is none.
func owe(t testing.TB, s *sales.Store, name string, msats int64) job.Job {
	t.Helper()
	j := testJob(name, "prepay")
	toState(t, s, j, job.StatePaid)
	must(t, s.Close(t.Context(), j.RequestID, job.StateFailed, job.Reason{Code: "code"}, debtOf(j, msats)))
	return j
}

func debtOf(j job.Job, refundMsats int64) *job.Credit {
	c := &job.Credit{RequestID: j.RequestID, Buyer: j.Buyer, Msats: j.PriceMsats}
	if refundMsats > 0 {
		c.Refund = &job.Refund{
			RequestID: j.RequestID, Attempt: 1, Buyer: j.Buyer, BOLT11: "lnplay" + j.RequestID, PaymentHash: refundSecret(j).Hash(),
			Msats: refundMsats, FeeLimitMsats: 5, Wallet: "play 02aa",
		}
	}
	return c
}

func refundSecret(j job.Job) payments.Preimage { return preimage("refund " + j.RequestID) }

func refundedFor(j job.Job) job.RefundEnd {
	return job.RefundEnd{Attempt: 1, State: payments.PaymentSucceeded, FeeMsats: 3, Preimage: refundSecret(j)}
}

func checkCredit(t testing.TB, s *sales.Store, want int64) {
	t.Helper()
	if got, err := s.CreditOf(t.Context(), hexID("buyer")); got != want || err != nil {
		t.Errorf("credit is %d msats, want %d; %v", got, want, err)
	}
}

// TestRefundFromRecordToEnd reads a refund back after every step, each time from
// a database that was closed and opened.
func TestRefundFromRecordToEnd(t *testing.T) {
	k := open(t)
	s := k.Sales("p")
	j := owe(t, s, "x", 21_000)
	again := func() {
		k.reopen(t)
		s = k.Sales("p")
	}
	again()
	want := *debtOf(j, 21_000).Refund
	open, err := s.OpenRefunds(t.Context())
	if diff := cmp.Diff([]job.Refund{want}, open); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	checkCredit(t, s, 0) // it is on its way

	end := refundedFor(j)
	unproved, lost := end, job.RefundEnd{Attempt: 1, State: payments.PaymentInFlight}
	unproved.Preimage = preimage("another")
	for _, bad := range []job.RefundEnd{unproved, lost, {Attempt: 1}} {
		if err := s.EndRefund(t.Context(), j.RequestID, bad); !errors.Is(err, job.ErrConflict) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	must(t, s.EndRefund(t.Context(), j.RequestID, end, eventFor(j, "refund")))
	must(t, s.EndRefund(t.Context(), j.RequestID, end, eventFor(j, "refund again")))
	if err := s.EndRefund(t.Context(), j.RequestID, job.RefundEnd{Attempt: 1, State: payments.PaymentFailed, Reason: "no"}); !errors.Is(err, job.ErrConflict) {
		t.Errorf("a second end: %v", err)
	}
	if err := s.EndRefund(t.Context(), hexID("nobody"), end); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("no refund: %v", err)
	}
	again()
	end.At = start
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
	k := open(t)
	s := k.Sales("p")
	first := owe(t, s, "first", 20_000)
	checkCredit(t, s, 1_000)
	must(t, s.EndRefund(t.Context(), first.RequestID, job.RefundEnd{Attempt: 1, State: payments.PaymentFailed, Reason: "no route"}))
	checkCredit(t, s, 21_000)

	second := testJob("second", "prepay")
	toState(t, s, second, job.StatePaid)
	end := func(c *job.Credit) error {
		return s.Close(t.Context(), second.RequestID, job.StateFailed, job.Reason{Code: "code"}, c)
	}
	taken := debtOf(second, 21_000)
	taken.Refund.PaymentHash = refundSecret(first).Hash()
	if err := end(taken); !errors.Is(err, job.ErrRefundTaken) || errors.Is(err, job.ErrConflict) {
		t.Errorf("the invoice of another refund: %v", err)
	}
	if err := end(debtOf(second, 42_001)); err == nil {
		t.Error("a refund of more than is owed was recorded")
	}
	must(t, end(debtOf(second, 21_000)))
	checkCredit(t, s, 21_000)
}

// TestCreditIsUsedOnce: of many quotes at the same time, no more are lowered
// than the credit covers; what failed jobs used comes back.
func TestCreditIsUsedOnce(t *testing.T) {
	k := open(t)
	s := k.Sales("p")
	owe(t, s, "owed", 0)
	const each, fit, all = 2_000, 10, 64
	var mu sync.Mutex
	var admitted []job.Job
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() {
			j := testJob(fmt.Sprint("user ", i), "hold")
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
	checkCredit(t, s, 1_000)
	if j, err := s.Job(t.Context(), admitted[0].RequestID); err != nil || j.CreditMsats != each {
		t.Errorf("credit of the job: %d, %v", j.CreditMsats, err)
	}
	for _, state := range []job.State{job.StateExpired, job.StateCanceled, job.StateFailed} {
		must(t, s.Close(t.Context(), admitted[0].RequestID, state, job.Reason{}, nil))
		admitted = admitted[1:]
	}
	checkCredit(t, s, 1_000+3*each)
	for _, name := range pathTo("hold", job.StateSucceeded) {
		must(t, doStep(t, s, admitted[0], name))
	}
	checkCredit(t, s, 1_000+3*each)
}

// TestResultTakenIsCreditUsed: who has the result of a postpaid job in the clear
// and does not pay the rest has used the credit; a sealed one is nobody's yet.
func TestResultTakenIsCreditUsed(t *testing.T) {
	k := open(t)
	s := k.Sales("p")
	owe(t, s, "owed", 0)
	for quote, left := range map[string]int64{`{"delivery":"sealed"}`: 21_000, `{"delivery":"plain"}`: 19_000} {
		j := testJob(quote, "postpay")
		j.CreditMsats, j.Quote = 2_000, []byte(quote)
		must(t, s.AddJob(t.Context(), j))
		for _, name := range pathTo("postpay", job.StateDelivering) {
			must(t, doStep(t, s, j, name))
		}
		before, err := s.CreditOf(t.Context(), j.Buyer)
		must(t, err)
		must(t, s.Close(t.Context(), j.RequestID, job.StateExpired, job.Reason{}, nil))
		if after, err := s.CreditOf(t.Context(), j.Buyer); err != nil || after-before != map[bool]int64{true: 2_000, false: 0}[left == 21_000] {
			t.Errorf("%s: %d msats, then %d, %v", quote, before, after, err)
		}
	}
}

func TestBuyerRecordsARefundOnce(t *testing.T) {
	k := open(t)
	s := k.Purchases()
	p := testPurchase("x")
	must(t, s.AddPurchase(t.Context(), p))
	if err := s.SetRefund(t.Context(), p.RequestID, 5); !errors.Is(err, buyer.ErrConflict) {
		t.Errorf("of an open purchase: %v", err)
	}
	must(t, reserve(t.Context(), s, p))
	must(t, s.Paid(t.Context(), p.RequestID, paidFor(p)))
	must(t, s.Close(t.Context(), p.RequestID, buyer.StateFailed, "no result"))
	for _, msats := range []int64{900, 1} {
		must(t, s.SetRefund(t.Context(), p.RequestID, msats))
	}
	k.reopen(t)
	if got, err := k.Purchases().Purchase(t.Context(), p.RequestID); err != nil || got.RefundMsats != 900 {
		t.Errorf("refund %d, %v", got.RefundMsats, err)
	}
	checkBudget(t, k.Purchases(), start, 0, 907)
}

// TestRefundAddressIsOneBuyers: whose request named it first; the other's leaves
// nothing.
func TestRefundAddressIsOneBuyers(t *testing.T) {
	k := open(t)
	s := k.Sales("p")
	j, again, other := testJob("first", "prepay"), testJob("again", "prepay"), testJob("other", "prepay")
	j.RefundAddress, again.RefundAddress, other.RefundAddress = "bc1q", "bc1q", "bc1q"
	other.Buyer = hexID("another buyer")
	must(t, s.AddJob(t.Context(), j))
	must(t, s.AddJob(t.Context(), again))
	before := k.dump(t)
	if err := s.AddJob(t.Context(), other); !errors.Is(err, job.ErrRefundOfAnother) || errors.Is(err, job.ErrConflict) {
		t.Errorf("%v", err)
	}
	if diff := cmp.Diff(before, k.dump(t)); diff != "" {
		t.Error(diff)
	}
	other.RefundAddress = "bc1p"
	must(t, s.AddJob(t.Context(), other))
}
