package buyer

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/internal/profile"
	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/market/tree"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// NoRefund, as Order.Refund, asks for none: a failed prepayment becomes credit.
const NoRefund = "none"

// ErrJobType: an order names a job type that this program does not know.
var ErrJobType = errors.New("unknown job type")

// Order is what to buy, from whom, for how much at most.
type Order struct {
	Provider string // x-only hex
	SchemaID string
	Input    []byte // the request document; defaults are filled by both sides
	// Inputs are the results of earlier jobs. With a text generation they are
	// more of the prompt; of any other job type one is the document, and Input
	// is nil.
	Inputs []Input
	// Tree is the packed tree of Input's repo.tree, which is the tree's draft there. It
	// is encrypted for each provider that is asked.
	Tree *tree.Summary
	// Toolchain leaves the sandbox's image to the provider: it is the toolchain that
	// the provider announces, whatever Input has in its place.
	Toolchain bool
	// Shared: the order is for one member of a panel, whose members share MaxMsats.
	Shared bool
	// Judged: the panel's results are judged or merged, so that providers may ask a
	// fee for the attempt.
	Judged   bool
	MaxMsats int64 // the job's budget, routing fees included
	// Announced is the provider's announcement. The price in it, if it has one
	// for the job, is sent as the bid, and no quote above it is accepted; nil
	// bids MaxMsats.
	Announced *Listing
	Mode      receipts.Mode
	// Delivery is sealed unless it says plain: the result comes in boxes that
	// the payment opens, from a provider that can do so.
	Delivery receipts.Delivery
	// Encrypt hides what is asked and answered from everybody but the provider
	// (NIP-44). A stranger can then not check that the receipt is for this job.
	Encrypt bool
	// Plain allows a provider that knows NIP-90 alone: its invoice is paid
	// within MaxMsats without a quote that binds it to the job, and what it
	// sends is taken without proof. A text generation is then sent untyped.
	Plain bool
	// PayeeNode, if set, is the only node whose invoice is paid.
	PayeeNode string
	TTL       time.Duration // the request expires after this (1 h)
	// Refund is where a failed prepayment is to go: a BOLT11 invoice, NoRefund,
	// or "" for an invoice of our own wallet where the job may be prepaid.
	Refund string
}

// Place signs the request and stores the purchase. Nothing is sent: Follow does
// that, now or after a restart.
func (c *Client) Place(ctx context.Context, o Order) (Purchase, error) {
	if !nostr.IsValidPublicKey(o.Provider) {
		return Purchase{}, fmt.Errorf("provider %q is not a public key", o.Provider)
	}
	p, err := c.draft(ctx, o)
	if err != nil {
		return Purchase{}, err
	}
	if err := c.cfg.Store.AddPurchase(ctx, p); err != nil {
		return Purchase{}, fmt.Errorf("store purchase: %w", err)
	}
	return p, nil
}

// CheckMode refuses a payment mode that Config.Modes lacks; "" is the provider's
// choice, which is checked when it quotes.
func (c *Client) CheckMode(m receipts.Mode) error {
	if m != "" && !slices.Contains(c.cfg.Modes, m) {
		return fmt.Errorf("payment mode %q is not among those we buy in %v (buyer.modes)", m, c.cfg.Modes)
	}
	return nil
}

// needsWallet refuses an order that costs something where nothing can pay it. One
// that leaves the mode to the provider is then for nothing.
func (c *Client) needsWallet(o *Order) error {
	switch {
	case c.cfg.Wallet != nil, o.Mode == receipts.ModeFree, o.MaxMsats == 0:
		return nil
	case o.Mode != "", o.Plain:
		return ErrNoWallet
	case o.Announced != nil:
		_, err := c.modeAt(o, *o.Announced)
		return err
	}
	o.Mode = receipts.ModeFree
	return nil
}

// draft makes the purchase that an order begins: its request is signed, with
// the tags in more, and nothing is stored. An order without a provider is for
// everybody.
func (c *Client) draft(ctx context.Context, o Order, more ...nostr.Tag) (Purchase, error) {
	s, ok := schemas.Lookup(o.SchemaID)
	if !ok {
		return Purchase{}, fmt.Errorf("%w %q", ErrJobType, o.SchemaID)
	}
	var grant nostr.Tags
	if o.Tree != nil {
		sealed, tag, err := sealTree(ctx, &c.cfg, o.Provider, *o.Tree, o.Input)
		if err != nil {
			return Purchase{}, err
		}
		o.Input, grant = sealed, nostr.Tags{tag}
	} else if s.ID == schemas.SandboxRun && namesTree(o.Input) {
		return Purchase{}, ErrTreeGone
	}
	req, job, inputs, err := requestFor(s, o, c.cfg.Market.Relays())
	if err != nil {
		return Purchase{}, fmt.Errorf("request: %w", err)
	}
	if err := payments.CheckMsats(o.MaxMsats); err != nil {
		return Purchase{}, fmt.Errorf("maximum: %w", err)
	}
	if o.Encrypt && (c.cfg.Cipher == nil || o.Provider == "") {
		return Purchase{}, errors.New("encrypt: this key cannot, or there is nobody to encrypt for")
	}
	if err := c.CheckMode(o.Mode); err != nil {
		return Purchase{}, err
	}
	if err := c.needsWallet(&o); err != nil {
		return Purchase{}, err
	}

	fee, err := c.engagementFor(o, req, o.Judged)
	if err != nil {
		return Purchase{}, err
	}
	bid := o.MaxMsats
	if o.Announced != nil {
		if price, ok := o.Announced.Price(req); ok {
			bid = min(bid, price+fee)
		}
	}

	def(&o.TTL, time.Hour)
	now := time.Now().UTC()
	relays := c.cfg.Market.Relays()
	tags := append(job,
		nostr.Tag{"bid", strconv.FormatInt(bid, 10)},
		append(nostr.Tag{"relays"}, relays...),
		nostr.Tag{"expiration", strconv.FormatInt(now.Add(o.TTL).Unix(), 10)},
		// Two orders of the same job in one second must not be one event.
		nostr.Tag{"param", "order_id", orderID()},
	)
	if o.Provider != "" { // else it is for everybody
		tags = append(tags, nostr.Tag{"p", o.Provider})
	}
	if o.Delivery != receipts.DeliveryPlain && profile.For(o.Plain).Seals() {
		tags = append(tags, nostr.Tag{"param", "delivery", string(receipts.DeliverySealed)})
	}
	if o.Mode != "" {
		tags = append(tags, nostr.Tag{"param", "payment_mode", string(o.Mode)})
	}
	if o.Refund != NoRefund {
		refund, err := c.refunds.Tags(ctx, o.Refund, c.mayPrepay(o), bid-fee)
		if err != nil {
			return Purchase{}, err
		}
		tags = append(tags, refund...)
	}
	tags = append(append(tags, grant...), more...)
	content, hidden := "", []byte(nil)
	if o.Encrypt {
		if content, tags, hidden, err = c.author.EncryptTags(ctx, o.Provider, tags); err != nil {
			return Purchase{}, err
		}
	}

	ev, raw, err := c.author.SignRequest(ctx, tags, content, workFor(o))
	if err != nil {
		return Purchase{}, err
	}

	return Purchase{
		RequestID: ev.ID, Provider: o.Provider, SchemaID: string(req.SchemaID), JobHash: req.JobHash,
		Request: raw, MaxMsats: o.MaxMsats, Relays: relays, PayeeNode: o.PayeeNode,
		AddedAt: now, State: StateRequested, StateAt: now, Plain: o.Plain, Hidden: hidden, Inputs: inputs, EngagementMax: fee,
	}, nil
}

// mayPrepay reports whether the provider may take the money before it works.
func (c *Client) mayPrepay(o Order) bool {
	if !slices.Contains(c.cfg.Modes, receipts.ModePrepay) {
		return false
	}
	if o.Mode != "" || o.Announced == nil {
		return o.Mode == receipts.ModePrepay
	}
	modes := o.Announced.Modes[o.SchemaID]
	return len(modes) > 0 && modes[0] == receipts.ModePrepay
}

func orderID() string {
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// workFor is how many bits of proof of work the provider wants of a free job.
func workFor(o Order) int {
	if o.Announced == nil {
		return 0
	}
	modes := o.Announced.Modes[o.SchemaID]
	if o.Mode == receipts.ModeFree || o.Mode == "" && len(modes) > 0 && modes[0] == receipts.ModeFree {
		return o.Announced.FreePoW
	}
	return 0
}

// OrderOf is the order that a stored purchase began with, to be placed again:
// the same document for the same provider, maximum, mode and delivery. What the
// provider announced then is left out: prices may have changed.
func OrderOf(p Purchase) (Order, error) {
	terms := purchase.TermsOf(p)
	_, req, err := terms.Job()
	if err != nil {
		return Order{}, err
	}

	o := Order{
		Provider: p.Provider, SchemaID: p.SchemaID, Input: req.Canonical, MaxMsats: p.MaxMsats,
		Mode: terms.Mode, Delivery: terms.Delivery, PayeeNode: p.PayeeNode, Plain: p.Plain, Encrypt: p.Hidden != nil,
	}
	def(&o.Delivery, receipts.DeliveryPlain)
	return o, nil
}
