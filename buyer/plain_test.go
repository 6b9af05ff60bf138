package buyer_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"
	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay"
)

// bare is what a program that knows NIP-90 alone asks for.
type bare struct {
	status  string
	invoice bolt11.Invoice
	amount  string
	over    string // the invoice's text instead
	content string
}

// asks makes the payment-required event of such a program.
func (c *cheat) asks(req nostr.Event, change func(*bare)) nostr.Event {
	b := bare{
		status: "payment-required", amount: strconv.Itoa(price),
		invoice: bolt11.Invoice{
			Network: payments.Play, AmountMsats: price, CreatedAt: time.Now(), PaymentHash: secret.Hash(),
			PaymentSecret: [32]byte{9}, Expiry: time.Hour, Features: []int{8, 14}, Description: "a job",
		},
	}
	change(&b)
	text, err := bolt11.Encode(&b.invoice, func(h [32]byte) (sig [65]byte, err error) {
		copy(sig[:], ecdsa.SignCompact(c.node, h[:], true))
		return sig, nil
	})
	if err != nil {
		c.t.Error(err)
	}
	if b.over != "" {
		text = b.over
	}
	return c.event(c.key, 7000, nostr.Tags{{"status", b.status}, {"e", req.ID}, {"p", req.PubKey}, {"amount", b.amount, text}}, b.content)
}

// plain is a result of NIP-90's own tags and nothing else.
func (c *cheat) plain(req nostr.Event, content string, more ...nostr.Tag) nostr.Event {
	return c.event(c.key, 6050, append(nostr.Tags{{"e", req.ID}, {"p", req.PubKey}}, more...), content)
}

func buyPlain(t *testing.T, answer func(*cheat, nostr.Event) []nostr.Event, pin func(*cheat) string, change func(*buyer.Config)) (*cheat, buyer.Purchase, error) {
	t.Helper()
	return buy(t, answer, pin, nil, change, buyer.Order{Plain: true})
}

func asConfigured(*buyer.Config) {}

// TestBareInvoiceIsPaid: with the buyer's leave a provider is paid without a
// quote, once, and the purchase says what is not proved.
func TestBareInvoiceIsPaid(t *testing.T) {
	for name, answer := range map[string]func(*cheat, nostr.Event) []nostr.Event{
		"before": func(c *cheat, req nostr.Event) []nostr.Event {
			return []nostr.Event{c.asks(req, func(*bare) {}), c.asks(req, func(*bare) {}), c.plain(req, "words")}
		},
		"as NDK spells it": func(c *cheat, req nostr.Event) []nostr.Event {
			return []nostr.Event{c.asks(req, func(b *bare) { b.status, b.content = "payment_required", "please" }), c.plain(req, "words")}
		},
		"after the result": func(c *cheat, req nostr.Event) []nostr.Event {
			return []nostr.Event{c.plain(req, "words", nostr.Tag{"amount", "20000"}), c.asks(req, func(*bare) {})}
		},
		"in the result": func(c *cheat, req nostr.Event) []nostr.Event {
			ask := c.asks(req, func(*bare) {})
			return []nostr.Event{c.plain(req, "words", ask.Tags.Find("amount"))}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, p, err := buyPlain(t, func(c *cheat, req nostr.Event) []nostr.Event {
				c.pays = true
				if req.Tags.FindWithValue("param", "delivery") != nil {
					t.Error("sealed delivery was asked for")
				}
				return answer(c, req)
			}, func(c *cheat) string { return nodeHex(c.node) }, asConfigured)
			if err != nil || p.State != buyer.StateDone || string(p.Output) != "words" || p.Payment == nil || p.ReceiptID != "" {
				t.Fatalf("purchase %s (%s), %v", p.State, p.Reason, err)
			}
			if len(c.sent) != 1 || c.sent[0].AmountMsats != price || p.Attempt.RuleID != buyer.RulePlain {
				t.Errorf("sent %+v under %q", c.sent, p.Attempt.RuleID)
			}
			if !strings.Contains(p.Reason, "without receipt") || p.Quote != nil || p.Acceptance != nil {
				t.Errorf("reason %q, quote %q", p.Reason, p.Quote)
			}
			open := map[string]bool{}
			for _, claim := range p.Unproved() {
				open[claim.Name] = claim.State == receipts.NotProvable
			}
			if !open[receipts.ClaimInvoiceCommits] || !open[receipts.ClaimSignature] || !open[receipts.ClaimResult] {
				t.Errorf("said to be not provable: %v", open)
			}
		})
	}
}

// TestBareInvoicesThatAreNotPaid: with the buyer's leave too, an invoice is paid
// only if it is what it says, and fits.
func TestBareInvoicesThatAreNotPaid(t *testing.T) {
	other, err := btcec.NewPrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		change func(*bare)
		pin    func(*cheat) string
		limits buyer.Limits
		want   string
	}{
		"over the bid":          {func(b *bare) { b.invoice.AmountMsats, b.amount = 50_001, "50001" }, nil, buyer.Limits{}, "50000 were bid"},
		"amount tag differs":    {func(b *bare) { b.amount = "1" }, nil, buyer.Limits{}, "amount tag"},
		"no amount":             {func(b *bare) { b.invoice.AmountMsats, b.amount = 0, "0" }, nil, buyer.Limits{}, "no amount"},
		"another network":       {func(b *bare) { b.invoice.Network = payments.Mainnet }, nil, buyer.Limits{}, "network"},
		"expired":               {func(b *bare) { b.invoice.CreatedAt = time.Now().Add(-2 * time.Hour) }, nil, buyer.Limits{}, "expired"},
		"no invoice":            {func(b *bare) { b.over = "lnplay1" }, nil, buyer.Limits{}, "invoice mismatch"},
		"another node":          {func(*bare) {}, func(*cheat) string { return nodeHex(other) }, buyer.Limits{}, "pinned"},
		"over the day's budget": {func(*bare) {}, nil, buyer.Limits{DayMsats: price}, "day budget"},
	} {
		t.Run(name, func(t *testing.T) {
			c, p, err := buyPlain(t, func(c *cheat, req nostr.Event) []nostr.Event {
				return []nostr.Event{c.asks(req, tt.change)}
			}, tt.pin, func(cfg *buyer.Config) { cfg.Limits = tt.limits })
			if !errors.Is(err, buyer.ErrFailed) || !strings.Contains(p.Reason, tt.want) {
				t.Errorf("purchase %s (%s), %v, want %q", p.State, p.Reason, err, tt.want)
			}
			if len(c.sent) != 0 {
				t.Errorf("paid %+v", c.sent)
			}
		})
	}
}

// TestStrangersAreNotPaidByAccident: without the buyer's leave no invoice is
// paid that no quote explains.
func TestStrangersAreNotPaidByAccident(t *testing.T) {
	for name, answer := range map[string]func(*cheat, nostr.Event) []nostr.Event{
		"before": func(c *cheat, req nostr.Event) []nostr.Event { return []nostr.Event{c.asks(req, func(*bare) {})} },
		"in the result": func(c *cheat, req nostr.Event) []nostr.Event {
			ask := c.asks(req, func(*bare) {})
			return []nostr.Event{c.plain(req, "words", ask.Tags.Find("amount")), c.end(req)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, p, err := play(t, answer, nil, buyer.Limits{})
			if !errors.Is(err, buyer.ErrFailed) || len(c.sent) != 0 || p.Attempt != nil {
				t.Errorf("purchase %s (%s), %v, sent %v", p.State, p.Reason, err, c.sent)
			}
		})
	}
}

// TestUnboundResults: a result without our tags is taken where nobody is paid
// for it, and said to prove nothing.
func TestUnboundResults(t *testing.T) {
	unbound := func(amount string) func(*answer) {
		return func(a *answer) {
			a.set("job_hash")
			a.set("output_hash", "")
			a.set("amount", amount)
		}
	}
	strip := func(ev nostr.Event, c *cheat) nostr.Event {
		var tags nostr.Tags
		for _, t := range ev.Tags {
			if t[0] != "output_hash" && t[0] != "job_hash" && t[0] != domain.TagName {
				tags = append(tags, t)
			}
		}
		return c.event(c.key, 6050, tags, ev.Content)
	}
	_, p, err := play(t, func(c *cheat, req nostr.Event) []nostr.Event {
		return []nostr.Event{strip(c.result(req, unbound("0")), c)}
	}, nil, buyer.Limits{})
	if err != nil || p.State != buyer.StateDone || p.Bound() || len(p.Unproved()) == 0 {
		t.Errorf("free: purchase %s (%s), %v, bound %v", p.State, p.Reason, err, p.Bound())
	}
	_, p, err = play(t, func(c *cheat, req nostr.Event) []nostr.Event {
		return []nostr.Event{strip(c.result(req, unbound("20000")), c), c.end(req)}
	}, nil, buyer.Limits{})
	if !errors.Is(err, buyer.ErrFailed) || p.Output != nil {
		t.Errorf("priced: purchase %s (%s), %v", p.State, p.Reason, err)
	}
}

// TestPaidWithoutReceiptEnds: a provider that quotes and signs no receipt does
// not keep a purchase open for ever.
func TestPaidWithoutReceiptEnds(t *testing.T) {
	answer := func(status string) func(*cheat, nostr.Event) []nostr.Event {
		return func(c *cheat, req nostr.Event) []nostr.Event {
			c.pays = true
			offer := c.offer(req, func(*deal) {})
			hash := quoteHash(offer)
			result := c.result(req, func(a *answer) { a.set("amount", "20000"); a.set("quote_hash", hash) })
			return []nostr.Event{offer, result, c.word(req, status, "")}
		}
	}
	_, p, err := play(t, answer("success"), nil, buyer.Limits{})
	if err != nil || p.State != buyer.StateDone || !strings.Contains(p.Reason, "signed none") {
		t.Errorf("it says that it is done: purchase %s (%s), %v", p.State, p.Reason, err)
	}
	_, p, err = buyPlain(t, answer("processing"), nil, func(cfg *buyer.Config) {
		cfg.AnswerTimeout, cfg.ReceiptTimeout = 2*time.Second, 20*time.Millisecond // it answers, however busy the machine
	})
	if err != nil || p.State != buyer.StateDone || !strings.Contains(p.Reason, "without receipt") {
		t.Errorf("it says nothing: purchase %s (%s), %v", p.State, p.Reason, err)
	}
}

func quoteHash(offer nostr.Event) string { return hashing.Bytes([]byte(offer.Content)).String() }

// TestPlainGoesOn: a purchase that was interrupted after its payment takes the
// answer at the next start, and pays nothing more.
func TestPlainGoesOn(t *testing.T) {
	var first *cheat
	answer := func(c *cheat, req nostr.Event) []nostr.Event {
		first, c.pays = c, true
		ask := c.asks(req, func(*bare) {})
		if len(c.sent) == 0 {
			return []nostr.Event{ask}
		}
		return []nostr.Event{ask, c.plain(req, "words")}
	}
	_, p, err := buy(t, answer, nil, func(pr buyer.Progress) {
		if pr.What == "paid" {
			first.stop()
		}
	}, asConfigured, buyer.Order{Plain: true})
	if !errors.Is(err, context.Canceled) || p.State != buyer.StatePaid {
		t.Fatalf("purchase %s (%s), %v", p.State, p.Reason, err)
	}
	again, err := buyer.New(buyer.Config{Signer: first.key, Store: first.store, Wallet: first, Market: first})
	if err != nil {
		t.Fatal(err)
	}
	p, err = again.Follow(t.Context(), p.RequestID, nil)
	if err != nil || p.State != buyer.StateDone || string(p.Output) != "words" || len(first.sent) != 1 {
		t.Errorf("purchase %s (%s), %v, paid %d times", p.State, p.Reason, err, len(first.sent))
	}
}

// TestPlainListing: what programs of other makes announce is listed, last, and
// marked.
func TestPlainListing(t *testing.T) {
	key, err := relay.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	c := &cheat{t: t, key: key}
	announce := func(content string, tags ...nostr.Tag) nostr.Event {
		other, err := relay.GenerateKey()
		if err != nil {
			t.Fatal(err)
		}
		return c.event(other, 31990, append(nostr.Tags{{"d", "x"}, {"k", "5050"}}, tags...), content)
	}
	ours := `{"name":"ours","capabilities":{"supported_jobs":["oa.sandbox_run.v1"]},"pricing":{"sandbox_per_minute_msats":9000},` +
		`"lightwork":{"modes":{"oa.sandbox_run.v1":["hold"]},"base_msats":{"oa.sandbox_run.v1":0}}}`
	m := crowd{cheat: c, events: []nostr.Event{
		announce(`{"name":"dvm","amount":"free","about":"writes"}`, nostr.Tag{"t", "oa.text_generation.v1"}, nostr.Tag{"t", "llm"}),
		announce(""), announce("no JSON"), announce(`{"name":7,"amount":{"x":1}}`), announce(ours, domain.Announcement.Tag()),
	}}
	client, err := buyer.New(buyer.Config{Signer: key, Store: noStore{}, Market: m})
	if err != nil {
		t.Fatal(err)
	}
	list, err := client.Discover(t.Context(), "", "")
	if err != nil || len(list) != 5 || list[0].Name != "ours" || list[0].Plain {
		t.Fatalf("%+v, %v", list, err)
	}
	for _, l := range list[1:] {
		if !l.Plain || len(l.Modes) > 0 {
			t.Errorf("%+v", l)
		}
		if l.Name == "dvm" && (l.Amount != "free" || len(l.Jobs) != 1) {
			t.Errorf("%+v", l)
		}
	}
}

// TestPlainTagsNameNoFiles: what a plain provider says beside its words does not keep
// the buyer from writing these down.
func TestPlainTagsNameNoFiles(t *testing.T) {
	signed := func(kind int, tags nostr.Tags, content string) []byte {
		ev := nostr.Event{Kind: kind, CreatedAt: nostr.Now(), Tags: tags, Content: content}
		check(t, ev.Sign(nostr.GeneratePrivateKey()))
		raw, err := ev.MarshalJSON()
		check(t, err)
		return raw
	}
	for _, tags := range []nostr.Tags{
		{},
		{{"blob", "not", "one", "of", "ours"}},
		{{"blob", "artifact", "sha256:" + strings.Repeat("ab", 32), "5", "https://example.com/x"}},
		{{"commitment", "none"}},
	} {
		p := buyer.Purchase{
			Plain: true, Request: signed(5050, nostr.Tags{{"i", "a prompt", "text"}}, ""),
			ResultEvent: signed(6050, tags, "words"), Output: []byte("words"),
		}
		work, err := buyer.WorkOf(t.Context(), nil, p)
		if err != nil || string(work.Result) != "words" || work.Request == nil || work.ResultEvent == nil {
			t.Errorf("%v: %v", tags, err)
		}
	}
}
