package lnd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lightningnetwork/lnd/lnrpc"
	"github.com/lightningnetwork/lnd/lnrpc/invoicesrpc"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
)

// holdDeadlineBlocks is how many blocks before an HTLC expires lnd may return a
// held payment by itself. The current default is 12 (--invoices.holdexpirydelta);
// 18 is what a node may be set to with lnd's lowest final time lock.
const holdDeadlineBlocks = 18

// CreateInvoice makes an invoice with the given hash. It may be repeated, also
// after an answer was lost: an existing invoice with the same terms is returned,
// and for other terms the error is payments.ErrInvoiceMismatch.
func (w *Wallet) CreateInvoice(ctx context.Context, want payments.NewInvoice) (payments.Invoice, error) {
	hash, err := want.Hash()
	if err != nil {
		return payments.Invoice{}, err
	}
	node, err := w.knownNode(ctx)
	if err != nil {
		return payments.Invoice{}, err
	}
	request, err := w.addInvoice(ctx, want, hash)
	if err == nil {
		if err := checkInvoice(request, hash, want, node); err != nil {
			return payments.Invoice{}, err
		}
		return payments.Invoice{
			BOLT11: request, PaymentHash: hash,
			AmountMsats: want.AmountMsats, State: payments.InvoiceOpen,
		}, nil
	}

	if !isAnswer(err) {
		return payments.Invoice{}, err
	}

	// lnd has no error code for a duplicate, so look the invoice up.
	raw, lookupErr := w.lookup(ctx, hash)
	if lookupErr != nil {
		if errors.Is(lookupErr, payments.ErrNotFound) {
			return payments.Invoice{}, err
		}
		return payments.Invoice{}, lookupErr
	}

	// A hold invoice has no preimage until it is settled.
	if open := raw.State != lnrpc.Invoice_SETTLED; open && isHold(raw) != want.Hold {
		return payments.Invoice{}, fmt.Errorf("%w: %s: one is a hold invoice, one is not", payments.ErrInvoiceMismatch, hash)
	}
	if err := checkInvoice(raw.PaymentRequest, hash, want, node); err != nil {
		return payments.Invoice{}, err
	}

	return w.invoice(ctx, hash, raw)
}

// addInvoice creates the invoice and returns its BOLT 11 text.
func (w *Wallet) addInvoice(ctx context.Context, want payments.NewInvoice, hash payments.Hash) (string, error) {
	expiry := int64(want.Expiry / time.Second)
	if want.Hold {
		reply, err := call(ctx, w, rpcAddHoldInvoice, w.invoices.AddHoldInvoice, &invoicesrpc.AddHoldInvoiceRequest{
			Hash: hash[:], ValueMsat: want.AmountMsats, DescriptionHash: want.DescriptionHash[:], Expiry: expiry,
		})
		return reply.GetPaymentRequest(), err
	}
	reply, err := call(ctx, w, rpcAddInvoice, w.ln.AddInvoice, &lnrpc.Invoice{
		RPreimage: want.Preimage[:], ValueMsat: want.AmountMsats, DescriptionHash: want.DescriptionHash[:], Expiry: expiry,
	})
	return reply.GetPaymentRequest(), err
}

// checkInvoice compares the invoice with the request.
func checkInvoice(request string, hash payments.Hash, want payments.NewInvoice, node payments.Node) error {
	got, err := bolt11.Decode(request)
	if err != nil {
		return fmt.Errorf("%w: lnd's invoice: %w", payments.ErrInvoiceMismatch, err)
	}

	var differs string
	switch {
	case got.PaymentHash != hash:
		differs = "hash"
	case got.AmountMsats != want.AmountMsats:
		differs = "amount"
	case got.DescriptionHash == nil || *got.DescriptionHash != want.DescriptionHash:
		differs = "description hash"
	case got.Expiry != want.Expiry:
		differs = "expiry"
	case got.Network != node.Network:
		differs = "network"
	case got.Payee != node.PubKey:
		differs = "payee"
	default:
		return nil
	}

	return fmt.Errorf("%w: %s: other %s", payments.ErrInvoiceMismatch, hash, differs)
}

// LookupInvoice returns an invoice in its current state.
//
// SettleBy of a held invoice is a pessimistic time of the block at the lowest HTLC
// expiry, less lnd's 18 blocks and the configured margin. The invoice's own expiry
// does not matter once the money is held. A settled invoice is Final when the
// resolution of every HTLC is known. If all its HTLCs ended without paying us, it
// counts as canceled, since the money went back, and LostMsats is its amount. If a
// channel was closed in the meantime, its HTLCs are resolved on the chain.
func (w *Wallet) LookupInvoice(ctx context.Context, hash payments.Hash) (payments.Invoice, error) {
	raw, err := w.lookup(ctx, hash)
	if err != nil {
		return payments.Invoice{}, err
	}
	return w.invoice(ctx, hash, raw)
}

func (w *Wallet) lookup(ctx context.Context, hash payments.Hash) (*lnrpc.Invoice, error) {
	raw, err := call(ctx, w, rpcLookupInvoice, w.ln.LookupInvoice, &lnrpc.PaymentHash{RHash: hash[:]})
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(raw.RHash, hash[:]) {
		return nil, fmt.Errorf("%w: lnd answered with another invoice than %s", payments.ErrInvoiceMismatch, hash)
	}
	return raw, nil
}

func (w *Wallet) invoice(ctx context.Context, hash payments.Hash, raw *lnrpc.Invoice) (payments.Invoice, error) {
	inv := payments.Invoice{BOLT11: raw.PaymentRequest, PaymentHash: hash, AmountMsats: raw.ValueMsat}
	var err error
	switch raw.State {
	case lnrpc.Invoice_OPEN:
		inv.State = payments.InvoiceOpen
	case lnrpc.Invoice_CANCELED:
		inv.State = payments.InvoiceCanceled
	case lnrpc.Invoice_ACCEPTED:
		inv.State, inv.PaidMsats = payments.InvoiceHeld, raw.AmtPaidMsat
		inv.SettleBy, err = w.settleBy(ctx, raw)
	case lnrpc.Invoice_SETTLED:
		err = w.fillSettled(ctx, raw, &inv)
	default:
		err = fmt.Errorf("%w: lnd reports the unknown state %d of invoice %s", payments.ErrUnsupported, raw.State, hash)
	}

	return inv, err
}

// settleBy returns the deadline of a held invoice.
func (w *Wallet) settleBy(ctx context.Context, raw *lnrpc.Invoice) (time.Time, error) {
	info, err := call(ctx, w, rpcGetInfo, w.ln.GetInfo, &lnrpc.GetInfoRequest{})
	if err != nil {
		return time.Time{}, err
	}

	// If no expiry is known, the deadline is now.
	lowest := int64(info.BlockHeight)
	found := false
	for _, htlc := range raw.Htlcs {
		if htlc.State != lnrpc.InvoiceHTLCState_ACCEPTED {
			continue // an earlier attempt that was returned
		}
		if expiry := int64(htlc.ExpiryHeight); !found || expiry < lowest {
			lowest, found = expiry, true
		}
	}

	blocks := lowest - holdDeadlineBlocks - int64(w.cfg.SettleMarginBlocks) - int64(info.BlockHeight)

	// The longest time lock that lnd accepts is 2016 blocks.
	blocks = min(max(blocks, 0), 2016)
	return time.Now().UTC().Add(time.Duration(blocks) * w.cfg.BlockTime), nil
}

// fillSettled fills in the amount received for a settled invoice. lnd reports an
// invoice as settled as soon as it has used the preimage, but each HTLC may still
// end without paying us.
func (w *Wallet) fillSettled(ctx context.Context, raw *lnrpc.Invoice, inv *payments.Invoice) error {
	inv.State = payments.InvoiceSettled
	inv.SettledAt = time.Unix(raw.SettleDate, 0).UTC()
	inv.PaidMsats = raw.AmtPaidMsat
	inv.Final = true

	var arrived int
	for _, htlc := range raw.Htlcs {
		if htlc.State != lnrpc.InvoiceHTLCState_SETTLED {
			continue
		}

		switch resolution, err := w.resolution(ctx, htlc); {
		case err != nil:
			return err
		case resolution == htlcPending:
			inv.Final = false
			arrived++
		case resolution == htlcLost:
			inv.LostMsats += clampMsats(htlc.AmtMsat)
		default:
			arrived++
		}
	}

	inv.PaidMsats = max(0, inv.PaidMsats-inv.LostMsats)
	switch {
	case arrived > 0:
	case inv.LostMsats > 0:
		inv.State, inv.SettledAt, inv.PaidMsats, inv.Final = payments.InvoiceCanceled, time.Time{}, 0, false
	default:
		inv.Final = false // settled without HTLCs: lnd does not know the outcome yet
	}

	return nil
}

type htlcResolution int

const (
	htlcPending htlcResolution = iota
	htlcPaid
	htlcLost
)

// resolution asks how an HTLC ended. A node that does not store resolutions is
// taken at its invoice's word.
func (w *Wallet) resolution(ctx context.Context, htlc *lnrpc.InvoiceHTLC) (htlcResolution, error) {
	reply, err := call(ctx, w, rpcHTLCResolution, w.ln.LookupHtlcResolution, &lnrpc.LookupHtlcResolutionRequest{
		ChanId: htlc.ChanId, HtlcIndex: htlc.HtlcIndex,
	})

	switch {
	case err == nil && reply.Settled:
		return htlcPaid, nil
	case err == nil:
		return htlcLost, nil
	case errors.Is(err, payments.ErrNotFound):
		return htlcPending, nil
	case errors.Is(err, payments.ErrUnsupported), strings.Contains(err.Error(), "--store-final-htlc-resolutions"):
		return htlcPaid, nil
	}

	return htlcPending, err
}

// SettleInvoice takes the money of a held invoice. It may be repeated. Success does
// not mean that the money has arrived: look up the invoice until it is Final.
func (w *Wallet) SettleInvoice(ctx context.Context, preimage payments.Preimage) error {
	if preimage.IsZero() {
		return fmt.Errorf("%w: the preimage is missing", payments.ErrBadRequest)
	}
	if _, err := w.knownNode(ctx); err != nil {
		return err
	}
	_, err := call(ctx, w, rpcSettleInvoice, w.invoices.SettleInvoice, &invoicesrpc.SettleInvoiceMsg{Preimage: preimage[:]})
	if err == nil || !isAnswer(err) {
		return err
	}
	return w.afterRefusal(ctx, preimage.Hash(), payments.InvoiceSettled, err)
}

// CancelInvoice returns a held payment, or makes an open invoice unpayable. It may
// be repeated.
func (w *Wallet) CancelInvoice(ctx context.Context, hash payments.Hash) error {
	if _, err := w.knownNode(ctx); err != nil {
		return err
	}
	_, err := call(ctx, w, rpcCancelInvoice, w.invoices.CancelInvoice, &invoicesrpc.CancelInvoiceMsg{PaymentHash: hash[:]})
	if err == nil || !isAnswer(err) {
		return err
	}
	return w.afterRefusal(ctx, hash, payments.InvoiceCanceled, err)
}

// afterRefusal looks up whether the invoice already is in the wanted state.
func (w *Wallet) afterRefusal(ctx context.Context, hash payments.Hash, want payments.InvoiceState, refusal error) error {
	inv, err := w.LookupInvoice(ctx, hash)
	switch {
	case err != nil:
		return err
	case inv.State == want:
		return nil
	case inv.State == payments.InvoiceSettled:
		return fmt.Errorf("%w: %w", payments.ErrInvoiceSettled, refusal)
	case inv.State == payments.InvoiceCanceled:
		return fmt.Errorf("%w: %w", payments.ErrInvoiceCanceled, refusal)
	case inv.State == payments.InvoiceOpen:
		return fmt.Errorf("%w: %w", payments.ErrNotHeld, refusal)
	}

	return refusal
}

// isHold reports whether lnd does not have the preimage.
func isHold(raw *lnrpc.Invoice) bool {
	return len(raw.RPreimage) == 0 || bytes.Equal(raw.RPreimage, make([]byte, 32))
}
