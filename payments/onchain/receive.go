package onchain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/lnd"
)

const (
	// deepest is how many blocks a reorganisation is looked for. None on mainnet
	// was ever deeper.
	deepest = 144
	// lateFor is how long an address is watched that nobody paid in time.
	lateFor = 90 * 24 * time.Hour
)

// CreateInvoice gives a fresh address and has the node sign for it. The address
// is written down before it is signed, so that a repetition, also after a lost
// reply, gives the same text. ErrUnsupported for hold invoices, ErrDust.
func (w *Wallet) CreateInvoice(ctx context.Context, want payments.NewInvoice) (payments.Invoice, error) {
	hash, err := want.Hash()
	if err != nil {
		return payments.Invoice{}, err
	}
	if want.Hold {
		return payments.Invoice{}, fmt.Errorf("%w: a payment on the chain cannot be held", payments.ErrUnsupported)
	}
	if _, err := satsFor(want.AmountMsats); err != nil {
		return payments.Invoice{}, err
	}

	// The preimage has no part in this rail, and lnd is not to have it.
	want.PaymentHash, want.Preimage, want.Hold = hash, payments.Preimage{}, true
	r, err := w.cfg.Book.request(ctx, hash)
	if errors.Is(err, payments.ErrNotFound) {
		r, err = w.newRequest(ctx, want)
	}

	switch {
	case err != nil:
		return payments.Invoice{}, err
	case r.want != want:
		return payments.Invoice{}, fmt.Errorf("%w: %s", payments.ErrInvoiceMismatch, hash)
	case r.bolt11 == "":
		text, err := w.cfg.Chain.SignRequest(ctx, want, r.address)
		if err != nil {
			return payments.Invoice{}, err
		}
		if err := w.cfg.Book.setSigned(ctx, hash, text); err != nil {
			return payments.Invoice{}, err
		}
	}

	return w.LookupInvoice(ctx, hash)
}

func (w *Wallet) newRequest(ctx context.Context, want payments.NewInvoice) (request, error) {
	// The height bounds what is searched for payments.
	_, height, err := w.cfg.Chain.Received(ctx, 1<<30)
	if err != nil {
		return request{}, err
	}
	address, err := w.freshAddress(ctx)
	if err != nil {
		return request{}, err
	}
	if err := w.cfg.Book.addRequest(ctx, request{want: want, address: address, height: height}); err != nil {
		return request{}, err
	}

	return w.cfg.Book.request(ctx, want.PaymentHash) // another may have been first
}

// freshAddress refuses an address that was given before: one output would pay
// twice.
func (w *Wallet) freshAddress(ctx context.Context) (string, error) {
	address, err := w.cfg.Chain.NewAddress(ctx)
	if err != nil {
		return "", err
	}
	ours, err := w.cfg.Book.isOurs(ctx, address)
	if ours {
		err = fmt.Errorf("%w: lnd gives the address %s twice", payments.ErrUnsupported, address)
	}
	return address, err
}

// LookupInvoice tells how a request stands, by what the chain has now:
//
//   - settled: enough came, with the configured confirmations. That is written
//     down and told from then on; PaidMsats may be more than was asked;
//   - pending: enough came, or something came too late, and is not confirmed yet;
//   - partial: less came, and there is still time;
//   - canceled: it was cancelled or has expired. PaidMsats is what came in part,
//     confirmed, and is owed to whoever paid. Money that comes later makes it
//     pending and then settled, or canceled with more.
func (w *Wallet) LookupInvoice(ctx context.Context, hash payments.Hash) (payments.Invoice, error) {
	r, err := w.cfg.Book.request(ctx, hash)
	if err != nil {
		return payments.Invoice{}, err
	}
	if r.final != nil {
		return r.invoice(), nil
	}

	outputs, height, err := w.cfg.Chain.Received(ctx, r.height-deepest)
	if err != nil {
		return payments.Invoice{}, err
	}
	return w.judge(ctx, r, outputs, height)
}

// judge is LookupInvoice's answer for what the chain holds.
func (w *Wallet) judge(ctx context.Context, r request, outputs []lnd.ChainOutput, height int64) (payments.Invoice, error) {
	need, err := satsFor(r.want.AmountMsats)
	if err != nil {
		return payments.Invoice{}, err
	}
	seen, confirmed := paid(r.address, outputs, 0), paid(r.address, outputs, w.cfg.Confirmations)
	inv := r.invoice()
	inv.PaidMsats, inv.Outpoints = seen.sats*msatsPerSat, seen.outpoints()

	switch closed := r.canceled || time.Now().After(r.at.Add(r.want.Expiry)); {
	case confirmed.sats >= need:
		f := final{outpoints: confirmed.outpoints(), sats: confirmed.sats, height: height, at: time.Now().UTC()}
		if err := w.cfg.Book.settle(ctx, r.want.PaymentHash, f); err != nil {
			return payments.Invoice{}, err
		}
		if r, err = w.cfg.Book.request(ctx, r.want.PaymentHash); err != nil {
			return payments.Invoice{}, err
		}
		return r.invoice(), nil
	case seen.sats >= need, closed && seen.sats > confirmed.sats:
		inv.State = payments.InvoicePending
	case closed:
		inv.State = payments.InvoiceCanceled
	case seen.sats > 0:
		inv.State = payments.InvoicePartial
	default:
		inv.State = payments.InvoiceOpen
	}

	return inv, nil
}

// invoice is the request as it was settled, or without a state.
func (r request) invoice() payments.Invoice {
	inv := payments.Invoice{BOLT11: r.bolt11, PaymentHash: r.want.PaymentHash, AmountMsats: r.want.AmountMsats}
	if f := r.final; f != nil {
		inv.State, inv.PaidMsats, inv.SettledAt = payments.InvoiceSettled, f.sats*msatsPerSat, f.at
		inv.Outpoints, inv.Final = f.outpoints, true
	}
	return inv
}

// sum is what came to an address.
type sum struct {
	sats int64
	from []string
}

func (s sum) outpoints() string {
	return strings.Join(s.from[:min(len(s.from), payments.MaxOutpoints)], ",")
}

// paid adds up the outputs to the address that have the confirmations, in the
// order of their names.
func paid(address string, outputs []lnd.ChainOutput, confirmations int64) (s sum) {
	for _, o := range outputs {
		if o.Address == address && o.Confirmations >= confirmations {
			s.sats += o.Sats
			s.from = append(s.from, o.TxID+":"+strconv.FormatUint(uint64(o.Index), 10))
		}
	}
	slices.Sort(s.from)
	return s
}

// SettleInvoice has nothing to do: a payment is the payee's once it is confirmed.
func (w *Wallet) SettleInvoice(ctx context.Context, preimage payments.Preimage) error {
	inv, err := w.LookupInvoice(ctx, preimage.Hash())
	switch {
	case err != nil:
		return err
	case inv.State != payments.InvoiceSettled:
		return fmt.Errorf("%w: %s is %s", payments.ErrNotHeld, inv.PaymentHash, inv.State)
	}
	return nil
}

// CancelInvoice says that no payment is wanted any more. That prevents none:
// what comes is told by LookupInvoice.
func (w *Wallet) CancelInvoice(ctx context.Context, hash payments.Hash) error {
	inv, err := w.LookupInvoice(ctx, hash)
	switch {
	case err != nil:
		return err
	case inv.State == payments.InvoiceSettled:
		return fmt.Errorf("%w: %s", payments.ErrInvoiceSettled, hash)
	}
	return w.cfg.Book.cancel(ctx, hash)
}

// WatchInvoices calls hint when the chain says something new of a request, also
// of one that is closed, until ctx ends. A settled payment that a reorganisation
// takes back is written down as a loss and logged as an error: the job is done.
func (w *Wallet) WatchInvoices(ctx context.Context, hint func(payments.Hash)) error {
	last := map[payments.Hash]string{}
	tick := time.NewTicker(w.cfg.PollEvery)
	defer tick.Stop()

	for {
		if err := w.watch(ctx, last, hint); err != nil && ctx.Err() == nil {
			w.cfg.Log.Warn("look at the chain", "err", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (w *Wallet) watch(ctx context.Context, last map[payments.Hash]string, hint func(payments.Hash)) error {
	_, height, err := w.cfg.Chain.Received(ctx, 1<<30)
	if err != nil {
		return err
	}
	list, err := w.cfg.Book.watched(ctx, time.Now().Add(-lateFor), height-deepest)
	if err != nil || len(list) == 0 {
		return err
	}
	from := slices.MinFunc(list, func(a, b request) int { return int(a.height - b.height) }).height
	outputs, height, err := w.cfg.Chain.Received(ctx, from-deepest)
	if err != nil {
		return err
	}

	// Strangers bring about requests and outputs: each is looked at once.
	came := map[string][]lnd.ChainOutput{}
	for _, o := range outputs {
		came[o.Address] = append(came[o.Address], o)
	}

	for _, r := range list {
		if r.final != nil {
			if err := w.checkLoss(ctx, r, came[r.address]); err != nil {
				return err
			}
		}

		inv, err := w.judged(ctx, r, came[r.address], height)
		if err != nil {
			return err
		}
		hash := r.want.PaymentHash
		if now := string(inv.State) + " " + inv.Outpoints; last[hash] != now {
			last[hash] = now
			if inv.State != payments.InvoiceOpen {
				hint(hash)
			}
		}
	}

	return nil
}

// judged is how a request was settled, or what the chain says of it now.
func (w *Wallet) judged(ctx context.Context, r request, outputs []lnd.ChainOutput, height int64) (payments.Invoice, error) {
	if r.final != nil {
		return r.invoice(), nil
	}
	return w.judge(ctx, r, outputs, height)
}

// checkLoss looks whether what was settled is still there.
func (w *Wallet) checkLoss(ctx context.Context, r request, outputs []lnd.ChainOutput) error {
	need, err := satsFor(r.want.AmountMsats)
	if err != nil || paid(r.address, outputs, 1).sats >= need {
		return err
	}

	// An output that went back to the mempool comes again; one that is gone, or
	// replaced, does not.
	if paid(r.address, outputs, 0).sats >= need {
		w.cfg.Log.Warn("a settled payment was taken out of its block; it waits for another", "payment_hash", r.want.PaymentHash, "outpoints", r.final.outpoints)
		return nil
	}

	w.cfg.Log.Error("LOSS: a reorganisation of the chain took a settled payment back; its job was done", "payment_hash", r.want.PaymentHash,
		"sats", r.final.sats, "outpoints", r.final.outpoints, "hint", "ask the buyer to pay again, and raise confirmations")
	return w.cfg.Book.lose(ctx, r.want.PaymentHash)
}
