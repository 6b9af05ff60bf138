package nwc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/internal/clip"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
)

const (
	// holdBlocks is the final CLTV delta asked for in hold invoices.
	holdBlocks = 144
	// marginBlocks is kept free before a deadline of the service.
	marginBlocks = 6
	// expiryGrace is how long after its expiry an invoice still counts as open if
	// the service does not report it as expired.
	expiryGrace = 2 * time.Minute
)

// CreateInvoice makes an invoice, or returns the existing one for the same request.
// Hold invoices need the hold methods. Other invoices need a service that accepts
// our preimage, such as the one in this package; for wallets that choose the
// preimage themselves see [Client.MakeInvoice].
func (c *Client) CreateInvoice(ctx context.Context, n payments.NewInvoice) (payments.Invoice, error) {
	inv, err := c.createInvoice(ctx, n)
	if err != nil {
		return payments.Invoice{}, fmt.Errorf("make invoice: %w", err)
	}
	return inv, nil
}

func (c *Client) createInvoice(ctx context.Context, n payments.NewInvoice) (payments.Invoice, error) {
	hash, err := n.Hash()
	if err != nil {
		return payments.Invoice{}, err
	}
	if err := payments.CheckMsats(n.AmountMsats); err != nil {
		return payments.Invoice{}, err
	}

	info, err := c.Info(ctx)
	if err != nil {
		return payments.Invoice{}, err
	}

	method := MakeInvoice
	params := invoiceParams{Amount: n.AmountMsats, DescriptionHash: n.DescriptionHash.Hex(), Expiry: int64(n.Expiry / time.Second)}
	switch {
	case n.Hold && !info.CanHold():
		return payments.Invoice{}, fmt.Errorf("%w: it has no hold invoices, so it can only be paid in advance (prepay)", payments.ErrUnsupported)
	case n.Hold:
		method, params.PaymentHash, params.MinCLTV = MakeHoldInvoice, hash.String(), holdBlocks
	case !info.CanPrepay():
		return payments.Invoice{}, fmt.Errorf("%w: it does not accept our preimage", payments.ErrUnsupported)
	default:
		params.Preimage = n.Preimage.String()
	}

	var t transaction
	err = c.call(ctx, method, params, &t)
	if err != nil && !errors.Is(err, payments.ErrInvoiceMismatch) {
		// The invoice may exist, from an earlier call or from one whose answer was
		// lost.
		if existing, lookErr := c.lookup(ctx, hash); lookErr == nil && existing.Type == typeIncoming {
			t, err = existing, nil
		}
	}

	if err != nil {
		return payments.Invoice{}, err
	}
	return c.checkInvoice(ctx, t, hash, n)
}

// checkInvoice checks that the invoice is the requested one.
func (c *Client) checkInvoice(ctx context.Context, t transaction, hash payments.Hash, n payments.NewInvoice) (payments.Invoice, error) {
	if err := t.check(); err != nil {
		return payments.Invoice{}, wrapUnclear(err)
	}
	b, err := c.decode(ctx, t.Invoice)
	if err != nil {
		return payments.Invoice{}, err
	}
	if b.PaymentHash != hash || b.AmountMsats != n.AmountMsats || b.Expiry != n.Expiry ||
		b.DescriptionHash == nil || *b.DescriptionHash != n.DescriptionHash {
		return payments.Invoice{}, payments.ErrInvoiceMismatch
	}

	t.Amount = n.AmountMsats
	return c.invoice(ctx, t, hash)
}

// decode decodes an invoice and checks that it is by the wallet's node.
func (c *Client) decode(ctx context.Context, text string) (*bolt11.Invoice, error) {
	b, err := bolt11.Decode(text)
	if err != nil {
		return nil, wrapUnclear(fmt.Errorf("%w: %w", ErrAnswer, err))
	}
	node, err := c.Node(ctx)
	if err != nil {
		return nil, err
	}
	if b.Network != node.Network || node.PubKey != "" && b.Payee != node.PubKey {
		return nil, wrapUnclear(fmt.Errorf("%w: the invoice is by %s on %s, the wallet is %s on %s", ErrAnswer, b.Payee, b.Network, node.PubKey, node.Network))
	}

	return b, nil
}

// MakeInvoice makes an invoice whose preimage the wallet chooses, so its hash is
// known only afterwards; in.PaymentHash and in.Preimage must be zero. The
// description hash must be unique to this invoice. If the wallet lists its
// transactions, an invoice that it made for this description hash since the given
// time is returned instead of a new one, paid or not, because the answer to an
// earlier call may have been lost.
func (c *Client) MakeInvoice(ctx context.Context, in payments.NewInvoice, since time.Time) (payments.Invoice, error) {
	inv, err := c.makeInvoice(ctx, in, since)
	if err != nil {
		return payments.Invoice{}, fmt.Errorf("make invoice: %w", err)
	}
	return inv, nil
}

func (c *Client) makeInvoice(ctx context.Context, in payments.NewInvoice, since time.Time) (payments.Invoice, error) {
	if in.Hold || !in.PaymentHash.IsZero() || !in.Preimage.IsZero() {
		return payments.Invoice{}, fmt.Errorf("%w: the wallet chooses the payment hash, so none may be given", payments.ErrBadRequest)
	}
	info, err := c.Info(ctx)
	if err != nil {
		return payments.Invoice{}, err
	}
	if !info.CanChoose() {
		return payments.Invoice{}, fmt.Errorf("%w: it does not offer make_invoice and lookup_invoice", payments.ErrUnsupported)
	}

	t, found, err := c.findInvoice(ctx, info, in, since)
	if err != nil {
		return payments.Invoice{}, err
	}
	if !found {
		params := invoiceParams{Amount: in.AmountMsats, DescriptionHash: in.DescriptionHash.Hex(), Expiry: int64(in.Expiry / time.Second)}
		if err := c.call(ctx, MakeInvoice, params, &t); err != nil {
			return payments.Invoice{}, err
		}
	}

	hash, err := t.hash()
	if err != nil {
		return payments.Invoice{}, wrapUnclear(err)
	}
	return c.checkInvoice(ctx, t, hash, in)
}

const (
	// listedPages is how many pages of the wallet's list are searched for an
	// invoice: if the wallet made a hundred since, a new one is requested.
	listedPages = 5
	// listedSkew is how far the wallet's clock may be behind ours.
	listedSkew = 5 * time.Minute
)

// findInvoice searches the wallet's list for the oldest invoice with this
// description hash. It reads the hash from the signed invoice, because many wallets
// leave it out of their list.
func (c *Client) findInvoice(ctx context.Context, info Info, in payments.NewInvoice, since time.Time) (earlier transaction, found bool, err error) {
	if !info.Has(ListTransactions) {
		return earlier, false, nil
	}

	for page := range listedPages {
		var r listResult
		params := listParams{From: since.Add(-listedSkew).Unix(), Limit: maxPage, Offset: page * maxPage, Unpaid: true, Type: typeIncoming}

		err := c.call(ctx, ListTransactions, params, &r)
		switch {
		case errors.Is(err, payments.ErrUnauthorized), errors.Is(err, payments.ErrUnsupported):
			return earlier, false, nil // the app may not list
		case err != nil:
			return earlier, false, err
		}

		for _, t := range r.Transactions[:min(len(r.Transactions), maxPage)] {
			b, err := bolt11.Decode(t.Invoice)
			if err == nil && t.Type == typeIncoming && b.DescriptionHash != nil && *b.DescriptionHash == in.DescriptionHash {
				earlier, found = t, true
			}
		}

		if len(r.Transactions) < maxPage {
			break
		}
	}

	return earlier, found, nil
}

// LookupInvoice returns the wallet's invoice as reported by the service, or
// ErrNotFound. Final relies on the service: it reports an invoice as settled and
// does not, like our own service, add that this is unsure.
func (c *Client) LookupInvoice(ctx context.Context, hash payments.Hash) (payments.Invoice, error) {
	inv, err := c.lookupInvoice(ctx, hash)
	if err != nil {
		return payments.Invoice{}, fmt.Errorf("look up invoice: %w", err)
	}
	return inv, nil
}

func (c *Client) lookupInvoice(ctx context.Context, hash payments.Hash) (payments.Invoice, error) {
	t, err := c.lookup(ctx, hash)
	if err != nil {
		return payments.Invoice{}, err
	}
	if t.Type != typeIncoming {
		return payments.Invoice{}, payments.ErrNotFound
	}

	if t.Invoice != "" { // optional in NIP-47
		b, err := c.decode(ctx, t.Invoice)
		if err != nil {
			return payments.Invoice{}, err
		}
		if b.PaymentHash != hash || b.AmountMsats != t.Amount {
			return payments.Invoice{}, wrapUnclear(fmt.Errorf("%w: the invoice is another", ErrAnswer))
		}
	}

	return c.invoice(ctx, t, hash)
}

// invoice converts the state of an invoice.
func (c *Client) invoice(ctx context.Context, t transaction, hash payments.Hash) (payments.Invoice, error) {
	inv := payments.Invoice{BOLT11: t.Invoice, PaymentHash: hash, AmountMsats: t.Amount, LostMsats: t.LostMsats}
	switch t.State {
	case stateSettled:
		inv.State = payments.InvoiceSettled
	case stateAccepted:
		inv.State = payments.InvoiceHeld
	case stateExpired, stateFailed:
		inv.State = payments.InvoiceCanceled
	case statePending, "":
		inv.State = payments.InvoiceOpen
		if t.State == "" && t.SettledAt != 0 {
			inv.State = payments.InvoiceSettled
		} else if t.ExpiresAt != 0 && time.Now().After(unix(t.ExpiresAt).Add(expiryGrace)) {
			inv.State = payments.InvoiceCanceled
		}
	default:
		return payments.Invoice{}, wrapUnclear(fmt.Errorf("%w: state %q", ErrAnswer, clip.Line(t.State, 40)))
	}

	switch inv.State {
	case payments.InvoiceSettled:
		inv.PaidMsats, inv.SettledAt, inv.Final = max(0, t.Amount-t.LostMsats), unix(t.SettledAt), !t.Unsure
		inv.Preimage, _ = proof(t.Preimage, hash)
	case payments.InvoiceHeld:
		var err error
		if inv.SettleBy, err = c.settleBy(ctx, t); err != nil {
			return payments.Invoice{}, err
		}
		inv.PaidMsats = t.Amount
	}

	return inv, nil
}

// settleBy is the time until which a held payment can safely be settled.
func (c *Client) settleBy(ctx context.Context, t transaction) (time.Time, error) {
	if t.SettleBy != 0 {
		return unix(t.SettleBy), nil
	}
	if t.SettleDeadline == 0 {
		// The payment cannot have been held before the invoice was made.
		return unix(t.CreatedAt).Add(c.cfg.HoldTime), nil
	}

	info, err := c.nodeInfo(ctx)
	if err != nil {
		return time.Time{}, err
	}
	blocks := min(t.SettleDeadline-info.BlockHeight-marginBlocks, 10*holdBlocks)
	return time.Now().UTC().Truncate(time.Second).Add(time.Duration(max(blocks, 0)) * c.cfg.BlockTime), nil
}

// SettleInvoice takes the money held for the invoice of the preimage. It may be
// repeated. ErrNotHeld: nobody has paid. ErrInvoiceCanceled: too late.
func (c *Client) SettleInvoice(ctx context.Context, preimage payments.Preimage) error {
	if preimage.IsZero() {
		return fmt.Errorf("settle invoice: %w: an all-zero preimage", payments.ErrBadRequest)
	}
	err := c.call(ctx, SettleHoldInvoice, settleParams{preimage.String()}, &struct{}{})
	if err != nil {
		err = c.afterRefusal(ctx, err, preimage.Hash(), payments.InvoiceSettled)
	}
	if err != nil {
		return fmt.Errorf("settle invoice: %w", err)
	}
	return nil
}

// CancelInvoice cancels an open invoice or returns held money. It may be repeated.
// ErrInvoiceSettled: too late. If the service cannot cancel, the error is
// ErrUnsupported until the invoice has expired.
func (c *Client) CancelInvoice(ctx context.Context, hash payments.Hash) error {
	err := c.call(ctx, CancelHoldInvoice, cancelParams{hash.String()}, &struct{}{})
	if err != nil {
		err = c.afterRefusal(ctx, err, hash, payments.InvoiceCanceled)
	}
	if err != nil {
		return fmt.Errorf("cancel invoice: %w", err)
	}
	return nil
}

// afterRefusal looks up whether a refused or unanswered request has taken effect
// already, or why it is impossible.
func (c *Client) afterRefusal(ctx context.Context, refused error, hash payments.Hash, want payments.InvoiceState) error {
	inv, err := c.lookupInvoice(ctx, hash)
	switch {
	case errors.Is(err, payments.ErrNotFound):
		return err
	case err != nil:
		return refused
	case inv.State == want:
		return nil
	case inv.State == payments.InvoiceSettled:
		return payments.ErrInvoiceSettled
	case inv.State == payments.InvoiceCanceled:
		return payments.ErrInvoiceCanceled
	case inv.State == payments.InvoiceOpen && want == payments.InvoiceSettled:
		return fmt.Errorf("%w: %w", payments.ErrNotHeld, refused)
	}

	return refused
}
