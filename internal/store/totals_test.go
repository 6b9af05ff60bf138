package store_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/internal/store/purchases"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
	"github.com/lightwork-market/lightwork/market/job"
)

// TestTotals: what was sold and bought counts, and what comes is added to it.
func TestTotals(t *testing.T) {
	seller, unfinished := storetest.HexID("seller"), storetest.HexID("d")
	var names []string
	for _, n := range []string{"a", "b", "c", "d", "buyer", "seller"} {
		names = append(names, ":"+n+",", "'"+storetest.HexID("%s", n)+"',")
	}
	k := storetest.Open(t)
	k.Change(t, func(tx *store.Tx) error {
		_, err := tx.Exec(strings.NewReplacer(names...).Replace(storetest.SoldAndBought))
		return err
	})
	b, p := k.Purchases(), k.Sales("p")
	check := func(stats job.Stats, totals purchases.Totals, budget buyer.Budget, history buyer.History) {
		t.Helper()
		storetest.CheckTotals(t, k)
		gotStats, err := p.Stats(t.Context())
		storetest.Must(t, err)
		gotTotals, err := b.Totals(t.Context())
		storetest.Must(t, err)
		gotBudget, err := b.BudgetOf(t.Context(), storetest.Start)
		storetest.Must(t, err)
		gotHistory, err := b.History(t.Context())
		storetest.Must(t, err)
		if diff := cmp.Diff([]any{stats, totals, budget, history}, []any{gotStats, gotTotals, gotBudget, gotHistory[seller]}); diff != "" {
			t.Error(diff)
		}
	}
	totals := purchases.Totals{
		States:    map[buyer.State]int{buyer.StateDone: 1, buyer.StateFailed: 1, buyer.StateCanceled: 1, buyer.StateRequested: 1},
		PaidMsats: 1500, FeesMsats: 7, RefundedMsats: 400,
	}
	check(job.Stats{Succeeded: 2, Failed: 1, AvgLatencyMs: 7}, totals, buyer.Budget{Day: "2026-03-01", SpentMsats: 1507}, buyer.History{Done: 1})

	k.Change(t, func(tx *store.Tx) error {
		_, err := tx.Exec("INSERT INTO job_history SELECT job, max(n) + 1, 'succeeded', '', '', ? FROM job_history WHERE job = 4", storetest.Start.UnixMilli())
		return err
	})
	a := buyer.Attempt{PaymentHash: storetest.Preimage("d").Hash(), Purpose: "result", AmountMsats: 500, FeeLimitMsats: 50, RuleID: "r", Wallet: "w", ReservedAt: storetest.Start}
	storetest.Must(t, b.Reserve(t.Context(), unfinished, buyer.Charge{Attempt: &a, BOLT11: "lnbc1"}, buyer.Limits{DayMsats: 1507 + 550, ProviderMsats: 1507 + 550}))
	delete(totals.States, buyer.StateRequested)
	totals.States[buyer.StatePaying], totals.ReservedMsats = 1, 500
	check(job.Stats{Succeeded: 3, Failed: 1, AvgLatencyMs: 6}, totals,
		buyer.Budget{Day: "2026-03-01", ReservedMsats: 550, SpentMsats: 1507}, buyer.History{Done: 1})

	paid := storetest.PaidFor(buyer.Purchase{})
	paid.Hash, paid.Preimage, paid.AmountMsats = a.PaymentHash, storetest.Preimage("d"), 500
	storetest.Must(t, b.Paid(t.Context(), unfinished, paid))
	storetest.Must(t, b.Close(t.Context(), unfinished, buyer.StateDone, ""))
	delete(totals.States, buyer.StatePaying)
	totals.States[buyer.StateDone], totals.ReservedMsats, totals.PaidMsats, totals.FeesMsats = 2, 0, 2000, 14
	check(job.Stats{Succeeded: 3, Failed: 1, AvgLatencyMs: 6}, totals,
		buyer.Budget{Day: "2026-03-01", SpentMsats: 1507 + 507}, buyer.History{Done: 2})
}

// TestTraceByAHash: a job hash is found as it is written, and by its digits alone;
// those who sell have it in another table than those who buy.
func TestTraceByAHash(t *testing.T) {
	k := storetest.Open(t)
	sold := storetest.Job("sold", "hold")
	sold.JobHash = storetest.Digest("what is sold")
	storetest.ToState(t, k.Sales("p"), sold, job.StateQuoted)
	storetest.ToState(t, k.Sales("p"), storetest.Job("other", "hold"), job.StateQuoted)
	bought := storetest.Digest("what is bought")
	k.Change(t, func(tx *store.Tx) error {
		return tx.Correlate(storetest.HexID("bought"), journal.NameJobHash, bought.String())
	})
	for name, want := range map[string][]string{
		sold.JobHash.String(): {sold.RequestID}, sold.JobHash.Hex(): {sold.RequestID}, sold.JobHash.Hex()[:12]: {sold.RequestID},
		bought.Hex()[:12]: {storetest.HexID("bought")}, storetest.Digest("none").Hex()[:12]: nil, sold.JobHash.Hex()[1:13]: nil,
	} {
		found, err := k.Trace(t.Context(), name)
		storetest.Must(t, err)
		var ids []string
		for _, f := range found {
			ids = append(ids, f.RequestID)
		}
		if !slices.Equal(ids, want) {
			t.Errorf("%s: %v, want %v", name, ids, want)
		}
	}
}

// A name is looked for by people, however many there are. What is found of job_names is
// gone through again.
func TestNamesAreFoundByIndex(t *testing.T) {
	k := storetest.Open(t)
	k.CheckPlans(t, []string{"SCAN job_names"}, storetest.Query{Text: store.NamedBy, Args: 3})
}
