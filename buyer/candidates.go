package buyer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lightwork-market/lightwork/buyer/internal/discover"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// Why a provider cannot be asked for an order. Nothing was sent to anybody.
var (
	// ErrNoWallet: the order costs something, and there is nothing to pay it from.
	ErrNoWallet = errors.New("it has to be paid for, and no wallet is configured (buyer.wallet)")
	// ErrNotSold: it does not announce the job type.
	ErrNotSold = errors.New("it does not announce this job type")
	// ErrPaused: it takes no jobs now.
	ErrPaused = errors.New("it takes no jobs now")
	// ErrPlain: it knows NIP-90 alone, and signs no quote and no receipt.
	ErrPlain = errors.New("it knows NIP-90 alone: it signs no quote and no receipt, and can keep the money")
	// ErrUnpriced: its price table does not cover this very request.
	ErrUnpriced = errors.New("its price table has no price for this request")
	// ErrToolchain: the job is to run on its own toolchain, and it announces none.
	ErrToolchain = errors.New("it announces no toolchain of its own, and the order names no image")
	// ErrNoEncryption: the order is to be encrypted, and it cannot read that.
	ErrNoEncryption = errors.New("it cannot read encrypted requests")
	// ErrOtherPayee: it is paid at another node than the order names.
	ErrOtherPayee = errors.New("it is paid at another Lightning node than the order names")
)

// RequestError says what is wrong with an order itself, whoever is asked: what in
// its document breaks the schema, or where a refund is to go.
type RequestError struct {
	Err    error
	Refund bool // it is about Order.Refund, not about the document
}

func (e *RequestError) Error() string { return e.Err.Error() }
func (e *RequestError) Unwrap() error { return e.Err }

// ModeError says that a provider sells a job type in no mode that the order allows.
type ModeError struct {
	Asked     receipts.Mode // "" if any that we buy in would do
	Announced []receipts.Mode
}

func (e *ModeError) Error() string {
	if e.Asked == "" {
		return fmt.Sprintf("it sells in the modes %v, none of which is among those that we buy in (buyer.modes)", e.Announced)
	}
	return fmt.Sprintf("it sells in the modes %v, not in %s", e.Announced, e.Asked)
}

// PriceError says that the announced price of a request is above the maximum.
type PriceError struct{ PriceMsats, MaxMsats int64 }

func (e *PriceError) Error() string {
	return fmt.Sprintf("its price for this request is %d msats, the maximum is %d", e.PriceMsats, e.MaxMsats)
}

// NetworkError says that a provider is paid on another network than our wallet's.
type NetworkError struct{ Theirs, Ours payments.Network }

func (e *NetworkError) Error() string {
	return fmt.Sprintf("it is paid on the network %s, our wallet is on %s", e.Theirs, e.Ours)
}

// KeyEndedError says that a provider's key is used no more, by its own word.
type KeyEndedError struct{ End receipts.KeyEnd }

func (e *KeyEndedError) Error() string {
	text := fmt.Sprintf("its key was %s at %s, and nobody is to buy from it", e.End.Reason, receipts.Timestamp(e.End.At))
	if follows, err := receipts.Npub(e.End.Next); err == nil {
		text += "; it named " + follows + " as the next: whoever stole a key could do so too"
	}
	return text
}

// Candidate is a provider that an order could go to.
type Candidate struct {
	Found
	// Order is the order as this provider would get it.
	Order Order
	Mode  receipts.Mode // that it would be paid in, as far as it announces one
	// PriceMsats is the most that it charges for this very request by its price
	// table, the fee for the attempt included. Where it announces no table, Priced
	// is false and the order's maximum stands for the price.
	PriceMsats int64
	Priced     bool
	// Rule would decide about the payment.
	Rule ApprovalRule
	// Refusal is why it is not asked; nil if it can be.
	Refusal error
}

// Candidates lists the providers that announce the order's job type, the one to
// ask first in front: ranked as [Scout.Find] says by what each may charge for this
// very request. Those that cannot be asked come last, each with the reason. Nothing
// is sent, and nothing is bought. Order.Provider limits the list to one key.
//
// An order that no provider could take is a [*RequestError], whoever is there.
func (c *Client) Candidates(ctx context.Context, o Order) ([]Candidate, error) {
	if _, err := c.Document(o); err != nil {
		return nil, &RequestError{Err: err}
	}
	network, err := c.payer.Network(ctx)
	if err != nil {
		return nil, err
	}
	if o.Refund != "" && o.Refund != NoRefund {
		if err := c.refunds.Check(o.Refund, network); err != nil {
			return nil, &RequestError{Err: err, Refund: true}
		}
	}

	scout, err := c.scout(ctx)
	if err != nil {
		return nil, err
	}
	schemaID := o.SchemaID
	if o.Provider != "" {
		schemaID = "" // what it announces instead says why it is not asked
	}
	found, err := scout.Find(ctx, schemaID, o.Provider)
	if err != nil {
		return nil, err
	}

	list := make([]Candidate, len(found))
	documents := map[string]*schemas.Request{} // by toolchain
	for i, f := range found {
		if list[i], err = c.candidate(ctx, o, f, network, documents); err != nil {
			return nil, err
		}
	}

	discover.Rank(list, func(x *Candidate) *Found { return &x.Found })
	slices.SortStableFunc(list, func(a, b Candidate) int {
		switch {
		case a.Refusal == nil && b.Refusal != nil:
			return -1
		case a.Refusal != nil && b.Refusal == nil:
			return 1
		}
		return 0
	})
	return list, nil
}

// candidate works out what the order would be and cost at one provider. An error is
// one of the order itself, which no provider can take.
func (c *Client) candidate(ctx context.Context, o Order, f Found, network payments.Network, documents map[string]*schemas.Request) (Candidate, error) {
	x := Candidate{Found: f, Order: o}
	x.CostMsats = payments.MaxMsats
	refuse := func(err error) (Candidate, error) {
		x.Refusal = err
		return x, nil
	}
	x.Order.Provider, x.Order.Announced = f.Provider, &f.Listing
	if f.End != nil {
		return refuse(&KeyEndedError{*f.End})
	}
	if f.Plain && !o.Plain && o.Mode != receipts.ModeFree && o.MaxMsats > 0 {
		return refuse(ErrPlain)
	}
	if !f.Plain && !slices.Contains(f.Jobs, o.SchemaID) {
		return refuse(ErrNotSold)
	}

	if x.Order.Plain = f.Plain && o.Plain; o.PayeeNode == "" {
		x.Order.PayeeNode = f.PayeeNode
	}

	toolchain := ""
	if o.Toolchain {
		if _, err := hashing.ParseDigest(f.HostImage); err != nil {
			return refuse(ErrToolchain)
		}
		toolchain = f.HostImage
		if err := x.Order.runOn(toolchain); err != nil {
			return x, &RequestError{Err: err}
		}
	}

	req, known := documents[toolchain]
	if !known || f.Plain {
		var err error
		if req, err = c.Document(x.Order); err != nil {
			return x, &RequestError{Err: err}
		}
		if !f.Plain { // which gets a text untyped
			documents[toolchain] = req
		}
	}

	listing, err := f.Listing, error(nil)
	if o.Tree != nil {
		modes, err := modesFor(*o.Tree, f.Tree, o.Mode, f.Modes[o.SchemaID])
		if err != nil {
			return refuse(err)
		}
		listing.Modes = map[string][]receipts.Mode{o.SchemaID: modes}
	}
	if x.Mode, err = c.modeAt(&x.Order, listing); err != nil {
		return refuse(err)
	}
	if !f.Plain {
		x.Order.Mode = x.Mode // named, so that no quote in another mode is taken
	}
	if x.PriceMsats, x.Priced, err = c.announcedPrice(x, req); err != nil {
		return refuse(err)
	}
	if x.Priced {
		x.CostMsats = x.PriceMsats
	} else {
		x.PriceMsats = o.MaxMsats
	}

	switch {
	case f.Paused:
		return refuse(ErrPaused)
	case o.Encrypt && f.Encryption != nil && !*f.Encryption:
		return refuse(ErrNoEncryption)
	case x.Mode == receipts.ModeFree:
		return x, nil
	case c.cfg.Wallet == nil && o.MaxMsats > 0:
		return refuse(ErrNoWallet)
	case c.cfg.Wallet != nil && f.Network != "" && payments.Network(f.Network) != network:
		return refuse(&NetworkError{payments.Network(f.Network), network})
	case o.PayeeNode != "" && f.PayeeNode != "" && o.PayeeNode != f.PayeeNode:
		return refuse(ErrOtherPayee)
	}

	x.Rule, err = c.canPay(ctx, x)
	x.Refusal = err
	return x, nil
}

// ErrEngagement: the provider asks a fee for the attempt that we do not pay.
// Nothing was sent.
var ErrEngagement = errors.New("the engagement fee is more than buyer.max_engagement_msats")

// engagementFor is the fee that the provider has announced for this order, which
// is then the most that it is paid. ErrEngagement if that is more than we pay.
func (c *Client) engagementFor(o Order, req *schemas.Request, judged bool) (int64, error) {
	if o.Announced == nil || o.Plain {
		return 0, nil
	}
	mode, modes := o.Mode, o.Announced.Modes[o.SchemaID]
	if mode == "" && len(modes) > 0 {
		mode = modes[0]
	}
	fee := o.Announced.Prices[string(req.SchemaID)].Engagement(req, judged)
	if mode == receipts.ModeFree || fee == 0 {
		return 0, nil
	}
	if fee < 0 || fee > c.cfg.MaxEngagementMsats {
		return 0, fmt.Errorf("%w: it is %d msats, and we pay %d at most", ErrEngagement, fee, c.cfg.MaxEngagementMsats)
	}

	return fee, nil
}

// canPay reports why the order could not be paid at its announced price: the
// maximum, the rules or a budget. What the provider owes us lowers the price.
func (c *Client) canPay(ctx context.Context, x Candidate) (ApprovalRule, error) {
	price := max(x.PriceMsats-x.CreditMsats, 1)
	if price > x.Order.MaxMsats && x.Priced {
		return ApprovalRule{}, &PriceError{x.PriceMsats, x.Order.MaxMsats}
	}
	rule, err := c.ApprovalRuleFor(Approval{Provider: x.Provider, SchemaID: x.Order.SchemaID, Mode: x.Mode, PriceMsats: price})
	if err != nil {
		return rule, err
	}
	fees := c.offers.FeeLimit(Purchase{MaxMsats: x.Order.MaxMsats}, price)
	if x.Order.Shared {
		fees = 0 // what is left for them depends on the other members
	}
	a := Attempt{AmountMsats: price, FeeLimitMsats: fees, ReservedAt: time.Now().UTC()}
	return rule, c.cfg.Store.Fits(ctx, x.Provider, x.Order.MaxMsats, a, c.cfg.Limits)
}

// modeAt settles the mode that the order names at the provider, and returns the one
// that it would be paid in; "" where a provider announces none.
func (c *Client) modeAt(o *Order, l Listing) (receipts.Mode, error) {
	modes := l.Modes[o.SchemaID]
	switch {
	case len(modes) == 0:
		return o.Mode, nil
	case o.Mode != "" && !slices.Contains(modes, o.Mode):
		return "", &ModeError{o.Mode, modes}
	case o.Mode != "":
		return o.Mode, c.CheckMode(o.Mode)
	case c.CheckMode(modes[0]) == nil && (c.cfg.Wallet != nil || modes[0] == receipts.ModeFree):
		return modes[0], nil // its own default need not be named
	}

	for _, m := range modes {
		if c.CheckMode(m) == nil && (c.cfg.Wallet != nil || m == receipts.ModeFree) {
			o.Mode = m
			return m, nil
		}
	}

	if c.cfg.Wallet == nil {
		return "", ErrNoWallet
	}
	return "", &ModeError{"", modes}
}

// announcedPrice is the most that the provider charges for the request, by its own
// table, with the fee for the attempt; not ok where it announces no table.
func (c *Client) announcedPrice(x Candidate, req *schemas.Request) (msats int64, ok bool, err error) {
	if x.Mode == receipts.ModeFree {
		return 0, true, nil
	}
	fee, err := c.engagementFor(x.Order, req, x.Order.Judged)
	if err != nil {
		return 0, false, err
	}

	price, ok := x.Listing.Price(req)
	_, tabled := x.Prices[x.Order.SchemaID]
	switch {
	case !ok && tabled, ok && price > payments.MaxMsats-fee:
		return 0, false, ErrUnpriced
	case !ok:
		return 0, false, nil
	}

	return price + fee, true, nil
}

// runOn makes a provider's own toolchain the image that the order's job runs on.
func (o *Order) runOn(digest string) error {
	var doc, sandbox map[string]json.RawMessage
	err := json.Unmarshal(o.Input, &doc)
	if err == nil {
		err = json.Unmarshal(doc["sandbox"], &sandbox)
	}
	if err != nil {
		return err
	}
	if sandbox["image_digest"], err = json.Marshal(digest); err != nil {
		return err
	}
	if doc["sandbox"], err = json.Marshal(sandbox); err != nil {
		return err
	}

	o.Input, err = json.Marshal(doc)
	return err
}

// Discover lists who announces the job type, best first: [Scout.Find] with our own
// history, without the reasons. provider limits it to one key.
func (c *Client) Discover(ctx context.Context, schemaID, provider string) ([]Listing, error) {
	scout, err := c.scout(ctx)
	if err != nil {
		return nil, err
	}

	found, err := scout.Find(ctx, schemaID, provider)
	list := make([]Listing, len(found))
	for i, f := range found {
		list[i] = f.Listing
	}
	return list, err
}

// scout looks for providers, and knows what we have bought from them.
func (c *Client) scout(ctx context.Context) (Scout, error) {
	history, err := c.cfg.Store.History(ctx)
	if err != nil {
		return Scout{}, errors.Join(errors.New("read own history"), err)
	}
	return Scout{Market: c.cfg.Market, Key: c.key, RequestKind: c.cfg.Kinds.Request, History: history}, nil
}

// Who sells what, and who of them is asked first.
type (
	// Listing is one provider's announcement, as far as we read it. All of it is
	// the provider's own claim.
	Listing = discover.Listing
	// Found is a provider that announces itself, with what else is known of it and
	// why it has its place in the list.
	Found = discover.Found
	// Scout looks for providers. It needs neither a wallet nor a store.
	Scout = discover.Scout
	// History is what our own store knows of a provider.
	History = discover.History
)
