// Package buyer buys jobs: it finds providers, sends a request, checks the quote and the
// invoice before it pays, and checks the result and the receipt before it believes.
//
// [New] makes a [Client]. [Client.Candidates] says who sells a job and for how much,
// [Client.PlaceOrder] and [Client.Place] store a signed request, and [Client.FollowOrder]
// and [Client.Follow] carry it to its end, now or after a restart. [Client.Bundle] has
// what proves it.
//
// Package [github.com/lightwork-market/lightwork/buyer/purchase] says what is known of a
// purchase, [github.com/lightwork-market/lightwork/buyer/approval] by what rules one is
// paid, [github.com/lightwork-market/lightwork/buyer/store] keeps purchases in SQLite, and
// [github.com/lightwork-market/lightwork/buyer/panel] gives one job to several providers.
package buyer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/approval"
	"github.com/lightwork-market/lightwork/buyer/internal/author"
	"github.com/lightwork-market/lightwork/buyer/internal/flow"
	"github.com/lightwork-market/lightwork/buyer/internal/offer"
	"github.com/lightwork-market/lightwork/buyer/internal/pay"
	"github.com/lightwork-market/lightwork/buyer/internal/refund"
	"github.com/lightwork-market/lightwork/buyer/internal/result"
	"github.com/lightwork-market/lightwork/buyer/internal/trees"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// Signer makes events with the buyer's key.
type Signer interface {
	PublicKey() string // x-only hex
	Sign(ctx context.Context, ev *nostr.Event) error
}

// Cipher hides what is told to one key alone, with the buyer's own. Ours speaks
// NIP-44; NIP-04 is read where a provider knows no other.
type Cipher interface {
	NIP44Encrypt(ctx context.Context, peer, text string) (string, error)
	NIP44Decrypt(ctx context.Context, peer, hidden string) (string, error)
	NIP04Decrypt(ctx context.Context, peer, hidden string) (string, error)
}

// Wallet is the wallet that providers are paid from.
type Wallet = payments.Payer

// Market is the relays, and the blob servers beside them.
type Market interface {
	// Listen hands every verified event that matches to handle until ctx ends;
	// ready is called whenever a relay has begun to serve the subscription.
	Listen(ctx context.Context, filters nostr.Filters, ready func(), handle func(nostr.Event)) error
	// Query returns stored events, from all relays, each once.
	Query(ctx context.Context, filter nostr.Filter) ([]nostr.Event, error)
	// Send offers the event to all relays; nil if at least one took it.
	Send(ctx context.Context, ev nostr.Event) error
	// Fetch gets a blob from the first URL that has the right bytes. Its error is
	// ErrUnreachable where asking again is of no use.
	Fetch(ctx context.Context, urls []string, d hashing.Digest, maxBytes int64) ([]byte, error)
	Relays() []string
}

// ErrUnreachable is what a [Market] says of a blob that is at no address which
// may be asked.
var ErrUnreachable = result.ErrUnreachable

// Kinds are the event kinds that are ours to configure.
type Kinds struct {
	Request    int // 5050
	Acceptance int // 7001
	Receipt    int // 7002
}

// Receiver is the wallet's side that refunds come to.
type Receiver interface {
	CreateInvoice(ctx context.Context, in payments.NewInvoice) (payments.Invoice, error)
	LookupInvoice(ctx context.Context, hash payments.Hash) (payments.Invoice, error)
}

// ChainReceiver is the same on the chain, where the address is the name of what
// comes to it.
type ChainReceiver interface {
	RefundAddress(ctx context.Context) (string, error)
	Refunded(ctx context.Context, address string) (payments.Invoice, error)
}

// Config is all a buyer needs.
type Config struct {
	Signer Signer
	// Cipher hides requests that are to be encrypted; nil: none can be.
	Cipher Cipher
	Store  Store
	Wallet Wallet // nil: only free jobs
	Market Market
	Log    *slog.Logger
	Kinds  Kinds
	// MaySpend is asked before a wallet is told of a payment, which waits while the
	// answer is an error; nil asks nobody.
	MaySpend payments.MaySpend
	// Trees has packed trees, and sends them; nil: an order can have none.
	Trees *Trees
	// Limits bound spending over all purchases.
	Limits Limits
	// MaxEngagementMsats is the most that is paid for the attempt at a job; 0 pays
	// no engagement fees. They are prepaid, whatever Modes says.
	MaxEngagementMsats int64
	// Approvals decide what is paid without asking; none leaves it to the order's maximum.
	Approvals []ApprovalRule
	// Ask lets a person decide where a rule says so; nil refuses there.
	Ask func(ctx context.Context, a Approval) (bool, error)
	// Modes that we buy in (hold, postpay, free).
	Modes []receipts.Mode
	// AnswerTimeout is how long a provider may be silent after a request (1 min).
	AnswerTimeout time.Duration
	// AskTimeout is how long a provider of an order that names none may be silent
	// while others could be asked (2.5 s).
	AskTimeout time.Duration
	// OfferTimeout is how long further offers for an open request are waited for
	// after the first valid one (2 s); the best of them is taken.
	OfferTimeout time.Duration
	// Receiver is where refunds of failed prepaid jobs come to; nil asks for none.
	Receiver Receiver
	// Chain is the same where money moves on the chain: refunds come to addresses,
	// and Receiver is nil.
	Chain ChainReceiver
	// RefundTimeout is how long Follow waits for a refund (30 s).
	RefundTimeout time.Duration
	// ReceiptTimeout is how long a receipt may take once result and payment are there (2 min).
	ReceiptTimeout time.Duration
}

// Trees are the files of orders that are too large for a request.
type Trees = trees.Trees

// Client buys. Its methods may be called at the same time.
type Client struct {
	cfg     Config
	key     string
	author  *author.Author
	log     *slog.Logger
	payer   *pay.Payer
	refunds *refund.Desk
	offers  *offer.Desk
	flow    *flow.Flow
}

// New checks the configuration.
func New(cfg Config) (*Client, error) {
	if cfg.Signer == nil || cfg.Store == nil || cfg.Market == nil {
		return nil, errors.New("buyer: signer, store and market are required")
	}

	for _, m := range cfg.Modes {
		switch m {
		case receipts.ModeHold, receipts.ModePrepay, receipts.ModePostpay, receipts.ModeFree:
		default:
			return nil, fmt.Errorf("buyer: unknown payment mode %q", m)
		}
	}

	if err := payments.CheckMsats(cfg.MaxEngagementMsats); err != nil {
		return nil, fmt.Errorf("buyer: maximum of engagement fees: %w", err)
	}
	if err := approval.Rules(cfg.Approvals).Check(); err != nil {
		return nil, fmt.Errorf("buyer: %w", err)
	}

	if len(cfg.Modes) == 0 {
		cfg.Modes = []receipts.Mode{receipts.ModeHold, receipts.ModePostpay, receipts.ModeFree}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	def(&cfg.Kinds.Request, kinds.Request)
	def(&cfg.Kinds.Acceptance, kinds.Acceptance)
	def(&cfg.Kinds.Receipt, kinds.Receipt)
	def(&cfg.AnswerTimeout, time.Minute)
	def(&cfg.AskTimeout, 2500*time.Millisecond)
	def(&cfg.OfferTimeout, 2*time.Second)
	def(&cfg.ReceiptTimeout, 2*time.Minute)
	def(&cfg.RefundTimeout, 30*time.Second)
	key := cfg.Signer.PublicKey()
	signs := &author.Author{Key: key, Signer: cfg.Signer, Cipher: cfg.Cipher, Kinds: author.Kinds(cfg.Kinds)}
	payer := &pay.Payer{Wallet: cfg.Wallet, Store: cfg.Store, Limits: cfg.Limits, MaySpend: cfg.MaySpend, Log: cfg.Log}
	refunds := &refund.Desk{Receiver: cfg.Receiver, Chain: cfg.Chain, Store: cfg.Store, Log: cfg.Log, Timeout: cfg.RefundTimeout}
	if cfg.Wallet != nil {
		refunds.Node = payer.Node
	}
	offers := &offer.Desk{
		Author: signs, Store: cfg.Store, Modes: cfg.Modes, Rules: cfg.Approvals, Ask: cfg.Ask,
		FeeMsats: cfg.Limits.FeeMsats, OnChain: cfg.Chain != nil, WalletName: payer.Name,
	}
	return &Client{
		cfg: cfg, key: key, log: cfg.Log, author: signs, payer: payer, refunds: refunds, offers: offers,
		flow: &flow.Flow{
			Store: cfg.Store, Market: cfg.Market, Author: signs, Offers: offers, Payer: payer,
			Results: cfg.Store, Proofs: cfg.Store, Refunds: refunds, Trees: cfg.Trees, Log: cfg.Log,
			AnswerTimeout: cfg.AnswerTimeout, AskTimeout: cfg.AskTimeout, ReceiptTimeout: cfg.ReceiptTimeout,
		},
	}, nil
}

// PublicKey is the buyer's x-only key in hex.
func (c *Client) PublicKey() string { return c.key }

func def[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}
