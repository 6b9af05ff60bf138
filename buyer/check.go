package buyer

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// offer is a quote with its invoice, both checked.
type offer struct {
	quote  receipts.Quote
	raw    []byte
	hash   hashing.Digest
	bolt11 string
	pay    payments.Hash
	at     nostr.Timestamp // when the provider signed it
}

// checkQuote reads the quote in an event's content and compares it with what
// we asked for, and with how we pay; now is when it must still be good. A fee for the
// attempt is at most what was announced when the job was ordered.
func (c *Client) checkQuote(p view, content string, now time.Time) (offer, error) {
	q, err := receipts.ParseQuote([]byte(content))
	if err != nil {
		return offer{}, purchase.Mismatch("quote", err.Error())
	}
	what, most := "quote", p.Terms.BidMsats-p.EngagementMsats()
	if q.Purpose == receipts.PurposeEngagement {
		what, most = "engagement quote", min(p.EngagementMax, p.Terms.BidMsats)
	}
	bad := func(err error) (offer, error) { return offer{}, purchase.Mismatch(what, err.Error()) }

	if err := q.Matches(receipts.Terms{
		RequestID: p.RequestID, JobHash: p.JobHash, SchemaID: p.SchemaID,
		Buyer: c.key, Provider: p.Provider, Inputs: p.Terms.InputIDs, MaxMsats: most,
	}); err != nil {
		return bad(err)
	}

	switch {
	case !now.Before(q.Expiry()):
		return bad(errors.New("it has expired"))
	case q.Purpose == receipts.PurposeEngagement: // mode and delivery are those of the result
	case q.Delivery == receipts.DeliverySealed && !p.Terms.Sealed():
		return bad(fmt.Errorf("delivery is %q, which was not asked for", q.Delivery))
	case !slices.Contains(c.cfg.Modes, q.Mode):
		return bad(fmt.Errorf("we do not pay in mode %q", q.Mode))
	case p.Terms.Mode != "" && q.Mode != p.Terms.Mode:
		return bad(fmt.Errorf("mode is %q, not %q as asked for", q.Mode, p.Terms.Mode))
	}

	return offer{quote: q, raw: []byte(content), hash: hashing.Bytes([]byte(content))}, nil
}

// isFee reports whether an offer is for the attempt alone.
func (o offer) isFee() bool { return o.quote.Purpose == receipts.PurposeEngagement }

// checkResultQuote is checkQuote where nothing but the result can be offered.
func (c *Client) checkResultQuote(p view, content string, now time.Time) (offer, error) {
	o, err := c.checkQuote(p, content, now)
	if err == nil && o.isFee() {
		err = purchase.Mismatch("quote", fmt.Sprintf("purpose is %q", o.quote.Purpose))
	}
	return o, err
}

// checkOffer checks a payment-required event: the quote, then that the invoice
// is the one the quote speaks of, for the same amount, from the same node.
func (c *Client) checkOffer(p view, ev nostr.Event, network payments.Network, now time.Time) (offer, error) {
	o, err := c.checkQuote(p, ev.Content, now)
	if err != nil {
		return offer{}, err
	}
	if o, err = c.checkInvoice(p, ev, network, o, now); err != nil {
		return offer{}, err
	}

	switch err := checkSigned(ev, o); {
	case err != nil && o.isFee():
		return offer{}, purchase.Mismatch("engagement quote", err.Error())
	case err != nil && o.quote.PaymentHash == nil: // only this event ties the invoice to the quote
		return offer{}, purchase.Mismatch("quote without a payment hash", err.Error())
	}

	return o, nil
}

// checkInvoice completes an offer whose quote was checked.
func (c *Client) checkInvoice(p view, ev nostr.Event, network payments.Network, o offer, now time.Time) (offer, error) {
	bad := func(format string, a ...any) (offer, error) {
		return offer{}, purchase.Mismatch("invoice", fmt.Sprintf(format, a...))
	}
	amount := ev.Tags.Find("amount")
	if len(amount) < 3 {
		return bad("the amount tag has none")
	}

	inv, err := receipts.CheckInvoice(o.quote, amount[2], network)
	switch {
	case err != nil:
		return bad("%v", err)
	case amount[1] != strconv.FormatInt(o.quote.PriceMsats, 10):
		return bad("the amount tag says %s msats, the quote %d", amount[1], o.quote.PriceMsats)
	case o.quote.PayeeNode == nil:
		return bad("the quote names no node")
	case p.PayeeNode != "" && inv.Payee != p.PayeeNode:
		return bad("it pays node %s, not the pinned %s", inv.Payee, p.PayeeNode)
	case !now.Before(inv.ExpiresAt()):
		return bad("it has expired")
	}

	if err := inv.CheckLock(finalBlocks(o.quote.Mode)); err != nil {
		return bad("%v", err)
	}
	o.bolt11, o.pay, o.at = amount[2], inv.PaymentHash, ev.CreatedAt
	return o, nil
}

// plainBlocks and heldBlocks are how long a payee may make us wait for our money,
// as the final CLTV of its invoice: one day, or two where the money is held while
// the job runs. A payee that neither takes nor returns a payment locks it so long.
const (
	plainBlocks = 144
	heldBlocks  = 288
)

func finalBlocks(mode receipts.Mode) uint32 {
	if mode == receipts.ModeHold {
		return heldBlocks
	}
	return plainBlocks
}

// failedClaims lists what a verification of our own bundle did not prove of
// what it requires.
func failedClaims(p Purchase, r receipts.Report, paidOnChain bool) string {
	var bad []string
	for _, c := range r.Claims {
		if p.Hidden != nil && c.State == receipts.NotProvable && (c.Name == receipts.ClaimJob || c.Name == receipts.ClaimResult) {
			continue // to strangers; we know what we asked, and have held the result against it
		}
		if c.Name == receipts.ClaimPreimage && c.State == receipts.NotProvable && paidOnChain {
			continue // to strangers; it names the transaction that we sent
		}
		if c.State == receipts.Failed || c.Required && c.State != receipts.Proved {
			bad = append(bad, c.Name+": "+c.Reason)
		}
	}

	return strings.Join(bad, "; ")
}
