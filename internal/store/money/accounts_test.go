package money_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/store/money"
	"github.com/lightwork-market/lightwork/internal/store/row"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
	"github.com/lightwork-market/lightwork/market/job"
)

// TestEarnings: of a sale and two failed jobs, of which one was refunded, and what was
// left of the other lowered the price of a sale in the next month.
func TestEarnings(t *testing.T) {
	k := storetest.Open(t)
	s := k.Sales("p")
	price := storetest.Job("a", "prepay").PriceMsats
	buyer := storetest.Job("a", "prepay").Buyer

	storetest.ToState(t, s, storetest.Job("a", "hold"), job.StateSucceeded)
	refund := storetest.Owe(t, s, "b", price)
	storetest.Must(t, s.EndRefund(t.Context(), refund.RequestID, storetest.RefundedFor(refund)))
	storetest.Owe(t, s, "c", 0)
	k.Now = k.Now.AddDate(0, 1, 0)
	j := storetest.Job("d", "hold")
	j.AddedAt, j.CreditMsats, j.PriceMsats = k.Now, 1000, price-1000
	storetest.ToState(t, s, j, job.StateSucceeded)
	storetest.ToState(t, s, storetest.Job("e", "hold"), job.StateQuoted) // has not been paid

	month := func(n int64, at time.Time, came, owed, fees int64) money.Sum {
		return money.Sum{Of: at.Format("2006-01"), Payments: n, Msats: came, BackMsats: owed, FeesMsats: fees}
	}
	first, second := month(3, storetest.Start, 3*price, 2*price, 3), month(1, k.Now, price-1000, -1000, 0)
	all := money.Sum{Payments: 4, Msats: 4*price - 1000, BackMsats: 2*price - 1000, FeesMsats: 3}
	ofBuyer, ofJob := all, all
	ofBuyer.Of, ofJob.Of = buyer, j.SchemaID
	for name, tt := range map[string]struct {
		of   money.Period
		want []money.Sum
	}{
		"by month":        {money.Period{By: money.ByMonth}, []money.Sum{first, second}},
		"by buyer":        {money.Period{By: money.ByParty}, []money.Sum{ofBuyer}},
		"by job type":     {money.Period{By: money.ByJob}, []money.Sum{ofJob}},
		"since the later": {money.Period{By: money.ByMonth, Since: k.Now}, []money.Sum{second}},
		"until the later": {money.Period{By: money.ByMonth, Until: k.Now}, []money.Sum{first}},
		"of no time":      {money.Period{By: money.ByMonth, Since: k.Now, Until: k.Now}, nil},
	} {
		got, err := s.Earnings(t.Context(), tt.of)
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}

	days, err := s.Earnings(t.Context(), money.Period{By: money.ByDay})
	if err != nil || len(days) != 2 || days[0].Of != storetest.Start.Format(time.DateOnly) {
		t.Errorf("by day: %+v, %v", days, err)
	}
	if _, err := s.Earnings(t.Context(), money.Period{By: "weekday"}); !errors.Is(err, row.ErrInvalid) {
		t.Errorf("by weekday: %v", err)
	}
}

// TestSpendings: a payment that failed costs its fee alone, and what came back is told
// apart.
func TestSpendings(t *testing.T) {
	k := storetest.Open(t)
	var names []string
	for _, n := range []string{"a", "b", "c", "d", "buyer", "seller"} {
		names = append(names, ":"+n+",", "'"+storetest.HexID("%s", n)+"',")
	}
	k.Change(t, func(tx *store.Tx) error {
		_, err := tx.Exec(strings.NewReplacer(names...).Replace(storetest.SoldAndBought))
		return err
	})

	want := money.Sum{Of: storetest.HexID("seller"), Payments: 2, Msats: 1500, FeesMsats: 7, BackMsats: 400}
	got, err := k.Purchases().Spendings(t.Context(), money.Period{By: money.ByParty})
	if diff := cmp.Diff([]money.Sum{want}, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}
