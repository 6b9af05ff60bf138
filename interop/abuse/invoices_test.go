package abuse_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/interop/outside"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
	"github.com/lightwork-market/lightwork/receipts"
)

// TestDemandsThatAreNotPaid: the seller asks for another amount than the quote,
// the bid or the tag has, or for an invoice that is not of this deal; nothing
// leaves the buyer's wallet, and the buyer says why.
func TestDemandsThatAreNotPaid(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		name, says string
		change     func(s *seller, d *deal)
	}{
		{"over the bid", "price_msats", func(_ *seller, d *deal) {
			d.quote.PriceMsats, d.invoice.AmountMsats, d.amount = 60_000, 60_000, "60000"
		}},
		{"invoice over more", "amount", func(_ *seller, d *deal) { d.invoice.AmountMsats++ }},
		{"invoice over a thousandfold", "amount", func(_ *seller, d *deal) { d.invoice.AmountMsats *= 1000 }},
		{"invoice without amount", "amount", func(_ *seller, d *deal) { d.invoice.AmountMsats = 0 }},
		{"tag over less", "amount tag", func(_ *seller, d *deal) { d.amount = "1999" }},
		{"another network", "network", func(_ *seller, d *deal) { d.invoice.Network = payments.Simnet }},
		{"expired", "expired", func(_ *seller, d *deal) {
			d.invoice.CreatedAt, d.invoice.Expiry = time.Now().Add(-time.Hour), time.Minute
		}},
		{"bad signature", "invoice mismatch", func(_ *seller, d *deal) { d.spoil = func(s string) string { return s[:len(s)-7] + "qqqqqqq" } }},
		{"no invoice", "invoice mismatch", func(_ *seller, d *deal) { d.spoil = func(string) string { return "" } }},
		{"for words", "description_hash", func(_ *seller, d *deal) { d.invoice.Description = "a coffee" }},
		{"another node", "not the pinned", func(*seller, *deal) {}},
		{"another payment hash", "payment_hash", func(_ *seller, d *deal) { d.invoice.PaymentHash = payments.Preimage{7}.Hash() }},
		{"another's invoice", "description_hash", func(s *seller, d *deal) {
			other := s.deal(s.asked(), receipts.ModePrepay)
			other.quote.Nonce = strings.Repeat("1", 32)
			s.payable(other)
			d.quote.PayeeNode, d.quote.PaymentHash, d.ready = &s.node, other.quote.PaymentHash, other.ready
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSeller(t, w)
			var pin []string
			if c.name == "another node" {
				pin = []string{"--payee", s.node}
			}
			p := w.buy(t, s.key, "prepay", pin...)
			req := s.asked()
			d := s.deal(req, receipts.ModePrepay)
			c.change(s, d)
			s.demand(req, d)
			if code := p.Ended(t); code != 1 {
				t.Errorf("exit code %d", code)
			}
			if o := outcomeOf(t, p); o.State != "failed" || o.PaidMsats != 0 || !strings.Contains(o.Reason, c.says) {
				t.Errorf("want %q in %+v", c.says, o)
			}
		})
	}
	if got := w.spendable(t, "buyer"); got != faucet {
		t.Errorf("the buyer has %d msats", got)
	}
}

// TestDemandsOfStrangers: an invoice that somebody else sends for the job is
// not paid, and does not end the purchase.
func TestDemandsOfStrangers(t *testing.T) {
	w := newWorld(t)
	s, stranger := newSeller(t, w), newSeller(t, w)
	p := w.buy(t, s.key, "prepay")
	req := s.asked()
	theirs := stranger.deal(req, receipts.ModePrepay)
	stranger.payable(theirs)
	stranger.demand(req, theirs)
	d := s.deal(req, receipts.ModePrepay)
	s.payable(d)
	invoice, err := bolt11.Decode(s.demand(req, d))
	s.must(err)
	s.earned(invoice.PaymentHash)
	p.Stop(t)
	if got := stranger.balance(); got != faucet {
		t.Errorf("the stranger has %d msats", got)
	}
}

// TestTwoPaymentsForOneJob: a seller that asks again, with another invoice,
// before and after it was paid and across a restart of the buyer, is paid once.
// The same invoice for another job is not paid either.
func TestTwoPaymentsForOneJob(t *testing.T) {
	w := newWorld(t)
	s := newSeller(t, w)
	p := w.buy(t, s.key, "prepay")
	req := s.asked()
	first := s.deal(req, receipts.ModePrepay)
	s.payable(first)
	invoice, err := bolt11.Decode(s.demand(req, first))
	s.must(err)
	again := func() {
		d := s.deal(req, receipts.ModePrepay)
		s.payable(d)
		text := s.demand(req, d)
		s.put(s.sign(7000, "", nostr.Tag{"status", "payment-required"}, nostr.Tag{"e", req.ID}, nostr.Tag{"p", req.PubKey}, nostr.Tag{"amount", "2000", text}))
	}
	again()
	s.earned(invoice.PaymentHash)
	again()
	p.Stop(t)
	p = w.Start(t, "buyer", "resume", "--json")
	again()
	content, tags := s.result(req, "fruit")
	quote, err := first.quote.Hash()
	s.must(err)
	tags = append(with(tags, "amount", "2000"), nostr.Tag{"quote_hash", quote.String()})
	s.put(s.sign(6050, content, tags...))
	s.put(s.sign(7000, "", nostr.Tag{"status", "success"}, nostr.Tag{"e", req.ID}, nostr.Tag{"p", req.PubKey}))
	p.Ended(t)
	if got := s.balance(); got != faucet+price {
		t.Errorf("the seller has %d msats, want %d: paid once", got, faucet+price)
	}

	p = w.buy(t, s.key, "prepay")
	second := s.deal(s.asked(req.ID), receipts.ModePrepay)
	hash := first.invoice.PaymentHash.String()
	second.quote.PayeeNode, second.quote.PaymentHash, second.ready = &s.node, &hash, first.ready
	s.demand(s.asked(req.ID), second)
	if o := outcomeOf(t, p); o.State != "failed" || o.PaidMsats != 0 {
		t.Errorf("%+v", o)
	}
	if got := s.balance(); got != faucet+price {
		t.Errorf("the seller has %d msats", got)
	}
}

// TestOneInvoiceForTwoJobs: an outside seller, whose invoices no quote binds,
// sends the one that was paid for another job.
func TestOneInvoiceForTwoJobs(t *testing.T) {
	w := newWorld(t)
	s := newOutsider(t, w, `{"name":"`+attackerName+`"}`)
	buy := func(known ...string) (*outside.Process, nostr.Event) {
		p := w.buy(t, s.key, "prepay", "--outside")
		return p, s.asked(known...)
	}
	p, req := buy()
	d := s.deal(req, receipts.ModePrepay)
	s.payable(d)
	demand := func(req nostr.Event) {
		s.put(s.sign(7000, "", nostr.Tag{"status", "payment-required"}, nostr.Tag{"e", req.ID}, nostr.Tag{"p", req.PubKey}, nostr.Tag{"amount", "2000", d.ready}))
	}
	demand(req)
	s.earned(d.invoice.PaymentHash)
	s.put(s.sign(6050, "the fruit", nostr.Tag{"e", req.ID}, nostr.Tag{"p", req.PubKey}))
	if o := outcomeOf(t, p); o.State != "done" || o.PaidMsats != price {
		t.Errorf("%+v", o)
	}
	p, next := buy(req.ID)
	demand(next)
	if o := outcomeOf(t, p); o.State != "failed" || !strings.Contains(o.Reason, "payment") {
		t.Errorf("%+v", o)
	}
	if got := s.balance(); got != faucet+price {
		t.Errorf("the seller has %d msats", got)
	}
}
