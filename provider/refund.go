package provider

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
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
}

// refundFeeShare of the amount is the most that a refund costs in fees: 1/50.
const refundFeeShare = 50

// feeLimit is what may be paid in fees for a refund of a job that ended so.
func (r Refunds) feeLimit(msats int64, ended Code) int64 {
	switch ended {
	case CodeAgentUnavailable, CodeAgentFailed, CodeInvalidOutput, CodeDeadline, CodeNodeRestart, CodeInternal:
		return min(r.MaxFeeMsats, msats/refundFeeShare)
	}
	return 0
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

// refundOf makes the attempt to pay a debt to the invoice that the request
// names. It is recorded together with the debt; nil and why if there is none.
func (p *Provider) refundOf(ctx context.Context, job Job, owed Credit, ended Code) (*Refund, string) {
	switch {
	case owed.RefundTo == "":
		return nil, ""
	case p.cfg.Refunds == nil:
		return nil, "refunds are not sent here"
	case strings.Contains(owed.RefundTo, "@"):
		return nil, "a refund goes to a BOLT11 invoice, not to a Lightning address"
	}
	inv, err := bolt11.Decode(owed.RefundTo)
	if err != nil {
		return nil, "its refund invoice cannot be read"
	}
	// Credit that the quote used is the buyer's again with this debt.
	most := owed.Msats + job.CreditMsats
	switch {
	case inv.Network != p.node.Network:
		return nil, fmt.Sprintf("its refund invoice is for %s, not %s", inv.Network, p.node.Network)
	case inv.AmountMsats <= 0 || inv.AmountMsats > most:
		return nil, fmt.Sprintf("its refund invoice is for %d msats, not for 1 to %d", inv.AmountMsats, most)
	case inv.MinFinalCLTV > refundBlocks:
		return nil, fmt.Sprintf("its refund invoice could be held for %d blocks, at most %d here", inv.MinFinalCLTV, refundBlocks)
	case time.Until(inv.ExpiresAt()) < refundMargin:
		return nil, "its refund invoice has expired"
	}
	// What the wallet may not do, or has done for somebody else, is known before
	// the refund is recorded: afterwards such an answer says nothing of whether
	// the payment was sent.
	switch _, err := p.cfg.Refunds.Wallet.LookupPayment(ctx, inv.PaymentHash); {
	case errors.Is(err, payments.ErrUnauthorized), errors.Is(err, payments.ErrUnsupported):
		p.log.Error("the wallet may not send refunds; lightwork wallet permissions --role refunds prints a macaroon that may", "err", err)
		return nil, "refunds are not sent here"
	case err == nil:
		return nil, "its refund invoice was paid before"
	}
	return &Refund{
		RequestID: job.RequestID, Buyer: job.Buyer, BOLT11: owed.RefundTo, PaymentHash: inv.PaymentHash,
		Msats: inv.AmountMsats, FeeLimitMsats: p.cfg.Refunds.feeLimit(inv.AmountMsats, ended),
	}, ""
}

// owedText tells the buyer what is owed and what becomes of it.
func owedText(owed Credit, why string) string {
	text := fmt.Sprintf("%d msats are owed to you", owed.Msats)
	switch {
	case owed.Refund != nil:
		return text + fmt.Sprintf(": %d msats are being sent to your refund invoice", owed.Refund.Msats)
	case why != "":
		why = " (" + why + ")"
	}
	return text + ": credit, which lowers the price of your next jobs here" + why
}

// leastPaid is what a quote asks for whatever the credit: a job without a
// payment would leave no receipt.
const leastPaid = 1000

// lessCredit lowers a price by what is owed to the buyer. Both together are the
// price; AddJob checks that the credit is still there.
func (p *Provider) lessCredit(ctx context.Context, buyer string, price int64) (lowered, credit int64) {
	free, err := p.cfg.Store.CreditOf(ctx, buyer)
	if err != nil {
		p.log.Error("read credit", "buyer", buyer, "err", err)
		return price, 0
	}
	credit = max(0, min(free, price-leastPaid))
	return price - credit, credit
}

func (p *Provider) refundsWake() {
	select {
	case p.refundDue <- struct{}{}:
	default:
	}
}

// serveRefunds sees every recorded refund through to its end, those of a former
// life too. It owns a goroutine a refund, so that one that is stuck on its way
// holds up no other.
func (p *Provider) serveRefunds(ctx context.Context) error {
	if p.cfg.Refunds == nil {
		return nil
	}
	var workers sync.WaitGroup
	defer workers.Wait()
	ended := make(chan string)
	busy := map[string]bool{}
	for {
		open, err := p.cfg.Store.OpenRefunds(ctx)
		if err != nil && ctx.Err() == nil {
			p.log.Error("read refunds", "err", err)
		}
		for _, r := range open {
			if busy[r.RequestID] || len(busy) >= refundsAtOnce {
				continue
			}
			busy[r.RequestID] = true
			workers.Go(func() {
				p.refund(ctx, r)
				select {
				case ended <- r.RequestID:
				case <-ctx.Done():
				}
			})
		}
		select {
		case id := <-ended:
			delete(busy, id)
		case <-p.refundDue:
		case <-time.After(p.limits.LookupEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// refund brings one refund to its end and records that.
func (p *Provider) refund(ctx context.Context, r Refund) {
	for pause := time.Second; ; pause = min(2*pause, 30*time.Second) {
		pay, err := p.payRefund(ctx, r)
		if err == nil && pay.State.Terminal() {
			err = p.endRefund(ctx, r, pay)
			if err == nil || errors.Is(err, ErrConflict) {
				return
			}
			p.storeTrouble(err)
		}
		if ctx.Err() != nil {
			return
		}
		p.log.Warn("refund not done yet, asking again", "request", r.RequestID, "payment_hash", r.PaymentHash, "in", pause, "err", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// payRefund looks before it sends: only a payment that the wallet never heard
// of is sent, so a restart at any point pays once.
func (p *Provider) payRefund(ctx context.Context, r Refund) (payments.Payment, error) {
	wallet := p.cfg.Refunds.Wallet
	pay, err := wallet.LookupPayment(ctx, r.PaymentHash)
	switch {
	case err == nil && pay.State.Terminal():
		return pay, nil
	case err != nil && !errors.Is(err, payments.ErrNotFound):
		return pay, fmt.Errorf("look up refund: %w", err)
	case err == nil:
		return wallet.TrackPayment(ctx, r.PaymentHash)
	}
	refusal := wallet.SendPayment(ctx, payments.Pay{
		BOLT11: r.BOLT11, AmountMsats: r.Msats, FeeLimitMsats: r.FeeLimitMsats, Timeout: refundTimeout,
	})
	if payments.NeverSent(refusal) {
		// Asked once more before it is believed.
		if pay, err = wallet.LookupPayment(ctx, r.PaymentHash); errors.Is(err, payments.ErrNotFound) {
			return failedRefund(r, refusal), nil
		}
		return pay, err
	}
	if refusal != nil {
		return pay, fmt.Errorf("send refund: %w", refusal)
	}
	return wallet.TrackPayment(ctx, r.PaymentHash)
}

func failedRefund(r Refund, why error) payments.Payment {
	return payments.Payment{Hash: r.PaymentHash, State: payments.PaymentFailed, AmountMsats: r.Msats, FailureReason: why.Error()}
}

// endRefund records the outcome and tells the buyer in a 7000 with status
// "refund", which other clients pass over.
func (p *Provider) endRefund(ctx context.Context, r Refund, pay payments.Payment) error {
	end := RefundEnd{State: pay.State, FeeMsats: pay.FeeMsats, Preimage: pay.Preimage}
	text := fmt.Sprintf("%d msats were sent to your refund invoice", r.Msats)
	if pay.State == payments.PaymentFailed {
		// The wallet's own words may name what is ours to know.
		end.FeeMsats, end.Preimage, end.Reason = 0, payments.Preimage{}, clip(pay.FailureReason, 500)
		text = fmt.Sprintf("the refund could not be sent: %d msats are credit, which lowers the price of your next jobs here", r.Msats)
	}
	job, err := p.cfg.Store.Job(ctx, r.RequestID)
	if err != nil {
		return fmt.Errorf("read the refunded job: %w", err)
	}
	out, err := p.feedback(ctx, buyerOf(job), "refund", text, "",
		nostr.Tag{"refund", string(pay.State), strconv.FormatInt(r.Msats, 10), r.PaymentHash.String()})
	if err != nil {
		return err
	}
	if err := p.cfg.Store.EndRefund(ctx, r.RequestID, end, out); err != nil {
		return fmt.Errorf("record refund: %w", err)
	}
	p.outbox.send(out)
	if pay.State == payments.PaymentFailed {
		p.log.Warn("refund failed, it is credit now", "request", r.RequestID, "msats", r.Msats, "reason", pay.FailureReason)
	} else {
		p.log.Info("refunded", "request", r.RequestID, "msats", r.Msats, "fee_msats", pay.FeeMsats)
	}
	return nil
}
