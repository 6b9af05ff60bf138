package nwc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/lightwork-market/lightwork/internal/backoff"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
)

// payInvoice pays within the app's budget and answers when the payment has ended.
func (s *Service) payInvoice(ctx context.Context, a *app, params jsontext.Value) (any, error) {
	var p payParams
	if err := decodeParams(params, &p); err != nil {
		return nil, err
	}
	inv, err := bolt11.Decode(p.Invoice)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", payments.ErrBadRequest, err)
	}
	if inv.AmountMsats < 1 || p.Amount != 0 && p.Amount != inv.AmountMsats {
		return nil, fmt.Errorf("%w: the invoice must name the amount", payments.ErrAmount)
	}

	limit := max(inv.AmountMsats/100, 10_000) // the limit that wallets use by default
	if p.FeeLimit != nil {
		limit = *p.FeeLimit
	}
	if err := payments.CheckMsats(limit); err != nil || limit > payments.MaxMsats-inv.AmountMsats {
		return nil, fmt.Errorf("%w: fee limit", payments.ErrAmount)
	}
	pay := payments.Pay{BOLT11: p.Invoice, AmountMsats: inv.AmountMsats, FeeLimitMsats: limit}
	paid, err := s.flight(a.Client, inv.PaymentHash, func() (payments.Payment, error) {
		return s.pay(ctx, a, pay, inv.PaymentHash)
	})
	if err != nil {
		return nil, err
	}
	if paid.State != payments.PaymentSucceeded {
		return nil, fmt.Errorf("%w: %s", payments.ErrNoRoute, paid.FailureReason)
	}

	s.tellSent(a, paid)
	return payResult{Preimage: paid.Preimage.String(), FeesPaid: paid.FeeMsats}, nil
}

// flight lets one goroutine at a time handle a payment of an app; later callers get
// the same result. So no reservation is released while a caller is about to send.
func (s *Service) flight(client string, hash payments.Hash, do func() (payments.Payment, error)) (payments.Payment, error) {
	v, err, _ := s.flights.Do(client+hash.String(), func() (any, error) { return do() })
	p, _ := v.(payments.Payment)
	return p, err
}

// pay reserves the cost, sends the payment and waits for it.
func (s *Service) pay(ctx context.Context, a *app, pay payments.Pay, hash payments.Hash) (payments.Payment, error) {
	if err := s.checkNotPaid(ctx, a, hash, pay.BOLT11); err != nil {
		return payments.Payment{}, err
	}
	wallet, err := s.payingWallet(ctx)
	if err != nil {
		return payments.Payment{}, err
	}
	spend := Spend{App: a.Client, Hash: hash, BOLT11: pay.BOLT11, Msats: pay.AmountMsats + pay.FeeLimitMsats, Wallet: wallet}
	err = s.cfg.Book.Reserve(ctx, spend, a.BudgetMsats, a.since(time.Now()))
	if errors.Is(err, ErrBudget) {
		return payments.Payment{}, &Error{Code: CodeQuotaExceeded, Message: "amount and fee exceed the rest of the app's budget"}
	}
	if err != nil {
		return payments.Payment{}, fmt.Errorf("reserve: %w", err)
	}
	if err := s.begin(ctx, a, pay, hash); err != nil {
		return payments.Payment{}, err
	}

	return s.track(ctx, a.Client, hash)
}

// checkNotPaid refuses an invoice that the node or another app has paid: the preimage
// of that payment would prove a payment that this app did not make.
func (s *Service) checkNotPaid(ctx context.Context, a *app, hash payments.Hash, bolt11 string) error {
	spend, exists, err := s.cfg.Book.Spend(ctx, a.Client, hash)
	if err != nil {
		return err
	}
	if exists && spend.Msats > 0 { // the app's own, in flight or ended
		if !strings.EqualFold(spend.BOLT11, bolt11) {
			return payments.ErrAlreadyPaid
		}
		return s.checkWallet(ctx, spend)
	}

	p, err := s.cfg.Wallet.LookupPayment(ctx, hash)
	switch {
	case errors.Is(err, payments.ErrNotFound), err == nil && p.State == payments.PaymentFailed:
		return nil
	case err == nil:
		return payments.ErrAlreadyPaid
	}

	return err
}

// resendFor is how long a payment is sent again that the wallet does not know after
// an unclear answer.
const resendFor = 2 * time.Minute

// begin sends the payment. It returns an error only if it is certain that no money
// moves; then the reservation is released.
func (s *Service) begin(ctx context.Context, a *app, pay payments.Pay, hash payments.Hash) error {
	until := time.Now().Add(resendFor)
	for pause := time.Second; time.Now().Before(until); {
		sendErr := s.cfg.Wallet.SendPayment(ctx, pay)
		if sendErr == nil {
			return nil
		}

		p, err := s.cfg.Wallet.LookupPayment(ctx, hash)
		unclear := errors.Is(sendErr, payments.ErrUnknownOutcome) || errors.Is(sendErr, payments.ErrWalletUnavailable)
		none := errors.Is(err, payments.ErrNotFound) || err == nil && p.State == payments.PaymentFailed
		switch {
		case none && !unclear:
			s.fail(ctx, a.Client, hash, p.FeeMsats)
			return sendErr
		case err == nil && !none:
			return nil // it is in flight anyway
		}

		// Sending the same invoice again is harmless: a wallet pays it once.
		s.cfg.Log.Warn("a payment is perhaps not begun, sending again", "payment_hash", hash, "in", pause, "err", sendErr)
		if err := backoff.Wait(ctx, &pause, 15*time.Second); err != nil {
			return fmt.Errorf("%w: %w", payments.ErrUnknownOutcome, err)
		}
	}

	return nil // track will learn the outcome
}

// track waits for the end of the payment, however long the wallet is unavailable,
// and records it.
func (s *Service) track(ctx context.Context, client string, hash payments.Hash) (payments.Payment, error) {
	for pause := time.Second; ; {
		p, err := s.cfg.Wallet.TrackPayment(ctx, hash)
		switch {
		case err == nil && p.State == payments.PaymentSucceeded:
			s.settle(ctx, client, hash, p.AmountMsats+p.FeeMsats)
			return p, nil
		case err == nil && p.State == payments.PaymentFailed, errors.Is(err, payments.ErrNotFound):
			p.State = payments.PaymentFailed
			s.fail(ctx, client, hash, p.FeeMsats)
			return p, nil
		case err != nil:
			s.cfg.Log.Warn("payment state not known, asking again", "payment_hash", hash, "in", pause, "err", err)
		}

		if err := backoff.Wait(ctx, &pause, time.Minute); err != nil {
			return payments.Payment{}, fmt.Errorf("%w: %w", payments.ErrUnknownOutcome, err)
		}
	}
}

// settle records the cost of a payment. If that fails, the cost stays reserved, and
// the next start looks the payment up again.
func (s *Service) settle(ctx context.Context, client string, hash payments.Hash, msats int64) {
	if err := s.cfg.Book.Settle(ctx, client, hash, msats); err != nil {
		s.cfg.Log.Error("a payment is not booked", "payment_hash", hash, "err", err)
	}
}

// fail records a failed payment and its cost.
func (s *Service) fail(ctx context.Context, client string, hash payments.Hash, lostMsats int64) {
	if err := s.cfg.Book.Fail(ctx, client, hash, lostMsats); err != nil {
		s.cfg.Log.Error("a payment is not booked", "payment_hash", hash, "err", err)
	}
}

// resume finds the outcome of a payment that an earlier process started.
func (s *Service) resume(ctx context.Context, spend Spend) {
	_, err := s.flight(spend.App, spend.Hash, func() (payments.Payment, error) {
		if err := s.awaitWallet(ctx, spend); err != nil {
			return payments.Payment{}, err
		}
		return s.track(ctx, spend.App, spend.Hash)
	})
	if err != nil && ctx.Err() == nil {
		s.cfg.Log.Error("a payment of an earlier run", "payment_hash", spend.Hash, "err", err)
	}
}

// remainingBudget is the rest of the app's budget in this period.
func (s *Service) remainingBudget(ctx context.Context, a *app) (int64, Usage, error) {
	u, err := s.cfg.Book.Used(ctx, a.Client, a.since(time.Now()))
	return max(a.BudgetMsats-u.SpentMsats-u.ReservedMsats, 0), u, err
}

// getBalance shows at most the amount that the app may spend.
func (s *Service) getBalance(ctx context.Context, a *app, _ jsontext.Value) (any, error) {
	b, err := s.cfg.Wallet.Balance(ctx)
	if err != nil {
		return nil, err
	}
	remaining, used, err := s.remainingBudget(ctx, a)
	if err != nil {
		return nil, err
	}
	if !a.may(PayInvoice) {
		remaining = b.SpendableMsats // an app without permission to pay has no budget
	}
	return balanceResult{Balance: min(b.SpendableMsats, remaining), Reserved: used.ReservedMsats}, nil
}

func (s *Service) getBudget(ctx context.Context, a *app, _ jsontext.Value) (any, error) {
	_, used, err := s.remainingBudget(ctx, a)
	if err != nil {
		return nil, err
	}
	r := budgetResult{Used: used.SpentMsats + used.ReservedMsats, Total: a.BudgetMsats, Period: "never"}
	if a.Period > 0 {
		r.RenewsAt = a.since(time.Now()).Add(a.Period).Unix()
		r.Period = periodName(a.Period)
	}
	return r, nil
}

// periodName is the nearest of the words that NIP-47 defines.
func periodName(p time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case p <= day:
		return "daily"
	case p <= 7*day:
		return "weekly"
	case p <= 31*day:
		return "monthly"
	}
	return "yearly"
}
