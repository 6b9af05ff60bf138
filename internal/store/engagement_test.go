package store

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

func withFee(j job.Job) job.Job {
	name := "fee " + j.RequestID
	j.Engagement = &job.Charge{
		Purpose: receipts.PurposeEngagement, PriceMsats: 4_000, Quote: []byte(name), QuoteHash: digest(name), PaymentHash: preimage(name).Hash(),
		Nonce: []byte("fedcba9876543210"), ExpiresAt: j.ExpiresAt,
	}
	return j
}

func feeOf(j job.Job) job.Payment {
	return job.Payment{Hash: j.Engagement.PaymentHash, State: payments.InvoiceSettled, PaidMsats: 4_000, RecordedAt: start}
}

func feeIssuer(j job.Job) func(job.Issue) (job.Issued, error) {
	return func(in job.Issue) (job.Issued, error) {
		issued, err := issuer(j)(in)
		issued.ReceiptID += "_fee"
		issued.Out = []job.OutEvent{eventFor(j, "receipt of the fee")}
		return issued, err
	}
}

func feeAttempt(p buyer.Purchase) buyer.Attempt {
	a := attemptOf(p)
	a.Purpose, a.PaymentHash, a.AmountMsats, a.FeeLimitMsats = "engagement", preimage("fee "+p.RequestID).Hash(), 50, 10
	return a
}

func feePaid(p buyer.Purchase) payments.Payment {
	secret := preimage("fee " + p.RequestID)
	return payments.Payment{Hash: secret.Hash(), State: payments.PaymentSucceeded, AmountMsats: 50, FeeMsats: 2, Preimage: secret}
}

// fillEngagement takes a job and a purchase as far as the receipt of the fee.
func fillEngagement(t testing.TB, k *testStore) (job.Job, buyer.Purchase) {
	t.Helper()
	s, b := k.Sales("p"), k.Purchases()
	j := withFee(testJob("engaged", receipts.ModeHold))
	must(t, s.AddJob(t.Context(), j))
	must(t, s.SetInvoice(t.Context(), j.RequestID, receipts.PurposeEngagement, "lnbc1fee", payments.Hash{}, eventFor(j, "fee")))
	must(t, s.SetAcceptance(t.Context(), j.RequestID, receipts.PurposeEngagement, []byte("accepted")))
	must(t, s.Settle(t.Context(), j.RequestID, receipts.PurposeEngagement, feeOf(j), feeIssuer(j)))
	p := testPurchase("engaged")
	p.EngagementMax = 60
	must(t, b.AddPurchase(t.Context(), p))
	must(t, reserveWith(t.Context(), b, p, feeAttempt(p), buyer.Limits{}))
	must(t, b.Paid(t.Context(), p.RequestID, feePaid(p)))
	must(t, b.SetReceipt(t.Context(), p.RequestID, receipts.PurposeEngagement, "rcpt_fee", []byte("{}")))
	return j, p
}

// TestEngagementIsReadBack: from a database that was closed and opened.
func TestEngagementIsReadBack(t *testing.T) {
	k := open(t)
	j, p := fillEngagement(t, k)
	k.reopen(t)
	s, b := k.Sales("p"), k.Purchases()
	got, err := s.Job(t.Context(), j.RequestID)
	must(t, err)
	want := *j.Engagement
	paid := feeOf(j)
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
	must(t, err)
	fee := feePaid(p)
	attempt := feeAttempt(p)
	if diff := cmp.Diff(&buyer.Charge{
		Attempt: &attempt, Quote: []byte("quote"), BOLT11: "lnbc" + feeAttempt(p).PaymentHash.String(), Acceptance: []byte("acceptance"),
		Payment: &fee, ReceiptEvent: []byte("{}"), ReceiptID: "rcpt_fee",
	}, bought.Engagement); diff != "" || bought.State != buyer.StateRequested || bought.EngagementMax != 60 || bought.Attempt != nil {
		t.Errorf("%s\n%s", bought.State, diff)
	}
	if found, err := b.FindPurchase(t.Context(), "rcpt_fee"); err == nil {
		t.Errorf("found %s by what is no id", found.RequestID)
	}
	checkBudget(t, b, start, 0, 52)
}

// TestJobWaitsForItsFee: nothing else happens before, and the fee comes once.
func TestJobWaitsForItsFee(t *testing.T) {
	k := open(t)
	s := k.Sales("p")
	for _, mode := range []receipts.Mode{receipts.ModeHold, receipts.ModePostpay} {
		j := withFee(testJob("waits "+string(mode), mode))
		must(t, s.AddJob(t.Context(), j))
		d := directiveOf(j)
		err := s.SetPaid(t.Context(), j.RequestID, arrived(j), d, threadOf(j))
		if mode == receipts.ModePostpay {
			_, err = s.Start(t.Context(), j.RequestID, &d, threadOf(j), planOf(j))
		}
		if err == nil {
			t.Errorf("%s went on without its fee", mode)
		}
		other := feeOf(j)
		other.Hash = preimage("another").Hash()
		unsettled := feeOf(j)
		unsettled.State = payments.InvoiceHeld
		for _, pay := range []job.Payment{other, unsettled} {
			if err := s.Settle(t.Context(), j.RequestID, receipts.PurposeEngagement, pay, feeIssuer(j)); !errors.Is(err, job.ErrConflict) {
				t.Errorf("%+v: %v", pay, err)
			}
		}
		must(t, s.SetInvoice(t.Context(), j.RequestID, receipts.PurposeEngagement, "lnbc1"+string(mode), payments.Hash{}))
		must(t, s.SetInvoice(t.Context(), j.RequestID, receipts.PurposeEngagement, "lnbc1"+string(mode), payments.Hash{}))
		if err := s.SetInvoice(t.Context(), j.RequestID, receipts.PurposeEngagement, "lnbc2", payments.Hash{}); !errors.Is(err, job.ErrConflict) {
			t.Errorf("a second invoice: %v", err)
		}
		must(t, s.Settle(t.Context(), j.RequestID, receipts.PurposeEngagement, feeOf(j), feeIssuer(j)))
		if err := s.Settle(t.Context(), j.RequestID, receipts.PurposeEngagement, feeOf(j), feeIssuer(j)); !errors.Is(err, job.ErrConflict) {
			t.Errorf("a second fee: %v", err)
		}
	}
	plain := testJob("plain", receipts.ModeHold)
	must(t, s.AddJob(t.Context(), plain))
	if err := s.SetInvoice(t.Context(), plain.RequestID, receipts.PurposeEngagement, "lnbc3", payments.Hash{}); !errors.Is(err, job.ErrConflict) {
		t.Errorf("a fee that nobody asked: %v", err)
	}
}

// TestOneChainOfBothReceipts: fees and results are counted together.
func TestOneChainOfBothReceipts(t *testing.T) {
	k := open(t)
	s := k.Sales("p")
	var sequences []int64
	for i := range 3 {
		j := withFee(testJob(string(rune('a'+i)), receipts.ModePrepay))
		must(t, s.AddJob(t.Context(), j))
		count := func(issue func(job.Issue) (job.Issued, error)) func(job.Issue) (job.Issued, error) {
			return func(in job.Issue) (job.Issued, error) {
				sequences = append(sequences, in.Sequence)
				return issue(in)
			}
		}
		must(t, s.Settle(t.Context(), j.RequestID, receipts.PurposeEngagement, feeOf(j), count(feeIssuer(j))))
		for _, name := range pathTo(j.Mode, job.StateDelivering)[1:] {
			must(t, doStep(t, s, j, name))
		}
		must(t, s.Settle(t.Context(), j.RequestID, receipts.PurposeResult, settled(j), count(issuer(j))))
	}
	if diff := cmp.Diff([]int64{1, 2, 3, 4, 5, 6}, sequences); diff != "" {
		t.Error(diff)
	}
	if n := k.count(t, `SELECT count(*) FROM receipts r WHERE sequence > 1
		AND previous_hash IS NOT (SELECT receipt_hash FROM receipts p WHERE p.sequence = r.sequence - 1)`); n != 0 {
		t.Errorf("%d broken links", n)
	}
}

// TestFeeCountsInTheBudgetOfTheJob: fee, result and their routing stay below the
// maximum, and each is paid once.
func TestFeeCountsInTheBudgetOfTheJob(t *testing.T) {
	k := open(t)
	_, p := fillEngagement(t, k)
	b := k.Purchases()
	must(t, b.Paid(t.Context(), p.RequestID, feePaid(p))) // again, which changes nothing
	again := feeAttempt(p)
	again.PaymentHash = preimage("another").Hash()
	if err := reserveWith(t.Context(), b, p, again, buyer.Limits{}); !errors.Is(err, buyer.ErrSecondPayment) {
		t.Errorf("a second fee: %v", err)
	}
	a := attemptOf(p)
	a.AmountMsats, a.FeeLimitMsats = 900, 49 // and 52 are gone
	var over *buyer.BudgetError
	if err := reserveWith(t.Context(), b, p, a, buyer.Limits{}); !errors.As(err, &over) || over.Limit != "job" || over.FreeMsats != 948 {
		t.Errorf("one msat too much: %v", err)
	}
	a.FeeLimitMsats = 48
	must(t, reserveWith(t.Context(), b, p, a, buyer.Limits{}))
	checkBudget(t, b, start, 948, 52)
	must(t, b.Unpaid(t.Context(), p.RequestID, failedFor(p), buyer.StateFailed, "no route"))
	checkBudget(t, b, start, 0, 52)
}

// TestFailedFeeEndsThePurchase: its reservation is released.
func TestFailedFeeEndsThePurchase(t *testing.T) {
	k := open(t)
	b := k.Purchases()
	p := testPurchase("x")
	must(t, b.AddPurchase(t.Context(), p))
	must(t, reserveWith(t.Context(), b, p, feeAttempt(p), buyer.Limits{}))
	if err := b.Close(t.Context(), p.RequestID, buyer.StateCanceled, ""); !errors.Is(err, buyer.ErrConflict) {
		t.Errorf("closed with the fee under way: %v", err)
	}
	must(t, b.Unpaid(t.Context(), p.RequestID, payments.Payment{
		Hash: feeAttempt(p).PaymentHash, State: payments.PaymentFailed, AmountMsats: 50, FailureReason: "no route",
	}, buyer.StateFailed, "no route"))
	got, err := b.Purchase(t.Context(), p.RequestID)
	if err != nil || got.State != buyer.StateFailed || got.Engagement.Payment.State != payments.PaymentFailed {
		t.Errorf("%s, %+v, %v", got.State, got.Engagement, err)
	}
	checkBudget(t, b, start, 0, 0)
}
