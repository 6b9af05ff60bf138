//go:build lnd

package onchain

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/internal/devnet"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/conformance"
	"github.com/lightwork-market/lightwork/payments/lnd"
)

// real is a wallet on a running lnd, whose macaroon permits what the two roles
// on the chain need and no more.
type real struct {
	*Wallet
	node *devnet.Node
	ln   *lnd.Wallet
	path string
	book *Book
	log  *slog.Logger
}

func onNode(t *testing.T, node *devnet.Node, log *slog.Logger) *real {
	t.Helper()
	uris := slices.Concat(lnd.PermissionURIs(lnd.ChainPayee), lnd.PermissionURIs(lnd.ChainPayer))
	slices.Sort(uris)
	dir := t.TempDir()
	must(t, node.BakeMacaroon(t.Context(), filepath.Join(dir, "chain.macaroon"), slices.Compact(uris)))
	ln, err := lnd.Open(lnd.Config{
		Address: node.Address(), TLSCertFile: node.TLSCertFile(), MacaroonFile: filepath.Join(dir, "chain.macaroon"), Network: payments.Simnet, Log: log,
	})
	must(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	r := &real{node: node, ln: ln, path: filepath.Join(dir, "book.db"), log: log}
	r.open(t)
	t.Cleanup(func() { _ = r.book.Close() })
	return r
}

func (r *real) open(t *testing.T) {
	t.Helper()
	var err error
	r.book, err = OpenBook(t.Context(), r.path, r.log)
	must(t, err)
	r.Wallet, err = New(Config{Chain: r.ln, Book: r.book, Confirmations: 2, PollEvery: 50 * time.Millisecond, Log: r.log})
	must(t, err)
}

// dies forgets all but the book, as a node that is killed does.
func (r *real) dies(t *testing.T) {
	t.Helper()
	must(t, r.book.Close())
	r.open(t)
}

// until looks until the request is in the state.
func until(t *testing.T, w *real, inv payments.Invoice, state payments.InvoiceState) payments.Invoice {
	t.Helper()
	for {
		got, err := w.LookupInvoice(t.Context(), inv.PaymentHash)
		if err == nil && got.State == state {
			return got
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatalf("%+v, %v; want %s", got, err, state)
		}
	}
}

// pair is a payee and a payer on one chain, which the test mines.
type pair struct {
	net          *devnet.Network
	carol        *devnet.Node
	payee, payer *real
	log          *slog.Logger
}

// wants is a request for 200,000 sat.
func (*pair) wants() payments.NewInvoice {
	n := ask()
	n.AmountMsats = 200_000_000
	return n
}

func (*pair) pay(inv payments.Invoice) payments.Pay {
	return payments.Pay{BOLT11: inv.BOLT11, AmountMsats: inv.AmountMsats, FeeLimitMsats: 20_000_000}
}

// TestOnTheChain runs on one real network, since starting it is the slow part.
func TestOnTheChain(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 12*time.Minute)
	defer cancel()
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
	net, err := devnet.Start(ctx, devnet.Config{Dir: t.TempDir(), Log: log})
	must(t, err)
	t.Cleanup(net.Stop)
	carol, err := net.AddNode(ctx, "carol") // Bob's coins grow with every block
	must(t, err)
	must(t, net.Fund(ctx, carol))
	m := &pair{net: net, carol: carol, payee: onNode(t, net.Alice, log), payer: onNode(t, carol, log), log: log}
	t.Run("what a macaroon lacks is found by asking", m.rights)
	t.Run("conformance", m.conformance)
	t.Run("killed at every step, with lnd", m.killedAtEveryStep)
	t.Run("signed, and never published before a restart", m.signedNotPublished)
	t.Run("an attempt that was not written down holds no coins", m.holdsNoCoins)
	t.Run("a reorganisation before it is final", m.reorganised)
	t.Run("replaced by one to the buyer", m.replacedAway)
	t.Run("replaced after a reorganisation", m.replacedAfterBlock)
	t.Run("replaced by one with a higher fee", m.replacedInPlace)
	t.Run("not over Lightning", m.notOverLightning)
}

// rights: what a macaroon lacks for a role is named, whichever it is, and asking holds
// no coins.
func (m *pair) rights(t *testing.T) {
	for _, role := range []lnd.Role{lnd.ChainPayee, lnd.ChainPayer} {
		must(t, m.payer.CheckPermissions(t.Context(), role))
		rights := lnd.PermissionURIs(role)
		for i, missing := range rights {
			path := filepath.Join(t.TempDir(), "weak.macaroon")
			must(t, m.carol.BakeMacaroon(t.Context(), path, slices.Delete(slices.Clone(rights), i, i+1)))
			weak, err := lnd.Open(lnd.Config{Address: m.carol.Address(), TLSCertFile: m.carol.TLSCertFile(), MacaroonFile: path, Network: payments.Simnet})
			must(t, err)
			err = weak.CheckPermissions(t.Context(), role)
			if !errors.Is(err, payments.ErrUnauthorized) || !strings.HasSuffix(err.Error(), "the macaroon lacks uri:"+missing) {
				t.Errorf("as a %s without %s: %v", role, missing, err)
			}
			must(t, weak.Close())
		}
	}

	balance, err := m.payer.Balance(t.Context())
	must(t, err)
	if balance.ReservedMsats != 0 {
		t.Errorf("the questions hold coins: %+v", balance)
	}
}

func (m *pair) conformance(t *testing.T) {
	mining, stop := context.WithCancel(t.Context())
	var miner sync.WaitGroup
	miner.Go(func() {
		for mining.Err() == nil {
			if err := m.net.Mine(mining, 1); err != nil && mining.Err() == nil {
				t.Errorf("mine: %v", err)
				return
			}
			select {
			case <-time.After(200 * time.Millisecond):
			case <-mining.Done():
			}
		}
	})
	defer miner.Wait()
	defer stop()
	conformance.Run(t, func(*testing.T) conformance.Pair {
		return conformance.Pair{Payee: m.payee, Payer: m.payer, AmountMsats: 200_000_000, PrepayOnly: true}
	})
}

func (m *pair) killedAtEveryStep(t *testing.T) {
	inv := create(t, m.payee.Wallet, m.wants())
	m.payee.dies(t)
	must(t, m.payer.SendPayment(t.Context(), m.pay(inv)))
	m.payer.dies(t)
	m.carol.Kill()
	must(t, m.carol.Start(t.Context()))
	must(t, m.payer.SendPayment(t.Context(), m.pay(inv))) // the same transaction
	until(t, m.payee, inv, payments.InvoicePending)
	m.net.Alice.Kill()
	must(t, m.net.Alice.Start(t.Context()))
	must(t, m.net.Mine(t.Context(), 2))
	got := until(t, m.payee, inv, payments.InvoiceSettled)
	p, err := m.payer.TrackPayment(t.Context(), inv.PaymentHash)
	if err != nil || p.State != payments.PaymentSucceeded || p.Outpoints != got.Outpoints || got.PaidMsats != inv.AmountMsats {
		t.Errorf("%+v, %v; the payee has %+v", p, err, got)
	}
}

func (m *pair) signedNotPublished(t *testing.T) {
	inv := create(t, m.payee.Wallet, m.wants())
	checked, err := m.payer.checkPay(t.Context(), m.pay(inv))
	must(t, err)
	s, err := m.payer.sign(t.Context(), checked, m.pay(inv))
	must(t, err)
	m.payer.dies(t)
	published := func(sats int64, since time.Time) []lnd.ChainPayment {
		list, err := m.payer.ln.Published(t.Context(), checked.address, sats, since)
		must(t, err)
		return list
	}
	if list := published(s.sats, time.Now()); len(list) != 0 {
		t.Errorf("of a transaction that is signed alone: %v", list)
	}
	must(t, m.payer.SendPayment(t.Context(), m.pay(inv)))
	for range 2 { // in no block, and in one
		list := published(s.sats, time.Now())
		if len(list) != 1 || !bytes.Equal(list[0].Raw, s.raw) || list[0].FeeSats != s.feeSats {
			t.Errorf("published: %v", list)
		}
		must(t, m.net.Mine(t.Context(), 1))
	}
	if list := append(published(s.sats+1, time.Now()), published(s.sats, time.Now().Add(24*time.Hour))...); len(list) != 0 {
		t.Errorf("of another amount, or before the time: %v", list)
	}
	p, err := m.payer.TrackPayment(t.Context(), inv.PaymentHash)
	if err != nil || p.State != payments.PaymentSucceeded || p.Outpoints[:64] != s.txid {
		t.Errorf("%+v, %v; signed %s", p, err, s.txid)
	}
	tx, err := m.payer.ln.Transaction(t.Context(), s.txid)
	if err != nil || tx.Label != checked.label || tx.FeeSats != s.feeSats {
		t.Errorf("%+v, %v", tx, err)
	}
}

func (m *pair) holdsNoCoins(t *testing.T) {
	inv := create(t, m.payee.Wallet, m.wants())
	before, err := m.payer.Balance(t.Context())
	must(t, err)
	p := m.pay(inv)
	p.FeeLimitMsats = 1
	if err := m.payer.SendPayment(t.Context(), p); !payments.NeverSent(err) {
		t.Errorf("%v", err)
	}
	if after, err := m.payer.Balance(t.Context()); err != nil || after != before {
		t.Errorf("%+v, then %+v, %v", before, after, err)
	}
}

func (m *pair) reorganised(t *testing.T) {
	inv := create(t, m.payee.Wallet, m.wants())
	must(t, m.payer.SendPayment(t.Context(), m.pay(inv)))
	until(t, m.payee, inv, payments.InvoicePending)
	must(t, m.net.Mine(t.Context(), 1))
	must(t, m.net.Disconnect(t.Context(), 1))
	until(t, m.payee, inv, payments.InvoicePending)
	must(t, m.net.Mine(t.Context(), 3))
	until(t, m.payee, inv, payments.InvoiceSettled)
	must(t, m.net.Disconnect(t.Context(), 3))
	if err := m.payee.watch(t.Context(), map[payments.Hash]string{}, func(payments.Hash) {}); err != nil {
		t.Error(err)
	}
	must(t, m.net.Mine(t.Context(), 4))
	if got := until(t, m.payee, inv, payments.InvoiceSettled); got.PaidMsats != inv.AmountMsats {
		t.Errorf("%+v", got)
	}
	if r, err := m.payee.book.request(t.Context(), inv.PaymentHash); err != nil || r.lost {
		t.Errorf("%+v, %v", r, err)
	}
}

func (m *pair) notOverLightning(t *testing.T) {
	inv := create(t, m.payee.Wallet, m.wants())
	bob := onNodeLightning(t, m.net.Bob, m.log)
	if err := bob.SendPayment(t.Context(), payments.Pay{BOLT11: inv.BOLT11, AmountMsats: inv.AmountMsats, FeeLimitMsats: 1_000_000, Timeout: time.Minute}); err == nil {
		if p, err := bob.TrackPayment(t.Context(), inv.PaymentHash); err != nil || p.State != payments.PaymentFailed {
			t.Errorf("paid over Lightning: %+v, %v", p, err)
		}
	}
	if got, err := m.payee.LookupInvoice(t.Context(), inv.PaymentHash); err != nil || got.State != payments.InvoiceOpen {
		t.Errorf("%+v, %v", got, err)
	}
}

func onNodeLightning(t *testing.T, node *devnet.Node, log *slog.Logger) *lnd.Wallet {
	t.Helper()
	w, err := lnd.Open(lnd.Config{Address: node.Address(), TLSCertFile: node.TLSCertFile(), MacaroonFile: node.MacaroonFile(), Network: payments.Simnet, Log: log})
	must(t, err)
	t.Cleanup(func() { _ = w.Close() })
	return w
}
