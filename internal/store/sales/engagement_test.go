package sales_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// TestEngagementIsReadBack: from a database that was closed and opened.
func TestEngagementIsReadBack(t *testing.T) {
	k := storetest.Open(t)
	j, p := storetest.FillEngagement(t, k)
	k.Reopen(t)
	s, b := k.Sales("p"), k.Purchases()
	got, err := s.Job(t.Context(), j.RequestID)
	storetest.Must(t, err)
	want := *j.Engagement
	paid := storetest.FeeOf(j)
	want.BOLT11, want.Acceptance, want.Payment = "lnbc1fee", []byte("accepted"), &paid
	want.Receipt, want.ReceiptID = got.Engagement.Receipt, "rcpt_"+j.RequestID+"_fee"
	if diff := cmp.Diff(want, *got.Engagement); diff != "" || got.State != job.StateQuoted || len(want.Receipt) == 0 {
		t.Errorf("%s\n%s", got.State, diff)
	}
	if byHash, err := s.JobByPaymentHash(t.Context(), j.Engagement.PaymentHash); err != nil || byHash.RequestID != j.RequestID {
		t.Errorf("by payment hash: %s, %v", byHash.RequestID, err)
	}
	if paid, err := s.HasPaid(t.Context(), j.Buyer); err != nil || !paid {
		t.Errorf("a key that paid a fee has paid: %v, %v", paid, err)
	}
	bought, err := b.Purchase(t.Context(), p.RequestID)
	storetest.Must(t, err)
	fee := storetest.FeePaid(p)
	attempt := storetest.FeeAttempt(p)
	if diff := cmp.Diff(&buyer.Charge{
		Attempt: &attempt, Quote: []byte("quote"), BOLT11: "lnbc" + storetest.FeeAttempt(p).PaymentHash.String(), Acceptance: []byte("acceptance"),
		Payment: &fee, ReceiptEvent: []byte("{}"), ReceiptID: "rcpt_fee",
	}, bought.Engagement); diff != "" || bought.State != buyer.StateRequested || bought.EngagementMax != 60 || bought.Attempt != nil {
		t.Errorf("%s\n%s", bought.State, diff)
	}
	if found, err := b.FindPurchase(t.Context(), "rcpt_fee"); err == nil {
		t.Errorf("found %s by what is no id", found.RequestID)
	}
	storetest.CheckBudget(t, b, storetest.Start, 0, 52)
}

// TestJobWaitsForItsFee: nothing else happens before, and the fee comes once.
func TestJobWaitsForItsFee(t *testing.T) {
	k := storetest.Open(t)
	s := k.Sales("p")
	for _, mode := range []receipts.Mode{receipts.ModeHold, receipts.ModePostpay} {
		j := storetest.WithFee(storetest.Job("waits "+string(mode), mode))
		storetest.Must(t, s.AddJob(t.Context(), j))
		d := storetest.DirectiveOf(j)
		err := s.SetPaid(t.Context(), j.RequestID, storetest.Arrived(j), d, storetest.ThreadOf(j))
		if mode == receipts.ModePostpay {
			_, err = s.Start(t.Context(), j.RequestID, &d, storetest.ThreadOf(j), storetest.PlanOf(j))
		}
		if err == nil {
			t.Errorf("%s went on without its fee", mode)
		}
		other := storetest.FeeOf(j)
		other.Hash = storetest.Preimage("another").Hash()
		unsettled := storetest.FeeOf(j)
		unsettled.State = payments.InvoiceHeld
		for _, pay := range []job.Payment{other, unsettled} {
			if err := s.Settle(t.Context(), j.RequestID, receipts.PurposeEngagement, pay, storetest.FeeIssuer(j)); !errors.Is(err, job.ErrConflict) {
				t.Errorf("%+v: %v", pay, err)
			}
		}
		storetest.Must(t, s.SetInvoice(t.Context(), j.RequestID, receipts.PurposeEngagement, "lnbc1"+string(mode), payments.Hash{}))
		storetest.Must(t, s.SetInvoice(t.Context(), j.RequestID, receipts.PurposeEngagement, "lnbc1"+string(mode), payments.Hash{}))
		if err := s.SetInvoice(t.Context(), j.RequestID, receipts.PurposeEngagement, "lnbc2", payments.Hash{}); !errors.Is(err, job.ErrConflict) {
			t.Errorf("a second invoice: %v", err)
		}
		storetest.Must(t, s.Settle(t.Context(), j.RequestID, receipts.PurposeEngagement, storetest.FeeOf(j), storetest.FeeIssuer(j)))
		if err := s.Settle(t.Context(), j.RequestID, receipts.PurposeEngagement, storetest.FeeOf(j), storetest.FeeIssuer(j)); !errors.Is(err, job.ErrConflict) {
			t.Errorf("a second fee: %v", err)
		}
	}
	plain := storetest.Job("plain", receipts.ModeHold)
	storetest.Must(t, s.AddJob(t.Context(), plain))
	if err := s.SetInvoice(t.Context(), plain.RequestID, receipts.PurposeEngagement, "lnbc3", payments.Hash{}); !errors.Is(err, job.ErrConflict) {
		t.Errorf("a fee that nobody asked: %v", err)
	}
}

// TestOneChainOfBothReceipts: fees and results are counted together.
func TestOneChainOfBothReceipts(t *testing.T) {
	k := storetest.Open(t)
	s := k.Sales("p")
	var sequences []int64
	for i := range 3 {
		j := storetest.WithFee(storetest.Job(string(rune('a'+i)), receipts.ModePrepay))
		storetest.Must(t, s.AddJob(t.Context(), j))
		count := func(issue func(job.Issue) (job.Issued, error)) func(job.Issue) (job.Issued, error) {
			return func(in job.Issue) (job.Issued, error) {
				sequences = append(sequences, in.Sequence)
				return issue(in)
			}
		}
		storetest.Must(t, s.Settle(t.Context(), j.RequestID, receipts.PurposeEngagement, storetest.FeeOf(j), count(storetest.FeeIssuer(j))))
		for _, name := range storetest.PathTo(j.Mode, job.StateDelivering)[1:] {
			storetest.Must(t, storetest.DoStep(t, s, j, name))
		}
		storetest.Must(t, s.Settle(t.Context(), j.RequestID, receipts.PurposeResult, storetest.Settled(j), count(storetest.Issuer(j))))
	}
	if diff := cmp.Diff([]int64{1, 2, 3, 4, 5, 6}, sequences); diff != "" {
		t.Error(diff)
	}
	if n := k.Count(t, `SELECT count(*) FROM receipts r WHERE sequence > 1
		AND previous_hash IS NOT (SELECT receipt_hash FROM receipts p WHERE p.sequence = r.sequence - 1)`); n != 0 {
		t.Errorf("%d broken links", n)
	}
}

// TestFeeCountsInTheBudgetOfTheJob: fee, result and their routing stay below the
// maximum, and each is paid once.
func TestFeeCountsInTheBudgetOfTheJob(t *testing.T) {
	k := storetest.Open(t)
	_, p := storetest.FillEngagement(t, k)
	b := k.Purchases()
	storetest.Must(t, b.Paid(t.Context(), p.RequestID, storetest.FeePaid(p))) // again, which changes nothing
	again := storetest.FeeAttempt(p)
	again.PaymentHash = storetest.Preimage("another").Hash()
	if err := storetest.ReserveWith(t.Context(), b, p, again, buyer.Limits{}); !errors.Is(err, buyer.ErrSecondPayment) {
		t.Errorf("a second fee: %v", err)
	}
	a := storetest.AttemptOf(p)
	a.AmountMsats, a.FeeLimitMsats = 900, 49 // and 52 are gone
	var over *buyer.BudgetError
	if err := storetest.ReserveWith(t.Context(), b, p, a, buyer.Limits{}); !errors.As(err, &over) || over.Limit != "job" || over.FreeMsats != 948 {
		t.Errorf("one msat too much: %v", err)
	}
	a.FeeLimitMsats = 48
	storetest.Must(t, storetest.ReserveWith(t.Context(), b, p, a, buyer.Limits{}))
	storetest.CheckBudget(t, b, storetest.Start, 948, 52)
	storetest.Must(t, b.Unpaid(t.Context(), p.RequestID, storetest.FailedFor(p), buyer.StateFailed, "no route"))
	storetest.CheckBudget(t, b, storetest.Start, 0, 52)
}

// TestFailedFeeEndsThePurchase: its reservation is released.
func TestFailedFeeEndsThePurchase(t *testing.T) {
	k := storetest.Open(t)
	b := k.Purchases()
	p := storetest.Purchase("x")
	storetest.Must(t, b.AddPurchase(t.Context(), p))
	storetest.Must(t, storetest.ReserveWith(t.Context(), b, p, storetest.FeeAttempt(p), buyer.Limits{}))
	if err := b.Close(t.Context(), p.RequestID, buyer.StateCanceled, ""); !errors.Is(err, buyer.ErrConflict) {
		t.Errorf("closed with the fee under way: %v", err)
	}
	storetest.Must(t, b.Unpaid(t.Context(), p.RequestID, payments.Payment{
		Hash: storetest.FeeAttempt(p).PaymentHash, State: payments.PaymentFailed, AmountMsats: 50, FailureReason: "no route",
	}, buyer.StateFailed, "no route"))
	got, err := b.Purchase(t.Context(), p.RequestID)
	if err != nil || got.State != buyer.StateFailed || got.Engagement.Payment.State != payments.PaymentFailed {
		t.Errorf("%s, %+v, %v", got.State, got.Engagement, err)
	}
	storetest.CheckBudget(t, b, storetest.Start, 0, 0)
}
