package abuse_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/payments/bolt11"
)

// TestZapFakes: a zap receipt is no payment, whoever signs it.
func TestZapFakes(t *testing.T) {
	w := newWorld(t)
	provider := w.sell(t)
	a := newAttacker(t, w)
	job := a.ask(provider, "prepay", ranked)
	invoice := a.invoice(job.ID)
	wish, err := json.Marshal(a.sign(9734, "", nostr.Tag{"p", provider}, nostr.Tag{"e", job.ID}, nostr.Tag{"amount", "2000"}))
	a.must(err)
	a.put(a.sign(9735, "", nostr.Tag{"p", provider}, nostr.Tag{"P", a.key}, nostr.Tag{"e", job.ID}, nostr.Tag{"bolt11", invoice},
		nostr.Tag{"description", string(wish)}, nostr.Tag{"preimage", strings.Repeat("ab", 32)}))
	a.put(a.sign(7000, "", nostr.Tag{"status", "success"}, nostr.Tag{"e", job.ID}, nostr.Tag{"p", provider}, nostr.Tag{"amount", "2000", invoice}))
	a.ping(provider)
	if n := a.count(answers(job.ID, "processing")); n != 0 {
		t.Fatal("the job was begun without a payment")
	}
	a.must(a.pay(invoice, price))
	a.await("a result", results(job.ID))
	a.await("the end", answers(job.ID, "success"))
	if n := a.count(answers(job.ID, "processing")); n != 1 {
		t.Errorf("begun %d times", n)
	}
}

// TestOnePaymentForTwoJobs: a payment starts the job of its invoice and no
// other, once, whatever is said about it.
func TestOnePaymentForTwoJobs(t *testing.T) {
	w := newWorld(t)
	provider := w.sell(t)
	a := newAttacker(t, w)
	first, second := a.ask(provider, "prepay", ranked), a.ask(provider, "prepay", ranked)
	invoice := a.invoice(first.ID)
	unpaid := a.invoice(second.ID)
	if invoice == unpaid {
		t.Fatal("two jobs have one invoice")
	}
	a.must(a.pay(invoice, price))
	if err := a.pay(invoice, price); err == nil {
		t.Log("the wallet joins the payments") // which is as good: the money moved once
	}
	a.await("the end", answers(first.ID, "success"))
	paid, err := bolt11.Decode(invoice)
	a.must(err)
	quote := a.await("a quote", answers(second.ID, "payment-required")).Content
	for _, hash := range []string{paid.PaymentHash.String(), strings.Repeat("0", 64)} {
		a.put(a.sign(7001, `{"payment_hash":"`+hash+`","version":1}`, nostr.Tag{"e", second.ID}, nostr.Tag{"p", provider}))
		a.put(a.sign(7001, quote, nostr.Tag{"e", second.ID}, nostr.Tag{"p", provider}))
	}
	a.put(first)
	a.ping(provider)
	if n := a.count(answers(second.ID, "processing")) + a.count(results(second.ID)); n != 0 {
		t.Error("the second job was begun")
	}
	if n := a.count(results(first.ID)); n != 1 {
		t.Errorf("%d results of the first", n)
	}
	if got := w.spendable(t, "provider"); got != faucet+price {
		t.Errorf("the provider has %d msats, want %d", got, faucet+price)
	}
}

// TestLatePayment: an invoice that the job outlived cannot be paid any more, and
// the attacker keeps the money.
func TestLatePayment(t *testing.T) {
	w := newWorld(t, "quote_ttl: 10m", "quote_ttl: 2s")
	provider := w.sell(t)
	a := newAttacker(t, w)
	for _, mode := range []string{"prepay", "hold"} {
		job := a.ask(provider, mode, ranked)
		invoice := a.invoice(job.ID)
		if why := a.refused(job.ID); !strings.HasPrefix(why, "payment_expired: ") {
			t.Errorf("%s: %s", mode, why)
		}
		a.unpayable(invoice)
		if n := a.count(results(job.ID)) + a.count(answers(job.ID, "processing")); n != 0 {
			t.Errorf("%s: the job was begun", mode)
		}
	}
	if got := a.balance(); got != faucet {
		t.Errorf("the late payer has %d msats, want %d", got, faucet)
	}
}

// unpayable checks that a payment is refused or fails.
func (a *attacker) unpayable(invoice string) {
	a.t.Helper()
	if a.pay(invoice, price) != nil {
		return
	}
	inv, err := bolt11.Decode(invoice)
	a.must(err)
	p, err := a.wallet.TrackPayment(a.t.Context(), inv.PaymentHash)
	if err == nil && p.State == "succeeded" {
		a.t.Error("a late payment succeeded")
	}
}

// slow is a sandbox job that lasts until it is canceled; the image is the
// provider's own toolchain.
func (w *world) slow(t *testing.T, a *attacker) string {
	t.Helper()
	a.send("REQ", "announced", nostr.Filter{Kinds: []int{31990}})
	ev := a.await("the announcement", func(ev nostr.Event) bool { return ev.Kind == 31990 })
	var doc struct {
		Lightwork struct {
			Image string `json:"host_image_digest"`
		} `json:"lightwork"`
	}
	a.must(json.Unmarshal([]byte(ev.Content), &doc))
	return `{"sandbox":{"provider":"host","image_digest":"` + doc.Lightwork.Image + `","resources":{"timeout_secs":600}},"commands":[{"cmd":"sleep 600"}]}`
}

// TestHeldPayments: held payments of one key are bounded, and what is held goes
// back in full.
func TestHeldPayments(t *testing.T) {
	w := newWorld(t, "held_per_buyer: 8", "held_per_buyer: 1")
	provider := w.sell(t)
	a := newAttacker(t, w)
	slow := w.slow(t, a)
	job := a.ask(provider, "hold", slow)
	a.must(a.pay(a.invoice(job.ID), price))
	a.await("it is begun", answers(job.ID, "processing"))
	if why := a.refused(a.ask(provider, "hold", ranked).ID); !strings.HasPrefix(why, "over_capacity: ") {
		t.Error(why)
	}
	b := newAttacker(t, w)
	b.invoice(b.ask(provider, "hold", ranked).ID) // others are served
	stranger := b.sign(5, "", nostr.Tag{"e", job.ID}, nostr.Tag{"k", "5050"})
	b.put(stranger)
	b.ping(provider)
	if n := a.count(answers(job.ID, "error")); n != 0 {
		t.Fatal("a stranger canceled the job")
	}
	a.put(a.sign(5, "", nostr.Tag{"e", job.ID}, nostr.Tag{"k", "5050"}))
	if why := a.refused(job.ID); !strings.HasPrefix(why, "canceled: ") {
		t.Error(why)
	}
	if got := w.spendable(t, "provider"); got != faucet {
		t.Errorf("the provider has %d msats, want %d", got, faucet)
	}
	if got := a.balance(); got != faucet {
		t.Errorf("the canceler has %d msats back, want %d", got, faucet)
	}
}

// TestFreeCompute: who does not pay afterwards gets no result to read, and no
// more jobs than its share.
func TestFreeCompute(t *testing.T) {
	w := newWorld(t, "queue_per_buyer: 8", "queue_per_buyer: 2")
	provider := w.sell(t)
	a := newAttacker(t, w)
	for range 2 {
		job := a.ask(provider, "postpay", ranked, nostr.Tag{"param", "delivery", "sealed"})
		result := a.await("a result", results(job.ID))
		if result.Content != "" {
			t.Errorf("a result that nobody paid for is readable: %s", result)
		}
		for _, tag := range []string{"output_hash", "agreement_hash", "trajectory_hash"} {
			if result.Tags.Find(tag) != nil {
				t.Errorf("a sealed result has a %s", tag)
			}
		}
	}
	if why := a.refused(a.ask(provider, "postpay", ranked).ID); !strings.HasPrefix(why, "over_capacity: ") {
		t.Error(why)
	}
	if got := w.spendable(t, "provider"); got != faucet {
		t.Errorf("the provider has %d msats", got)
	}
}
