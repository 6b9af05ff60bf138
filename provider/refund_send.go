package provider

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/payments"
)

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
	case err == nil && pay.State == payments.PaymentFailed && r.Attempt > 1:
		// Of a former attempt, or of this one before a restart: only what failed
		// for good may be sent again, and the wallet pays a hash once.
	case err == nil && pay.State.Terminal():
		return pay, nil
	case err != nil && !errors.Is(err, payments.ErrNotFound):
		return pay, fmt.Errorf("look up refund: %w", err)
	case err == nil:
		return wallet.TrackPayment(ctx, r.PaymentHash)
	case r.Wallet != "" && r.Wallet != p.node.Wallet():
		return pay, fmt.Errorf("%w: that is %s, and this one is %s", errOtherPayer, r.Wallet, p.node.Wallet())
	}
	refusal := wallet.SendPayment(ctx, payments.Pay{
		BOLT11: r.BOLT11, AmountMsats: r.SentMsats(), FeeLimitMsats: r.FeeLimitMsats, Timeout: refundTimeout,
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

// errOtherPayer: only the wallet that a refund was begun with knows whether it was
// sent; another would send it twice, or call it failed.
var errOtherPayer = errors.New("the refund was begun with another wallet than the configured one; configure that wallet again until it has ended")

func failedRefund(r Refund, why error) payments.Payment {
	return payments.Payment{Hash: r.PaymentHash, State: payments.PaymentFailed, AmountMsats: r.Msats, FailureReason: why.Error()}
}

// endRefund records the outcome and tells the buyer in a 7000 with status
// "refund", which other clients pass over.
func (p *Provider) endRefund(ctx context.Context, r Refund, pay payments.Payment) error {
	end := RefundEnd{
		Attempt: r.Attempt, State: pay.State, FeeMsats: pay.FeeMsats, Preimage: pay.Preimage, Outpoints: pay.Outpoints,
		UnusedMsats: r.unused(pay),
	}
	text := fmt.Sprintf("%d msats were sent to your %s", r.SentMsats(), r.place())
	if pay.State == payments.PaymentFailed {
		// The wallet's own words may name what is ours to know.
		end = RefundEnd{Attempt: r.Attempt, State: pay.State, Reason: clip(pay.FailureReason, 500)}
		text = fmt.Sprintf("the refund could not be sent: %d msats are credit, which lowers the price of your next jobs here", r.Msats)
	}
	if r.Attempt > 1 {
		text += fmt.Sprintf(" (attempt %d)", r.Attempt)
	}
	job, err := p.cfg.Store.Job(ctx, r.RequestID)
	if err != nil {
		return fmt.Errorf("read the refunded job: %w", err)
	}
	tag := nostr.Tag{"refund", string(pay.State), strconv.FormatInt(r.SentMsats(), 10), r.PaymentHash.String()}
	if end.Outpoints != "" {
		tag = append(tag, end.Outpoints)
	}
	out, err := p.feedback(ctx, buyerOf(job), "refund", text, "", tag)
	if err != nil {
		return err
	}
	if err := p.cfg.Store.EndRefund(ctx, r.RequestID, end, out); err != nil {
		return fmt.Errorf("record refund: %w", err)
	}
	p.tell(RefundEvent{r.RequestID, end})
	p.outbox.send(out)
	if pay.State == payments.PaymentFailed {
		p.log.Warn("refund failed, it is credit now", "request", r.RequestID, "msats", r.Msats, "reason", pay.FailureReason)
	} else {
		p.log.Info("refunded", "request", r.RequestID, "msats", r.Msats, "fee_msats", pay.FeeMsats)
	}
	return nil
}
