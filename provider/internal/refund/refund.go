// Package refund pays back what is owed to buyers.
package refund

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/destination"
	"github.com/lightwork-market/lightwork/provider/internal/publish"
	"github.com/lightwork-market/lightwork/receipts"
)

// Store keeps debts and the attempts to pay them.
type Store interface {
	Job(ctx context.Context, requestID string) (job.Job, error)
	// OpenRefunds lists refunds whose outcome is not known, oldest first.
	OpenRefunds(ctx context.Context) ([]job.Refund, error)
	// SetRefundSent records, before the wallet is told so, that it is to send an
	// attempt. ErrConflict if the attempt has ended, ErrNotFound if there is none.
	SetRefundSent(ctx context.Context, requestID string, attempt int) error
	// EndRefund records the outcome of an attempt. The same again is fine and
	// queues nothing; another is ErrConflict.
	EndRefund(ctx context.Context, requestID string, end job.RefundEnd, out ...job.OutEvent) error
	// RetryRefund records a further attempt to pay a debt and returns its number.
	// ErrRefundOpen, ErrDebtSettled, ErrRefundTaken, ErrCreditSpent.
	RetryRefund(ctx context.Context, r job.Refund) (attempt int, err error)
	// WriteOff records that msats of a debt were settled by other means.
	// ErrRefundOpen, ErrDebtSettled, ErrCreditSpent.
	WriteOff(ctx context.Context, requestID string, msats int64, note string, out ...job.OutEvent) error
	// DebtOf is what was owed for one job; nil if nothing was.
	DebtOf(ctx context.Context, requestID string) (*job.Debt, error)
}

// Config is what a Refunder needs.
type Config struct {
	Store        Store
	Publisher    *publish.Publisher
	Log          *slog.Logger
	Settings     *Settings            // nil: what is owed becomes credit
	Node         func() payments.Node // of the wallet that sells
	LookupEvery  time.Duration        // how often open refunds are looked for without a hint
	Tell         func(job.Event)      // is told when an attempt has ended
	OnStoreError func(err error)
}

// Refunder plans refunds and sees them through.
type Refunder struct {
	cfg Config
	log *slog.Logger
	due chan struct{} // cap 1: a refund was recorded

	sending sync.Map // request ids of refunds that the wallet is being told of
}

// New makes a Refunder that sends nothing before Serve.
func New(cfg Config) *Refunder {
	return &Refunder{cfg: cfg, log: cfg.Log, due: make(chan struct{}, 1)}
}

// msatsPerSat: many services make invoices for whole satoshis only.
const msatsPerSat = 1000

// Settings say how failed prepaid jobs are paid back. Never more is sent than
// what came for the job. Routing fees are ours only where the failure is ours,
// and never more than refundFeeShare: a buyer with a node on the route earns
// them, and could live on failures that its own request brings about.
type Settings struct {
	Wallet      payments.Payer
	MaxFeeMsats int64 // of one refund
	// Addresses gives invoices for Lightning addresses; nil: they become credit.
	Addresses Addresses
	// MaySpend is asked before the wallet is told of a refund, which waits while the
	// answer is an error; nil asks nobody.
	MaySpend payments.MaySpend
	// Chain is set where Wallet pays on the chain: refunds go to addresses there.
	Chain ChainPlanner
}

// refundFeeShare of the amount is the most that a refund costs in fees: 1/50.
const refundFeeShare = 50

// feeLimit is what may be paid in fees for a refund of a job that ended so.
func (r Settings) feeLimit(msats int64, ended job.Code) int64 {
	if ownFailure(ended) {
		return min(r.MaxFeeMsats, msats/refundFeeShare)
	}
	return 0
}

var errRefundsOff = errors.New("refunds are not sent here")

// ownFailure reports whether a job ended so for a reason that is ours.
func ownFailure(ended job.Code) bool {
	switch ended {
	case job.CodeAgentUnavailable, job.CodeAgentFailed, job.CodeInvalidOutput, job.CodeDeadline, job.CodeNodeRestart, job.CodeInternal:
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

// Plan makes the attempt to pay a debt to the invoice, or the Lightning
// address, that the request names. It is recorded together with the debt; nil
// and why if there is none.
func (s *Refunder) Plan(ctx context.Context, j job.Job, owed job.Credit, ended job.Code) (*job.Refund, string) {
	if owed.RefundTo == "" {
		return nil, ""
	}
	r, err := s.planRefund(ctx, payBack{
		to: owed.RefundTo, owed: owed.Msats, atOnce: mostAtOnce(j),
		most:     owed.Msats + j.CreditMsats, // credit that the quote used is the buyer's again with this debt
		feeLimit: func(msats int64) int64 { return s.cfg.Settings.feeLimit(msats, ended) },
	})
	if err != nil {
		return nil, err.Error()
	}
	r.RequestID, r.Buyer, r.Attempt = j.RequestID, j.Buyer, 1
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
func (s *Refunder) planRefund(ctx context.Context, b payBack) (*job.Refund, error) {
	if s.cfg.Settings == nil {
		return nil, errRefundsOff
	}
	if s.cfg.Settings.Chain != nil {
		return s.planOnChain(ctx, b)
	}

	to, err := destination.Parse(b.to, s.cfg.Node().Network)
	if err == nil && to.LightningAddress != "" {
		if b.to, b.most, err = s.invoiceOf(ctx, b.to, b.owed); err != nil {
			return nil, err
		}
		to, err = destination.Parse(b.to, s.cfg.Node().Network)
	}

	inv := to.Invoice
	switch {
	case errors.Is(err, payments.ErrWrongNetwork), errors.Is(err, payments.ErrAmount), errors.Is(err, payments.ErrAddress), errors.Is(err, payments.ErrTaprootAssets):
		return nil, fmt.Errorf("its refund cannot be sent: %w", err)
	case inv == nil:
		return nil, errors.New("its refund invoice cannot be read")
	case inv.AmountMsats > b.most:
		return nil, fmt.Errorf("its refund invoice is for %d msats, not for 1 to %d", inv.AmountMsats, b.most)
	case time.Until(inv.ExpiresAt()) < refundMargin:
		return nil, errors.New("its refund invoice has expired")
	}

	if err := inv.CheckLock(refundBlocks); err != nil {
		return nil, fmt.Errorf("its refund invoice: %w", err)
	}
	if err := s.mayRefund(ctx, inv.PaymentHash, b.again); err != nil {
		return nil, err
	}

	return &job.Refund{BOLT11: b.to, PaymentHash: inv.PaymentHash, Msats: inv.AmountMsats, FeeLimitMsats: b.feeLimit(inv.AmountMsats), Wallet: s.cfg.Node().Wallet()}, nil
}

// mayRefund: what the wallet may not do, or has done for somebody else, is known
// before the refund is recorded: afterwards such an answer says nothing of
// whether the payment was sent.
func (s *Refunder) mayRefund(ctx context.Context, hash payments.Hash, again bool) error {
	pay, err := s.cfg.Settings.Wallet.LookupPayment(ctx, hash)
	switch {
	case errors.Is(err, payments.ErrUnauthorized), errors.Is(err, payments.ErrUnsupported):
		s.log.Error("the wallet may not send refunds; lightwork wallet permissions --role refunds prints a macaroon that may", "err", err)
		return errRefundsOff
	case err == nil && (!again || pay.State != payments.PaymentFailed):
		return errors.New("its refund invoice was paid before")
	}
	return nil
}

// OwedTag says in a number what is owed for a job, in all.
func OwedTag(msats int64) nostr.Tag { return nostr.Tag{"owed", strconv.FormatInt(msats, 10)} }

// OwedText tells the buyer what is owed and what becomes of it.
func OwedText(owed job.Credit, why string) string {
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

// ChainPlanner reads the address of a refund on the chain and says what a payment
// to it costs now. Its errors: payments.ErrBadRequest, ErrSelfPayment,
// ErrAlreadyPaid, ErrNoRoute (the miners ask for too much), ErrUnauthorized.
type ChainPlanner interface {
	PlanRefund(ctx context.Context, address string) (payments.ChainPlan, error)
}

const (
	// leastOnChain is the least that a refund on the chain sends: the highest of
	// the dust limits of output types.
	leastOnChain = 546 * msatsPerSat
	// minersShare of what is owed is the most that a refund on the chain costs:
	// 1/4. Below it is worth more as credit.
	minersShare = 4
	// leastAtOnce is sent without the operator, however little the job costs.
	leastAtOnce = 1_000_000 * msatsPerSat
)

// mostAtOnce is the most that is sent on the chain without the operator: as much
// as the job costs. Who pays late or too much chooses how much that is, and has it
// back in other coins after confirmations that were chosen for prices; a
// reorganisation would then cost us what we have, and not a job.
func mostAtOnce(j job.Job) int64 { return max(j.PriceMsats, leastAtOnce) }

// Address is the address on the chain that a request names for a refund, as
// the wallet writes it; "" if there is none, or none that could be paid.
func (s *Refunder) Address(view nostr.Event, mode receipts.Mode) string {
	if s.cfg.Settings == nil || s.cfg.Settings.Chain == nil || mode != receipts.ModePrepay {
		return ""
	}
	u, err := destination.ParseURI(Target(view), s.cfg.Node().Network)
	if err != nil {
		return ""
	}
	return u.Address
}

// planOnChain makes the attempt to send what is owed to an address. The miners'
// fee is ours where the failure is, and within the limit; else it comes off what
// is sent: who pays late or in part could have us pay miners for ever.
func (s *Refunder) planOnChain(ctx context.Context, b payBack) (*job.Refund, error) {
	plan, err := s.cfg.Settings.Chain.PlanRefund(ctx, b.to)
	if err != nil {
		return nil, s.noPlan(err)
	}
	owed := b.owed
	if b.atOnce > 0 {
		owed = min(owed, b.atOnce)
	}
	owed -= owed % msatsPerSat
	sent, limit := owed, b.feeLimit(owed)
	if plan.FeeMsats > limit {
		sent, limit = owed-plan.FeeMsats, plan.FeeMsats
	}
	if sent < leastOnChain || plan.FeeMsats > owed/minersShare {
		return nil, fmt.Errorf("the miners would take about %d msats of it", plan.FeeMsats)
	}
	text := destination.URI{Address: plan.Address, Sats: sent / msatsPerSat}.String()
	return &job.Refund{BOLT11: text, PaymentHash: plan.Hash, Msats: owed, FeeLimitMsats: limit, Wallet: s.cfg.Node().Wallet()}, nil
}

// noPlan is what the buyer is told; the wallet's own words are ours.
func (s *Refunder) noPlan(err error) error {
	switch {
	case errors.Is(err, payments.ErrUnauthorized), errors.Is(err, payments.ErrUnsupported):
		s.log.Error("the wallet may not send refunds; lightwork wallet permissions --chain --role refunds prints a macaroon that may", "err", err)
		return errRefundsOff
	case errors.Is(err, payments.ErrBadRequest):
		return errors.New("its refund address cannot be read: a segwit address of this chain is needed")
	case errors.Is(err, payments.ErrSelfPayment):
		return errors.New("its refund address is one of ours")
	case errors.Is(err, payments.ErrAlreadyPaid):
		return errors.New("its refund address was paid before")
	case errors.Is(err, payments.ErrNoRoute):
		return errors.New("the miners ask for too much now")
	}

	s.log.Warn("a refund on the chain cannot be planned now", "err", err)
	return errors.New("the wallet does not answer now")
}

// unused is what was taken from the credit for the miners and not needed.
func unused(r job.Refund, pay payments.Payment) int64 {
	return max(0, r.Msats-r.SentMsats()-pay.FeeMsats)
}

// place names where a refund goes, for people.
func place(r job.Refund) string {
	if r.Rail() == payments.RailOnChain {
		return "refund address"
	}
	return "refund invoice"
}

// Begin begins the refund of what was recorded as credit first: on the
// chain, what came late or beyond the price. What has had an attempt already stays
// credit, since the address is used. If we die before the attempt is recorded it
// stays credit too, and the operator may have it paid.
func (s *Refunder) Begin(ctx context.Context, requestID string) {
	if s.cfg.Settings == nil || s.cfg.Settings.Chain == nil {
		return
	}
	d, err := s.debt(ctx, requestID)
	if errors.Is(err, job.ErrNotFound) || err == nil && (d.RefundTo == "" || d.Refund != nil) {
		return
	}
	var j job.Job
	if err == nil {
		j, err = s.cfg.Store.Job(ctx, requestID)
	}
	var r *job.Refund
	if err == nil {
		owed := min(d.LeftMsats(), d.CreditMsats)
		r, err = s.planRefund(ctx, payBack{to: d.RefundTo, owed: owed, atOnce: mostAtOnce(j), feeLimit: func(int64) int64 { return 0 }})
	}

	if err == nil {
		r.RequestID, r.Buyer = d.RequestID, d.Buyer
		_, err = s.cfg.Store.RetryRefund(ctx, *r)
	}

	if err != nil {
		s.log.Warn("what is owed stays credit", "request", requestID, "err", err)
		return
	}
	s.Wake()
}
