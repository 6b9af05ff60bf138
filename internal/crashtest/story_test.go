package crashtest

import (
	"context"
	"testing"

	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay/exchange"
)

const (
	priceMsats  = rateMsats     // of order(), which takes less than a minute
	faucetMsats = 1_000_000_000 // what a wallet begins with
)

// tell runs one purchase to its end, bringing to life again whoever is killed,
// and stops both sides. must says that somebody is to be killed for certain.
func (w *world) tell(t *testing.T, must bool, end buyer.State) {
	t.Helper()
	seller, customer := w.begin(t, w.seller), w.begin(t, w.customer)
	switch {
	case must && w.seller.KillAt != "":
		w.falls(t, seller, w.seller)
		seller = w.begin(t, w.seller)
	case must && w.customer.KillAt != "":
		w.falls(t, customer, w.customer)
		customer = w.begin(t, w.customer)
	case w.seller.KillAt != "" || w.customer.KillAt != "":
		seller, customer = w.survive(t, seller, customer)
	}
	w.says(t, customer, endedLine(end))
	w.says(t, seller, jobsLine(1, 0))
	if w.dies(t, customer) {
		t.Fatal("the buyer was killed twice")
	}
	w.stop(t, seller)
}

// falls waits for the end that a life was given: killed, or by itself and not
// well, since it can write nothing down.
func (w *world) falls(t *testing.T, p *process, l life) {
	t.Helper()
	if killed := w.dies(t, p); killed == l.Full || p.end == nil {
		t.Fatalf("the %s ended so: %v", p.role, p.end)
	}
}

// survive begins again whoever is killed, until the purchase ends.
func (w *world) survive(t *testing.T, seller, customer *process) (*process, *process) {
	t.Helper()
	for {
		select {
		case <-seller.done:
			if !w.dies(t, seller) {
				t.Fatalf("the provider ended by itself: %v", seller.end)
			}
			seller = w.begin(t, w.seller)
		case <-customer.done:
			if !w.dies(t, customer) {
				return w.afterwards(t, seller), customer
			}
			customer = w.begin(t, w.customer)
		case <-w.ctx.Done():
			t.Fatal("the purchase does not end")
		}
	}
}

// afterwards gives the seller a new life, whether it is being killed right now
// or not: what is true in the end is true in the next life too.
func (w *world) afterwards(t *testing.T, seller *process) *process {
	t.Helper()
	_ = seller.stdin.Close()
	if !w.dies(t, seller) && seller.end != nil {
		t.Fatalf("the provider did not stop cleanly: %v", seller.end)
	}
	return w.begin(t, w.seller)
}

// bought checks that one job was sold once: everything on both sides, in the
// ledger and at the relay.
func (w *world) bought(t *testing.T) provider.Job {
	t.Helper()
	job, receiptRows := w.job(t)
	if job.State != provider.StateSucceeded || receiptRows != 1 || job.ReceiptID == "" {
		t.Errorf("job %s (%s), %d receipts", job.State, job.Reason, receiptRows)
	}
	p, budget := w.purchase(t, func(ctx context.Context, client *buyer.Client, p buyer.Purchase) {
		w.proved(ctx, t, client, p)
		w.saidOnce(ctx, t, client, p)
	})
	if p.Attempt.RuleID != "max-msats" {
		t.Errorf("approved by rule %q", p.Attempt.RuleID)
	}
	if p.State != buyer.StateDone || p.ReceiptID != job.ReceiptID || p.RequestID != job.RequestID {
		t.Errorf("purchase %s %s with receipt %q, the job's is %q", p.RequestID, p.State, p.ReceiptID, job.ReceiptID)
	}
	if string(p.Quote) != string(job.Quote) || p.BOLT11 != job.BOLT11 || p.Attempt.PaymentHash != job.PaymentHash {
		t.Error("the two sides have different quotes, invoices or payments")
	}
	if budget.ReservedMsats != 0 || budget.SpentMsats != priceMsats+feeMsats {
		t.Errorf("budget: %d msats spent, %d reserved", budget.SpentMsats, budget.ReservedMsats)
	}
	seller, customer := w.balances(t)
	if seller != faucetMsats+priceMsats || customer != faucetMsats-priceMsats-feeMsats {
		t.Errorf("the provider got %d msats, the buyer spent %d", seller-faucetMsats, faucetMsats-customer)
	}
	w.lifecycle(t)
	return job
}

// lifecycle checks the order in which both first took their steps.
func (w *world) lifecycle(t *testing.T) {
	t.Helper()
	bought, err := readTrace(w.customer.Dir)
	markettest.Check(t, err)
	inOrder(t, bought, "store:AddPurchase", "market:Send:5050", "store:Reserve", "wallet:SendPayment", "store:Paid")
	trace, err := readTrace(w.seller.Dir)
	markettest.Check(t, err)
	switch w.seller.Mode {
	case receipts.ModeHold:
		inOrder(t, trace, "store:AddJob", "wallet:CreateInvoice", "store:SetInvoice", "store:SetPaid", "store:Start",
			"run:work", "store:Finish", "market:Publish:6050", "store:AddAcks:6050", "wallet:SettleInvoice", "store:Settle", "market:Publish:7002")
	case receipts.ModePrepay:
		inOrder(t, trace, "store:AddJob", "store:SetInvoice", "store:SetPaid", "store:Start", "run:work", "store:Finish", "store:Settle")
	case receipts.ModePostpay:
		inOrder(t, trace, "store:AddJob", "store:SetInvoice", "store:Start", "run:work", "store:Finish", "market:Publish:6050", "store:Settle")
	}
}

// job reads the provider's one job and counts its receipts.
func (w *world) job(t *testing.T) (job provider.Job, receiptRows int) {
	t.Helper()
	k, err := store.Open(w.ctx, w.seller.Dir, store.Options{})
	markettest.Check(t, err)
	defer k.Close()
	jobs, err := k.Sales("paid-job").Jobs(w.ctx, 0)
	markettest.Check(t, err)
	if len(jobs) != 1 {
		t.Fatalf("%d jobs", len(jobs))
	}
	var directives int
	var key string
	markettest.Check(t, k.View(w.ctx, func(tx *store.Tx) error {
		if err := tx.QueryRow("SELECT count(*), max(idempotency_key) FROM directives").Scan(&directives, &key); err != nil {
			return err
		}
		return tx.QueryRow("SELECT count(*) FROM receipts").Scan(&receiptRows)
	}))
	if want := jobs[0].RequestID + "/result"; directives != 1 || key != want {
		t.Errorf("%d directives, key %q, not %q", directives, key, want)
	}
	job, err = k.Sales("paid-job").Job(w.ctx, jobs[0].RequestID)
	markettest.Check(t, err)
	return job, receiptRows
}

// purchase reads the buyer's one purchase and the budget it was made from;
// look gets a client that is connected.
func (w *world) purchase(t *testing.T, look func(context.Context, *buyer.Client, buyer.Purchase)) (buyer.Purchase, buyer.Budget) {
	t.Helper()
	l := w.customer
	parts, err := l.open(w.ctx)
	markettest.Check(t, err)
	defer func() { markettest.Check(t, parts.close()) }()
	client, err := l.client(parts, &killer{dir: t.TempDir(), names: map[string]string{}}, nil)
	markettest.Check(t, err)
	store := parts.db.Purchases()
	all, err := store.Purchases(w.ctx, 0)
	markettest.Check(t, err)
	if len(all) != 1 {
		t.Fatalf("%d purchases", len(all))
	}
	p, err := store.Purchase(w.ctx, all[0].RequestID)
	markettest.Check(t, err)
	if p.Attempt == nil {
		t.Fatalf("purchase %s (%s) without an attempt to pay", p.State, p.Reason)
	}
	budget, err := store.BudgetOf(w.ctx, p.Attempt.ReservedAt)
	markettest.Check(t, err)
	if look != nil {
		w.connected(t, parts.market, func(ctx context.Context) { look(ctx, client, p) })
	}
	return p, budget
}

func (w *world) connected(t *testing.T, m *exchange.Market, do func(context.Context)) {
	t.Helper()
	ctx, stop := context.WithCancel(w.ctx)
	var g errgroup.Group
	g.Go(func() error { return ended(ctx, m.Serve(ctx)) })
	do(ctx)
	stop()
	markettest.Check(t, g.Wait())
}

// proved verifies the purchase's bundle as a stranger who knows whom to expect.
func (w *world) proved(ctx context.Context, t *testing.T, client *buyer.Client, p buyer.Purchase) {
	t.Helper()
	b, err := client.Bundle(ctx, p.RequestID)
	if err != nil {
		t.Errorf("bundle: %v", err)
		return
	}
	payee, err := w.ledger.Wallet(ctx, w.seller.Token)
	markettest.Check(t, err)
	node, err := payee.Node(ctx)
	markettest.Check(t, err)
	report := receipts.Verify(b, receipts.Pins{
		Provider: w.sellerKey.PublicKey(), Buyer: w.customerKey.PublicKey(), Payee: node.PubKey, Network: payments.Network(node.Network),
	})
	if report.ExitCode() != receipts.ExitProved || report.ReceiptID != p.ReceiptID {
		t.Errorf("receipt %s: %+v", report.ReceiptID, report.Claims)
	}
}

// saidOnce checks that what was signed once was not signed again after a
// crash: the relay has one event of each such kind.
func (w *world) saidOnce(ctx context.Context, t *testing.T, client *buyer.Client, p buyer.Purchase) {
	t.Helper()
	m, err := newMarket(w.customer.Relay, w.customerKey)
	markettest.Check(t, err)
	w.connected(t, m, func(ctx context.Context) {
		events, err := m.Query(ctx, nostr.Filter{Authors: []string{p.Provider}, Tags: nostr.TagMap{"e": {p.RequestID}}})
		markettest.Check(t, err)
		count := map[string]int{}
		names := &killer{names: map[string]string{}}
		for _, ev := range events {
			count[names.name(ev)]++
		}
		for _, kind := range []string{"7000-payment-required", "6050", "7002"} {
			if count[kind] != 1 {
				t.Errorf("the relay has %d events of kind %s: %v", count[kind], kind, count)
			}
		}
	})
}
