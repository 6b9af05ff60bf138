package buyer_test

import (
	"context"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"
	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay"
	"github.com/lightwork-market/lightwork/schemas"
)

const price = 20_000

// cheat is a provider that the test plays, and the relay between: whatever the
// buyer publishes is answered by answer.
type cheat struct {
	t      *testing.T
	key    *relay.Key
	node   *btcec.PrivateKey
	answer func(c *cheat, request nostr.Event) []nostr.Event
	out    chan nostr.Event

	stuck bool                             // payments are neither made nor refused
	pays  bool                             // payments succeed
	looks func() (payments.Payment, error) // what the wallet knows; nil: nothing
	blobs map[hashing.Digest][]byte
	asked int                // how often for a blob
	lost  error              // why there is none; nil: it is not there now
	store buyer.Store        // the buyer's, afterwards
	stop  context.CancelFunc // ends the buyer's waiting

	mu   sync.Mutex
	sent []payments.Pay
}

func (c *cheat) Relays() []string { return []string{"ws://127.0.0.1:1"} }

func (c *cheat) Listen(ctx context.Context, _ nostr.Filters, ready func(), handle func(nostr.Event)) error {
	ready()
	for {
		select {
		case ev := <-c.out:
			handle(ev)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *cheat) Send(_ context.Context, ev nostr.Event) error {
	if ev.Kind == 5050 {
		for _, a := range c.answer(c, ev) {
			c.out <- a
		}
	}
	return nil
}

func (c *cheat) Query(context.Context, nostr.Filter) ([]nostr.Event, error) { return nil, nil }

func (c *cheat) Fetch(_ context.Context, _ []string, d hashing.Digest, _ int64) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if blob, ok := c.blobs[d]; ok {
		return blob, nil
	}
	if c.lost != nil {
		return nil, c.lost
	}
	return nil, errors.New("no such blob here")
}

// secret is the preimage of every invoice of a cheat.
var secret = payments.Preimage{1, 2, 3}

// The buyer's wallet: it counts what it is asked to pay.
func (c *cheat) Node(context.Context) (payments.Node, error) {
	return payments.Node{PubKey: strings.Repeat("02", 33), Network: payments.Play}, nil
}

func (c *cheat) SendPayment(_ context.Context, p payments.Pay) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = append(c.sent, p)
	if c.stuck || c.pays {
		return nil
	}
	return payments.ErrNoRoute
}

func (c *cheat) LookupPayment(context.Context, payments.Hash) (payments.Payment, error) {
	if c.looks != nil {
		return c.looks()
	}
	return payments.Payment{}, payments.ErrNotFound
}

func (c *cheat) TrackPayment(ctx context.Context, _ payments.Hash) (payments.Payment, error) {
	if c.pays {
		return payments.Payment{Hash: secret.Hash(), State: payments.PaymentSucceeded, AmountMsats: price, Preimage: secret}, nil
	}
	<-ctx.Done()
	return payments.Payment{}, ctx.Err()
}

// deal is what an honest provider would send; a case changes something.
type deal struct {
	quote    receipts.Quote
	invoice  bolt11.Invoice
	amount   string
	freeHash bool // the invoice commits to something else
	signer   *relay.Key
	request  string
	more     nostr.Tags // of the event
}

func nodeHex(key *btcec.PrivateKey) string {
	return hex.EncodeToString(key.PubKey().SerializeCompressed())
}

// offer makes the payment-required event of a deal.
func (c *cheat) offer(req nostr.Event, change func(*deal)) nostr.Event {
	typed, err := receipts.RequestOf(req.Tags)
	if err != nil {
		c.t.Error(err)
	}
	s, _ := schemas.Lookup(typed.SchemaID)
	job, err := s.ParseRequest(typed.Input)
	if err != nil {
		c.t.Error(err)
	}
	preimage := secret
	hash, node := preimage.Hash().String(), nodeHex(c.node)
	d := deal{
		quote: receipts.Quote{
			Version: 1, RequestID: req.ID, JobHash: job.JobHash, SchemaID: typed.SchemaID, Buyer: req.PubKey,
			Provider: c.key.PublicKey(), PriceMsats: price, Purpose: receipts.PurposeResult,
			ExpiresAt: receipts.Timestamp(time.Now().Add(time.Hour)), Mode: receipts.ModeHold, Delivery: receipts.DeliveryPlain,
			Cancellation: "refund_until_result", PolicyBundleID: hashing.Bytes(nil), Nonce: strings.Repeat("0", 32),
			PaymentHash: &hash, PayeeNode: &node,
		},
		invoice: bolt11.Invoice{
			Network: payments.Play, AmountMsats: price, CreatedAt: time.Now(), PaymentHash: preimage.Hash(),
			PaymentSecret: [32]byte{9}, Expiry: time.Hour, Features: []int{8, 14},
		},
		amount: strconv.Itoa(price), signer: c.key, request: req.ID,
	}
	change(&d)
	content, err := d.quote.Canonical()
	if err != nil {
		c.t.Error(err)
	}
	if quoteHash := hashing.Bytes(content); !d.freeHash {
		d.invoice.DescriptionHash = &quoteHash
	}
	text, err := bolt11.Encode(&d.invoice, func(h [32]byte) (sig [65]byte, err error) {
		copy(sig[:], ecdsa.SignCompact(c.node, h[:], true))
		return sig, nil
	})
	if err != nil {
		c.t.Error(err)
	}
	tags := append(nostr.Tags{{"status", "payment-required"}, {"e", d.request}, {"p", req.PubKey}, {"amount", d.amount, text}, domain.Quote.Tag()}, d.more...)
	return c.event(d.signer, 7000, tags, string(content))
}

func (c *cheat) event(key *relay.Key, kind int, tags nostr.Tags, content string) nostr.Event {
	ev := nostr.Event{Kind: kind, CreatedAt: nostr.Now(), Tags: tags, Content: content}
	if err := key.Sign(context.Background(), &ev); err != nil {
		c.t.Error(err)
	}
	return ev
}

// end is an honest refusal, by which a case ends whose cheat is ignored.
func (c *cheat) end(req nostr.Event) nostr.Event {
	return c.event(c.key, 7000, nostr.Tags{{"status", "error", "canceled: enough"}, {"e", req.ID}, {"p", req.PubKey}}, "")
}

// play buys from the cheat and returns the purchase.
func play(t *testing.T, answer func(*cheat, nostr.Event) []nostr.Event, pin func(*cheat) string, limits buyer.Limits) (*cheat, buyer.Purchase, error) {
	t.Helper()
	return playWith(t, answer, pin, nil, func(cfg *buyer.Config) { cfg.Limits = limits })
}

// order buys something else than play does.
func order(t *testing.T, answer func(*cheat, nostr.Event) []nostr.Event, o buyer.Order) (*cheat, buyer.Purchase, error) {
	t.Helper()
	return buy(t, answer, nil, nil, func(*buyer.Config) {}, o)
}

func playWith(t *testing.T, answer func(*cheat, nostr.Event) []nostr.Event, pin func(*cheat) string, tell func(buyer.Progress), change func(*buyer.Config)) (*cheat, buyer.Purchase, error) {
	t.Helper()
	return buy(t, answer, pin, tell, change, buyer.Order{})
}

func buy(t *testing.T, answer func(*cheat, nostr.Event) []nostr.Event, pin func(*cheat) string, tell func(buyer.Progress), change func(*buyer.Config), o buyer.Order) (*cheat, buyer.Purchase, error) {
	t.Helper()
	c, client := meet(t, answer, change)
	if pin != nil {
		o.PayeeNode = pin(c)
	}
	p := c.place(client, o)
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // some tests have a clock of their own
	defer cancel()
	c.stop = cancel
	p, err := client.Follow(ctx, p.RequestID, tell)
	return c, p, err
}

// place orders the usual job of the cheat.
func (c *cheat) place(client *buyer.Client, o buyer.Order) buyer.Purchase {
	c.t.Helper()
	o.Provider, o.SchemaID, o.MaxMsats = c.key.PublicKey(), string(schemas.SandboxRun), 50_000
	if o.Input == nil {
		o.Input = []byte(request)
	}
	p, err := client.Place(c.t.Context(), o)
	if err != nil {
		c.t.Fatal(err)
	}
	return p
}

// meet makes a cheat, and a buyer that knows no better.
func meet(t *testing.T, answer func(*cheat, nostr.Event) []nostr.Event, change func(*buyer.Config)) (*cheat, *buyer.Client) {
	t.Helper()
	key, err := relay.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	node, err := btcec.NewPrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	c := &cheat{t: t, key: key, node: node, answer: answer, out: make(chan nostr.Event, 16)}
	me, err := relay.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	k, err := store.Open(t.Context(), t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	cfg := buyer.Config{Signer: me, Store: k.Purchases(), Wallet: c, Market: c}
	change(&cfg)
	client, err := buyer.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c.store = cfg.Store
	return c, client
}

const request = `{"sandbox":{"provider":"host","image_digest":"sha256:0000000000000000000000000000000000000000000000000000000000000001","resources":{"timeout_secs":1}},"commands":[{"cmd":"true"}]}`

// TestHonestOfferIsPaid shows that the table below fails for its reasons only:
// the unchanged deal reaches the wallet.
func TestHonestOfferIsPaid(t *testing.T) {
	requirements.Covers(t, "OA-4.4")
	c, p, err := play(t, func(c *cheat, req nostr.Event) []nostr.Event {
		return []nostr.Event{c.offer(req, func(*deal) {})}
	}, func(c *cheat) string { return nodeHex(c.node) }, buyer.Limits{})
	if !errors.Is(err, buyer.ErrFailed) || !strings.Contains(p.Reason, "no route") {
		t.Fatalf("got %q, %v; the wallet of this test has no route", p.Reason, err)
	}
	if len(c.sent) != 1 || c.sent[0].AmountMsats != price || c.sent[0].FeeLimitMsats != 10_000 {
		t.Fatalf("sent %+v", c.sent)
	}
	if p.Acceptance == nil || p.Attempt == nil || p.Attempt.RuleID == "" {
		t.Fatal("no acceptance was stored before paying")
	}
}

// TestCheatsAreNotPaid plays every way in which a payment-required event can
// be something else than what was asked for.
func TestCheatsAreNotPaid(t *testing.T) {
	requirements.Covers(t, "K-49")
	other, err := relay.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, err := btcec.NewPrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	otherHash := payments.Preimage{7}.Hash()
	for name, tt := range map[string]struct {
		change func(*deal)
		want   string // in the reason
	}{
		"price over the maximum":      {func(d *deal) { d.quote.PriceMsats, d.invoice.AmountMsats, d.amount = 60_000, 60_000, "60000" }, "price_msats"},
		"another request":             {func(d *deal) { d.quote.RequestID = strings.Repeat("a", 64) }, "request_id"},
		"another job":                 {func(d *deal) { d.quote.JobHash = hashing.Bytes([]byte("x")) }, "job_hash"},
		"another schema":              {func(d *deal) { d.quote.SchemaID = "oa.embedding.v1" }, "schema_id"},
		"another buyer":               {func(d *deal) { d.quote.Buyer = other.PublicKey() }, "buyer"},
		"another provider":            {func(d *deal) { d.quote.Provider = other.PublicKey() }, "provider"},
		"expired quote":               {func(d *deal) { d.quote.ExpiresAt = receipts.Timestamp(time.Now().Add(-time.Minute)) }, "expired"},
		"a mode we do not pay in":     {func(d *deal) { d.quote.Mode = receipts.ModePrepay }, "prepay"},
		"a fee that nobody announced": {func(d *deal) { d.quote.Purpose, d.quote.Mode = receipts.PurposeEngagement, receipts.ModePrepay }, "price_msats"},
		"no node":                     {func(d *deal) { d.quote.PayeeNode = nil }, "names no node"},
		"invoice over another amount": {func(d *deal) { d.invoice.AmountMsats = price + 1 }, "amount"},
		"invoice without amount":      {func(d *deal) { d.invoice.AmountMsats = 0 }, "amount"},
		"amount tag differs":          {func(d *deal) { d.amount = "19999" }, "amount tag"},
		"invoice for another quote": {func(d *deal) {
			h := hashing.Bytes([]byte("another quote"))
			d.freeHash, d.invoice.DescriptionHash = true, &h
		}, "description_hash"},
		"invoice with plain text":      {func(d *deal) { d.freeHash, d.invoice.Description = true, "job" }, "description_hash"},
		"invoice with another hash":    {func(d *deal) { d.invoice.PaymentHash = otherHash }, "payment_hash"},
		"invoice on another network":   {func(d *deal) { d.invoice.Network = payments.Simnet }, "network"},
		"expired invoice":              {func(d *deal) { d.invoice.CreatedAt, d.invoice.Expiry = time.Now().Add(-time.Hour), time.Minute }, "expired"},
		"held for weeks":               {func(d *deal) { d.invoice.MinFinalCLTV = 2016 }, "held for 2016 blocks, at most 288 here"},
		"held for a day, and not held": {func(d *deal) { d.quote.Mode, d.invoice.MinFinalCLTV = receipts.ModePostpay, 145 }, "at most 144 here"},
		"held on its private route": {func(d *deal) {
			hop := bolt11.Hop{PubKey: nodeHex(elsewhere), CLTVDelta: 289}
			d.invoice.Routes = [][]bolt11.Hop{{hop, hop}}
		}, "578 blocks"},
		"quote names a node not there": {func(d *deal) { n := nodeHex(elsewhere); d.quote.PayeeNode = &n }, "payee_node"},
	} {
		t.Run(name, func(t *testing.T) {
			c, p, err := play(t, func(c *cheat, req nostr.Event) []nostr.Event {
				return []nostr.Event{c.offer(req, tt.change)}
			}, nil, buyer.Limits{})
			if !errors.Is(err, buyer.ErrFailed) || !strings.Contains(p.Reason, tt.want) {
				t.Errorf("reason %q (%v), want %q in it", p.Reason, err, tt.want)
			}
			if len(c.sent) != 0 || p.Attempt != nil || p.Acceptance != nil {
				t.Errorf("paid %+v, accepted %v", c.sent, p.Acceptance != nil)
			}
		})
	}
}

// nameless is an offer by a wallet that chooses the payment hash.
func nameless(change func(*deal)) func(*deal) {
	return func(d *deal) {
		d.quote.Mode, d.quote.PaymentHash = receipts.ModePrepay, nil
		change(d)
	}
}

func prepays(cfg *buyer.Config) { cfg.Modes = []receipts.Mode{receipts.ModePrepay} }

// TestQuoteWithoutPaymentHash: what is paid is the invoice's payment hash, which the
// acceptance names; the invoice must be the quote's in all else.
func TestQuoteWithoutPaymentHash(t *testing.T) {
	otherNode := "03" + strings.Repeat("22", 32)
	for name, tt := range map[string]struct {
		change func(*deal)
		pin    string
		want   string // in the reason
	}{
		"it is paid":         {want: "no route"},
		"for another quote":  {change: func(d *deal) { h := hashing.Bytes([]byte("x")); d.freeHash, d.invoice.DescriptionHash = true, &h }, want: "description_hash"},
		"with a plain text":  {change: func(d *deal) { d.freeHash, d.invoice.Description = true, "job" }, want: "description_hash"},
		"of another amount":  {change: func(d *deal) { d.invoice.AmountMsats = price + 1 }, want: "amount"},
		"on another network": {change: func(d *deal) { d.invoice.Network = payments.Simnet }, want: "network"},
		"of another node":    {change: func(d *deal) { d.quote.PayeeNode = &otherNode }, want: "payee_node"},
		"of two demands":     {change: func(d *deal) { d.more = nostr.Tags{{"amount", d.amount, "lnbc1"}} }, want: "tag amount"},
		"to no pinned node":  {pin: otherNode, want: "not the pinned"},
		"expired":            {change: func(d *deal) { d.invoice.CreatedAt, d.invoice.Expiry = time.Now().Add(-time.Hour), time.Minute }, want: "expired"},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.change == nil {
				tt.change = func(*deal) {}
			}
			c, p, err := playWith(t, func(c *cheat, req nostr.Event) []nostr.Event {
				return []nostr.Event{c.offer(req, nameless(tt.change))}
			}, func(*cheat) string { return tt.pin }, nil, prepays)
			if !errors.Is(err, buyer.ErrFailed) || !strings.Contains(p.Reason, tt.want) {
				t.Fatalf("reason %q (%v), want %q in it", p.Reason, err, tt.want)
			}
			if tt.want != "no route" {
				if len(c.sent) != 0 || p.Attempt != nil || p.Acceptance != nil {
					t.Errorf("paid %+v, accepted %s", c.sent, p.Acceptance)
				}
				return
			}
			if len(c.sent) != 1 || p.Attempt.PaymentHash != secret.Hash() || !strings.Contains(string(p.Acceptance), secret.Hash().String()) {
				t.Errorf("paid %+v, accepted %s", c.sent, p.Acceptance)
			}
		})
	}
}

// TestTwoInvoicesForOneQuote: a provider that asks for a quote which names no payment
// hash by two invoices is paid one of them.
func TestTwoInvoicesForOneQuote(t *testing.T) {
	c, p, err := playWith(t, func(c *cheat, req nostr.Event) []nostr.Event {
		c.pays = true
		until := receipts.Timestamp(time.Now().Add(time.Hour))
		same := func(d *deal) { d.quote.ExpiresAt = until }
		return []nostr.Event{
			c.offer(req, nameless(same)),
			c.offer(req, nameless(func(d *deal) { same(d); d.invoice.PaymentHash = payments.Preimage{7}.Hash() })),
			c.end(req),
		}
	}, nil, nil, prepays)
	if !errors.Is(err, buyer.ErrFailed) || len(c.sent) != 1 || p.Attempt.PaymentHash != secret.Hash() {
		t.Errorf("purchase %s (%s), %v: paid %+v", p.State, p.Reason, err, c.sent)
	}
}

// TestStrangersAreIgnored: events that are not the provider's answer to this
// request change nothing.
func TestStrangersAreIgnored(t *testing.T) {
	stranger, err := relay.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	for name, first := range map[string]func(*cheat, nostr.Event) nostr.Event{
		"offer by another key": func(c *cheat, req nostr.Event) nostr.Event {
			return c.offer(req, func(d *deal) { d.signer = stranger })
		},
		"offer for another request": func(c *cheat, req nostr.Event) nostr.Event {
			return c.offer(req, func(d *deal) { d.request = strings.Repeat("b", 64) })
		},
		"refusal by another key": func(c *cheat, req nostr.Event) nostr.Event {
			return c.event(stranger, 7000, nostr.Tags{{"status", "error", "stranger: no"}, {"e", req.ID}}, "")
		},
		"result by another key": func(c *cheat, req nostr.Event) nostr.Event {
			return c.event(stranger, 6050, nostr.Tags{{"e", req.ID}, {"amount", "0"}}, "{}")
		},
		"result that is none": func(c *cheat, req nostr.Event) nostr.Event {
			return c.event(c.key, 6050, nostr.Tags{{"e", req.ID}, {"p", req.PubKey}, {"amount", "0"}}, "{}")
		},
		"result of another kind": func(c *cheat, req nostr.Event) nostr.Event {
			return c.event(c.key, 6051, nostr.Tags{{"e", req.ID}, {"p", req.PubKey}}, "{}")
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, p, err := play(t, func(c *cheat, req nostr.Event) []nostr.Event {
				return []nostr.Event{first(c, req), c.end(req)}
			}, nil, buyer.Limits{})
			if !errors.Is(err, buyer.ErrFailed) || p.Reason != "canceled: enough" {
				t.Errorf("reason %q, %v: the stranger's word counted", p.Reason, err)
			}
			if len(c.sent) != 0 || p.Output != nil {
				t.Errorf("paid %+v, believed %s", c.sent, p.Output)
			}
		})
	}
}

func TestPinnedNodeAndBudgets(t *testing.T) {
	honest := func(c *cheat, req nostr.Event) []nostr.Event { return []nostr.Event{c.offer(req, func(*deal) {})} }
	for name, tt := range map[string]struct {
		pin    string
		limits buyer.Limits
		want   string
	}{
		"pinned to another node": {pin: "03" + strings.Repeat("22", 32), want: "not the pinned"},
		"day's budget":           {limits: buyer.Limits{DayMsats: 29_999}, want: "day budget"},
		"provider's budget":      {limits: buyer.Limits{ProviderMsats: 29_999}, want: "provider budget"},
	} {
		t.Run(name, func(t *testing.T) {
			c, p, err := play(t, honest, func(*cheat) string { return tt.pin }, tt.limits)
			if !errors.Is(err, buyer.ErrFailed) || !strings.Contains(p.Reason, tt.want) || len(c.sent) != 0 {
				t.Errorf("reason %q, %v, sent %d", p.Reason, err, len(c.sent))
			}
		})
	}
}
