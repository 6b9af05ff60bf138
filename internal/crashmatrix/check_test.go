//go:build lnd

package crashmatrix

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay"
)

// books is what both sides have: in their channel, as lnd counts it, and in
// their databases.
type books struct {
	sellerMsats, buyerMsats int64
	jobs, purchases         int
	spentMsats              int64
	reservedMsats           int64
}

// read looks until no payment is under way in the channel.
func (w *world) read(t *testing.T) books {
	t.Helper()
	var b books
	w.await(t, "the channel is quiet", func() bool {
		var owed, paying int64
		var err, err2 error
		b.sellerMsats, owed, err = w.Alice.ChannelBalance(w.ctx)
		b.buyerMsats, paying, err2 = w.Bob.ChannelBalance(w.ctx)
		return err == nil && err2 == nil && owed == 0 && paying == 0
	})
	w.inside(t, customer, func(k *store.Store) {
		all, err := k.Purchases().Purchases(w.ctx, 0)
		check(t, err)
		b.purchases = len(all)
	})
	b.spentMsats, b.reservedMsats = w.ledger(t)
	w.inside(t, seller, func(k *store.Store) {
		all, err := k.Sales("").Jobs(w.ctx, 0)
		check(t, err)
		b.jobs = len(all)
	})
	return b
}

// inside opens a side's database for reading, as its commands do beside a
// running node.
func (w *world) inside(t *testing.T, role string, do func(*store.Store)) {
	t.Helper()
	k, err := store.Open(w.ctx, w.dataDir(role), store.Options{ReadOnly: true})
	check(t, err)
	defer k.Close()
	do(k)
}

// ledger checks that the budget adds up right now: what is reserved is what
// open payments may cost, what is spent is what the others did. The buyer may
// be at work: what it changed while we looked is looked at again.
func (w *world) ledger(t *testing.T) (spent, reserved int64) {
	t.Helper()
	w.inside(t, customer, func(k *store.Store) {
		for {
			rows, spentNow, reservedNow := w.sums(t, k)
			paid, open := w.owed(t, k)
			again, _, _ := w.sums(t, k)
			if rows != again {
				continue
			}
			spent, reserved = spentNow, reservedNow
			if paid != spent || open != reserved || spent+reserved > dayMsats {
				t.Errorf("the ledger has %d msats spent and %d reserved, the purchases %d and %d", spent, reserved, paid, open)
			}
			return
		}
	})
	return spent, reserved
}

// sums adds the ledger up.
func (w *world) sums(t *testing.T, k *store.Store) (rows, spent, reserved int64) {
	t.Helper()
	check(t, k.View(w.ctx, func(tx *store.Tx) error {
		return tx.QueryRow("SELECT count(*), coalesce(sum(spent_msats), 0), coalesce(sum(reserved_msats), 0) FROM ledger").Scan(&rows, &spent, &reserved)
	}))
	return rows, spent, reserved
}

// owed adds the purchases up.
func (w *world) owed(t *testing.T, k *store.Store) (paid, open int64) {
	t.Helper()
	all, err := k.Purchases().Purchases(w.ctx, 0)
	check(t, err)
	for _, p := range all {
		p, err := k.Purchases().Purchase(w.ctx, p.RequestID)
		check(t, err)
		switch {
		case p.Payment != nil && p.Payment.State == payments.PaymentSucceeded:
			paid += p.Payment.AmountMsats + p.Payment.FeeMsats
		case p.State == buyer.StatePaying:
			open += p.Attempt.AmountMsats + p.Attempt.FeeLimitMsats
		}
	}
	return paid, open
}

// sold waits until the provider's newest job has ended, and reads it.
func (w *world) sold(t *testing.T) (job provider.Job) {
	t.Helper()
	w.await(t, "the job ends", func() bool {
		w.inside(t, seller, func(k *store.Store) {
			store := k.Sales("")
			newest, err := store.Jobs(w.ctx, 1)
			check(t, err)
			if len(newest) > 0 {
				job, err = store.Job(w.ctx, newest[0].RequestID)
				check(t, err)
			}
		})
		return job.State.Terminal()
	})
	return job
}

// purchase is the buyer's newest.
func (w *world) purchase(t *testing.T) (p buyer.Purchase, b *receipts.Bundle) {
	t.Helper()
	w.inside(t, customer, func(k *store.Store) {
		store := k.Purchases()
		newest, err := store.Purchases(w.ctx, 1)
		check(t, err)
		p, err = store.Purchase(w.ctx, newest[0].RequestID)
		check(t, err)
		if p.ReceiptID != "" {
			b, err = buyer.BundleOf(w.ctx, store, p)
			check(t, err)
		}
	})
	return p, b
}

// once checks that the newest purchase was sold once, paid once, and receipted
// once: in both databases, in the channel and at the relay.
func (w *world) once(t *testing.T, before books) provider.Job {
	t.Helper()
	job := w.sold(t)
	p, bundle := w.purchase(t)
	after := w.paidOnce(t, before)
	if job.State != provider.StateSucceeded || p.State != buyer.StateDone || job.RequestID != p.RequestID || job.ReceiptID != p.ReceiptID {
		t.Fatalf("job %s %s (%s) %s, purchase %s %s (%s) %s", job.RequestID, job.State, job.Reason, job.ReceiptID, p.RequestID, p.State, p.Reason, p.ReceiptID)
	}
	if after.jobs != before.jobs+1 || after.purchases != before.purchases+1 || w.receiptsOf(t, job.RequestID) != 1 {
		t.Errorf("%d jobs, %d purchases, %d receipts", after.jobs-before.jobs, after.purchases-before.purchases, w.receiptsOf(t, job.RequestID))
	}
	fee := p.Payment.FeeMsats
	if got := after.sellerMsats - before.sellerMsats; got != priceMsats {
		t.Errorf("the provider's channel got %d msats, not %d", got, priceMsats)
	}
	if cost := before.buyerMsats - after.buyerMsats; cost != priceMsats+fee || after.spentMsats-before.spentMsats != cost {
		t.Errorf("the buyer's channel lost %d msats, its budget %d; the job costs %d and %d for the route", cost, after.spentMsats-before.spentMsats, priceMsats, fee)
	}
	report := receipts.Verify(bundle, receipts.Pins{
		Provider: w.keys[seller].PublicKey(), Buyer: w.keys[customer].PublicKey(), Payee: w.Alice.PubKey(), Network: payments.Simnet,
	})
	if report.ExitCode() != receipts.ExitProved || report.ReceiptID != p.ReceiptID {
		t.Errorf("receipt %s: %+v", report.ReceiptID, report.Claims)
	}
	if after.reservedMsats != before.reservedMsats {
		t.Errorf("%d msats are still reserved", after.reservedMsats-before.reservedMsats)
	}
	w.saidOnce(t, p, 0, "7000-payment-required", "6050", "7002")
	return job
}

// paidOnce reads the books once the payee has the price, or will not have it. An
// lnd that comes back in the moment of a settlement counts it neither as open nor
// as its own until the channel's ends have agreed again.
func (w *world) paidOnce(t *testing.T, before books) (after books) {
	t.Helper()
	end := time.Now().Add(patience)
	for after = w.read(t); after.sellerMsats == before.sellerMsats && time.Now().Before(end); after = w.read(t) {
		time.Sleep(20 * time.Millisecond)
	}
	return after
}

// nothing checks that the newest purchase came to nothing: no money moved, no
// receipt, and the budget free again.
func (w *world) nothing(t *testing.T, before books) buyer.Purchase {
	t.Helper()
	p, _ := w.purchase(t)
	after := w.read(t)
	if p.State != buyer.StateFailed && p.State != buyer.StateCanceled || p.ReceiptID != "" {
		t.Errorf("purchase %s (%s), receipt %q", p.State, p.Reason, p.ReceiptID)
	}
	if n := w.receiptsOf(t, p.RequestID); n != 0 {
		t.Errorf("%d receipts", n)
	}
	if after.sellerMsats != before.sellerMsats || after.buyerMsats != before.buyerMsats || after.spentMsats != before.spentMsats {
		t.Errorf("money moved: before %+v, after %+v", before, after)
	}
	if after.reservedMsats != before.reservedMsats {
		t.Errorf("%d msats are still reserved", after.reservedMsats-before.reservedMsats)
	}
	return p
}

// onceOrLost is for a payee's lnd that was killed with a payment held or just
// settled. On the way up it may find that it knows the HTLC's packet and refuse it
// as a replay ("sphinx packet replay attempted"), while its invoice says ACCEPTED and
// even SETTLED (lnd#7463). Only the HTLC's resolution tells: then nobody has paid.
func (w *world) onceOrLost(t *testing.T, before books) {
	t.Helper()
	job := w.sold(t)
	if job.State != provider.StateFailed || job.Reason.Code != provider.CodePaymentLost {
		w.once(t, before)
		return
	}
	t.Logf("lnd lost the payment (%s)", job.Reason)
	w.lost(t, before)
	check(t, w.Bob.ResetMissionControl(w.ctx)) // the channel is the only way there
}

// lost checks that no money moved for the newest purchase, and that there is no
// receipt. The preimage may have been on its way when lnd died: then the payer's lnd
// says that it has paid, for good, and the budget with it. It opens what was sealed
// for the payment, too.
func (w *world) lost(t *testing.T, before books) {
	t.Helper()
	p, _ := w.purchase(t)
	if p.Payment == nil || p.Payment.State != payments.PaymentSucceeded {
		w.nothing(t, before)
		return
	}
	t.Log("and the payer's lnd says that it has paid")
	after := w.read(t)
	// Once a run has begun, the buyer hears only that the result is not paid.
	told := strings.Contains(p.Reason, string(provider.CodePaymentLost)) || strings.Contains(p.Reason, string(provider.CodeUnpaid))
	if p.ReceiptID != "" || w.receiptsOf(t, p.RequestID) != 0 || !told {
		t.Errorf("purchase %s (%s), receipt %q", p.State, p.Reason, p.ReceiptID)
	}
	if want := map[bool]buyer.State{true: buyer.StateDone, false: buyer.StateFailed}[p.Output != nil]; p.State != want {
		t.Errorf("purchase %s, not %s", p.State, want)
	}
	if after.sellerMsats != before.sellerMsats || after.buyerMsats != before.buyerMsats {
		t.Errorf("money moved: before %+v, after %+v", before, after)
	}
	if after.reservedMsats != before.reservedMsats || after.spentMsats-before.spentMsats != p.Payment.AmountMsats+p.Payment.FeeMsats {
		t.Errorf("the budget: before %+v, after %+v", before, after)
	}
}

func (w *world) receiptsOf(t *testing.T, requestID string) (n int) {
	t.Helper()
	w.inside(t, seller, func(k *store.Store) {
		check(t, k.View(w.ctx, func(tx *store.Tx) error {
			return tx.QueryRow("SELECT count(*) FROM receipts WHERE request_id = ? AND purpose = 'result'", requestID).Scan(&n)
		}))
	})
	return n
}

// saidOnce checks that what was signed once was not signed again after a crash:
// the relay has one event of each kind.
func (w *world) saidOnce(t *testing.T, p buyer.Purchase, at int, names ...string) {
	t.Helper()
	pool, err := relay.NewPool(relay.Config{URLs: []string{"ws://" + w.relays[at]}})
	check(t, err)
	ctx, stop := context.WithTimeout(w.ctx, time.Minute)
	var g errgroup.Group
	g.Go(func() error { _ = pool.Serve(ctx); return nil })
	defer func() { stop(); _ = g.Wait() }()
	count := map[string]int{}
	w.await(t, "the relay has what was sent", func() bool {
		events, err := pool.Query(ctx, nostr.Filter{Authors: []string{p.Provider}, Tags: nostr.TagMap{"e": {p.RequestID}}})
		if err != nil {
			return false
		}
		clear(count)
		for _, ev := range events {
			count[nameOf(ev)]++
		}
		for _, name := range names {
			if count[name] == 0 {
				return false
			}
		}
		return true
	})
	for _, name := range names {
		if count[name] != 1 {
			t.Errorf("relay %d has %d events of kind %s: %v", at+1, count[name], name, count)
		}
	}
}
