package playnet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
)

// model is what the ledger should hold, kept in the plainest way.
type model struct {
	dir    string
	cfg    Config
	ledger *Ledger

	names    []string
	tokens   map[string]string
	wallets  map[string]*Wallet
	balances map[string]int64
	fees     int64
	invoices []*modelInvoice
}

type modelInvoice struct {
	payments.NewInvoice
	preimage payments.Preimage
	bolt11   string
	payee    string
	state    payments.InvoiceState
	expired  bool
	deadline time.Time
	payer    string          // who pays or paid
	failed   map[string]bool // whose attempt failed and is recorded
}

func newModel(t *rapid.T, dir string) *model {
	m := &model{
		dir: dir, cfg: Config{FaucetMsats: 5000, FeeMsats: rapid.Int64Range(0, 30).Draw(t, "fee"), HoldTime: 90 * time.Second},
		names: []string{"ann", "bob", "cid"}, tokens: map[string]string{}, wallets: map[string]*Wallet{}, balances: map[string]int64{},
	}
	for _, name := range m.names {
		m.tokens[name] = NewToken()
		m.balances[name] = m.cfg.FaucetMsats
	}
	m.open(t)
	return m
}

// open opens the ledger and its wallets, for the first time or again.
func (m *model) open(t *rapid.T) {
	l, err := Open(context.Background(), filepath.Join(m.dir, "play.db"), m.cfg)
	if err != nil {
		t.Fatal(err)
	}
	m.ledger = l
	for _, name := range m.names {
		if m.wallets[name], err = l.OpenWallet(context.Background(), name, m.tokens[name]); err != nil {
			t.Fatal(err)
		}
	}
}

// passTime does in the model what deadlines do.
func (m *model) passTime() {
	for _, inv := range m.invoices {
		if inv.state.Terminal() || inv.deadline.After(time.Now()) {
			continue
		}
		inv.expired = inv.state == payments.InvoiceOpen
		m.cancel(inv)
	}
}

func (m *model) cancel(inv *modelInvoice) {
	if inv.state == payments.InvoiceHeld {
		m.balances[inv.payer] += inv.AmountMsats + m.cfg.FeeMsats
		inv.failed[inv.payer] = true
		inv.payer = ""
	}
	inv.state = payments.InvoiceCanceled
}

func (m *model) settle(inv *modelInvoice) {
	m.balances[inv.payee] += inv.AmountMsats
	m.fees += m.cfg.FeeMsats
	inv.state = payments.InvoiceSettled
}

func (m *model) pick(t *rapid.T) *modelInvoice {
	if len(m.invoices) == 0 {
		t.Skip("no invoice yet")
	}
	return m.invoices[rapid.IntRange(0, len(m.invoices)-1).Draw(t, "invoice")]
}

func expect(t *rapid.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) || want == nil && err != nil {
		t.Fatalf("%s: error %v, want %v", what, err, want)
	}
}

func (m *model) create(t *rapid.T) {
	var preimage payments.Preimage
	copy(preimage[:], fmt.Sprintf("preimage %d", len(m.invoices)))
	inv := &modelInvoice{
		NewInvoice: payments.NewInvoice{
			PaymentHash: preimage.Hash(), Hold: rapid.Bool().Draw(t, "hold"),
			AmountMsats:     rapid.Int64Range(1, 3000).Draw(t, "amount"),
			DescriptionHash: hashing.Bytes(preimage[:]),
			Expiry:          time.Duration(rapid.IntRange(1, 120).Draw(t, "expiry")) * time.Second,
		},
		preimage: preimage, payee: rapid.SampledFrom(m.names).Draw(t, "payee"), state: payments.InvoiceOpen, failed: map[string]bool{},
	}
	if !inv.Hold {
		inv.Preimage = preimage
	}
	got, err := m.wallets[inv.payee].CreateInvoice(context.Background(), inv.NewInvoice)
	expect(t, "create", err, nil)
	inv.bolt11, inv.deadline = got.BOLT11, time.Now().Add(inv.Expiry)
	m.invoices = append(m.invoices, inv)
}

func (m *model) createAgain(t *rapid.T) {
	inv := m.pick(t)
	got, err := m.wallets[inv.payee].CreateInvoice(context.Background(), inv.NewInvoice)
	expect(t, "create again", err, nil)
	if got.BOLT11 != inv.bolt11 || got.State != inv.state {
		t.Fatalf("created again: %+v", got)
	}
	for _, name := range m.names {
		if name != inv.payee {
			_, err := m.wallets[name].CreateInvoice(context.Background(), inv.NewInvoice)
			expect(t, "create another's", err, payments.ErrInvoiceMismatch)
		}
	}
}

func (m *model) pay(t *rapid.T) {
	inv, payer := m.pick(t), rapid.SampledFrom(m.names).Draw(t, "payer")
	limit := rapid.Int64Range(0, 60).Draw(t, "limit")
	var want error
	switch need := inv.AmountMsats + m.cfg.FeeMsats; {
	case payer == inv.payee:
		want = payments.ErrSelfPayment
	case inv.payer == payer:
	case inv.payer != "":
		want = payments.ErrAlreadyPaid
	case inv.expired:
		want = payments.ErrExpired
	case inv.state == payments.InvoiceCanceled:
		want = payments.ErrInvoiceCanceled
	case m.cfg.FeeMsats > limit:
		want, inv.failed[payer] = payments.ErrNoRoute, true
	case m.balances[payer] < need:
		want, inv.failed[payer] = payments.ErrInsufficientFunds, true
	default:
		m.balances[payer] -= need
		inv.payer, inv.state, inv.deadline = payer, payments.InvoiceHeld, time.Now().Add(m.cfg.HoldTime)
		delete(inv.failed, payer)
		if !inv.Hold {
			m.settle(inv)
		}
	}
	err := m.wallets[payer].SendPayment(context.Background(), payments.Pay{BOLT11: inv.bolt11, AmountMsats: inv.AmountMsats, FeeLimitMsats: limit})
	expect(t, "pay", err, want)
}

func (m *model) settleOne(t *rapid.T) {
	inv := m.pick(t)
	var want error
	switch {
	case inv.state == payments.InvoiceOpen:
		want = payments.ErrNotHeld
	case inv.expired:
		want = payments.ErrExpired
	case inv.state == payments.InvoiceCanceled:
		want = payments.ErrInvoiceCanceled
	case inv.state == payments.InvoiceHeld:
		m.settle(inv)
	}
	expect(t, "settle", m.wallets[inv.payee].SettleInvoice(context.Background(), inv.preimage), want)
}

func (m *model) cancelOne(t *rapid.T) {
	inv := m.pick(t)
	var want error
	switch inv.state {
	case payments.InvoiceSettled:
		want = payments.ErrInvoiceSettled
	case payments.InvoiceOpen, payments.InvoiceHeld:
		m.cancel(inv)
	}
	expect(t, "cancel", m.wallets[inv.payee].CancelInvoice(context.Background(), inv.PaymentHash), want)
}

// wait lets time pass to some invoice's deadline, or just short of it.
func (m *model) wait(t *rapid.T) {
	d := time.Duration(rapid.IntRange(1, 60).Draw(t, "seconds")) * time.Second
	if len(m.invoices) > 0 && rapid.Bool().Draw(t, "to a deadline") {
		if left := time.Until(m.pick(t).deadline); left > 0 {
			d = left - time.Duration(rapid.IntRange(0, 1).Draw(t, "short"))*time.Second
		}
	}
	time.Sleep(d)
	m.passTime()
}

func (m *model) reopen(t *rapid.T) {
	expect(t, "close", m.ledger.Close(), nil)
	m.open(t)
}

// check compares the ledger with the model and adds it up.
func (m *model) check(t *rapid.T) {
	ctx := context.Background()
	// Before anything looks, so that lateness alone cannot make the books wrong.
	totals, err := m.ledger.Audit(ctx)
	expect(t, "audit", err, nil)
	issued := int64(len(m.names)) * m.cfg.FaucetMsats
	if totals.IssuedMsats != issued || totals.WalletsMsats+totals.HeldMsats+totals.FeesMsats != issued || totals.FeesMsats != m.fees {
		t.Fatalf("totals %+v, want %d issued and fees of %d", totals, issued, m.fees)
	}
	reserved, received := map[string]int64{}, map[string]int64{}
	for _, inv := range m.invoices {
		got, err := m.wallets[inv.payee].LookupInvoice(ctx, inv.PaymentHash)
		expect(t, "look up invoice", err, nil)
		if got.State != inv.state {
			t.Fatalf("invoice is %s, want %s", got.State, inv.state)
		}
		switch inv.state {
		case payments.InvoiceHeld:
			reserved[inv.payer] += inv.AmountMsats + m.cfg.FeeMsats
		case payments.InvoiceSettled:
			received[inv.payee] += inv.AmountMsats
		}
		for _, name := range m.names {
			m.checkPayment(t, inv, name)
		}
	}
	for _, name := range m.names {
		got, err := m.wallets[name].Balance(ctx)
		expect(t, "balance", err, nil)
		if want := (payments.Balance{SpendableMsats: m.balances[name], ReservedMsats: reserved[name], ReceivedMsats: received[name]}); got != want {
			t.Fatalf("%s has %+v, want %+v", name, got, want)
		}
	}
}

func (m *model) checkPayment(t *rapid.T, inv *modelInvoice, name string) {
	got, err := m.wallets[name].LookupPayment(context.Background(), inv.PaymentHash)
	if inv.payer != name && !inv.failed[name] {
		expect(t, "look up no payment", err, payments.ErrNotFound)
		return
	}
	expect(t, "look up payment", err, nil)
	want := payments.PaymentFailed
	var preimage payments.Preimage
	if inv.payer == name {
		if want = payments.PaymentInFlight; inv.state == payments.InvoiceSettled {
			want, preimage = payments.PaymentSucceeded, inv.preimage
		}
	}
	if got.State != want || got.Preimage != preimage {
		t.Fatalf("payment of %s is %+v, want %s", name, got, want)
	}
}

// TestAgainstModel does random things, lets time pass and reopens the file.
// After each the ledger must say what the model says, and add up.
func TestAgainstModel(t *testing.T) {
	root := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(root, "model")
		if err != nil {
			rt.Fatal(err)
		}
		inBubble(t, func() {
			m := newModel(rt, dir)
			defer func() { _ = m.ledger.Close() }()
			rt.Repeat(map[string]func(*rapid.T){
				"":             m.check,
				"create":       m.create,
				"create again": m.createAgain,
				"pay":          m.pay,
				"pay too":      m.pay,
				"settle":       m.settleOne,
				"cancel":       m.cancelOne,
				"wait":         m.wait,
				"reopen":       m.reopen,
			})
		})
	})
}

// inBubble runs fn on fake time and carries a panic, which is how rapid ends a
// run, out of the bubble.
func inBubble(t *testing.T, fn func()) {
	var thrown any
	synctest.Test(t, func(*testing.T) {
		defer func() { thrown = recover() }()
		fn()
	})
	if thrown != nil {
		panic(thrown)
	}
}
