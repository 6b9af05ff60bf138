package purchases_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/store/names"
	"github.com/lightwork-market/lightwork/internal/store/purchases"
	"github.com/lightwork-market/lightwork/internal/store/storetest"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// TestPurchaseFromRequestToDone reads the purchase back after every step, each
// time from a database that was closed and opened.
func TestPurchaseFromRequestToDone(t *testing.T) {
	k := storetest.Open(t)
	s := k.Purchases()
	want := storetest.Purchase("x")
	want.State, want.StateAt = buyer.StateRequested, storetest.Start
	storetest.Must(t, s.AddPurchase(t.Context(), want))
	check := func(step string) {
		t.Helper()
		k.Reopen(t)
		s = k.Purchases()
		got, err := s.Purchase(t.Context(), want.RequestID)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Fatalf("after %s: %v\n%s", step, err, diff)
		}
	}
	check("add")
	if err := s.AddPurchase(t.Context(), want); !errors.Is(err, buyer.ErrDuplicate) {
		t.Errorf("add again: %v", err)
	}
	storetest.CheckBudget(t, s, storetest.Start, 0, 0)

	k.Now = storetest.Start.Add(time.Second)
	storetest.Must(t, storetest.Reserve(t.Context(), s, want))
	a := storetest.AttemptOf(want)
	want.Attempt, want.Quote, want.BOLT11, want.Acceptance = &a, []byte("quote"), "lnbc"+a.PaymentHash.String(), []byte("acceptance")
	want.State, want.StateAt = buyer.StatePaying, k.Now
	check("reserve")
	storetest.CheckBudget(t, s, storetest.Start, 1000, 0)

	if err := s.SetSent(t.Context(), want.RequestID, storetest.Secret(storetest.Purchase("y")).Hash()); !errors.Is(err, buyer.ErrConflict) {
		t.Errorf("another purchase's payment was sent: %v", err)
	}
	storetest.Must(t, s.SetSent(t.Context(), want.RequestID, a.PaymentHash))
	want.Attempt.Sent = 1
	check("send")
	storetest.Must(t, s.SetSent(t.Context(), want.RequestID, a.PaymentHash))
	want.Attempt.Sent = 2
	check("send again")

	for range 2 { // B6: recording it again debits nothing more
		storetest.Must(t, s.Paid(t.Context(), want.RequestID, storetest.PaidFor(want)))
	}
	p := storetest.PaidFor(want)
	want.Payment, want.State = &p, buyer.StatePaid
	check("paid")
	storetest.CheckBudget(t, s, storetest.Start, 0, 907)
	storetest.CheckBudget(t, s, storetest.Start.AddDate(0, 0, 1), 0, 0)

	for i := range 2 { // the first of each stays
		storetest.Must(t, s.SetResult(t.Context(), want.RequestID, fmt.Append(nil, "6050", i), fmt.Append(nil, "output", i), [][]byte{[]byte("artifact")}, i == 0))
		storetest.Must(t, s.SetReceipt(t.Context(), want.RequestID, receipts.PurposeResult, fmt.Sprint("rcpt", i), fmt.Append(nil, "7002", i)))
		storetest.Must(t, s.SetCancel(t.Context(), want.RequestID, fmt.Append(nil, "5", i)))
		storetest.Must(t, s.AddFeedback(t.Context(), want.RequestID, storetest.HexID("7000"), []byte("7000"), storetest.Start))
	}
	storetest.Must(t, s.AddFeedback(t.Context(), want.RequestID, storetest.HexID("7000b"), []byte("7000b"), storetest.Start))
	want.ResultEvent, want.Output, want.SettledTooEarly = []byte("60500"), []byte("output0"), true
	want.ReceiptID, want.ReceiptEvent, want.Cancel = "rcpt0", []byte("70020"), []byte("50")
	check("result and receipt")
	if got, err := s.Content(t.Context(), hashing.Bytes([]byte("artifact"))); err != nil || string(got) != "artifact" {
		t.Errorf("content %q, %v", got, err)
	}
	events, err := s.Feedback(t.Context(), want.RequestID)
	if diff := cmp.Diff([][]byte{[]byte("7000"), []byte("7000b")}, events); err != nil || diff != "" {
		t.Errorf("feedback: %v\n%s", err, diff)
	}

	storetest.Must(t, s.Close(t.Context(), want.RequestID, buyer.StateDone, ""))
	want.State = buyer.StateDone
	check("close")
	if err := s.SetCancel(t.Context(), want.RequestID, []byte("5")); !errors.Is(err, buyer.ErrConflict) {
		t.Errorf("cancel after the end: %v", err)
	}
	k.Read(t, func(tx *store.Tx) error {
		names, err := tx.Lookup("rcpt0")
		if len(names) != 1 || names[0].RequestID != want.RequestID {
			t.Errorf("Lookup(rcpt0) = %+v", names)
		}
		return err
	})
}

// TestPurchaseStepsInEveryState calls every step that moves a purchase in every
// state; what is not allowed is a typed error and writes nothing.
func TestPurchaseStepsInEveryState(t *testing.T) {
	ctx := t.Context()
	steps := map[string]func(s *purchases.Store, p buyer.Purchase) error{
		"reserve": func(s *purchases.Store, p buyer.Purchase) error { return storetest.Reserve(ctx, s, p) },
		"paid": func(s *purchases.Store, p buyer.Purchase) error {
			return s.Paid(ctx, p.RequestID, storetest.PaidFor(p))
		},
		"unpaid": func(s *purchases.Store, p buyer.Purchase) error {
			return s.Unpaid(ctx, p.RequestID, storetest.FailedFor(p), buyer.StateFailed, "why")
		},
		"done": func(s *purchases.Store, p buyer.Purchase) error {
			return s.Close(ctx, p.RequestID, buyer.StateDone, "")
		},
		"fail": func(s *purchases.Store, p buyer.Purchase) error {
			return s.Close(ctx, p.RequestID, buyer.StateFailed, "why")
		},
		"cancel": func(s *purchases.Store, p buyer.Purchase) error {
			return s.Close(ctx, p.RequestID, buyer.StateCanceled, "why")
		},
		"send": func(s *purchases.Store, p buyer.Purchase) error {
			return s.SetSent(ctx, p.RequestID, storetest.Secret(p).Hash())
		},
		"give up": func(s *purchases.Store, p buyer.Purchase) error { return s.GiveUp(ctx, p.RequestID, "why") },
		"close as paid": func(s *purchases.Store, p buyer.Purchase) error {
			return s.Close(ctx, p.RequestID, buyer.StatePaid, "")
		},
	}
	froms := map[string]struct {
		path    []string
		state   buyer.State
		allowed map[string]buyer.State
		errs    map[string]error // where it is not row.ErrConflict
	}{
		"requested": {nil, buyer.StateRequested, map[string]buyer.State{
			"reserve": buyer.StatePaying, "done": buyer.StateDone, "fail": buyer.StateFailed, "cancel": buyer.StateCanceled,
		}, nil},
		"paying": {
			[]string{"reserve"},
			buyer.StatePaying,
			map[string]buyer.State{"send": buyer.StatePaying, "paid": buyer.StatePaid, "unpaid": buyer.StateFailed, "give up": buyer.StatePaying},
			map[string]error{"reserve": buyer.ErrSecondPayment},
		},
		"given up": {
			[]string{"reserve", "give up"},
			buyer.StatePaying,
			map[string]buyer.State{"send": buyer.StatePaying, "paid": buyer.StatePaid, "unpaid": buyer.StateFailed, "give up": buyer.StatePaying},
			map[string]error{"reserve": buyer.ErrSecondPayment},
		},
		"paid": {
			[]string{"reserve", "paid"},
			buyer.StatePaid,
			map[string]buyer.State{"paid": buyer.StatePaid, "done": buyer.StateDone, "fail": buyer.StateFailed, "cancel": buyer.StateCanceled},
			map[string]error{"reserve": buyer.ErrSecondPayment},
		},
		"unpaid": {
			[]string{"reserve", "unpaid"},
			buyer.StateFailed,
			map[string]buyer.State{"unpaid": buyer.StateFailed},
			map[string]error{"reserve": buyer.ErrSecondPayment},
		},
		"done": {
			[]string{"reserve", "paid", "done"},
			buyer.StateDone,
			map[string]buyer.State{"paid": buyer.StateDone},
			map[string]error{"reserve": buyer.ErrSecondPayment},
		},
		"canceled": {[]string{"cancel"}, buyer.StateCanceled, nil, nil},
	}
	k := storetest.Open(t)
	s := k.Purchases()
	for from, f := range froms {
		for name, do := range steps {
			p := storetest.Purchase(from + "/" + name)
			storetest.Must(t, s.AddPurchase(ctx, p))
			for _, st := range f.path {
				storetest.Must(t, steps[st](s, p))
			}
			before := k.Stats()
			err := do(s, p)
			want, ok := f.allowed[name]
			if ok && err != nil {
				t.Errorf("%s in %s: %v", name, from, err)
			}
			if !ok {
				want = f.state
				is := f.errs[name]
				if is == nil {
					is = buyer.ErrConflict
				}
				if !errors.Is(err, is) {
					t.Errorf("%s in %s: %v, want %v", name, from, err, is)
				}
				if k.Stats() != before {
					t.Errorf("%s in %s committed something", name, from)
				}
			}
			got, err := s.Purchase(ctx, p.RequestID)
			if err != nil || got.State != want {
				t.Errorf("%s in %s: now %s, %v", name, from, got.State, err)
			}
		}
	}
}

func TestUnknownPurchase(t *testing.T) {
	s := storetest.Open(t).Purchases()
	ctx, p := t.Context(), storetest.Purchase("x")
	_, err := s.Purchase(ctx, p.RequestID)
	_, err2 := s.Content(ctx, storetest.Digest("x"))
	for i, err := range []error{
		err, err2,
		storetest.Reserve(ctx, s, p), s.Paid(ctx, p.RequestID, storetest.PaidFor(p)), s.Unpaid(ctx, p.RequestID, storetest.FailedFor(p), buyer.StateFailed, ""),
		s.AddFeedback(ctx, p.RequestID, "e", nil, storetest.Start), s.SetResult(ctx, p.RequestID, nil, nil, nil, false),
		s.SetReceipt(ctx, p.RequestID, receipts.PurposeResult, "r", nil), s.SetCancel(ctx, p.RequestID, nil),
		s.SetSent(ctx, p.RequestID, storetest.Secret(p).Hash()), s.GiveUp(ctx, p.RequestID, ""), s.Close(ctx, p.RequestID, buyer.StateFailed, ""),
	} {
		if !errors.Is(err, buyer.ErrNotFound) {
			t.Errorf("call %d: %v", i, err)
		}
	}
}

func TestPaymentMustBeProved(t *testing.T) {
	k := storetest.Open(t)
	s := k.Purchases()
	p, other := storetest.Purchase("x"), storetest.Purchase("other")
	storetest.Must(t, s.AddPurchase(t.Context(), p))
	storetest.Must(t, storetest.Reserve(t.Context(), s, p))
	wrong, unknown := storetest.PaidFor(p), storetest.PaidFor(p)
	wrong.Preimage = storetest.Secret(other)
	unknown.State = payments.PaymentInFlight
	for name, err := range map[string]error{
		"wrong preimage":    s.Paid(t.Context(), p.RequestID, wrong),
		"another payment":   s.Paid(t.Context(), p.RequestID, storetest.PaidFor(other)),
		"in flight":         s.Paid(t.Context(), p.RequestID, unknown),
		"failed":            s.Paid(t.Context(), p.RequestID, storetest.FailedFor(p)),
		"unpaid, in flight": s.Unpaid(t.Context(), p.RequestID, unknown, buyer.StateFailed, ""),
		"unpaid, succeeded": s.Unpaid(t.Context(), p.RequestID, storetest.PaidFor(p), buyer.StateFailed, ""),
	} {
		if !errors.Is(err, buyer.ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
	storetest.CheckBudget(t, s, storetest.Start, 1000, 0) // B3: an unknown outcome keeps the budget held
	storetest.Must(t, s.Paid(t.Context(), p.RequestID, storetest.PaidFor(p)))
	more := storetest.PaidFor(p)
	more.FeeMsats++
	if err := s.Paid(t.Context(), p.RequestID, more); !errors.Is(err, buyer.ErrConflict) {
		t.Errorf("another outcome: %v", err)
	}
}

func TestNoSecondPayment(t *testing.T) {
	k := storetest.Open(t)
	s := k.Purchases()
	a, b := storetest.Purchase("a"), storetest.Purchase("b")
	storetest.Must(t, s.AddPurchase(t.Context(), a))
	storetest.Must(t, s.AddPurchase(t.Context(), b))
	storetest.Must(t, storetest.Reserve(t.Context(), s, a))
	before := k.Dump(t)
	fresh := storetest.AttemptOf(a)
	fresh.PaymentHash = storetest.Preimage("fresh").Hash()
	other := storetest.AttemptOf(b)
	for name, err := range map[string]error{
		"another invoice for the same job": storetest.ReserveWith(t.Context(), s, a, fresh, buyer.Limits{}),
		"the same invoice for another job": storetest.ReserveWith(t.Context(), s, b, storetest.AttemptOf(a), buyer.Limits{}),
		"the same invoice text":            s.Reserve(t.Context(), b.RequestID, buyer.Charge{Attempt: &other, BOLT11: "lnbc" + storetest.AttemptOf(a).PaymentHash.String()}, buyer.Limits{}),
	} {
		if !errors.Is(err, buyer.ErrSecondPayment) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if diff := cmp.Diff(before, k.Dump(t)); diff != "" {
		t.Errorf("it wrote:\n%s", diff)
	}
}

func TestBudgetLimits(t *testing.T) {
	k := storetest.Open(t)
	s := k.Purchases()
	day := buyer.Limits{DayMsats: 2500}
	perProvider := buyer.Limits{ProviderMsats: 1500}
	tests := []struct {
		name, provider string
		amount, fee    int64
		at             time.Time
		limits         buyer.Limits
		want           *buyer.BudgetError
	}{
		{"over the job's maximum", "p", 901, 100, storetest.Start, buyer.Limits{}, &buyer.BudgetError{Limit: "job", WantMsats: 1001, FreeMsats: 1000}},
		{"first of the day", "p", 900, 100, storetest.Start, day, nil},
		{"second of the day", "q", 900, 100, storetest.Start, day, nil},
		{"third of the day", "p", 900, 100, storetest.Start, day, &buyer.BudgetError{Limit: "day", WantMsats: 1000, FreeMsats: 500}},
		{"just fits", "p", 500, 0, storetest.Start, day, nil},
		{"nothing left", "p", 1, 0, storetest.Start, day, &buyer.BudgetError{Limit: "day", WantMsats: 1, FreeMsats: 0}},
		{"the provider's share", "q", 501, 0, storetest.Start, perProvider, &buyer.BudgetError{Limit: "provider", WantMsats: 501, FreeMsats: 500}},
		{"another provider's", "r", 501, 0, storetest.Start, perProvider, nil},
		{"the next day", "p", 900, 100, storetest.Start.AddDate(0, 0, 1), day, nil},
		{"the same UTC day elsewhere", "p", 1000, 0, storetest.Start.In(time.FixedZone("east", 13*3600)), buyer.Limits{DayMsats: 3100}, &buyer.BudgetError{Limit: "day", WantMsats: 1000, FreeMsats: 99}},
	}
	for i, tt := range tests {
		p := storetest.Purchase(fmt.Sprint(i))
		p.Provider = storetest.HexID("%s", tt.provider)
		storetest.Must(t, s.AddPurchase(t.Context(), p))
		a := storetest.AttemptOf(p)
		a.AmountMsats, a.FeeLimitMsats, a.ReservedAt = tt.amount, tt.fee, tt.at
		err := storetest.ReserveWith(t.Context(), s, p, a, tt.limits)
		var got *buyer.BudgetError
		if errors.As(err, &got); (err == nil) != (tt.want == nil) || !cmp.Equal(tt.want, got) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	// What was spent counts like what is reserved, and what came back is free.
	for i, limit := range []int64{1906, 1907} { // 907 will be spent
		a, b := storetest.Purchase(fmt.Sprint("a", i)), storetest.Purchase(fmt.Sprint("b", i))
		a.Provider, b.Provider = storetest.HexID("s%d", i), storetest.HexID("s%d", i)
		storetest.Must(t, s.AddPurchase(t.Context(), a))
		storetest.Must(t, s.AddPurchase(t.Context(), b))
		storetest.Must(t, storetest.Reserve(t.Context(), s, a))
		storetest.Must(t, s.Paid(t.Context(), a.RequestID, storetest.PaidFor(a)))
		err := storetest.ReserveWith(t.Context(), s, b, storetest.AttemptOf(b), buyer.Limits{ProviderMsats: limit})
		if (err == nil) != (limit == 1907) {
			t.Errorf("907 spent of %d: %v", limit, err)
		}
	}
	p := storetest.Purchase("negative")
	storetest.Must(t, s.AddPurchase(t.Context(), p))
	for _, amount := range []int64{-1, 1 << 53} {
		a := storetest.AttemptOf(p)
		a.AmountMsats = amount
		if err := storetest.ReserveWith(t.Context(), s, p, a, buyer.Limits{}); err == nil {
			t.Errorf("an amount of %d was reserved", amount)
		}
	}
}

// TestManyBuyersOneBudget is B7: what does not fit together does not pass
// together.
func TestManyBuyersOneBudget(t *testing.T) {
	k := storetest.Open(t)
	s := k.Purchases()
	const callers, day = 64, 20_000
	var wg sync.WaitGroup
	errs, want := make([]error, callers), make([]int64, callers)
	for i := range callers {
		p := storetest.Purchase(fmt.Sprint(i))
		storetest.Must(t, s.AddPurchase(t.Context(), p))
		a := storetest.AttemptOf(p)
		a.AmountMsats -= int64(7 * i) // no two the same
		want[i] = a.AmountMsats + a.FeeLimitMsats
		wg.Go(func() { errs[i] = storetest.ReserveWith(t.Context(), s, p, a, buyer.Limits{DayMsats: day}) })
	}
	wg.Wait()
	var reserved int64
	least := int64(day)
	for i, err := range errs {
		var over *buyer.BudgetError
		switch {
		case err == nil:
			reserved += want[i]
		case errors.As(err, &over):
			least = min(least, want[i])
		default:
			t.Error(err)
		}
	}
	if free := day - reserved; free < 0 || free >= least {
		t.Errorf("%d msats of the budget are free, and a payment of %d was refused", free, least)
	}
	storetest.CheckBudget(t, s, storetest.Start, reserved, 0)
	last := storetest.Purchase("last")
	storetest.Must(t, s.AddPurchase(t.Context(), last))
	for _, short := range []int64{1, 0} { // one msat too little, and just enough
		err := storetest.ReserveWith(t.Context(), s, last, storetest.AttemptOf(last), buyer.Limits{DayMsats: reserved + 1000 - short})
		if (err == nil) != (short == 0) {
			t.Errorf("%d msats short: %v", short, err)
		}
	}

	one := storetest.Purchase("one")
	storetest.Must(t, s.AddPurchase(t.Context(), one))
	for i := range errs {
		wg.Go(func() { errs[i] = storetest.Reserve(t.Context(), s, one) })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if !errors.Is(err, buyer.ErrSecondPayment) {
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d payments of one purchase", won)
	}
}

func TestFindPurchaseAndLists(t *testing.T) {
	k := storetest.Open(t)
	s := k.Purchases()
	var ids []string
	for i := range 3 {
		p := storetest.Purchase(fmt.Sprint(i))
		p.RequestID = "abcdef" + p.RequestID[6:]
		ids = append(ids, p.RequestID)
		storetest.Must(t, s.AddPurchase(t.Context(), p))
	}
	storetest.Must(t, s.Close(t.Context(), ids[1], buyer.StateFailed, "why"))
	for prefix, want := range map[string]error{
		ids[0]: nil, ids[0][:12]: nil, "abcdef": names.ErrAmbiguous, "abcde": buyer.ErrNotFound, "": buyer.ErrNotFound,
		"123456": buyer.ErrNotFound, "ABCDEF": buyer.ErrNotFound, "abcdef%": buyer.ErrNotFound, ids[0] + "0": buyer.ErrNotFound,
	} {
		p, err := s.FindPurchase(t.Context(), prefix)
		if !errors.Is(err, want) || err == nil && p.RequestID != ids[0] {
			t.Errorf("FindPurchase(%q) = %s, %v, want %v", prefix, p.RequestID, err, want)
		}
	}
	open, err := s.OpenPurchases(t.Context())
	if diff := cmp.Diff([]string{ids[0], ids[2]}, open); err != nil || diff != "" {
		t.Errorf("open: %v\n%s", err, diff)
	}
	for limit, want := range map[int]int{0: 3, 2: 2} {
		list, err := s.Purchases(t.Context(), limit)
		if err != nil || len(list) != want || list[0].RequestID != ids[2] {
			t.Errorf("Purchases(%d): %d, %v", limit, len(list), err)
		}
	}
}

// TestLedgerInvariant does random steps on random purchases and checks the
// ledger against a plain model after every commit: reserved + spent + free is
// the budget, no free sum is below zero, and no step moves money twice.
func TestLedgerInvariant(t *testing.T) {
	k := storetest.Open(t)
	s := k.Purchases()
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		const budget = 2000
		var (
			limits = buyer.Limits{DayMsats: budget}
			day    = storetest.Start.AddDate(0, 0, run) // a day of its own
			model  = map[int]buyer.Attempt{}            // the open payments
			spent  int64
		)
		purchases := make([]buyer.Purchase, 8)
		for i := range purchases {
			purchases[i] = storetest.Purchase(fmt.Sprint(run, "/", i))
			if err := s.AddPurchase(context.Background(), purchases[i]); err != nil {
				rt.Fatal(err)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"reserve": func(rt *rapid.T) {
				i := rapid.IntRange(0, 7).Draw(rt, "i")
				a := storetest.AttemptOf(purchases[i])
				a.ReservedAt = day
				a.AmountMsats = rapid.Int64Range(0, 1100).Draw(rt, "amount")
				a.FeeLimitMsats = rapid.Int64Range(0, 100).Draw(rt, "fee limit")
				if storetest.ReserveWith(context.Background(), s, purchases[i], a, limits) == nil {
					model[i] = a
				}
			},
			"paid": func(rt *rapid.T) {
				i := rapid.IntRange(0, 7).Draw(rt, "i")
				p := storetest.PaidFor(purchases[i])
				a, open := model[i]
				p.FeeMsats = rapid.Int64Range(0, a.FeeLimitMsats).Draw(rt, "fee")
				p.AmountMsats = rapid.Int64Range(0, a.AmountMsats).Draw(rt, "paid") // by the wallet's own words
				err := s.Paid(context.Background(), purchases[i].RequestID, p)
				if open && err != nil {
					rt.Fatalf("Paid = %v, open %v", err, open)
				}
				if err == nil && open {
					delete(model, i)
					spent += a.AmountMsats + p.FeeMsats
				}
			},
			"unpaid": func(rt *rapid.T) {
				i := rapid.IntRange(0, 7).Draw(rt, "i")
				_, open := model[i]
				if s.Unpaid(context.Background(), purchases[i].RequestID, storetest.FailedFor(purchases[i]), buyer.StateFailed, "x") == nil && open {
					delete(model, i)
				}
			},
			"give up": func(rt *rapid.T) {
				i := rapid.IntRange(0, 7).Draw(rt, "i")
				_, open := model[i]
				if err := s.GiveUp(context.Background(), purchases[i].RequestID, "x"); (err == nil) != open {
					rt.Fatalf("GiveUp = %v, open %v", err, open)
				}
			},
			"": func(rt *rapid.T) {
				b, err := s.BudgetOf(context.Background(), day)
				if err != nil {
					rt.Fatal(err)
				}
				var reserved int64
				for _, a := range model {
					reserved += a.AmountMsats + a.FeeLimitMsats
				}
				free := budget - b.ReservedMsats - b.SpentMsats
				if b.ReservedMsats != reserved || b.SpentMsats != spent || free < 0 {
					rt.Fatalf("ledger %+v, model reserved %d, spent %d", b, reserved, spent)
				}
			},
		})
	})
}
