package nwc

import (
	"crypto/rand"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/playnet"
)

// offered is a service that is asked without relays in between.
type offered struct {
	*Service
	t    testing.TB
	apps []*app
}

func offer(t testing.TB, w payments.Wallet, path string, apps ...App) *offered {
	t.Helper()
	s, err := NewService(ServiceConfig{Wallet: w, Book: openBook(t, path), Apps: apps, Relays: []string{"ws://127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	o := &offered{Service: s, t: t}
	for _, a := range apps {
		o.apps = append(o.apps, s.apps[a.Wallet.PublicKey()])
	}
	return o
}

// ask asks by a fresh event.
func (o *offered) ask(a int, m Method, params any) (any, error) {
	var id [32]byte
	rand.Read(id[:]) // never fails
	return o.askBy(payments.Hash(id).String(), a, m, params)
}

func (o *offered) askBy(eventID string, a int, m Method, params any) (any, error) {
	o.t.Helper()
	raw, err := json.Marshal(params)
	if err != nil {
		o.t.Error(err)
	}
	return o.handle(o.t.Context(), o.apps[a], eventID, request{Method: m, Params: raw})
}

// wantCode checks what an app would be told.
func wantCode(t testing.TB, what string, err error, code Code) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error, want %s", what, code)
	} else if got := refusal(err).Code; got != string(code) {
		t.Errorf("%s: %s (%v), want %s", what, got, err, code)
	}
}

func TestWhatAnAppMayAsk(t *testing.T) {
	w := openWallet(t, openLedger(t, playnet.Config{}), "w")
	reader, _ := newApp(t, "ws://127.0.0.1:1")
	reader.Methods = []Method{GetBalance, LookupInvoice}
	old, _ := newApp(t, "ws://127.0.0.1:1")
	old.ExpiresAt = time.Now().Add(-time.Second)
	o := offer(t, w, filepath.Join(t.TempDir(), "book.db"), reader, old)
	if r, err := o.ask(0, GetBalance, nil); err != nil || r.(balanceResult).Balance != 1_000_000_000 {
		t.Errorf("%+v, %v", r, err)
	}
	_, err := o.ask(0, PayInvoice, payParams{})
	wantCode(t, "a method that is not allowed", err, CodeRestricted)
	_, err = o.ask(0, "sign_message", nil)
	wantCode(t, "an unknown method", err, CodeNotImplemented)
	_, err = o.ask(1, GetBalance, nil)
	wantCode(t, "after the end", err, CodeUnauthorized)
	_, err = o.ask(0, LookupInvoice, []int{1})
	wantCode(t, "no object", err, CodeOther)
	_, err = o.ask(0, LookupInvoice, map[string]any{"payment_hash": 7})
	wantCode(t, "a number for a hash", err, CodeOther)
}

func TestServiceConfig(t *testing.T) {
	w := openWallet(t, openLedger(t, playnet.Config{}), "w")
	b := openBook(t, filepath.Join(t.TempDir(), "book.db"))
	good, _ := newApp(t, "ws://127.0.0.1:1")
	change := func(f func(a *App)) []App { a := good; f(&a); return []App{a} }
	for name, apps := range map[string][]App{
		"no apps": nil, "twice": {good, good},
		"no keys":         {{Name: "x"}},
		"no client":       change(func(a *App) { a.Client = "" }),
		"own key":         change(func(a *App) { a.Client = a.Wallet.PublicKey() }),
		"unknown method":  change(func(a *App) { a.Methods = []Method{"x"} }),
		"negative budget": change(func(a *App) { a.BudgetMsats = -1 }),
		"negative period": change(func(a *App) { a.Period = -1 }),
	} {
		if _, err := NewService(ServiceConfig{Wallet: w, Book: b, Apps: apps, Relays: []string{"ws://127.0.0.1:1"}}); !errors.Is(err, ErrServiceConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := NewService(ServiceConfig{Wallet: w, Book: b, Apps: []App{good}}); !errors.Is(err, ErrServiceConfig) {
		t.Errorf("no relays: %v", err)
	}
	if _, err := NewService(ServiceConfig{Apps: []App{good}, Relays: []string{"ws://a"}}); !errors.Is(err, ErrServiceConfig) {
		t.Errorf("no wallet: %v", err)
	}
}

// TestAppsAreStrangers: what is another app's, or the node's own, is not found
// and cannot be taken over.
func TestAppsAreStrangers(t *testing.T) {
	l := openLedger(t, playnet.Config{})
	w, payer := openWallet(t, l, "w"), openWallet(t, l, "payer")
	one, _ := newApp(t, "ws://127.0.0.1:1")
	two, _ := newApp(t, "ws://127.0.0.1:1")
	o := offer(t, w, filepath.Join(t.TempDir(), "book.db"), one, two)

	// The node's own hold invoice, and one of app 0, both paid.
	var secrets [2]payments.Preimage
	ask := payments.NewInvoice{Hold: true, AmountMsats: 5000, Expiry: time.Hour}
	for i := range secrets {
		rand.Read(secrets[i][:])
	}
	ask.PaymentHash = secrets[0].Hash()
	own, err := w.CreateInvoice(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	params := invoiceParams{Amount: 5000, DescriptionHash: strings.Repeat("0", 64), Expiry: 3600, PaymentHash: secrets[1].Hash().String()}
	r, err := o.ask(0, MakeHoldInvoice, params)
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range []string{own.BOLT11, r.(transaction).Invoice} {
		if err := payer.SendPayment(t.Context(), payments.Pay{BOLT11: text, AmountMsats: 5000}); err != nil {
			t.Fatal(err)
		}
		hash := secrets[i].Hash().String()
		for m, p := range map[Method]any{
			LookupInvoice: lookupParams{PaymentHash: hash}, CancelHoldInvoice: cancelParams{hash}, SettleHoldInvoice: settleParams{secrets[i].String()},
		} {
			_, err := o.ask(1, m, p)
			wantCode(t, string(m), err, CodeNotFound)
		}
		params.PaymentHash = hash
		_, err := o.ask(1, MakeHoldInvoice, params)
		wantCode(t, "the same invoice", err, CodeOther)
		if inv, err := w.LookupInvoice(t.Context(), secrets[i].Hash()); err != nil || inv.State != payments.InvoiceHeld {
			t.Errorf("invoice %+v, %v", inv, err)
		}
	}
	if r, err := o.ask(1, ListTransactions, listParams{Unpaid: true}); err != nil || len(r.(listResult).Transactions) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := o.ask(0, CancelHoldInvoice, cancelParams{secrets[1].Hash().String()}); err != nil {
		t.Error(err)
	}
}

// TestBudget: many at once never spend more than the budget; what fails is
// given back; the same payment is not counted twice; a restart forgets nothing.
func TestBudget(t *testing.T) {
	l := openLedger(t, playnet.Config{FeeMsats: 100})
	w, payee := openWallet(t, l, "w"), openWallet(t, l, "payee")
	a, _ := newApp(t, "ws://127.0.0.1:1")
	a.BudgetMsats = 5 * 20_200 // five payments and their fee limits
	path := filepath.Join(t.TempDir(), "book.db")
	o := offer(t, w, path, a)
	limit := int64(200)

	tooDear := int64(50)
	_, err := o.ask(0, PayInvoice, payParams{Invoice: newBill(t, payee).BOLT11, FeeLimit: &tooDear})
	wantCode(t, "a fee over the limit", err, CodePaymentFailed)

	var paying sync.WaitGroup
	var mu sync.Mutex
	paid := 0
	for range 16 {
		b := newBill(t, payee)
		paying.Go(func() {
			for range 2 {
				r, err := o.ask(0, PayInvoice, payParams{Invoice: b.BOLT11, FeeLimit: &limit})
				if err != nil {
					wantCode(t, "over the budget", err, CodeQuotaExceeded)
				} else if r.(payResult) != (payResult{b.preimage.String(), 100}) {
					t.Errorf("paid %+v", r)
				}
				mu.Lock()
				if err == nil {
					paid++
				}
				mu.Unlock()
			}
		})
	}
	paying.Wait()
	if paid != 10 { // five, each asked for twice
		t.Errorf("%d answers of success", paid)
	}
	u, err := o.cfg.Book.Used(t.Context(), a.Client, time.Time{})
	if err != nil || u != (Usage{SpentMsats: 5 * 20_100}) {
		t.Errorf("used %+v, %v", u, err)
	}
	if b, err := w.Balance(t.Context()); err != nil || b.SpendableMsats != 1_000_000_000-5*20_100 {
		t.Errorf("balance %+v, %v", b, err)
	}
	if err := o.cfg.Book.Close(); err != nil {
		t.Fatal(err)
	}
	o = offer(t, w, path, a)
	_, err = o.ask(0, PayInvoice, payParams{Invoice: newBill(t, payee).BOLT11, FeeLimit: &limit})
	wantCode(t, "after a restart", err, CodeQuotaExceeded)
	// A new period gives a new budget.
	if err := o.cfg.Book.Reserve(t.Context(), Spend{App: a.Client, Hash: payments.Hash{1}, Msats: a.BudgetMsats}, a.BudgetMsats, time.Now().Add(time.Hour)); err != nil {
		t.Error(err)
	}
}

// TestRequestsAreActedOnOnce, also if the first time failed and the second
// would not.
func TestRequestsAreActedOnOnce(t *testing.T) {
	l := openLedger(t, playnet.Config{FeeMsats: 100})
	w, payee := openWallet(t, l, "w"), openWallet(t, l, "payee")
	a, _ := newApp(t, "ws://127.0.0.1:1")
	o := offer(t, w, filepath.Join(t.TempDir(), "book.db"), a)
	b := newBill(t, payee)
	id, low, enough := strings.Repeat("ab", 32), int64(1), int64(100)
	_, err := o.askBy(id, 0, PayInvoice, payParams{Invoice: b.BOLT11, FeeLimit: &low})
	wantCode(t, "a fee over the limit", err, CodePaymentFailed)
	if _, err = o.askBy(id, 0, PayInvoice, payParams{Invoice: b.BOLT11, FeeLimit: &enough}); !errors.Is(err, errRepeated) {
		t.Errorf("the same event again: %v", err)
	}
	if _, err := o.ask(0, PayInvoice, payParams{Invoice: b.BOLT11, FeeLimit: &enough}); err != nil {
		t.Errorf("another event: %v", err)
	}
}

func TestFresh(t *testing.T) {
	now := time.Now()
	at := func(d time.Duration) string { return strconv.FormatInt(now.Add(d).Unix(), 10) }
	for name, c := range map[string]struct {
		age  time.Duration
		tags nostr.Tags
		want bool
	}{
		"now":           {0, nil, true},
		"five minutes":  {5 * time.Minute, nil, true},
		"old":           {maxAge + time.Minute, nil, false},
		"of the future": {-maxAge - time.Minute, nil, false},
		"not expired":   {0, nostr.Tags{{"expiration", at(time.Minute)}}, true},
		"expired":       {0, nostr.Tags{{"expiration", at(-time.Minute)}}, false},
		"expires never": {0, nostr.Tags{{"expiration", "never"}}, false},
	} {
		if got := fresh(&nostr.Event{CreatedAt: nostr.Timestamp(now.Add(-c.age).Unix()), Tags: c.tags}, now); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestOthersPayments: what the node or another app paid is neither paid again
// nor shown.
func TestOthersPayments(t *testing.T) {
	l := openLedger(t, playnet.Config{FeeMsats: 100})
	w, payee := openWallet(t, l, "w"), openWallet(t, l, "payee")
	one, _ := newApp(t, "ws://127.0.0.1:1")
	two, _ := newApp(t, "ws://127.0.0.1:1")
	o := offer(t, w, filepath.Join(t.TempDir(), "book.db"), one, two)
	low := int64(1)
	own, apps := newBill(t, payee), newBill(t, payee)
	_, err := o.ask(1, PayInvoice, payParams{Invoice: own.BOLT11, FeeLimit: &low})
	wantCode(t, "a fee over the limit", err, CodePaymentFailed)
	if err := w.SendPayment(t.Context(), own.pay()); err != nil {
		t.Fatal(err)
	}
	if _, err := o.ask(0, PayInvoice, payParams{Invoice: apps.BOLT11}); err != nil {
		t.Fatal(err)
	}
	for _, b := range []bill{own, apps} {
		r, err := o.ask(1, PayInvoice, payParams{Invoice: b.BOLT11})
		wantCode(t, "another's payment", err, CodePaymentFailed)
		if r != nil {
			t.Errorf("answered %+v", r)
		}
	}
	if r, err := o.ask(1, LookupInvoice, lookupParams{Invoice: own.BOLT11}); err != nil || r.(transaction).State != stateFailed || r.(transaction).Preimage != "" {
		t.Errorf("%+v, %v", r, err)
	}
	_, err = o.ask(1, LookupInvoice, lookupParams{Invoice: apps.BOLT11})
	wantCode(t, "another app's payment", err, CodeNotFound)
	if u, err := o.cfg.Book.Used(t.Context(), two.Client, time.Time{}); err != nil || u != (Usage{}) {
		t.Errorf("used %+v, %v", u, err)
	}
}
