package refund

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/backoff"
	"github.com/lightwork-market/lightwork/internal/clip"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider/internal/publish"
)

// Wake has recorded refunds looked for at once.
func (s *Refunder) Wake() {
	select {
	case s.due <- struct{}{}:
	default:
	}
}

// Serve sees every recorded refund through to its end, those of a former
// life too. It owns a goroutine a refund, so that one that is stuck on its way
// holds up no other; one that the operator has ended is asked about no more.
func (s *Refunder) Serve(ctx context.Context) error {
	if s.cfg.Settings == nil {
		return nil
	}
	var workers sync.WaitGroup
	defer workers.Wait()

	type attempt struct {
		number int
		stop   context.CancelFunc
	}
	ended := make(chan string)
	busy := map[string]attempt{} // by request
	defer func() {
		for _, a := range busy {
			a.stop()
		}
	}()

	for {
		open, err := s.cfg.Store.OpenRefunds(ctx)
		if err != nil && ctx.Err() == nil {
			s.log.Error("read refunds", "err", err)
		}

		last := map[string]int{}
		for _, r := range open {
			last[r.RequestID] = r.Attempt
		}

		for id, a := range busy {
			if err == nil && last[id] != a.number {
				a.stop()
			}
		}

		for _, r := range open {
			if _, ok := busy[r.RequestID]; ok || len(busy) >= refundsAtOnce {
				continue
			}
			seeing, stop := context.WithCancel(ctx)
			busy[r.RequestID] = attempt{r.Attempt, stop}
			workers.Go(func() {
				s.refund(seeing, r)
				select {
				case ended <- r.RequestID:
				case <-ctx.Done():
				}
			})
		}

		select {
		case id := <-ended:
			busy[id].stop()
			delete(busy, id)
		case <-s.due:
		case <-time.After(s.cfg.LookupEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// refund brings one refund to its end and records that.
func (s *Refunder) refund(ctx context.Context, r job.Refund) {
	halted := false // by the owner, as is said once
	for pause := time.Second; ; {
		pay, err := s.payRefund(ctx, &r)
		if err == nil && pay.State.Terminal() {
			err = s.endRefund(ctx, r, pay)
			if err == nil || errors.Is(err, job.ErrConflict) {
				return
			}
			s.cfg.OnStoreError(err)
		}

		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, payments.ErrSpendingStopped) {
			if !halted {
				s.log.Warn("refund is kept back", "request", r.RequestID, "payment_hash", r.PaymentHash, "err", err)
			}
			halted, pause = true, lookAgain
			if backoff.Wait(ctx, &pause, lookAgain) != nil {
				return
			}
			continue
		}
		halted = false
		s.log.Warn("refund not done yet, asking again", "request", r.RequestID, "payment_hash", r.PaymentHash, "in", pause, "err", err)

		if backoff.Wait(ctx, &pause, 30*time.Second) != nil {
			return
		}
	}
}

// payRefund sees an attempt through. A failure that may hide a success is
// ErrRefundForgotten.
func (s *Refunder) payRefund(ctx context.Context, r *job.Refund) (payments.Payment, error) {
	pay, err := s.sendRefund(ctx, r)
	if err == nil && failureUnsure(*r, pay) {
		err = fmt.Errorf("%w; of the last time it says: %s", job.ErrRefundForgotten, pay.FailureReason)
	}
	return pay, err
}

// sendRefund looks before it sends: only a payment that the wallet never heard
// of is sent, so a restart at any point pays once. That it is sent is written down
// before: a wallet that has lost its records since says that it never heard of it.
func (s *Refunder) sendRefund(ctx context.Context, r *job.Refund) (payments.Payment, error) {
	wallet := s.cfg.Settings.Wallet
	pay, err := wallet.LookupPayment(ctx, r.PaymentHash)
	switch {
	case err == nil && pay.State == payments.PaymentFailed && r.Attempt > 1 && r.Sent == 0:
		// Of a former attempt: only what failed for good may be sent again, and the
		// wallet pays a hash once.
	case err == nil && pay.State.Terminal():
		return pay, nil
	case err != nil && !errors.Is(err, payments.ErrNotFound):
		return pay, fmt.Errorf("look up refund: %w", err)
	case err == nil:
		return wallet.TrackPayment(ctx, r.PaymentHash)
	case r.Wallet != "" && r.Wallet != s.cfg.Node().Wallet():
		return pay, fmt.Errorf("%w: that is %s, and this one is %s", errOtherPayer, r.Wallet, s.cfg.Node().Wallet())
	case r.Sent >= mostSent:
		return pay, job.ErrRefundForgotten
	}

	if err := s.cfg.Settings.MaySpend.Ask(); err != nil {
		return pay, err
	}
	s.sending.Store(r.RequestID, true)
	defer s.sending.Delete(r.RequestID)

	if err := s.cfg.Store.SetRefundSent(ctx, r.RequestID, r.Attempt); err != nil {
		return pay, fmt.Errorf("record that the refund is sent: %w", err)
	}
	told := r.SentAt
	if r.Sent++; r.Sent == 1 {
		r.SentAt = time.Now()
	}
	refusal := wallet.SendPayment(ctx, payments.Pay{
		BOLT11: r.BOLT11, AmountMsats: r.SentMsats(), FeeLimitMsats: r.FeeLimitMsats, Timeout: refundTimeout, ToldAt: told,
	})
	if payments.NeverSent(refusal) {
		// Asked once more before it is believed.
		if pay, err = wallet.LookupPayment(ctx, r.PaymentHash); errors.Is(err, payments.ErrNotFound) {
			return failedRefund(*r, refusal), nil
		}
		return pay, err
	}

	if refusal != nil {
		return pay, fmt.Errorf("send refund: %w", refusal)
	}
	return wallet.TrackPayment(ctx, r.PaymentHash)
}

// lookAgain is how often a refund that the owner keeps back asks whether it may go.
const lookAgain = time.Second

// mostSent is how often the wallet is told of one attempt: once more after a crash. The
// payee of an invoice takes it once, and a wallet on the chain finds what it paid to an address.
const mostSent = 2

// failureUnsure reports whether a refund that failed may have gone through all the
// same: the wallet was told of it twice, and speaks of the last time.
func failureUnsure(r job.Refund, pay payments.Payment) bool {
	return pay.State == payments.PaymentFailed && r.Sent > 1
}

// isForgotten reports whether the wallet does not know what became of a refund that
// it was told to send.
func (s *Refunder) isForgotten(ctx context.Context, r job.Refund) (bool, error) {
	if s.cfg.Settings == nil || r.End != nil || r.Sent < mostSent {
		return false, nil
	}

	pay, err := s.cfg.Settings.Wallet.LookupPayment(ctx, r.PaymentHash)
	switch {
	case errors.Is(err, payments.ErrNotFound):
		return r.Wallet == "" || r.Wallet == s.cfg.Node().Wallet(), nil
	case err != nil:
		return false, fmt.Errorf("look up refund: %w", err)
	}
	return failureUnsure(r, pay), nil
}

// endForgotten ends the last attempt to pay a debt if the wallet has forgotten it, at
// the operator's word: what it was over is credit again. ErrRefundOpen if the attempt
// may still be on its way: a wallet that is just being told of one knows it later.
func (s *Refunder) endForgotten(ctx context.Context, d job.Debt) (job.Debt, error) {
	if d.Refund == nil || d.Refund.End != nil {
		return d, nil
	}
	if _, ok := s.sending.Load(d.RequestID); ok {
		return d, job.ErrRefundOpen
	}

	forgotten, err := s.isForgotten(ctx, *d.Refund)
	if err != nil {
		return d, err
	}
	if !forgotten {
		return d, job.ErrRefundOpen
	}

	if err := s.endRefund(ctx, *d.Refund, failedRefund(*d.Refund, job.ErrRefundForgotten)); err != nil {
		return d, err
	}

	return s.debt(ctx, d.RequestID)
}

// errOtherPayer: only the wallet that a refund was begun with knows whether it was
// sent; another would send it twice, or call it failed.
var errOtherPayer = errors.New("the refund was begun with another wallet than the configured one; configure that wallet again until it has ended")

func failedRefund(r job.Refund, why error) payments.Payment {
	return payments.Payment{Hash: r.PaymentHash, State: payments.PaymentFailed, AmountMsats: r.Msats, FailureReason: why.Error()}
}

// endRefund records the outcome and tells the buyer in a 7000 with status
// "refund", which other clients pass over.
func (s *Refunder) endRefund(ctx context.Context, r job.Refund, pay payments.Payment) error {
	end := job.RefundEnd{
		Attempt: r.Attempt, State: pay.State, FeeMsats: pay.FeeMsats, Preimage: pay.Preimage, Outpoints: pay.Outpoints,
		UnusedMsats: unused(r, pay),
	}
	text := fmt.Sprintf("%d msats were sent to your %s", r.SentMsats(), place(r))
	if pay.State == payments.PaymentFailed {
		// The wallet's own words may name what is ours to know.
		end = job.RefundEnd{Attempt: r.Attempt, State: pay.State, Reason: clip.Text(pay.FailureReason, 500)}
		text = fmt.Sprintf("the refund could not be sent: %d msats are credit, which lowers the price of your next jobs here", r.Msats)
	}

	if r.Attempt > 1 {
		text += fmt.Sprintf(" (attempt %d)", r.Attempt)
	}
	j, err := s.cfg.Store.Job(ctx, r.RequestID)
	if err != nil {
		return fmt.Errorf("read the refunded job: %w", err)
	}
	tag := nostr.Tag{"refund", string(pay.State), strconv.FormatInt(r.SentMsats(), 10), r.PaymentHash.String()}
	if end.Outpoints != "" {
		tag = append(tag, end.Outpoints)
	}
	out, err := s.cfg.Publisher.Feedback(ctx, publish.BuyerOf(j), "refund", text, "", tag)
	if err != nil {
		return err
	}
	if err := s.cfg.Store.EndRefund(ctx, r.RequestID, end, out); err != nil {
		return fmt.Errorf("record refund: %w", err)
	}

	s.cfg.Tell(job.RefundEvent{RequestID: r.RequestID, End: end})
	s.cfg.Publisher.Send(out)
	if pay.State == payments.PaymentFailed {
		s.log.Warn("refund failed, it is credit now", "request", r.RequestID, "msats", r.Msats, "reason", pay.FailureReason)
	} else {
		s.log.Info("refunded", "request", r.RequestID, "msats", r.Msats, "fee_msats", pay.FeeMsats)
	}

	return nil
}
