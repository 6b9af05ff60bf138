//go:build lnd

package lnd

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/devnet"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/conformance"
)

const (
	testMsats = 200_000
	// forwardMsats is lnd's default price of forwarding testMsats: 1 sat and a
	// millionth of the amount, rounded down.
	forwardMsats = 1_000
)

// TestOnLightning runs everything on one real network, since starting it is
// the slow part. Subtests leave the channel as they found it, but for money.
func TestOnLightning(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))

	began := time.Now()
	binDir, err := devnet.Build(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("built in %v", time.Since(began))
	began = time.Now()
	network, err := devnet.Start(ctx, devnet.Config{Dir: t.TempDir(), BinDir: binDir, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(network.Stop)
	t.Logf("started in %v", time.Since(began))

	r := &realNetwork{Network: network, log: log}
	r.payee = r.wallet(t, network.Alice, Payee, Payer)
	r.payer = r.wallet(t, network.Bob, Payee, Payer)

	t.Run("conformance", func(t *testing.T) {
		conformance.Run(t, func(*testing.T) conformance.Pair {
			return conformance.Pair{Payee: r.payee, Payer: r.payer, AmountMsats: testMsats}
		})
	})
	t.Run("roles", r.roles)
	t.Run("answers", r.answers)
	t.Run("settle by", r.settleBy)
	t.Run("hints", r.hints)
	t.Run("payee restarts while a hold is pending", r.payeeRestarts)
	t.Run("payer restarts while a hold is pending", r.payerRestarts)
	t.Run("payer is killed right after sending", r.payerKilled)
	t.Run("fees", r.fees)
	t.Run("a locked wallet without a channel", r.locked)
	t.Run("the node in the middle goes away with the payment", r.middleAway)
}

// realNetwork is the running network with a wallet on each node. The wallets'
// macaroons hold what PermissionURIs lists and no more.
type realNetwork struct {
	*devnet.Network
	log          *slog.Logger
	payee, payer *Wallet
}

func (r *realNetwork) wallet(t *testing.T, node *devnet.Node, roles ...Role) *Wallet {
	t.Helper()
	var uris []string
	for _, role := range roles {
		uris = append(uris, PermissionURIs(role)...)
	}
	slices.Sort(uris)
	path := filepath.Join(t.TempDir(), "role.macaroon")
	if err := node.BakeMacaroon(t.Context(), path, slices.Compact(uris)); err != nil {
		t.Fatal(err)
	}
	w, err := Open(Config{
		Address: node.Address(), TLSCertFile: node.TLSCertFile(), MacaroonFile: path,
		Network: payments.Simnet, Log: r.log,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

// invoice asks payee for a new invoice and tells how to pay it.
func (r *realNetwork) invoice(t *testing.T, payee *Wallet, hold bool) (payments.Preimage, payments.Pay) {
	t.Helper()
	var preimage payments.Preimage
	rand.Read(preimage[:])
	want := payments.NewInvoice{
		PaymentHash: preimage.Hash(), Hold: hold, AmountMsats: testMsats,
		DescriptionHash: hashing.Bytes(preimage[:]), Expiry: 10 * time.Minute,
	}
	if !hold {
		want.Preimage = preimage
	}
	inv, err := payee.CreateInvoice(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	return preimage, payments.Pay{BOLT11: inv.BOLT11, AmountMsats: testMsats, FeeLimitMsats: 20_000, Timeout: time.Minute}
}

// held makes a hold invoice and brings Bob's money into it.
func (r *realNetwork) held(t *testing.T) payments.Preimage {
	t.Helper()
	preimage, pay := r.invoice(t, r.payee, true)
	if err := r.payer.SendPayment(t.Context(), pay); err != nil {
		t.Fatal(err)
	}
	r.await(t, "held", func() bool { return r.lookup(t, preimage).State == payments.InvoiceHeld })
	return preimage
}

func (r *realNetwork) lookup(t *testing.T, preimage payments.Preimage) payments.Invoice {
	t.Helper()
	inv, err := r.payee.LookupInvoice(t.Context(), preimage.Hash())
	if err != nil {
		t.Fatal(err)
	}
	return inv
}

func (r *realNetwork) await(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.NewTimer(2 * time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not yet after two minutes: %s", what)
		}
	}
}

func (r *realNetwork) spendable(t *testing.T, w *Wallet) int64 {
	t.Helper()
	balance, err := w.Balance(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return balance.SpendableMsats
}

// track waits for the end of Bob's payment.
func (r *realNetwork) track(t *testing.T, preimage payments.Preimage) payments.Payment {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	p, err := r.payer.TrackPayment(ctx, preimage.Hash())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// roles: each role's macaroon suffices for it and for nothing more.
func (r *realNetwork) roles(t *testing.T) {
	seller, buyer := r.wallet(t, r.Alice, Payee), r.wallet(t, r.Bob, Payer)
	preimage, pay := r.invoice(t, seller, false)
	if err := buyer.SendPayment(t.Context(), pay); err != nil {
		t.Fatal(err)
	}
	p, err := buyer.TrackPayment(t.Context(), preimage.Hash())
	if err != nil || p.State != payments.PaymentSucceeded || p.Preimage != preimage {
		t.Errorf("prepaid: %+v, %v", p, err)
	}
	r.await(t, "final", func() bool { return r.lookup(t, preimage).Final })

	_, pay = r.invoice(t, r.payee, true)
	err = seller.SendPayment(t.Context(), pay)
	if !errors.Is(err, payments.ErrSelfPayment) && !errors.Is(err, payments.ErrUnauthorized) {
		t.Errorf("the seller pays: %v", err)
	}
	if _, err := seller.LookupPayment(t.Context(), preimage.Hash()); !errors.Is(err, payments.ErrUnauthorized) || !strings.Contains(err.Error(), "uri:"+rpcTrackPayment) {
		t.Errorf("the seller tracks: %v, want ErrUnauthorized that names the permission", err)
	}
	if err := buyer.SettleInvoice(t.Context(), preimage); !errors.Is(err, payments.ErrUnauthorized) || !strings.Contains(err.Error(), "uri:"+rpcSettleInvoice) {
		t.Errorf("the buyer settles: %v, want ErrUnauthorized that names the permission", err)
	}
	for _, tt := range []struct {
		wallet *Wallet
		role   Role
		lacks  []string
	}{
		{seller, Payee, nil},
		{buyer, Payer, nil},
		{seller, Payer, []string{rpcListChannels, rpcSendPayment, rpcTrackPayment}},
		{buyer, Payee, []string{
			rpcAddInvoice, rpcLookupInvoice, rpcListInvoices, rpcSubscribe, rpcHTLCResolution,
			rpcAddHoldInvoice, rpcSettleInvoice, rpcCancelInvoice, rpcSubscribeSingle,
		}},
	} {
		err := tt.wallet.CheckPermissions(t.Context(), tt.role)
		if tt.lacks == nil && err == nil {
			continue
		}
		want := "the macaroon lacks uri:" + strings.Join(tt.lacks, " uri:")
		if !errors.Is(err, payments.ErrUnauthorized) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("as a %s: %v, want %q", tt.role, err, want)
		}
	}
	// What would change something is refused for what it asks, and not for the macaroon.
	all := r.wallet(t, r.Alice, Payee, Payer, ChainPayee, ChainPayer)
	for _, rpc := range []string{
		rpcAddInvoice, rpcAddHoldInvoice, rpcSettleInvoice, rpcCancelInvoice, rpcSendPayment,
		rpcNewAddress, rpcFundPsbt, rpcFinalizePsbt, rpcReleaseOutput, rpcPublishTx,
	} {
		if err := all.probe(t.Context(), rpc); err == nil || errors.Is(err, payments.ErrUnauthorized) || errors.Is(err, payments.ErrWalletUnavailable) {
			t.Errorf("%s is asked in a way that lnd does not refuse: %v", rpc, err)
		}
	}
	// A macaroon of one node is worth nothing at another.
	cfg := seller.cfg
	cfg.Address, cfg.TLSCertFile = r.Bob.Address(), r.Bob.TLSCertFile()
	stray, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer stray.Close()
	if _, err := stray.Node(t.Context()); !errors.Is(err, payments.ErrUnauthorized) {
		t.Errorf("the other node's macaroon: %v, want ErrUnauthorized", err)
	}
}

// settleBy comes nearer with each block, and lnd gives the money back by itself
// only after it.
func (r *realNetwork) settleBy(t *testing.T) {
	before := r.spendable(t, r.payer)
	preimage := r.held(t)
	fresh := time.Until(r.lookup(t, preimage).SettleBy)
	// lnd's final CLTV is 80 blocks, and 3 are its payer's padding.
	if blocks := int(fresh / r.payee.cfg.BlockTime); blocks < 50 || blocks > 65 {
		t.Errorf("a fresh hold has %d blocks", blocks)
	}
	if err := r.Mine(t.Context(), 20); err != nil {
		t.Fatal(err)
	}
	later := time.Until(r.lookup(t, preimage).SettleBy)
	if moved := fresh - later; moved < 19*r.payee.cfg.BlockTime || moved > 21*r.payee.cfg.BlockTime {
		t.Errorf("20 blocks moved the deadline by %v", moved)
	}
	left := int(later/r.payee.cfg.BlockTime) + 1
	if err := r.Mine(t.Context(), left); err != nil {
		t.Fatal(err)
	}
	inv := r.lookup(t, preimage)
	if inv.State != payments.InvoiceHeld || time.Until(inv.SettleBy) > 0 {
		t.Errorf("at the deadline: %s, %v left", inv.State, time.Until(inv.SettleBy))
	}
	// Past it lnd cancels, by default 12 blocks before the HTLC expires, and
	// the buyer is whole. (At 10 blocks it would close the channel.)
	if err := r.Mine(t.Context(), r.payee.cfg.SettleMarginBlocks+holdDeadlineBlocks-12); err != nil {
		t.Fatal(err)
	}
	r.await(t, "lnd cancels", func() bool { return r.lookup(t, preimage).State == payments.InvoiceCanceled })
	if p := r.track(t, preimage); p.State != payments.PaymentFailed {
		t.Errorf("payment %+v", p)
	}
	r.await(t, "the buyer is whole", func() bool { return r.spendable(t, r.payer) == before })
	if err := r.payee.SettleInvoice(t.Context(), preimage); !errors.Is(err, payments.ErrInvoiceCanceled) {
		t.Errorf("settling too late: %v, want ErrInvoiceCanceled", err)
	}
}

// hints: a hold that is paid and one that is canceled are told, with no lookup.
func (r *realNetwork) hints(t *testing.T) {
	hints := watching(t, r.payee)
	old, pay := r.invoice(t, r.payee, true)
	expect(t, hints, old.Hash())
	if err := r.payer.SendPayment(t.Context(), pay); err != nil {
		t.Fatal(err)
	}
	expect(t, hints, old.Hash())
	r.await(t, "held", func() bool { return r.lookup(t, old).State == payments.InvoiceHeld })
	if err := r.payee.CancelInvoice(t.Context(), old.Hash()); err != nil {
		t.Fatal(err)
	}
	expect(t, hints, old.Hash())
	r.track(t, old)
}

// payeeRestarts: the hold outlives lnd, the watch finds lnd again, and the
// money is settled as if nothing had been.
func (r *realNetwork) payeeRestarts(t *testing.T) {
	preimage := r.held(t)
	paid := r.spendable(t, r.payee)
	hints := watching(t, r.payee)
	expect(t, hints, preimage.Hash())

	r.Alice.Stop()
	if _, err := r.payee.LookupInvoice(t.Context(), preimage.Hash()); !errors.Is(err, payments.ErrWalletUnavailable) {
		t.Errorf("lookup while lnd is down: %v, want ErrWalletUnavailable", err)
	}
	if err := r.payee.SettleInvoice(t.Context(), preimage); !errors.Is(err, payments.ErrWalletUnavailable) {
		t.Errorf("settle while lnd is down: %v, want ErrWalletUnavailable", err)
	}
	if err := r.Alice.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(t, hints, preimage.Hash())
	r.await(t, "lookup answers", func() bool {
		inv, err := r.payee.LookupInvoice(t.Context(), preimage.Hash())
		if err != nil && !errors.Is(err, payments.ErrWalletUnavailable) {
			t.Fatal(err)
		}
		return err == nil && inv.State == payments.InvoiceHeld && inv.SettleBy.After(time.Now())
	})
	r.channelIsBack(t)
	if err := r.payee.SettleInvoice(t.Context(), preimage); err != nil {
		t.Fatal(err)
	}
	if p := r.track(t, preimage); p.State != payments.PaymentSucceeded || p.Preimage != preimage {
		t.Errorf("payment %+v", p)
	}
	r.await(t, "final", func() bool { return r.lookup(t, preimage).Final })
	r.await(t, "paid", func() bool { return r.spendable(t, r.payee) == paid+testMsats })
}

// payerRestarts: tracking waits through it, and cancellation makes Bob whole.
func (r *realNetwork) payerRestarts(t *testing.T) {
	before := r.spendable(t, r.payer)
	preimage := r.held(t)
	ended := make(chan payments.Payment, 1)
	go func() {
		p, _ := r.payer.TrackPayment(t.Context(), preimage.Hash())
		ended <- p
	}()
	if err := r.Bob.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.channelIsBack(t)
	if err := r.payee.CancelInvoice(t.Context(), preimage.Hash()); err != nil {
		t.Fatal(err)
	}
	if p := <-ended; p.State != payments.PaymentFailed {
		t.Errorf("payment %+v", p)
	}
	r.await(t, "the buyer is whole", func() bool { return r.spendable(t, r.payer) == before })
}

// payerKilled: lnd dies as soon as the payment is on its way. What had become
// durable decides whether the hold arrives, lnd gives the attempt up, or lnd
// takes it for in flight for ever although no channel holds it (lnd#9340). In
// each case a repetition pays nothing twice and nothing is lost.
func (r *realNetwork) payerKilled(t *testing.T) {
	before := r.spendable(t, r.payer)
	preimage, pay := r.invoice(t, r.payee, true)
	if err := r.payer.SendPayment(t.Context(), pay); err != nil {
		t.Fatal(err)
	}
	r.Bob.Kill()
	if _, err := r.payer.LookupPayment(t.Context(), preimage.Hash()); !errors.Is(err, payments.ErrUnknownOutcome) {
		t.Errorf("lookup while lnd is dead: %v, want ErrUnknownOutcome", err)
	}
	if err := r.Bob.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.channelIsBack(t)
	var pm payments.Payment
	held, patience := false, time.Now().Add(10*time.Second)
	r.await(t, "lnd has made up its mind", func() (done bool) {
		held = r.lookup(t, preimage).State == payments.InvoiceHeld
		var err error
		pm, err = r.payer.LookupPayment(t.Context(), preimage.Hash())
		return err == nil && (held || pm.State == payments.PaymentFailed || time.Now().After(patience))
	})
	if pm.State != payments.PaymentFailed { // a failed one may be paid anew; that is the buyer's decision
		if err := r.payer.SendPayment(t.Context(), pay); err != nil {
			t.Errorf("send again: %v", err)
		}
	}
	if !held {
		t.Logf("the hold did not arrive: lnd says %s %s", pm.State, pm.FailureReason)
		if inv := r.lookup(t, preimage); inv.State != payments.InvoiceOpen || inv.PaidMsats != 0 {
			t.Errorf("the invoice is %s, %d msats paid", inv.State, inv.PaidMsats)
		}
		if now := r.spendable(t, r.payer); now != before {
			t.Errorf("the payer has %d msats, had %d", now, before)
		}
		return
	}
	if inv := r.lookup(t, preimage); inv.PaidMsats != testMsats {
		t.Errorf("%d msats are held", inv.PaidMsats)
	}
	if err := r.payee.SettleInvoice(t.Context(), preimage); err != nil {
		t.Fatal(err)
	}
	p := r.track(t, preimage)
	r.await(t, "paid once", func() bool { return r.spendable(t, r.payer) == before-testMsats-p.FeeMsats })
}

// fees: a third node behind Alice makes payments cost something, and the limit
// is kept to the msat.
func (r *realNetwork) fees(t *testing.T) {
	carol, err := r.AddNode(t.Context(), "carol")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Fund(t.Context(), r.Alice); err != nil {
		t.Fatal(err)
	}
	if err := r.OpenChannel(t.Context(), r.Alice, carol, 1_000_000, 100_000); err != nil {
		t.Fatal(err)
	}
	if err := r.Bob.WaitGossip(t.Context(), carol); err != nil {
		t.Fatal(err)
	}
	far := r.wallet(t, carol, Payee, Payer)
	conformance.Run(t, func(*testing.T) conformance.Pair {
		return conformance.Pair{Payee: far, Payer: r.payer, AmountMsats: testMsats, FeeMsats: forwardMsats}
	})
}

func (r *realNetwork) channelIsBack(t *testing.T) {
	t.Helper()
	if err := errors.Join(r.Alice.WaitChannel(t.Context(), r.Bob), r.Bob.WaitChannel(t.Context(), r.Alice)); err != nil {
		t.Fatal(err)
	}
}
