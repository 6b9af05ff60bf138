package buyer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay"
)

// board is a market that holds announcements.
type board struct {
	buyer.Market
	markettest.Board
}

func newBoard(t *testing.T) *board { return &board{Board: markettest.Board{T: t}} }

func (b *board) Query(ctx context.Context, f nostr.Filter) ([]nostr.Event, error) {
	return b.Board.Query(ctx, f)
}

func (b *board) Relays() []string { return []string{"ws://127.0.0.1:1"} }

// Send fails the test: looking for providers publishes nothing.
func (b *board) Send(_ context.Context, ev nostr.Event) error {
	b.T.Errorf("kind %d was published", ev.Kind)
	return errors.New("closed")
}

func newKey(t *testing.T) *relay.Key {
	t.Helper()
	key, err := relay.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

const (
	run   = "oa.sandbox_run.v1"
	embed = "oa.embedding.v1"
)

// stall is what one provider announces.
type stall struct {
	jobs      []string
	modes     map[string][]receipts.Mode
	prices    map[string]receipts.Price
	toolchain string
	payee     string
	network   payments.Network
	paused    bool
	plain     bool  // a program that knows NIP-90 alone
	reads     *bool // encrypted requests
}

func (b *board) open(key *relay.Key, s stall) {
	if s.plain {
		b.Add(key, 31990, time.Minute, `{"name":"plain"}`, nostr.Tag{"d", "x"}, nostr.Tag{"k", "5050"}, nostr.Tag{"t", run})
		return
	}
	doc := map[string]any{
		"name": "x", "capabilities": map[string]any{"supported_jobs": s.jobs},
		"lightwork": map[string]any{
			"prices": s.prices, "modes": s.modes, "host_image_digest": s.toolchain, "payee_node": s.payee, "network": s.network, "paused": s.paused,
		},
	}
	if s.reads != nil {
		doc["supportsEncryption"] = *s.reads
	}
	text, err := json.Marshal(doc)
	if err != nil {
		b.T.Fatal(err)
	}
	b.Add(key, 31990, time.Minute, string(text), nostr.Tag{"d", "lightwork"}, nostr.Tag{"k", "5050"}, domain.Announcement.Tag())
	b.Add(key, 11998, time.Minute, "", nostr.Tag{"d", "lightwork"})
}

// ordinary is a stall that sells sandbox runs at a price, and differs in what change does.
func ordinary(price receipts.Price, change func(*stall)) stall {
	s := stall{
		jobs: []string{run}, modes: map[string][]receipts.Mode{run: {receipts.ModeHold}}, prices: map[string]receipts.Price{run: price},
		toolchain: hashing.Bytes([]byte("toolchain")).String(), network: payments.Play,
	}
	if change != nil {
		change(&s)
	}
	return s
}

func shopper(t *testing.T, b *board, change func(*buyer.Config)) *buyer.Client {
	t.Helper()
	k, err := store.Open(t.Context(), t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	cfg := buyer.Config{Signer: newKey(t), Store: k.Purchases(), Wallet: &cheat{t: t}, Market: b}
	if change != nil {
		change(&cfg)
	}
	client, err := buyer.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// lasting is a request whose commands may take so many seconds.
func lasting(seconds int) []byte {
	return fmt.Appendf(nil, `{"sandbox":{"provider":"host","image_digest":%q,"resources":{"timeout_secs":%d}},"commands":[{"cmd":"true"}]}`, hashing.Digest{}, seconds)
}

// TestCandidatesByThePriceOfTheRequest: what counts is what this very request costs
// at most, and not the lowest price of anything that is announced.
func TestCandidatesByThePriceOfTheRequest(t *testing.T) {
	b := newBoard(t)
	bait, base, minute, fee := newKey(t), newKey(t), newKey(t), newKey(t)
	b.open(bait, ordinary(receipts.Price{BaseMsats: 45_000}, func(s *stall) {
		s.jobs, s.modes[embed], s.prices[embed] = append(s.jobs, embed), s.modes[run], receipts.Price{BaseMsats: 1}
	}))
	b.open(base, ordinary(receipts.Price{BaseMsats: 10_000, PerMinuteMsats: 1_000}, nil))
	b.open(minute, ordinary(receipts.Price{PerMinuteMsats: 3_000}, nil))
	b.open(fee, ordinary(receipts.Price{PerMinuteMsats: 2_900, EngagementMsats: 8_500}, nil))
	client := shopper(t, b, func(cfg *buyer.Config) { cfg.MaxEngagementMsats = 10_000 })

	expects := append(lasting(30)[:len(lasting(30))-1], `,"verification":{"expected":{"exit_codes":[0]}}}`...)
	for name, tt := range map[string]struct {
		request []byte
		want    []*relay.Key
		first   int64
	}{
		"short":                      {lasting(60), []*relay.Key{fee, minute, base, bait}, 2_900},
		"long":                       {lasting(600), []*relay.Key{base, fee, minute, bait}, 20_000},
		"with a fee for the attempt": {expects, []*relay.Key{minute, base, fee, bait}, 3_000},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := client.Candidates(t.Context(), buyer.Order{SchemaID: run, Input: tt.request, Toolchain: true, MaxMsats: 100_000})
			if err != nil {
				t.Fatal(err)
			}
			for i, x := range list {
				if x.Refusal != nil || x.Provider != tt.want[i].PublicKey() {
					t.Errorf("place %d: %d msats, %v", i+1, x.PriceMsats, x.Refusal)
				}
			}
			if len(list) != 4 || list[0].PriceMsats != tt.first {
				t.Errorf("%d candidates, the first costs %d", len(list), list[0].PriceMsats)
			}
		})
	}
}

// TestWhoCannotBeAsked: a provider that cannot do the order, or could not be paid
// for it, comes after those that can, with the reason.
func TestWhoCannotBeAsked(t *testing.T) {
	no := false
	var mode *buyer.ModeError
	var price *buyer.PriceError
	var over *buyer.BudgetError
	var rule *buyer.ApprovalError
	var network *buyer.NetworkError
	for name, tt := range map[string]struct {
		change func(*stall)
		order  func(*buyer.Order)
		config func(*buyer.Config)
		is     error
		as     any
	}{
		"paused":               {change: func(s *stall) { s.paused = true }, is: buyer.ErrPaused},
		"plain NIP-90":         {change: func(s *stall) { s.plain = true }, is: buyer.ErrPlain},
		"no toolchain":         {change: func(s *stall) { s.toolchain = "" }, is: buyer.ErrToolchain},
		"another mode":         {change: func(s *stall) { s.modes[run] = []receipts.Mode{receipts.ModePrepay} }, as: &mode},
		"the mode asked for":   {order: func(o *buyer.Order) { o.Mode = receipts.ModePostpay }, as: &mode},
		"another network":      {change: func(s *stall) { s.network = payments.Mainnet }, as: &network},
		"another payee":        {change: func(s *stall) { s.payee = "02ab" }, order: func(o *buyer.Order) { o.PayeeNode = "02cd" }, is: buyer.ErrOtherPayee},
		"no encryption":        {change: func(s *stall) { s.reads = &no }, order: func(o *buyer.Order) { o.Encrypt = true }, is: buyer.ErrNoEncryption},
		"above the maximum":    {order: func(o *buyer.Order) { o.MaxMsats = 999 }, as: &price},
		"a price at its bound": {change: func(s *stall) { s.prices[run] = receipts.Price{BaseMsats: payments.MaxMsats, PerMinuteMsats: 1} }, is: buyer.ErrUnpriced},
		"a price below zero":   {change: func(s *stall) { s.prices[run] = receipts.Price{BaseMsats: -1} }, is: buyer.ErrUnpriced},
		"a fee that is not paid": {
			change: func(s *stall) { s.prices[run] = receipts.Price{BaseMsats: 1, EngagementMsats: 5} },
			order: func(o *buyer.Order) {
				o.Input = append(o.Input[:len(o.Input)-1], `,"verification":{"expected":{"exit_codes":[0]}}}`...)
			},
			is: buyer.ErrEngagement,
		},
		"over the budget of the day": {config: func(c *buyer.Config) { c.Limits.DayMsats = 999 }, as: &over},
		"refused by a rule": {
			config: func(c *buyer.Config) {
				c.Approvals = []buyer.ApprovalRule{{ID: "little", UpToMsats: 999, Do: buyer.Approve}}
			}, as: &rule,
		},
		"no wallet": {config: func(c *buyer.Config) { c.Wallet = nil }, is: buyer.ErrNoWallet},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBoard(t)
			b.open(newKey(t), ordinary(receipts.Price{BaseMsats: 1_000}, tt.change))
			o := buyer.Order{SchemaID: run, Input: lasting(60), Toolchain: true, MaxMsats: 100_000}
			if tt.order != nil {
				tt.order(&o)
			}
			list, err := shopper(t, b, tt.config).Candidates(t.Context(), o)
			if err != nil || len(list) != 1 {
				t.Fatalf("%d candidates, %v", len(list), err)
			}
			if refusal := list[0].Refusal; tt.is != nil && !errors.Is(refusal, tt.is) || tt.as != nil && !errors.As(refusal, tt.as) {
				t.Errorf("refused because %v", refusal)
			}

			b.open(newKey(t), ordinary(receipts.Price{BaseMsats: 900}, nil)) // but for the order and the buyer, all is well
			again, err := shopper(t, b, tt.config).Candidates(t.Context(), o)
			if err != nil || len(again) != 2 {
				t.Fatalf("%d candidates, %v", len(again), err)
			}
			if at := slices.IndexFunc(again, func(x buyer.Candidate) bool { return x.Provider == list[0].Provider }); tt.change != nil && tt.order == nil && at != 1 {
				t.Error("who cannot be asked comes before who can")
			}
		})
	}
}

// silentWallet does not say who it is.
type silentWallet struct{ cheat }

func (*silentWallet) Node(context.Context) (payments.Node, error) {
	return payments.Node{}, payments.ErrWalletUnavailable
}

// TestWalletThatDoesNotAnswer is no fault of the order's, whatever it names for a refund.
func TestWalletThatDoesNotAnswer(t *testing.T) {
	client := shopper(t, newBoard(t), func(cfg *buyer.Config) { cfg.Wallet = &silentWallet{cheat{t: t}} })
	for _, to := range []string{"me@example.com", "lnbc1"} {
		o := buyer.Order{SchemaID: embed, Input: []byte(`{"texts":["x"]}`), MaxMsats: 1000, Refund: to}
		_, err := client.Candidates(t.Context(), o)
		if request := new(buyer.RequestError); !errors.Is(err, payments.ErrWalletUnavailable) || errors.As(err, &request) {
			t.Errorf("refund %s: %v", to, err)
		}
	}
}

// TestNothingIsOrderedWithoutAWallet: an order that costs something is refused
// before anything is stored or sent; one that may be for nothing asks for that.
func TestNothingIsOrderedWithoutAWallet(t *testing.T) {
	b := newBoard(t)
	client := shopper(t, b, func(cfg *buyer.Config) { cfg.Wallet = nil })
	o := buyer.Order{Provider: newKey(t).PublicKey(), SchemaID: run, Input: lasting(60), MaxMsats: 100_000}
	for _, m := range []receipts.Mode{receipts.ModeHold, receipts.ModePostpay} {
		o.Mode = m
		if _, err := client.Place(t.Context(), o); !errors.Is(err, buyer.ErrNoWallet) {
			t.Errorf("mode %s: %v", m, err)
		}
	}
	open := o
	open.Provider, open.Mode = "", receipts.ModeHold
	if _, err := client.PlaceOpen(t.Context(), open, nil); !errors.Is(err, buyer.ErrNoWallet) {
		t.Errorf("open: %v", err)
	}

	o.Mode = ""
	p, err := client.Place(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var ev nostr.Event
	if err := json.Unmarshal(p.Request, &ev); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(ev.Tags, func(t nostr.Tag) bool { return slices.Equal(t, nostr.Tag{"param", "payment_mode", "free"}) }) {
		t.Errorf("the request does not ask for a free job: %v", ev.Tags)
	}
}
