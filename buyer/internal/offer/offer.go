// Package offer holds what a provider asks to be paid against what was asked of it, and
// decides by the buyer's rules whether it is paid. Nothing is paid here.
package offer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/approval"
	"github.com/lightwork-market/lightwork/buyer/internal/author"
	"github.com/lightwork-market/lightwork/buyer/internal/text"
	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
	"github.com/lightwork-market/lightwork/receipts"
)

// MaxBytes bounds an offer that is kept.
const MaxBytes = 16 << 10

// Store keeps offers, and knows what the budget still holds.
type Store interface {
	// AddFeedback keeps a 7000 event; a known id is fine.
	AddFeedback(ctx context.Context, requestID, eventID string, event []byte, at time.Time) error
	// Fits is what Reserve would say of the limits now, for a purchase of that
	// maximum: [*purchase.BudgetError].
	Fits(ctx context.Context, provider string, maxMsats int64, a purchase.Attempt, l purchase.Limits) error
	// BudgetOf gives the ledger of the day of at (UTC).
	BudgetOf(ctx context.Context, at time.Time) (purchase.Budget, error)
}

// Desk checks offers and awards them.
type Desk struct {
	Author *author.Author
	Store  Store
	Modes  []receipts.Mode // that we buy in
	Rules  approval.Rules
	// Ask lets a person decide where a rule says so; nil refuses there.
	Ask func(ctx context.Context, a approval.Payment) (bool, error)
	// FeeMsats is the most that routing may cost; 0 leaves it to the price.
	FeeMsats int64
	OnChain  bool // money moves on the chain
	// WalletName names the wallet that pays.
	WalletName func(ctx context.Context) (string, error)
}

// Offer is what a provider asks to be paid, with its invoice, checked.
type Offer struct {
	// Quote, Raw and Hash are the provider's signed terms; Raw is nil where a plain
	// NIP-90 provider sent an invoice alone.
	Quote receipts.Quote
	Raw   []byte
	Hash  hashing.Digest

	BOLT11      string
	PaymentHash payments.Hash
	PriceMsats  int64
	Expiry      time.Time

	at nostr.Timestamp // when the provider signed it
}

// Quoted reports whether a quote binds the offer to the job.
func (o Offer) Quoted() bool { return o.Raw != nil }

// IsFee reports whether an offer is for the attempt alone.
func (o Offer) IsFee() bool { return o.Quoted() && o.Quote.Purpose == receipts.PurposeEngagement }

// IsFee reports whether an event's content is the quote of a fee for the attempt.
func IsFee(content string) bool {
	q, err := receipts.ParseQuote([]byte(content))
	return err == nil && q.Purpose == receipts.PurposeEngagement
}

// CheckFeedback wants a quote where the domain says that there is one, and
// nowhere else. A program that knows NIP-90 alone names no domain and has no quote.
func CheckFeedback(ev nostr.Event) error {
	d, err := domain.Of(ev.Tags)
	switch {
	case err != nil:
		return err
	case purchase.IsQuote(ev.Content):
		return domain.Demand(domain.Quote, ev.Tags)
	case d == domain.Quote:
		_, err := receipts.ParseQuote([]byte(ev.Content))
		return purchase.Mismatch("quote", err.Error())
	case d == domain.Reveal:
		return nil
	}

	return domain.Allow(domain.Feedback, ev.Tags)
}

// checkQuote reads the quote in an event's content and compares it with what
// we asked for, and with how we pay; now is when it must still be good. A fee for the
// attempt is at most what was announced when the job was ordered.
func (d *Desk) checkQuote(p purchase.View, content string, now time.Time) (Offer, error) {
	q, err := receipts.ParseQuote([]byte(content))
	if err != nil {
		return Offer{}, purchase.Mismatch("quote", err.Error())
	}
	what, most := "quote", p.Terms.BidMsats-p.EngagementMsats()
	if q.Purpose == receipts.PurposeEngagement {
		what, most = "engagement quote", min(p.EngagementMax, p.Terms.BidMsats)
	}
	bad := func(err error) (Offer, error) { return Offer{}, purchase.Mismatch(what, err.Error()) }

	if err := q.Matches(receipts.Terms{
		RequestID: p.RequestID, JobHash: p.JobHash, SchemaID: p.SchemaID,
		Buyer: d.Author.Key, Provider: p.Provider, Inputs: p.Terms.InputIDs, MaxMsats: most,
	}); err != nil {
		return bad(err)
	}

	switch {
	case !now.Before(q.Expiry()):
		return bad(errors.New("it has expired"))
	case q.Purpose == receipts.PurposeEngagement: // mode and delivery are those of the result
	case q.Delivery == receipts.DeliverySealed && !p.Terms.Sealed():
		return bad(fmt.Errorf("delivery is %q, which was not asked for", q.Delivery))
	case !slices.Contains(d.Modes, q.Mode):
		return bad(fmt.Errorf("we do not pay in mode %q", q.Mode))
	case p.Terms.Mode != "" && q.Mode != p.Terms.Mode:
		return bad(fmt.Errorf("mode is %q, not %q as asked for", q.Mode, p.Terms.Mode))
	}

	raw := []byte(content)
	return Offer{Quote: q, Raw: raw, Hash: hashing.Bytes(raw), PriceMsats: q.PriceMsats, Expiry: q.Expiry()}, nil
}

// CheckResultQuote checks a quote where nothing but the result can be offered.
func (d *Desk) CheckResultQuote(p purchase.View, content string, now time.Time) (Offer, error) {
	o, err := d.checkQuote(p, content, now)
	if err == nil && o.IsFee() {
		err = purchase.Mismatch("quote", fmt.Sprintf("purpose is %q", o.Quote.Purpose))
	}
	return o, err
}

// Check checks a payment-required event: the quote, then that the invoice
// is the one the quote speaks of, for the same amount, from the same node.
func (d *Desk) Check(p purchase.View, ev nostr.Event, network payments.Network, now time.Time) (Offer, error) {
	o, err := d.checkQuote(p, ev.Content, now)
	if err != nil {
		return Offer{}, err
	}
	if o, err = checkInvoice(p.PayeeNode, ev, network, o, now); err != nil {
		return Offer{}, err
	}

	switch err := checkSigned(ev, o); {
	case err != nil && o.IsFee():
		return Offer{}, purchase.Mismatch("engagement quote", err.Error())
	case err != nil && o.Quote.PaymentHash == nil: // only this event ties the invoice to the quote
		return Offer{}, purchase.Mismatch("quote without a payment hash", err.Error())
	}

	return o, nil
}

// checkInvoice completes an offer whose quote was checked.
func checkInvoice(payee string, ev nostr.Event, network payments.Network, o Offer, now time.Time) (Offer, error) {
	bad := func(format string, a ...any) (Offer, error) {
		return Offer{}, purchase.Mismatch("invoice", fmt.Sprintf(format, a...))
	}
	amount := ev.Tags.Find("amount")
	if len(amount) < 3 {
		return bad("the amount tag has none")
	}

	inv, err := receipts.CheckInvoice(o.Quote, amount[2], network)
	switch {
	case err != nil:
		return bad("%v", err)
	case amount[1] != strconv.FormatInt(o.PriceMsats, 10):
		return bad("the amount tag says %s msats, the quote %d", amount[1], o.PriceMsats)
	case o.Quote.PayeeNode == nil:
		return bad("the quote names no node")
	case payee != "" && inv.Payee != payee:
		return bad("it pays node %s, not the pinned %s", inv.Payee, payee)
	case !now.Before(inv.ExpiresAt()):
		return bad("it has expired")
	}

	if err := inv.CheckLock(finalBlocks(o.Quote.Mode)); err != nil {
		return bad("%v", err)
	}
	o.BOLT11, o.PaymentHash, o.at = amount[2], inv.PaymentHash, ev.CreatedAt
	return o, nil
}

// checkSigned wants the provider's signature on the demand itself, which an
// encrypted one need not have: without it no receipt is proved of a fee, and of a
// quote that names no payment hash.
func checkSigned(ev nostr.Event, o Offer) error {
	raw, err := ev.MarshalJSON()
	if err != nil {
		return err
	}
	signed, err := receipts.ParseEvent(raw, purchase.MaxEventBytes)
	if err != nil {
		return err
	}
	return receipts.CheckQuoteEvent(signed, o.Quote, o.BOLT11)
}

// directBlocks and heldBlocks are how long a payee may make us wait for our money,
// as the final CLTV of its invoice: one day, or two where the money is held while
// the job runs. A payee that neither takes nor returns a payment locks it so long.
const (
	directBlocks = 144
	heldBlocks   = 288
)

func finalBlocks(mode receipts.Mode) uint32 {
	if mode == receipts.ModeHold {
		return heldBlocks
	}
	return directBlocks
}

// CheckBare checks all that can be checked of an invoice without a quote: it is
// whole and signed, of our network, in time, over the amount that the event
// names, which is no more than we bid, and from the pinned node.
func CheckBare(p purchase.View, ev nostr.Event, network payments.Network) (Offer, error) {
	bad := func(format string, a ...any) (Offer, error) {
		return Offer{}, purchase.Mismatch("invoice", fmt.Sprintf(format, a...))
	}
	amount := ev.Tags.Find("amount")
	if len(amount) < 3 || amount[2] == "" {
		return bad("it asks for money and sends no invoice")
	}
	inv, err := bolt11.Decode(amount[2])
	if err != nil {
		return bad("%v", err)
	}

	switch price := strconv.FormatInt(inv.AmountMsats, 10); {
	case inv.AmountMsats <= 0:
		return bad("it names no amount")
	case amount[1] != price:
		return bad("the amount tag says %s msats, the invoice %s", text.Clean(amount[1]), price)
	case inv.AmountMsats > p.Terms.BidMsats:
		return bad("it is over %s msats, and %d were bid", price, p.Terms.BidMsats)
	case inv.Network != network:
		return bad("it is of network %s, the wallet of %s", inv.Network, network)
	case p.PayeeNode != "" && inv.Payee != p.PayeeNode:
		return bad("it pays node %s, not the pinned %s", inv.Payee, p.PayeeNode)
	case !time.Now().Before(inv.ExpiresAt()):
		return bad("it has expired")
	}

	if err := inv.CheckLock(directBlocks); err != nil {
		return bad("%v", err)
	}
	return Offer{BOLT11: amount[2], PaymentHash: inv.PaymentHash, PriceMsats: inv.AmountMsats, Expiry: inv.ExpiresAt()}, nil
}

// A database restored from a backup may hold a purchase as requested that a later
// life has paid for. The relays still have what the provider said, and the wallet
// knows what it paid: with both the result is had after all.

// ErrWalletSilent: an offer has expired, and the wallet does not say now whether it was
// paid in time.
var ErrWalletSilent = errors.New("ask the wallet whether an expired offer was paid")

// CheckUnlessPaid checks an offer as of now. One that has expired since is good all the
// same if our wallet began to pay it: nothing is paid then that is not. lookup asks the
// wallet.
func (d *Desk) CheckUnlessPaid(ctx context.Context, p purchase.View, ev nostr.Event, network payments.Network, lookup func(context.Context, payments.Hash) (payments.Payment, error)) (Offer, error) {
	o, bad := d.Check(p, ev, network, time.Now())
	if bad == nil {
		return o, nil
	}
	late, err := d.Check(p, ev, network, time.Time{})
	if err != nil {
		return o, bad // for more than its time
	}

	switch pay, err := lookup(ctx, late.PaymentHash); {
	case errors.Is(err, payments.ErrNotFound), err == nil && pay.State == payments.PaymentFailed:
		return o, bad
	case err != nil:
		return o, fmt.Errorf("%w: %w", ErrWalletSilent, err)
	}

	return late, nil
}

// Keep stores the offer that is about to be paid, whatever else was said before: a
// dispute needs it.
func (d *Desk) Keep(ctx context.Context, requestID string, ev nostr.Event) error {
	raw, err := ev.MarshalJSON()
	if err != nil {
		return err
	}
	if len(raw) > MaxBytes {
		return fmt.Errorf("not paid: the offer has %d bytes, the limit is %d", len(raw), MaxBytes)
	}
	return d.Store.AddFeedback(ctx, requestID, ev.ID, raw, ev.CreatedAt.Time())
}

// AffordsDay says early, before anybody works for nothing, that the day's budget does
// not hold the worst case of an order, in msats: [*purchase.BudgetError]. What counts is
// the reservation.
func (d *Desk) AffordsDay(ctx context.Context, most, dayMsats int64) error {
	if dayMsats == 0 {
		return nil
	}
	b, err := d.Store.BudgetOf(ctx, time.Now())
	if err != nil {
		return fmt.Errorf("read budget: %w", err)
	}
	if free := dayMsats - b.ReservedMsats - b.SpentMsats; most > free {
		return &purchase.BudgetError{Limit: "day", WantMsats: most, FreeMsats: max(free, 0)}
	}
	return nil
}
