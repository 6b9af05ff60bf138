package nwc_test

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/nwc"
	"github.com/lightwork-market/lightwork/payments/playnet"
)

type object = map[string]any

func preimage() (p payments.Preimage) {
	rand.Read(p[:]) // never fails
	return p
}

func invoice(t *testing.T, w *playnet.Wallet, p payments.Preimage, msats int64) payments.Invoice {
	t.Helper()
	inv, err := w.CreateInvoice(t.Context(), payments.NewInvoice{
		Preimage: p, AmountMsats: msats, DescriptionHash: hashing.Bytes(p[:]), Expiry: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	return inv
}

// app is an NWCClient at our service.
type app struct {
	*program
	calls int
	notes []message // that came between answers
}

func (a *app) call(t *testing.T, method string, argument any) message {
	t.Helper()
	a.calls++
	line, err := json.Marshal([]any{a.calls, method, argument})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(a.in, "%s\n", line); err != nil {
		t.Fatal(err)
	}
	for {
		m := a.next(t)
		if m.Notification == nil && m.ID == a.calls {
			return m
		}
		a.notes = append(a.notes, m)
	}
}

func (a *app) must(t *testing.T, method string, argument any) object {
	t.Helper()
	m := a.call(t, method, argument)
	if m.Error != nil {
		t.Fatalf("%s: %+v", method, *m.Error)
	}
	var o object
	if err := json.Unmarshal(m.Result, &o); err != nil {
		t.Fatal(err)
	}
	return o
}

func (a *app) mustFail(t *testing.T, code nwc.Code, method string, argument any) {
	t.Helper()
	if m := a.call(t, method, argument); m.Error == nil || m.Error.Code != string(code) {
		t.Errorf("%s: %s, error %+v, want %s", method, m.Result, m.Error, code)
	}
}

// notified waits for a notification.
func (a *app) notified(t *testing.T, kind, hash string) {
	t.Helper()
	for {
		for _, m := range a.notes {
			if m.Notification != nil && m.Notification.Type == kind && m.Notification.About["payment_hash"] == hash {
				return
			}
		}
		a.notes = append(a.notes, a.next(t))
	}
}

// TestClientOfSDK: the SDK's client at our service.
func TestClientOfSDK(t *testing.T) {
	for _, env := range [][]string{nil, {"NWC_NIP04=1"}} {
		t.Run(fmt.Sprint(env), func(t *testing.T) { clientOfSDK(t, env) })
	}
}

func clientOfSDK(t *testing.T, env []string) {
	url := relayURL(t)
	ours, others := wallets(t)
	a, conn, err := nwc.NewApp("sdk", []string{url})
	if err != nil {
		t.Fatal(err)
	}
	a.Methods, a.BudgetMsats, a.Period = nwc.AllMethods(), 500_000, 24*time.Hour
	book, err := nwc.OpenBook(t.Context(), filepath.Join(t.TempDir(), "book.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = book.Close() })
	s, err := nwc.NewService(nwc.ServiceConfig{Wallet: ours, Book: book, Apps: []nwc.App{a}, Relays: []string{url}})
	if err != nil {
		t.Fatal(err)
	}
	run(t, s.Serve)
	sdk := &app{program: start(t, "client.mjs", append(env, "NWC_URL="+conn.URI())...)}

	if got := sdk.must(t, "getInfo", nil); got["network"] != "play" || len(got["methods"].([]any)) != len(a.Methods) {
		t.Errorf("info %v", got)
	}
	if got := sdk.must(t, "getBalance", nil); got["balance"] != 500_000.0 { // no more than the budget
		t.Errorf("balance %v", got)
	}
	pays(t, sdk, others)
	sells(t, sdk, others)
	holds(t, sdk, others)
	if got := sdk.must(t, "listTransactions", object{"unpaid": true}); len(got["transactions"].([]any)) != 4 {
		t.Errorf("transactions %v", got)
	}
}

// pays: within the budget, once, and not beyond.
func pays(t *testing.T, sdk *app, others *playnet.Wallet) {
	secret := preimage()
	inv := invoice(t, others, secret, 300_000)
	for range 2 {
		got := sdk.must(t, "payInvoice", object{"invoice": inv.BOLT11})
		if got["preimage"] != secret.String() || got["fees_paid"] != 7.0 {
			t.Errorf("paid %v", got)
		}
	}
	sdk.notified(t, "payment_sent", inv.PaymentHash.String())
	if got := sdk.must(t, "lookupInvoice", object{"invoice": inv.BOLT11}); got["type"] != "outgoing" || got["state"] != "settled" {
		t.Errorf("looked up %v", got)
	}
	if got := sdk.must(t, "getBudget", nil); got["used_budget"] != 300_007.0 || got["renewal_period"] != "daily" {
		t.Errorf("budget %v", got)
	}
	sdk.mustFail(t, nwc.CodeQuotaExceeded, "payInvoice", object{"invoice": invoice(t, others, preimage(), 200_000).BOLT11})
	sdk.mustFail(t, nwc.CodeOther, "payInvoice", object{"invoice": "lnbc1"})
	sdk.mustFail(t, nwc.CodeNotFound, "lookupInvoice", object{"payment_hash": preimage().Hash().String()})
	sdk.mustFail(t, nwc.CodeNotImplemented, "signMessage", object{"message": "x"})
}

// sells: an invoice that settles when it is paid.
func sells(t *testing.T, sdk *app, others *playnet.Wallet) {
	got := sdk.must(t, "makeInvoice", object{"amount": 1000, "description": "coffee"})
	err := others.SendPayment(t.Context(), payments.Pay{BOLT11: got["invoice"].(string), AmountMsats: 1000, FeeLimitMsats: 7})
	if err != nil {
		t.Fatal(err)
	}
	sdk.notified(t, "payment_received", got["payment_hash"].(string))
	if got = sdk.must(t, "lookupInvoice", object{"payment_hash": got["payment_hash"]}); got["state"] != "settled" {
		t.Errorf("looked up %v", got)
	}
}

// holds: one hold invoice is settled and one cancelled.
func holds(t *testing.T, sdk *app, others *playnet.Wallet) {
	for _, settle := range []bool{true, false} {
		secret := preimage()
		hash := secret.Hash()
		got := sdk.must(t, "makeHoldInvoice", object{"amount": 2000, "payment_hash": hash.String()})
		if err := others.SendPayment(t.Context(), payments.Pay{BOLT11: got["invoice"].(string), AmountMsats: 2000, FeeLimitMsats: 7}); err != nil {
			t.Fatal(err)
		}
		sdk.notified(t, "hold_invoice_accepted", hash.String())
		want := payments.PaymentFailed
		if settle {
			want = payments.PaymentSucceeded
			sdk.must(t, "settleHoldInvoice", object{"preimage": secret.String()})
		} else {
			sdk.must(t, "cancelHoldInvoice", object{"payment_hash": hash.String()})
		}
		if p, err := others.TrackPayment(t.Context(), hash); err != nil || p.State != want {
			t.Errorf("payment %+v, %v", p, err)
		}
	}
}

// TestServiceOfSDK: our client at the SDK's service, which has a wallet in
// memory and no hold invoices.
func TestServiceOfSDK(t *testing.T) {
	url := relayURL(t)
	node, payee := wallets(t) // they sign the invoices
	paid, silent := preimage(), preimage()
	paidInvoice, silentInvoice := invoice(t, payee, paid, 40_000), invoice(t, payee, silent, 50_000)
	own := preimage()
	stock := invoice(t, node, own, 60_000)
	walletKey, conn, err := nwc.NewApp("sdk", []string{url})
	if err != nil {
		t.Fatal(err)
	}
	n, err := node.Node(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wallet, err := json.Marshal(object{
		"relay": url, "secret": walletKey.Wallet.Hex(), "client": walletKey.Client, "balance": 1_000_000,
		"pubkey": n.PubKey, "network": n.Network,
		"methods": []string{"get_info", "get_balance", "make_invoice", "pay_invoice", "lookup_invoice", "list_transactions"},
		"stock":   []object{{"invoice": stock.BOLT11, "payment_hash": stock.PaymentHash, "amount": 60_000, "description_hash": hashing.Bytes(own[:]).Hex(), "expiry": 3600}},
		"payable": []object{
			{"invoice": paidInvoice.BOLT11, "payment_hash": paidInvoice.PaymentHash, "preimage": paid, "amount": 40_000},
			{"invoice": silentInvoice.BOLT11, "payment_hash": silentInvoice.PaymentHash, "preimage": silent, "amount": 50_000, "silent": true},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	start(t, "service.mjs", "WALLET="+string(wallet))
	c, err := nwc.Open(nwc.Config{Connection: conn, Network: payments.Play})
	if err != nil {
		t.Fatal(err)
	}
	run(t, c.Serve)

	info, err := c.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.Encryption != nwc.NIP44 || !info.CanPay() || info.CanHold() || info.CanPrepay() {
		t.Errorf("info %+v", info)
	}
	if got, err := c.Node(t.Context()); err != nil || got.PubKey != n.PubKey || got.Network != n.Network {
		t.Errorf("node %+v, %v", got, err)
	}
	// The answer to the second payment is lost: the lookup knows.
	for inv, secret := range map[payments.Invoice]payments.Preimage{paidInvoice: paid, silentInvoice: silent} {
		if err := c.SendPayment(t.Context(), payments.Pay{BOLT11: inv.BOLT11, AmountMsats: inv.AmountMsats, FeeLimitMsats: 1000}); err != nil {
			t.Fatal(err)
		}
		p, err := c.TrackPayment(t.Context(), inv.PaymentHash)
		want := payments.Payment{Hash: inv.PaymentHash, State: payments.PaymentSucceeded, AmountMsats: inv.AmountMsats, FeeMsats: 1000, Preimage: secret}
		if err != nil || p != want {
			t.Errorf("payment %+v, %v", p, err)
		}
	}
	if b, err := c.Balance(t.Context()); err != nil || b.SpendableMsats != 1_000_000-92_000 {
		t.Errorf("balance %+v, %v", b, err)
	}
	elsewhere := invoice(t, payee, preimage(), 1000)
	err = c.SendPayment(t.Context(), payments.Pay{BOLT11: elsewhere.BOLT11, AmountMsats: 1000, FeeLimitMsats: 1000})
	if !errors.Is(err, payments.ErrNoRoute) {
		t.Errorf("no route: %v", err)
	}
	sdkSells(t, c, stock, own)
	if list, err := c.Transactions(t.Context(), 0); err != nil || len(list) != 3 || !list[0].Incoming {
		t.Errorf("transactions %+v, %v", list, err)
	}
}

// sdkSells: an invoice whose hash the wallet chose, and none of the others.
func sdkSells(t *testing.T, c *nwc.Client, stock payments.Invoice, own payments.Preimage) {
	for range 2 { // the second time it is found in the wallet's list
		in := payments.NewInvoice{AmountMsats: 60_000, DescriptionHash: hashing.Bytes(own[:]), Expiry: time.Hour}
		inv, err := c.MakeInvoice(t.Context(), in, time.Now())
		if err != nil || inv != stock {
			t.Errorf("invoice %+v, %v", inv, err)
		}
	}
	if got, err := c.LookupInvoice(t.Context(), stock.PaymentHash); err != nil || got != stock {
		t.Errorf("looked up %+v, %v", got, err)
	}
	secret := preimage()
	for _, hold := range []bool{true, false} {
		_, err := c.CreateInvoice(t.Context(), payments.NewInvoice{
			Preimage: secret, PaymentHash: secret.Hash(), Hold: hold, AmountMsats: 1000, Expiry: time.Hour,
		})
		if !errors.Is(err, payments.ErrUnsupported) {
			t.Errorf("hold %v: %v", hold, err)
		}
	}
	if err := c.CancelInvoice(t.Context(), stock.PaymentHash); !errors.Is(err, payments.ErrUnsupported) {
		t.Errorf("cancel: %v", err)
	}
}
