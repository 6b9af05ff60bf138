package provider

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
	"github.com/lightwork-market/lightwork/payments/tapassets"
)

// Payer is the wallet's side that refunds are paid from.
type Payer interface {
	SendPayment(ctx context.Context, pay payments.Pay) error
	LookupPayment(ctx context.Context, hash payments.Hash) (payments.Payment, error)
	TrackPayment(ctx context.Context, hash payments.Hash) (payments.Payment, error)
}

// Refunds says how failed prepaid jobs are paid back. Never more is sent than
// what came for the job. Routing fees are ours only where the failure is ours,
// and never more than refundFeeShare: a buyer with a node on the route earns
// them, and could live on failures that its own request brings about.
type Refunds struct {
	Wallet      Payer
	MaxFeeMsats int64 // of one refund
	// Addresses gives invoices for Lightning addresses; nil: they become credit.
	Addresses Addresses
	// Chain is set where Wallet pays on the chain: refunds go to addresses there.
	Chain ChainPlanner
}

// refundFeeShare of the amount is the most that a refund costs in fees: 1/50.
const refundFeeShare = 50

// feeLimit is what may be paid in fees for a refund of a job that ended so.
func (r Refunds) feeLimit(msats int64, ended Code) int64 {
	if ownFailure(ended) {
		return min(r.MaxFeeMsats, msats/refundFeeShare)
	}
	return 0
}

var errRefundsOff = errors.New("refunds are not sent here")

// ownFailure reports whether a job ended so for a reason that is ours.
func ownFailure(ended Code) bool {
	switch ended {
	case CodeAgentUnavailable, CodeAgentFailed, CodeInvalidOutput, CodeDeadline, CodeNodeRestart, CodeInternal:
		return true
	}
	return false
}

const (
	// refundsAtOnce is far more than a stranger can afford to hold up: whoever is
	// paid may take a payment late, and the others must not wait for that. The
	// channels of a node carry about as many payments.
	refundsAtOnce = 256
	// refundBlocks is the longest that the payee of a refund may make it wait, in
	// blocks: a day. Other wallets ask for 9 to 80.
	refundBlocks = 144
	// refundMargin is how long a refund invoice must still be good.
	refundMargin  = time.Minute
	refundTimeout = time.Minute // of the wallet's search for a route
)

// refundOf makes the attempt to pay a debt to the invoice, or the Lightning
// address, that the request names. It is recorded together with the debt; nil
// and why if there is none.
func (p *Provider) refundOf(ctx context.Context, job Job, owed Credit, ended Code) (*Refund, string) {
	if owed.RefundTo == "" {
		return nil, ""
	}
	r, err := p.planRefund(ctx, payBack{
		to: owed.RefundTo, owed: owed.Msats, atOnce: mostAtOnce(job),
		most:     owed.Msats + job.CreditMsats, // credit that the quote used is the buyer's again with this debt
		feeLimit: func(msats int64) int64 { return p.cfg.Refunds.feeLimit(msats, ended) },
	})
	if err != nil {
		return nil, err.Error()
	}
	r.RequestID, r.Buyer, r.Attempt = job.RequestID, job.Buyer, 1
	return r, ""
}

// payBack is what may be paid back, and where to.
type payBack struct {
	to       string // BOLT11 or a Lightning address
	owed     int64  // msats that an address is asked an invoice for
	most     int64  // msats that an invoice may ask for
	atOnce   int64  // msats that are sent on the chain at most; 0: all
	feeLimit func(msats int64) int64
	again    bool // the invoice is that of an attempt that failed
}

// planRefund checks all that can be checked before a refund is recorded. Its
// errors are told to the buyer.
func (p *Provider) planRefund(ctx context.Context, b payBack) (*Refund, error) {
	if p.cfg.Refunds == nil {
		return nil, errRefundsOff
	}
	if p.cfg.Refunds.Chain != nil {
		return p.planOnChain(ctx, b)
	}
	if strings.Contains(b.to, "@") {
		var err error
		if b.to, b.most, err = p.invoiceOf(ctx, b.to, b.owed); err != nil {
			return nil, err
		}
	}
	if tapassets.IsAddress(b.to) {
		return nil, fmt.Errorf("its refund cannot be sent: %w", tapassets.Refuse(b.to))
	}
	inv, err := bolt11.Decode(b.to)
	if err != nil {
		return nil, errors.New("its refund invoice cannot be read")
	}
	switch {
	case inv.Network != p.node.Network:
		return nil, fmt.Errorf("its refund invoice is for %s, not %s", inv.Network, p.node.Network)
	case inv.AmountMsats <= 0 || inv.AmountMsats > b.most:
		return nil, fmt.Errorf("its refund invoice is for %d msats, not for 1 to %d", inv.AmountMsats, b.most)
	case time.Until(inv.ExpiresAt()) < refundMargin:
		return nil, errors.New("its refund invoice has expired")
	}
	if err := inv.CheckLock(refundBlocks); err != nil {
		return nil, fmt.Errorf("its refund invoice: %w", err)
	}
	if err := p.mayRefund(ctx, inv.PaymentHash, b.again); err != nil {
		return nil, err
	}
	return &Refund{BOLT11: b.to, PaymentHash: inv.PaymentHash, Msats: inv.AmountMsats, FeeLimitMsats: b.feeLimit(inv.AmountMsats), Wallet: p.node.Wallet()}, nil
}

// mayRefund: what the wallet may not do, or has done for somebody else, is known
// before the refund is recorded: afterwards such an answer says nothing of
// whether the payment was sent.
func (p *Provider) mayRefund(ctx context.Context, hash payments.Hash, again bool) error {
	pay, err := p.cfg.Refunds.Wallet.LookupPayment(ctx, hash)
	switch {
	case errors.Is(err, payments.ErrUnauthorized), errors.Is(err, payments.ErrUnsupported):
		p.log.Error("the wallet may not send refunds; lightwork wallet permissions --role refunds prints a macaroon that may", "err", err)
		return errRefundsOff
	case err == nil && (!again || pay.State != payments.PaymentFailed):
		return errors.New("its refund invoice was paid before")
	}
	return nil
}

// owedTag says in a number what is owed for a job, in all.
func owedTag(msats int64) nostr.Tag { return nostr.Tag{"owed", strconv.FormatInt(msats, 10)} }

// owedText tells the buyer what is owed and what becomes of it.
func owedText(owed Credit, why string) string {
	text := fmt.Sprintf("%d msats are owed to you", owed.Msats)
	switch {
	case owed.Refund != nil && owed.Refund.Msats == owed.Msats:
		return fmt.Sprintf("%d msats go back to your %s", owed.Msats, place(*owed.Refund))
	case owed.Refund != nil:
		return text + fmt.Sprintf(": %d msats go back to your %s", owed.Refund.Msats, place(*owed.Refund))
	case why != "":
		why = " (" + why + ")"
	}
	return text + ": credit, which lowers the price of your next jobs here" + why
}

// leastPaid is what a quote asks for whatever the credit: a job without a
// payment would leave no receipt.
const leastPaid = 1000

func (p *Provider) leastPaid() int64 { return max(leastPaid, p.cfg.LeastMsats) }

// lessCredit lowers a price by what is owed to the buyer. Both together are the
// price; AddJob checks that the credit is still there.
func (p *Provider) lessCredit(ctx context.Context, buyer string, price int64) (lowered, credit int64) {
	free, err := p.cfg.Store.CreditOf(ctx, buyer)
	if err != nil {
		p.log.Error("read credit", "buyer", buyer, "err", err)
		return price, 0
	}
	credit = max(0, min(free, price-p.leastPaid()))
	return price - credit, credit
}
