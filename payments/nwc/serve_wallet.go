package nwc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/internal/backoff"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
)

// errOtherWallet: a payment was started with another wallet than the current one.
// Only that wallet knows its outcome; the current one would pay twice, or report a
// payment that was made as failed.
var errOtherWallet = fmt.Errorf("%w: it was begun with another wallet than the configured one; configure that wallet again until it has ended", payments.ErrUnknownOutcome)

// payingWallet identifies the paying wallet. The first answer is cached.
func (s *Service) payingWallet(ctx context.Context) (string, error) {
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

// checkWallet returns nil if our current wallet made the payment, and errOtherWallet
// if another did.
func (s *Service) checkWallet(ctx context.Context, spend Spend) error {
	if spend.Wallet == "" {
		return nil // recorded before wallets were
	}
	wallet, err := s.payingWallet(ctx)
	switch {
	case err != nil:
		return err
	case wallet != spend.Wallet:
		return fmt.Errorf("%w: that is %s, and this one is %s", errOtherWallet, spend.Wallet, wallet)
	}
	return nil
}

// awaitWallet waits until the wallet has identified itself, and returns nil if it
// made the payment. Nothing is recorded about another wallet's payment: its cost
// stays reserved.
func (s *Service) awaitWallet(ctx context.Context, spend Spend) error {
	for pause := time.Second; ; {
		err := s.checkWallet(ctx, spend)
		if err == nil || errors.Is(err, errOtherWallet) {
			return err
		}
		s.cfg.Log.Warn("the wallet does not answer, asking again", "payment_hash", spend.Hash, "in", pause, "err", err)
		if err := backoff.Wait(ctx, &pause, time.Minute); err != nil {
			return fmt.Errorf("%w: %w", payments.ErrUnknownOutcome, err)
		}
	}
}

// foreignPayment describes a payment made by another wallet, which alone has the
// preimage.
func foreignPayment(spend Spend) (transaction, error) {
	b, err := bolt11.Decode(spend.BOLT11)
	if err != nil {
		return transaction{}, fmt.Errorf("read a paid invoice: %w", err)
	}
	t := outgoingTransaction(payments.Payment{Hash: spend.Hash, State: payments.PaymentInFlight, AmountMsats: b.AmountMsats}, spend)
	if !spend.Open {
		t.State, t.SettledAt, t.FeesPaid = stateSettled, t.CreatedAt, max(0, spend.Msats-b.AmountMsats)
	}
	return t, nil
}
