package receipts_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/btcsuite/btcd/btcec/v2"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/receipts"
)

// paidApart gives a quote of its own, and with it a payment, to receipt i.
func paidApart(i int64) func(*receipts.Quote) {
	return func(q *receipts.Quote) { q.Nonce = fmt.Sprintf("%032x", i) }
}

// chained makes receipts 1 to n of one provider, each upon the one before.
func chained(n int, quote func(i int64) func(*receipts.Quote)) []receipts.Report {
	return chainedBy(n, quote, func(int64) *btcec.PrivateKey { return nil })
}

// chainedBy is chained, of a provider who has another key for each receipt.
func chainedBy(n int, quote func(i int64) func(*receipts.Quote), key func(i int64) *btcec.PrivateKey) []receipts.Report {
	var reports []receipts.Report
	var before []byte
	for i := int64(1); i <= int64(n); i++ {
		m := recipe{first: true, provider: key(i), quote: quote(i), receipt: func(r *receipts.Receipt) {
			if r.Sequence = i; i > 1 {
				previous := hashing.Bytes(before)
				r.PreviousReceiptHash = &previous
			}
		}}.make()
		before = m.bundle.Receipt
		reports = append(reports, receipts.Verify(&receipts.Bundle{Receipt: m.bundle.Receipt, ReceiptEvent: m.bundle.ReceiptEvent}, receipts.Pins{}))
	}
	return reports
}

func TestChains(t *testing.T) {
	six := chained(6, paidApart)
	again := chained(3, func(i int64) func(*receipts.Quote) { return paidApart(min(i, 2)) })
	fork := receipts.Verify(recipe{receipt: func(r *receipts.Receipt) { r.Sequence = 5 }}.make().bundle, receipts.Pins{})
	strangers := receipts.Verify(recipe{signReceipt: person("stranger")}.make().bundle, receipts.Pins{})
	pick := func(indexes ...int) (picked []receipts.Report) {
		for _, i := range indexes {
			picked = append(picked, six[i-1])
		}
		return picked
	}
	for name, tt := range map[string]struct {
		reports []receipts.Report
		missing []receipts.Span
		faults  []string
	}{
		"complete":                {pick(1, 2, 3, 4, 5, 6), nil, nil},
		"in another order, twice": {pick(6, 1, 3, 2, 5, 4, 3), nil, nil},
		"a part":                  {pick(3, 6), []receipts.Span{{From: 1, To: 2}, {From: 4, To: 5}}, nil},
		"a fork":                  {append(pick(1, 2, 3, 4, 5), fork), nil, []string{"receipt 5 does not continue receipt 4", "two receipts have the number 5"}},
		"on after a fork":         {append(pick(1, 2, 3, 4, 5, 6), fork), nil, []string{"receipt 5 does not continue receipt 4", "two receipts have the number 5"}},
		"another continuation":    {append(pick(1, 2, 3, 4), fork), nil, []string{"receipt 5 does not continue receipt 4"}},
		"two of one payment":      {again, nil, []string{"receipts 2 and 3 are of one payment"}},
		"one of them twice":       {append(again[:2:2], again[1]), nil, nil},
		"a stranger's is nothing": {append(pick(1, 2), strangers), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var c receipts.Chains
			for _, r := range tt.reports {
				c.Add(r)
			}
			all := c.Reports(nil)
			if len(all) != 1 {
				t.Fatalf("%d providers", len(all))
			}
			slices.Sort(all[0].Faults) // which of two comes first is their hashes' doing
			if !slices.Equal(all[0].Missing, tt.missing) || !slices.Equal(all[0].Faults, tt.faults) {
				t.Errorf("%+v", all[0])
			}
		})
	}
}
