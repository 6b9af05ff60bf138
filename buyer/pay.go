package buyer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// payTimeout bounds the wallet's search for a route; the payment itself may be
// held for as long as the job takes.
const payTimeout = time.Minute

// wordGrace is how long the provider's reason may take to arrive after a
// payment came back: the two travel on different roads.
const wordGrace = 2 * time.Second

// askAgain bounds a question to the wallet that is asked for people only.
const askAgain = 5 * time.Second

// pay sees the one payment of the purchase through in a goroutine of its own
// and reports its terminal state. It may be called again after a restart: the
// same invoice is never paid twice, and a state that is not known is asked for
// until it is (B1-B6).
func (f *follower) pay(ctx context.Context, p Purchase) {
	f.g.Go(func() error {
		pay, err := f.seeThrough(ctx, p)
		if err != nil {
			return err
		}
		select {
		case f.paid <- pay:
		case <-ctx.Done():
		}
		return nil
	})
}

func (f *follower) seeThrough(ctx context.Context, p Purchase) (payments.Payment, error) {
	due, bolt11 := p.Due()
	hash := due.PaymentHash
	for pause := time.Second; ; pause = min(2*pause, 30*time.Second) {
		pay, err := f.attempt(ctx, p, due, bolt11)
		if err == nil && due.FailureUnsure(pay) {
			err = fmt.Errorf("%w; of the last time it says: %s", ErrPaymentForgotten, pay.FailureReason)
		}
		if err == nil && pay.State.Terminal() || errors.Is(err, ErrOtherWallet) || errors.Is(err, ErrPaymentForgotten) {
			return pay, err
		}
		if ctx.Err() != nil {
			return payments.Payment{}, ctx.Err()
		}

		f.c.log.Warn("payment state not known, asking again", "request", p.RequestID, "payment_hash", hash, "in", pause, "err", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return payments.Payment{}, ctx.Err()
		}
	}
}

// attempt looks before it sends: only a payment the wallet never heard of is
// sent, and not before the provider can know what it is for: it issues the receipt
// as soon as it is paid, and one that came before the acceptance does not name it.
// That it is sent is written down before, and how often. One that was not sent before
// its purchase was canceled is sent no more.
func (f *follower) attempt(ctx context.Context, p Purchase, due *Attempt, bolt11 string) (payments.Payment, error) {
	c := f.c
	hash := due.PaymentHash
	pay, err := c.cfg.Wallet.LookupPayment(ctx, hash)
	switch {
	case err == nil && pay.State.Terminal():
		return pay, nil
	case errors.Is(err, payments.ErrNotFound):
		if err = c.begunHere(ctx, *due); err != nil {
			return payments.Payment{}, err
		}
		if p.GivenUp() {
			return payments.Payment{}, ErrPaymentForgotten
		}

		select {
		case <-f.told:
		case <-ctx.Done():
			return payments.Payment{}, ctx.Err()
		}

		switch err := c.cfg.Store.SetSent(ctx, p.RequestID, hash); {
		case errors.Is(err, ErrNeverSent):
			return payments.Payment{Hash: hash, State: payments.PaymentFailed, AmountMsats: due.AmountMsats, FailureReason: neverSent}, nil
		case err != nil:
			return payments.Payment{}, fmt.Errorf("record that the payment is sent: %w", err)
		}
		due.Sent++

		err = c.cfg.Wallet.SendPayment(ctx, payments.Pay{
			BOLT11: bolt11, AmountMsats: due.AmountMsats,
			FeeLimitMsats: due.FeeLimitMsats, Timeout: payTimeout,
		})
		if payments.NeverSent(err) {
			return c.afterRefusal(ctx, *due, err)
		}
		if err != nil {
			return payments.Payment{}, fmt.Errorf("send payment: %w", err)
		}
	case err != nil:
		return payments.Payment{}, fmt.Errorf("look up payment: %w", err)
	}

	return c.cfg.Wallet.TrackPayment(ctx, hash)
}

// afterRefusal asks the wallet once more before it believes that nothing was
// sent.
func (c *Client) afterRefusal(ctx context.Context, due Attempt, refusal error) (payments.Payment, error) {
	pay, err := c.cfg.Wallet.LookupPayment(ctx, due.PaymentHash)
	switch {
	case errors.Is(err, payments.ErrNotFound):
		return payments.Payment{
			Hash: due.PaymentHash, State: payments.PaymentFailed,
			AmountMsats: due.AmountMsats, FailureReason: refusal.Error(),
		}, nil
	case err != nil:
		return payments.Payment{}, err
	}
	return pay, nil
}

// stillPaying is what there is to say of a payment that does not end.
func (f *follower) stillPaying(ctx context.Context, hash payments.Hash) string {
	ctx, cancel := context.WithTimeout(ctx, askAgain)
	defer cancel()
	text := "still, and no word from the provider; the budget stays reserved until the wallet says how it ended"
	if pay, err := f.c.cfg.Wallet.LookupPayment(ctx, hash); err == nil && pay.Warning != "" {
		text += "; " + pay.Warning
	}
	return text
}

// payment records how the payment ended.
func (f *follower) payment(ctx context.Context, pay payments.Payment) error {
	if pay.State == payments.PaymentFailed {
		f.back = &pay
		if f.lastWord == "" {
			f.backLong = time.After(wordGrace)
			return nil
		}
		return f.cameBack(ctx)
	}

	p, err := f.view(ctx)
	if err != nil {
		return err
	}
	due, _ := p.Due()
	if due == nil || pay.Hash != due.PaymentHash || !pay.Shown() {
		return fmt.Errorf("the wallet reports a payment that is not ours: %w", ErrConflict)
	}
	if err := f.c.cfg.Store.Paid(ctx, f.id, pay); err != nil {
		return fmt.Errorf("record payment: %w", err)
	}

	if due.Purpose != string(receipts.PurposeEngagement) {
		f.paidAt = time.Now()
	}
	what, text := "paid", fmt.Sprintf("fee %d msats", pay.FeeMsats)
	if pay.Outpoints != "" {
		what, text = "confirmed", text+", "+pay.Outpoints
	}
	f.say("wallet", what, pay.AmountMsats, pay.Hash.String(), text)
	if due.Purpose == string(receipts.PurposeEngagement) {
		return f.engaged(ctx)
	}
	if p, err = f.view(ctx); err != nil {
		return err
	}
	if err := f.judgeAgain(ctx, p); err != nil {
		return err
	}
	if p.SealedEvent != nil {
		return f.unseal(ctx, p)
	}
	if f.lastWord != "" { // it was said before we knew that the money was gone
		return f.refused(ctx, p, f.lastWord)
	}

	return nil
}

// cameBack ends a purchase whose payment failed for good, with the provider's
// reason where it gave one.
func (f *follower) cameBack(ctx context.Context) error {
	reason, to := CodeNoPayment+": "+f.back.FailureReason, StateFailed
	if f.lastWord != "" {
		reason = f.lastWord + " (the payment came back)"
	}
	p, err := f.view(ctx)
	if err != nil {
		return err
	}

	due, _ := p.Due()
	switch {
	case p.Cancel != nil:
		to = StateCanceled // as we asked
	case f.lastWord == "" && due != nil && time.Since(due.ReservedAt) > payTimeout: // it was held, not without a route
		reason = CodeNoAnswer + ": the payment was held, nothing came for it, and it came back: " + f.back.FailureReason
	}

	f.say("wallet", "payment_failed", f.back.AmountMsats, f.back.Hash.String(), reason)
	if err := f.c.cfg.Store.Unpaid(ctx, f.id, *f.back, to, reason); err != nil || f.lastWord != "" {
		return err
	}
	f.waive(ctx)
	return nil
}

// settleUp closes the purchase once all is there that its mode promises.
func (f *follower) settleUp(ctx context.Context) (done bool, err error) {
	p, err := f.view(ctx)
	if err != nil || p.State.Terminal() {
		return p.State.Terminal(), err
	}
	free := p.Attempt == nil && p.Output != nil && f.isFree(p.Purchase)
	receipted := p.ReceiptID != "" && (p.Engagement == nil || p.Engagement.ReceiptID != "")
	if free || p.State == StatePaid && p.Output != nil && receipted {
		if err := f.c.cfg.Store.Close(ctx, f.id, StateDone, ""); err != nil {
			return false, fmt.Errorf("close purchase: %w", err)
		}
		f.say("buyer", doneWord(p.Purchase), 0, "", p.ReceiptID)
		return true, nil
	}

	return f.withoutReceipt(ctx, p)
}

// isFree reports whether the result says it costs nothing.
func (f *follower) isFree(p Purchase) bool {
	var ev nostr.Event
	if ev.UnmarshalJSON(p.ResultEvent) != nil {
		return false
	}
	t := ev.Tags.Find("amount")
	return t == nil || t[1] == "0"
}

// ErrOtherWallet: a payment was begun with another wallet than the configured one,
// which knows nothing of it. Paying from here could pay twice, and what this wallet
// says of the payment says nothing of the other. Nothing was sent; the budget stays
// reserved.
var ErrOtherWallet = errors.New("this payment was begun with another wallet than the configured one, which can neither pay it nor say what became of it")

// paysFrom names the wallet that a payment is made from. A wallet that has said so
// once is not asked again.
func (c *Client) paysFrom(ctx context.Context) (string, error) {
	if node := c.payer.Load(); node != nil {
		return node.Wallet(), nil
	}
	node, err := c.cfg.Wallet.Node(ctx)
	if err != nil {
		return "", fmt.Errorf("ask the wallet who it is: %w", err)
	}
	c.payer.Store(&node)
	return node.Wallet(), nil
}

// begunHere is nil if a payment that our wallet does not know may be sent by it:
// ErrOtherWallet if another has perhaps sent it.
func (c *Client) begunHere(ctx context.Context, a Attempt) error {
	if a.Wallet == "" {
		return nil // recorded before wallets were
	}
	wallet, err := c.paysFrom(ctx)
	if err == nil && wallet != a.Wallet {
		err = fmt.Errorf("%w: that is %s, and this one is %s", ErrOtherWallet, a.Wallet, wallet)
	}
	return err
}

// ErrPaymentForgotten: the wallet was told to pay, and says now that it knows no such
// payment; or it failed when told once more, which says nothing of the time before. A
// wallet that was restored, or whose payments were deleted, answers so of a payment
// that went through. Nothing more is sent, and the budget stays reserved.
var ErrPaymentForgotten = errors.New("the wallet was told to pay, and does not know any more what became of it, so it may be paid: the budget stays reserved, and nothing is paid in its place")

// forgotten reports whether the configured wallet does not know what became of an
// attempt that it was told to pay.
func (c *Client) forgotten(ctx context.Context, a Attempt) (bool, error) {
	if a.Sent == 0 {
		return false, nil
	}

	pay, err := c.cfg.Wallet.LookupPayment(ctx, a.PaymentHash)
	switch {
	case errors.Is(err, payments.ErrNotFound):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("look up payment: %w", err)
	}
	return a.FailureUnsure(pay), nil
}
