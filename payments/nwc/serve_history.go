package nwc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
)

// maxListBytes leaves room for one more transaction of any length: encrypted, the
// message stays below the 64 KiB that relays accept.
const maxListBytes = 32 << 10

// incomingTransaction converts an invoice.
func incomingTransaction(inv payments.Invoice) (transaction, error) {
	b, err := bolt11.Decode(inv.BOLT11)
	if err != nil {
		return transaction{}, fmt.Errorf("read the wallet's invoice: %w", err)
	}
	t := transaction{
		Type: typeIncoming, Invoice: inv.BOLT11, PaymentHash: inv.PaymentHash.String(), Amount: inv.AmountMsats,
		CreatedAt: b.CreatedAt.Unix(), ExpiresAt: b.ExpiresAt().Unix(), SettledAt: seconds(inv.SettledAt),
		SettleBy: seconds(inv.SettleBy), Unsure: inv.State == payments.InvoiceSettled && !inv.Final, LostMsats: inv.LostMsats,
	}
	if b.DescriptionHash != nil {
		t.DescriptionHash = b.DescriptionHash.Hex()
	}
	t.State = map[payments.InvoiceState]string{
		payments.InvoiceOpen: statePending, payments.InvoiceHeld: stateAccepted,
		payments.InvoiceSettled: stateSettled, payments.InvoiceCanceled: stateExpired,
	}[inv.State]
	return t, nil
}

// outgoingTransaction converts a payment.
func outgoingTransaction(p payments.Payment, spend Spend) transaction {
	t := transaction{
		Type: typeOutgoing, State: statePending, Invoice: spend.BOLT11, PaymentHash: p.Hash.String(),
		Amount: p.AmountMsats, FeesPaid: p.FeeMsats, CreatedAt: spend.At.Unix(),
	}
	switch p.State {
	case payments.PaymentSucceeded:
		t.State, t.Preimage, t.SettledAt = stateSettled, p.Preimage.String(), spend.At.Unix()
	case payments.PaymentFailed:
		t.State = stateFailed
	}
	return t
}

// failedTransaction converts a failed payment.
func failedTransaction(spend Spend) (transaction, error) {
	b, err := bolt11.Decode(spend.BOLT11)
	if err != nil {
		return transaction{}, fmt.Errorf("read a paid invoice: %w", err)
	}
	t := outgoingTransaction(payments.Payment{Hash: spend.Hash, State: payments.PaymentFailed, AmountMsats: b.AmountMsats}, spend)
	t.LostMsats = spend.LostMsats
	return t, nil
}

// listTransactions lists the app's own transactions in their current state.
func (s *Service) listTransactions(ctx context.Context, a *app, params jsontext.Value) (any, error) {
	p := listParams{}
	if err := decodeParams(params, &p); err != nil {
		return nil, err
	}
	if p.Until == 0 {
		p.Until = time.Now().Unix()
	}
	if p.Limit <= 0 || p.Limit > maxPage {
		p.Limit = maxPage
	}
	if p.From < 0 || p.From > maxUnix || p.Until < 0 || p.Until > maxUnix || p.Offset < 0 {
		return nil, fmt.Errorf("%w: from, until or offset out of range", payments.ErrBadRequest)
	}
	lines, err := s.cfg.Book.lines(ctx, a.Client, p)
	if err != nil {
		return nil, err
	}

	r := listResult{Transactions: []transaction{}}
	size := 0
	for _, l := range lines {
		if size > maxListBytes {
			break // the app gets the rest with an offset
		}
		var t transaction
		if l.incoming {
			t, err = s.invoice(ctx, l.hash)
		} else {
			t, err = s.payment(ctx, a, l.hash)
		}

		if errors.Is(err, payments.ErrNotFound) {
			continue // recorded but never started
		}
		if err != nil {
			return nil, err
		}

		if p.Unpaid || t.State == stateSettled {
			r.Transactions = append(r.Transactions, t)
			size += len(t.Invoice) + 600
		}
	}

	return r, nil
}
