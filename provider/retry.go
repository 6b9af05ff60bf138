package provider

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/lightwork-market/lightwork/provider/internal/publish"
	"github.com/nbd-wtf/go-nostr"
)

// Addresses turns a Lightning address into an invoice for exactly msats.
type Addresses interface {
	Invoice(ctx context.Context, address string, msats int64) (bolt11 string, err error)
}

// msatsPerSat: many services make invoices for whole satoshis only.
const msatsPerSat = 1000

// invoiceOf asks a Lightning address for an invoice of what is owed, in whole
// satoshis; the rest stays credit. It asks before anything is recorded: a second
// invoice, after a crash in between, leaves the first unpaid.
func (p *Provider) invoiceOf(ctx context.Context, address string, owed int64) (invoice string, msats int64, err error) {
	msats = owed - owed%msatsPerSat
	switch {
	case p.cfg.Refunds.Addresses == nil:
		return "", 0, errors.New("a refund goes to a BOLT11 invoice, not to a Lightning address")
	case msats == 0:
		return "", 0, errors.New("a Lightning address is paid whole satoshis only")
	}
	invoice, err = p.cfg.Refunds.Addresses.Invoice(ctx, address, msats)
	if err != nil {
		p.log.Warn("a Lightning address gives no invoice for a refund", "err", err)
		why := clip(err.Error(), 200)
		if errors.As(err, new(net.Error)) {
			// The buyer chose the host: what our name server says of it, and by which
			// address we went there, would tell of our own network.
			why = "its service cannot be reached"
		}
		return "", 0, fmt.Errorf("its Lightning address gives no invoice: %s", why)
	}
	return invoice, msats, nil
}

// RetryRefund begins a further attempt to pay a debt, at the operator's word:
// to what is named, or else to where the last attempt went, or the request says.
// The payment is seen through like the first. The wallet's fee limit is the one
// of the configuration, whoever's failure it was.
func (p *Provider) RetryRefund(ctx context.Context, requestID, to string) (Refund, error) {
	d, err := p.debt(ctx, requestID)
	if err == nil {
		d, err = p.endForgotten(ctx, d)
	}
	if err != nil {
		return Refund{}, err
	}
	if to = strings.TrimSpace(to); to == "" {
		to = lastTarget(d)
	}
	switch {
	case to == "":
		return Refund{}, errors.New("the request names no refund: name an invoice or a Lightning address of the buyer's, on the chain an address")
	case d.CreditMsats < 1 || d.LeftMsats() < 1:
		return Refund{}, ErrDebtSettled
	}
	owed := min(d.LeftMsats(), d.CreditMsats)
	r, err := p.planRefund(ctx, payBack{
		to: to, owed: owed, most: owed, again: d.Refund != nil && d.Refund.BOLT11 == to,
		feeLimit: func(int64) int64 { return p.cfg.Refunds.MaxFeeMsats },
	})
	if err != nil {
		return Refund{}, err
	}
	r.RequestID, r.Buyer = d.RequestID, d.Buyer
	if r.Attempt, err = p.cfg.Store.RetryRefund(ctx, *r); err != nil {
		return Refund{}, err
	}
	p.log.Info("refund is tried again", "request", r.RequestID, "attempt", r.Attempt, "msats", r.Msats, "payment_hash", r.PaymentHash)
	p.refundsWake()
	return *r, nil
}

// lastTarget is where a debt was last tried to be paid. A Lightning address is
// asked again: its former invoice may have lapsed.
func lastTarget(d Debt) string {
	if d.Refund != nil && !strings.Contains(d.RefundTo, "@") {
		return d.Refund.BOLT11
	}
	return d.RefundTo
}

// WriteOff ends a debt that the operator has settled with the buyer by other
// means, which the note says. What is left of it is no credit any more, and the
// buyer is told.
func (p *Provider) WriteOff(ctx context.Context, requestID, note string) (msats int64, err error) {
	d, err := p.debt(ctx, requestID)
	if err != nil {
		return 0, err
	}
	if note = clip(strings.TrimSpace(note), 500); note == "" {
		return 0, errors.New("a note must say how the debt was settled")
	}
	if d, err = p.endForgotten(ctx, d); err != nil {
		return 0, err
	}
	if msats = min(d.LeftMsats(), d.CreditMsats); msats < 1 {
		return 0, ErrDebtSettled
	}
	job, err := p.cfg.Store.Job(ctx, requestID)
	if err != nil {
		return 0, fmt.Errorf("read the job: %w", err)
	}
	out, err := p.pub.Feedback(ctx, publish.BuyerOf(job), "refund", fmt.Sprintf("%d msats are settled otherwise: %s", msats, note), "",
		nostr.Tag{"refund", "settled", strconv.FormatInt(msats, 10)})
	if err != nil {
		return 0, err
	}
	if err := p.cfg.Store.WriteOff(ctx, requestID, msats, note, out); err != nil {
		return 0, err
	}
	p.pub.Send(out)
	p.log.Info("debt written off", "request", requestID, "msats", msats)
	return msats, nil
}

func (p *Provider) debt(ctx context.Context, requestID string) (Debt, error) {
	d, err := p.cfg.Store.DebtOf(ctx, requestID)
	switch {
	case err != nil:
		return Debt{}, fmt.Errorf("read the debt: %w", err)
	case d == nil:
		return Debt{}, fmt.Errorf("nothing is owed for job %s: %w", clip(requestID, 64), ErrNotFound)
	}
	return *d, nil
}
