package nwc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
)

// errOtherWallet: a payment was begun with another wallet than the service has now.
// Only that one knows what became of it; this one would pay twice, or call failed
// what was paid.
var errOtherWallet = fmt.Errorf("%w: it was begun with another wallet than the configured one; configure that wallet again until it has ended", payments.ErrUnknownOutcome)

// paysFrom names the wallet that payments are made from. One that has said so once
// is not asked again.
func (s *Service) paysFrom(ctx context.Context) (string, error) {
	if node := s.payer.Load(); node != nil {
		return node.Wallet(), nil
	}
	node, err := s.cfg.Wallet.Node(ctx)
	if err != nil {
		return "", fmt.Errorf("identify the wallet: %w", err)
	}
	s.payer.Store(&node)
	return node.Wallet(), nil
}

// begunHere is nil if our wallet is the one that pays, or paid: errOtherWallet if
// another is.
func (s *Service) begunHere(ctx context.Context, spend Spend) error {
	if spend.Wallet == "" {
		return nil // noted before wallets were
	}
	wallet, err := s.paysFrom(ctx)
	switch {
	case err != nil:
		return err
	case wallet != spend.Wallet:
		return fmt.Errorf("%w: that is %s, and this one is %s", errOtherWallet, spend.Wallet, wallet)
	}
	return nil
}

// untilKnown waits until the wallet says who it is, and is nil if it is the one
// that pays. Of another wallet's payment nothing is booked: its cost stays reserved.
func (s *Service) untilKnown(ctx context.Context, spend Spend) error {
	for pause := time.Second; ; pause = min(2*pause, time.Minute) {
		err := s.begunHere(ctx, spend)
		if err == nil || errors.Is(err, errOtherWallet) {
			return err
		}
		s.cfg.Log.Warn("the wallet does not answer, asking again", "payment_hash", spend.Hash, "in", pause, "err", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", payments.ErrUnknownOutcome, ctx.Err())
		}
	}
}

// paidElsewhere describes a payment that another wallet made. Only that wallet has the
// preimage.
func paidElsewhere(spend Spend) (transaction, error) {
	b, err := bolt11.Decode(spend.BOLT11)
	if err != nil {
		return transaction{}, fmt.Errorf("read a paid invoice: %w", err)
	}
	t := outgoing(payments.Payment{Hash: spend.Hash, State: payments.PaymentInFlight, AmountMsats: b.AmountMsats}, spend)
	if !spend.Open {
		t.State, t.SettledAt, t.FeesPaid = stateSettled, t.CreatedAt, max(0, spend.Msats-b.AmountMsats)
	}
	return t, nil
}
