package refund

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/lightwork-market/lightwork/internal/clip"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/provider/internal/publish"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/nbd-wtf/go-nostr"
)

// Addresses turns a Lightning address into an invoice for exactly msats.
type Addresses interface {
	Invoice(ctx context.Context, address string, msats int64) (bolt11 string, err error)
}

// invoiceOf asks a Lightning address for an invoice of what is owed, in whole
// satoshis; the rest stays credit. It asks before anything is recorded: a second
// invoice, after a crash in between, leaves the first unpaid.
func (s *Refunder) invoiceOf(ctx context.Context, address string, owed int64) (invoice string, msats int64, err error) {
	msats = owed - owed%msatsPerSat
	switch {
	case s.cfg.Settings.Addresses == nil:
		return "", 0, errors.New("a refund goes to a BOLT11 invoice, not to a Lightning address")
	case msats == 0:
		return "", 0, errors.New("a Lightning address is paid whole satoshis only")
	}

	invoice, err = s.cfg.Settings.Addresses.Invoice(ctx, address, msats)
	if err != nil {
		s.log.Warn("a Lightning address gives no invoice for a refund", "err", err)
		why := clip.Text(err.Error(), 200)
		if errors.As(err, new(net.Error)) {
			// The buyer chose the host: what our name server says of it, and by which
			// address we went there, would tell of our own network.
			why = "its service cannot be reached"
		}
		return "", 0, fmt.Errorf("its Lightning address gives no invoice: %s", why)
	}

	return invoice, msats, nil
}

// Retry begins a further attempt to pay a debt, at the operator's word:
// to what is named, or else to where the last attempt went, or the request says.
// The payment is seen through like the first. The wallet's fee limit is the one
// of the configuration, whoever's failure it was.
func (s *Refunder) Retry(ctx context.Context, requestID, to string) (job.Refund, error) {
	d, err := s.debt(ctx, requestID)
	if err == nil {
		d, err = s.endForgotten(ctx, d)
	}
	if err != nil {
		return job.Refund{}, err
	}
	if to = strings.TrimSpace(to); to == "" {
		to = lastTarget(d)
	}

	switch {
	case to == "":
		return job.Refund{}, errors.New("the request names no refund: name an invoice or a Lightning address of the buyer's, on the chain an address")
	case d.CreditMsats < 1 || d.LeftMsats() < 1:
		return job.Refund{}, job.ErrDebtSettled
	}

	owed := min(d.LeftMsats(), d.CreditMsats)
	r, err := s.planRefund(ctx, payBack{
		to: to, owed: owed, most: owed, again: d.Refund != nil && d.Refund.BOLT11 == to,
		feeLimit: func(int64) int64 { return s.cfg.Settings.MaxFeeMsats },
	})
	if err != nil {
		return job.Refund{}, err
	}
	r.RequestID, r.Buyer = d.RequestID, d.Buyer
	if r.Attempt, err = s.cfg.Store.RetryRefund(ctx, *r); err != nil {
		return job.Refund{}, err
	}
	s.log.Info("refund is tried again", "request", r.RequestID, "attempt", r.Attempt, "msats", r.Msats, "payment_hash", r.PaymentHash)
	s.Wake()
	return *r, nil
}

// lastTarget is where a debt was last tried to be paid. A Lightning address is
// asked again: its former invoice may have lapsed.
func lastTarget(d job.Debt) string {
	if d.Refund != nil && !strings.Contains(d.RefundTo, "@") {
		return d.Refund.BOLT11
	}
	return d.RefundTo
}

// WriteOff ends a debt that the operator has settled with the buyer by other
// means, which the note says. What is left of it is no credit any more, and the
// buyer is told.
func (s *Refunder) WriteOff(ctx context.Context, requestID, note string) (msats int64, err error) {
	d, err := s.debt(ctx, requestID)
	if err != nil {
		return 0, err
	}
	if note = clip.Text(strings.TrimSpace(note), 500); note == "" {
		return 0, errors.New("a note must say how the debt was settled")
	}
	if d, err = s.endForgotten(ctx, d); err != nil {
		return 0, err
	}
	if msats = min(d.LeftMsats(), d.CreditMsats); msats < 1 {
		return 0, job.ErrDebtSettled
	}

	j, err := s.cfg.Store.Job(ctx, requestID)
	if err != nil {
		return 0, fmt.Errorf("read the job: %w", err)
	}
	out, err := s.cfg.Publisher.Feedback(ctx, publish.BuyerOf(j), "refund", fmt.Sprintf("%d msats are settled otherwise: %s", msats, note), "",
		nostr.Tag{"refund", "settled", strconv.FormatInt(msats, 10)})
	if err != nil {
		return 0, err
	}
	if err := s.cfg.Store.WriteOff(ctx, requestID, msats, note, out); err != nil {
		return 0, err
	}

	s.cfg.Publisher.Send(out)
	s.log.Info("debt written off", "request", requestID, "msats", msats)
	return msats, nil
}

func (s *Refunder) debt(ctx context.Context, requestID string) (job.Debt, error) {
	d, err := s.cfg.Store.DebtOf(ctx, requestID)
	switch {
	case err != nil:
		return job.Debt{}, fmt.Errorf("read the debt: %w", err)
	case d == nil:
		return job.Debt{}, fmt.Errorf("nothing is owed for job %s: %w", clip.Text(requestID, 64), job.ErrNotFound)
	}
	return *d, nil
}

// Target is where the request wants a failed prepayment returned: its
// ["param","refund",...], bounded.
func Target(asked nostr.Event) string {
	terms, _ := receipts.TermsOf(asked.Tags) // it was read when the request was taken
	return clip.Text(terms.Refund, 2048)
}
