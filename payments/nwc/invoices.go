package nwc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
)

const (
	// holdBlocks is the final CLTV delta asked for in hold invoices.
	holdBlocks = 144
	// marginBlocks is kept free before a deadline that the service names.
	marginBlocks = 6
	// expiryGrace is how long past its expiry an invoice counts as open where
	// the service does not say that it expired.
	expiryGrace = 2 * time.Minute
)

// CreateInvoice makes the invoice, or returns the one that was made for the
// same request. A hold invoice needs the hold methods. One that settles by
// itself needs a service that takes a preimage of ours, as this package's
// does; another wallet chooses its own, see MakeInvoice.
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
		// It may be there already: from before, or from the call whose answer got lost.
		if known, lookErr := c.lookup(ctx, hash); lookErr == nil && known.Type == typeIncoming {
			t, err = known, nil
		}
	}

	if err != nil {
		return payments.Invoice{}, err
	}
	return c.made(ctx, t, hash, n)
}

// made checks that the invoice is the one that was asked for.
func (c *Client) made(ctx context.Context, t transaction, hash payments.Hash, n payments.NewInvoice) (payments.Invoice, error) {
	if err := t.check(); err != nil {
		return payments.Invoice{}, unclear(err)
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

// decode reads an invoice of the wallet's and checks that it is of its node.
func (c *Client) decode(ctx context.Context, text string) (*bolt11.Invoice, error) {
	b, err := bolt11.Decode(text)
	if err != nil {
		return nil, unclear(fmt.Errorf("%w: %w", ErrAnswer, err))
	}
	node, err := c.Node(ctx)
	if err != nil {
		return nil, err
	}
	if b.Network != node.Network || node.PubKey != "" && b.Payee != node.PubKey {
		return nil, unclear(fmt.Errorf("%w: the invoice is by %s on %s, the wallet is %s on %s", ErrAnswer, b.Payee, b.Network, node.PubKey, node.Network))
	}

	return b, nil
}

// MakeInvoice makes an invoice whose preimage the wallet chooses and whose hash is
// therefore known only afterwards: in.PaymentHash and in.Preimage are zero. The
// description hash is for this one invoice. One that the wallet has made for it since
// is returned in place of another, paid or not, where the wallet lists its
// transactions: whoever asks a second time may not have heard the first answer.
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

	t, found, err := c.madeBefore(ctx, info, in, since)
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
		return payments.Invoice{}, unclear(err)
	}
	return c.made(ctx, t, hash, in)
}

const (
	// listedPages is how many pages of a wallet's list are looked through for an
	// invoice: a wallet that has made a hundred since then is asked for another.
	listedPages = 5
	// listedSkew is how far a wallet's clock may be behind ours.
	listedSkew = 5 * time.Minute
)

// madeBefore looks for the oldest invoice with this description hash among those that
// the wallet lists. By the invoice itself, which is signed: many wallets leave the
// description hash out of their list.
func (c *Client) madeBefore(ctx context.Context, info Info, in payments.NewInvoice, since time.Time) (made transaction, found bool, err error) {
	if !info.Has(ListTransactions) {
		return made, false, nil
	}

	for page := range listedPages {
		var r listResult
		params := listParams{From: since.Add(-listedSkew).Unix(), Limit: maxPage, Offset: page * maxPage, Unpaid: true, Type: typeIncoming}

		err := c.call(ctx, ListTransactions, params, &r)
		switch {
		case errors.Is(err, payments.ErrUnauthorized), errors.Is(err, payments.ErrUnsupported):
			return made, false, nil // it lists them to others
		case err != nil:
			return made, false, err
		}

		for _, t := range r.Transactions[:min(len(r.Transactions), maxPage)] {
			b, err := bolt11.Decode(t.Invoice)
			if err == nil && t.Type == typeIncoming && b.DescriptionHash != nil && *b.DescriptionHash == in.DescriptionHash {
				made, found = t, true
			}
		}

		if len(r.Transactions) < maxPage {
			break
		}
	}

	return made, found, nil
}

// LookupInvoice returns the wallet's own invoice as the service sees it, or
// ErrNotFound. Final is the service's word: it says settled, and not, as ours does,
// that this is unsure.
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
			return payments.Invoice{}, unclear(fmt.Errorf("%w: the invoice is another", ErrAnswer))
		}
	}

	return c.invoice(ctx, t, hash)
}

// invoice reads where an invoice stands.
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
		return payments.Invoice{}, unclear(fmt.Errorf("%w: state %q", ErrAnswer, payments.Printable(t.State, 40)))
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

// settleBy is until when a held payment is surely ours to take.
func (c *Client) settleBy(ctx context.Context, t transaction) (time.Time, error) {
	if t.SettleBy != 0 {
		return unix(t.SettleBy), nil
	}
	if t.SettleDeadline == 0 {
		// It was not held before it was made.
		return unix(t.CreatedAt).Add(c.cfg.HoldTime), nil
	}

	info, err := c.nodeInfo(ctx)
	if err != nil {
		return time.Time{}, err
	}
	blocks := min(t.SettleDeadline-info.BlockHeight-marginBlocks, 10*holdBlocks)
	return time.Now().UTC().Truncate(time.Second).Add(time.Duration(max(blocks, 0)) * c.cfg.BlockTime), nil
}

// SettleInvoice takes the money that is held for the preimage's invoice. It
// may be repeated. ErrNotHeld: nobody has paid. ErrInvoiceCanceled: too late.
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

// CancelInvoice ends an open invoice or gives held money back. It may be
// repeated. ErrInvoiceSettled: too late. Where the service cancels nothing it
// is ErrUnsupported until the invoice has expired.
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

// afterRefusal finds out whether what was refused, or not answered, is done
// already, or why it cannot be done.
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
