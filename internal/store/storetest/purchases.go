package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/buyer/panel"
	"github.com/lightwork-market/lightwork/internal/store/purchases"
	"github.com/lightwork-market/lightwork/payments"
)

// Purchase is a request of that name.
func Purchase(name string) buyer.Purchase {
	return buyer.Purchase{
		RequestID: HexID("purchase %s", name), Provider: HexID("provider"), SchemaID: "oa.sandbox_run.v1",
		JobHash: Digest("job " + name), Request: []byte(`{"name":"` + name + `"}`), MaxMsats: 1_000,
		Relays: []string{"wss://a"}, PayeeNode: "02aa", AddedAt: Start,
	}
}

// Secret is the preimage of a test purchase's invoice.
func Secret(p buyer.Purchase) payments.Preimage { return Preimage(p.RequestID) }

// AttemptOf is the attempt to pay for the result of a purchase.
func AttemptOf(p buyer.Purchase) buyer.Attempt {
	return buyer.Attempt{
		PaymentHash: Secret(p).Hash(), Purpose: "result", AmountMsats: 900, FeeLimitMsats: 100,
		RuleID: "max-msats", Wallet: "play 02bb", ReservedAt: Start,
	}
}

// ReserveWith reserves what an attempt may cost within the limits.
func ReserveWith(ctx context.Context, s *purchases.Store, p buyer.Purchase, a buyer.Attempt, l buyer.Limits) error {
	return s.Reserve(ctx, p.RequestID, buyer.Charge{
		Attempt: &a, Quote: []byte("quote"), BOLT11: "lnbc" + a.PaymentHash.String(), Acceptance: []byte("acceptance"),
	}, l)
}

// Reserve reserves what the result of a purchase may cost, without limits.
func Reserve(ctx context.Context, s *purchases.Store, p buyer.Purchase) error {
	return ReserveWith(ctx, s, p, AttemptOf(p), buyer.Limits{})
}

// PaidFor is how the payment of a purchase succeeds.
func PaidFor(p buyer.Purchase) payments.Payment {
	return payments.Payment{Hash: Secret(p).Hash(), State: payments.PaymentSucceeded, AmountMsats: 900, FeeMsats: 7, Preimage: Secret(p)}
}

// FailedFor is how the payment of a purchase fails.
func FailedFor(p buyer.Purchase) payments.Payment {
	return payments.Payment{Hash: Secret(p).Hash(), State: payments.PaymentFailed, AmountMsats: 900, FailureReason: "no route"}
}

// CheckBudget compares the sums of a day.
func CheckBudget(t testing.TB, s *purchases.Store, at time.Time, reserved, spent int64) {
	t.Helper()
	got, err := s.BudgetOf(t.Context(), at)
	want := buyer.Budget{Day: at.UTC().Format("2006-01-02"), ReservedMsats: reserved, SpentMsats: spent}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("budget: %v\n%s", err, diff)
	}
}

// FillOrder makes an order whose first request failed and whose second is open.
func FillOrder(t testing.TB, s *purchases.Store, name string) (first, second buyer.Purchase) {
	t.Helper()
	first, second = Purchase(name+" 1"), Purchase(name+" 2")
	second.Provider = HexID("another provider")
	Must(t, s.AddOrder(t.Context(), []byte(`{"SchemaID":"x"}`), first))
	Must(t, s.CloseUnpaid(t.Context(), first.RequestID, buyer.StateFailed, "no_answer: silent"))
	Must(t, s.AddRequest(t.Context(), first.RequestID, second))
	return first, second
}

// Panel has three seats, each with a provider and an invoice of its own.
func Panel(name string) (panel.Panel, []buyer.Purchase) {
	p := panel.Panel{
		ID: "panel_" + name, SchemaID: "oa.sandbox_run.v1", JobHash: Digest("job"), Rule: panel.RuleMajority,
		MaxMsats: 3_000, Deadline: Start.Add(time.Minute), AddedAt: Start,
	}
	var seats []buyer.Purchase
	for _, n := range []string{"a", "b", "c"} {
		seat := Purchase(name + n)
		seat.Provider = HexID("provider %s", n)
		seats = append(seats, seat)
		p.Members = append(p.Members, panel.Member{RequestID: seat.RequestID, Provider: seat.Provider})
	}
	return p, seats
}

// AwardOf is what a panel pays for a purchase.
func AwardOf(p buyer.Purchase) buyer.Award {
	a := AttemptOf(p)
	return buyer.Award{
		RequestID: p.RequestID, Charge: buyer.Charge{
			Attempt: &a, Quote: []byte("quote"), BOLT11: "lnbc" + a.PaymentHash.String(), Acceptance: []byte("acceptance"),
		},
	}
}

// Agreed is the decision of a panel whose members agree.
func Agreed() panel.Decision {
	hash := Digest("agreement")
	return panel.Decision{
		Outcome: panel.OutcomeAgreed, Agreement: &hash, Reason: "2 of 3 agree", Record: []byte(`{"ballots":[]}`), Output: []byte("merged"),
	}
}

// FillPanel takes a panel through every step.
func FillPanel(t testing.TB, s *purchases.Store) panel.Panel {
	t.Helper()
	p, seats := Panel("filled")
	Must(t, s.AddPanel(t.Context(), p, seats))
	Must(t, s.SetClosing(t.Context(), p.ID, []byte("closing")))
	for i := range 2 {
		Must(t, s.SetReveal(t.Context(), seats[i].RequestID, Digest("agreement"), []byte("reveal")))
	}
	Must(t, s.Decide(t.Context(), p.ID, Agreed(), []buyer.Award{AwardOf(seats[0]), AwardOf(seats[1])},
		[]panel.Drop{{RequestID: seats[2].RequestID, Why: "it did not reveal", Cancel: []byte("cancel")}}, buyer.Limits{}))
	return p
}
