package storetest

import (
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// WithFee is a job that asks an engagement fee too.
func WithFee(j job.Job) job.Job {
	name := "fee " + j.RequestID
	j.Engagement = &job.Charge{
		Purpose: receipts.PurposeEngagement, PriceMsats: 4_000, Quote: []byte(name), QuoteHash: Digest(name), PaymentHash: Preimage(name).Hash(),
		Nonce: []byte("fedcba9876543210"), ExpiresAt: j.ExpiresAt,
	}
	return j
}

// FeeOf is the payment of a job's engagement fee.
func FeeOf(j job.Job) job.Payment {
	return job.Payment{Hash: j.Engagement.PaymentHash, State: payments.InvoiceSettled, PaidMsats: 4_000, RecordedAt: Start}
}

// FeeIssuer makes the receipt of a job's engagement fee.
func FeeIssuer(j job.Job) func(job.Issue) (job.Issued, error) {
	return func(in job.Issue) (job.Issued, error) {
		issued, err := Issuer(j)(in)
		issued.ReceiptID += "_fee"
		issued.Out = []job.OutEvent{EventFor(j, "receipt of the fee")}
		return issued, err
	}
}

// FeeAttempt is the attempt to pay the engagement fee of a purchase.
func FeeAttempt(p buyer.Purchase) buyer.Attempt {
	a := AttemptOf(p)
	a.Purpose, a.PaymentHash, a.AmountMsats, a.FeeLimitMsats = "engagement", Preimage("fee "+p.RequestID).Hash(), 50, 10
	return a
}

// FeePaid is how that ends.
func FeePaid(p buyer.Purchase) payments.Payment {
	secret := Preimage("fee " + p.RequestID)
	return payments.Payment{Hash: secret.Hash(), State: payments.PaymentSucceeded, AmountMsats: 50, FeeMsats: 2, Preimage: secret}
}

// FillEngagement takes a job and a purchase as far as the receipt of the fee.
func FillEngagement(t testing.TB, k *DB) (job.Job, buyer.Purchase) {
	t.Helper()
	s, b := k.Sales("p"), k.Purchases()
	j := WithFee(Job("engaged", receipts.ModeHold))
	Must(t, s.AddJob(t.Context(), j))
	Must(t, s.SetInvoice(t.Context(), j.RequestID, receipts.PurposeEngagement, "lnbc1fee", payments.Hash{}, EventFor(j, "fee")))
	Must(t, s.SetAcceptance(t.Context(), j.RequestID, receipts.PurposeEngagement, []byte("accepted")))
	Must(t, s.Settle(t.Context(), j.RequestID, receipts.PurposeEngagement, FeeOf(j), FeeIssuer(j)))
	p := Purchase("engaged")
	p.EngagementMax = 60
	Must(t, b.AddPurchase(t.Context(), p))
	Must(t, ReserveWith(t.Context(), b, p, FeeAttempt(p), buyer.Limits{}))
	Must(t, b.Paid(t.Context(), p.RequestID, FeePaid(p)))
	Must(t, b.SetReceipt(t.Context(), p.RequestID, receipts.PurposeEngagement, "rcpt_fee", []byte("{}")))
	return j, p
}
