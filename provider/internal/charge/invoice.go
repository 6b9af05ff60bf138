package charge

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider/internal/openjob"
	"github.com/lightwork-market/lightwork/receipts"
)

// invoiceWait is how long a wallet is asked for an invoice that it fails to make.
const invoiceWait = time.Minute

// Ask asks the wallet for the invoice of a charge (the same one, however often it asks:
// P2, P3) and queues what the buyer needs to pay it.
func (b *Bill) Ask(ctx context.Context, c *job.Charge) error {
	inv, err := b.newInvoice(ctx, c)
	if err != nil {
		return err
	}

	var out []job.OutEvent
	if b.job.PaidFirst(c) {
		ev, err := b.paymentRequired(ctx, c, inv.BOLT11)
		if err != nil {
			return err
		}
		out = append(out, ev)
	}

	var chosen payments.Hash
	if c.PaymentHash.IsZero() {
		chosen = inv.PaymentHash
	}
	if err := b.cfg.Store.SetInvoice(ctx, b.job.RequestID, c.Purpose, inv.BOLT11, chosen, out...); err != nil {
		return fmt.Errorf("record invoice for the %s: %w", c.Purpose, err)
	}
	b.cfg.Publisher.Send(out...)
	return nil
}

// PaymentRequired asks for the payment of a result that was made before it is paid.
func (b *Bill) PaymentRequired(ctx context.Context) (job.OutEvent, error) {
	return b.paymentRequired(ctx, &b.job.Charge, b.job.BOLT11)
}

// paymentRequired carries the quote as content and the invoice that commits to it.
func (b *Bill) paymentRequired(ctx context.Context, c *job.Charge, bolt11 string) (job.OutEvent, error) {
	tags := nostr.Tags{{"amount", strconv.FormatInt(c.PriceMsats, 10), bolt11}}
	if b.job.CreditMsats > 0 && c.Purpose == receipts.PurposeResult {
		tags = append(tags, nostr.Tag{"credit", strconv.FormatInt(b.job.CreditMsats, 10)})
	}
	return b.cfg.Publisher.Feedback(ctx, b.job.To, "payment-required", "", string(c.Quote), tags...)
}

// newInvoice asks the wallet for the invoice of a charge; the same one however often
// it asks, but for a wallet that chooses its payment hashes and lists no transactions.
// The job ends where the buyer canceled it, its time is over, or the wallet makes no
// such invoice.
func (b *Bill) newInvoice(ctx context.Context, c *job.Charge) (payments.Invoice, error) {
	if b.invoiceBy.IsZero() {
		b.invoiceBy = time.Now().Add(invoiceWait)
	}

	select {
	case <-b.job.Cancel:
		return payments.Invoice{}, openjob.GiveBack(job.StateCanceled, job.CodeCanceled, "by the buyer, before payment")
	default:
	}

	if !time.Now().Before(c.ExpiresAt) {
		return payments.Invoice{}, openjob.GiveBack(job.StateExpired, job.CodePaymentExpired, "the quote ended before there was an invoice")
	}

	in := b.invoiceFor(c)
	inv, err := b.createInvoice(ctx, in)
	switch {
	case err == nil:
		b.invoiceBy = time.Time{} // the next invoice has its own time
		return inv, nil
	case ctx.Err() != nil:
		return inv, ctx.Err()
	case errors.Is(err, payments.ErrAmount): // it holds as much as it may
		b.log.Warn("the wallet takes no payment for a job", "request", b.job.RequestID, "err", err)
		return inv, openjob.GiveBack(job.StateFailed, job.CodeOverCapacity, "the provider's wallet can take no such payment now; retry later")
	case errors.Is(err, payments.ErrUnauthorized), errors.Is(err, payments.ErrUnsupported), !time.Now().Before(b.invoiceBy):
		b.log.Error("the wallet makes no invoice; lightwork doctor shows what is wrong with it", "request", b.job.RequestID, "err", err)
		if !in.PaymentHash.IsZero() {
			// It may have made one and not told us. Nobody has it, so this is only to tidy up.
			_ = b.cfg.Wallet.CancelInvoice(ctx, in.PaymentHash)
		}
		return inv, openjob.GiveBack(job.StateFailed, job.CodeInternal, "the provider's wallet makes no invoice; "+openjob.RetryLater)
	}

	return inv, fmt.Errorf("create invoice: %w", err)
}

// invoiceFor is what the wallet is asked for.
func (b *Bill) invoiceFor(c *job.Charge) payments.NewInvoice {
	in := payments.NewInvoice{
		PaymentHash: c.PaymentHash, Hold: c.Purpose == receipts.PurposeResult && b.job.Mode == receipts.ModeHold,
		AmountMsats: c.PriceMsats, DescriptionHash: c.QuoteHash, Expiry: c.ExpiresAt.Sub(b.job.AddedAt),
	}
	if !in.Hold && !in.PaymentHash.IsZero() {
		in.Preimage = b.Preimage(b.job.RequestID, c)
	}
	return in
}

// createInvoice has the wallet make an invoice. One whose payment hash the wallet
// chooses may be there from a call whose answer was lost, or that a crash kept from
// being recorded: it is found again. Where the wallet cannot know of it another is made,
// and of the first one nobody was told.
func (b *Bill) createInvoice(ctx context.Context, in payments.NewInvoice) (payments.Invoice, error) {
	switch {
	case !in.PaymentHash.IsZero():
		return b.cfg.Wallet.CreateInvoice(ctx, in)
	case b.cfg.MakeInvoice == nil:
		return payments.Invoice{}, fmt.Errorf("%w: the job was quoted for a wallet that chooses the payment hash", payments.ErrUnsupported)
	}
	return b.cfg.MakeInvoice(ctx, in, b.job.AddedAt)
}

// errOtherWallet: the job's invoice was made by a wallet that is not configured any
// more. Only that one knows what came for it.
var errOtherWallet = errors.New("its invoice is of another wallet than the configured one; configure that wallet again until the job has ended")

// lookup asks the wallet how an invoice of the job's stands.
func (b *Bill) lookup(ctx context.Context, hash payments.Hash) (payments.Invoice, error) {
	inv, err := b.lookupOrRecall(ctx, hash)
	b.heard(ctx, err)
	return inv, err
}

// lookupOrRecall answers for a wallet that knows the invoice no more. It was canceled
// then: lnd can be told to drop those (gc-canceled-invoices-on-the-fly). What we have on
// record as ours stays ours.
func (b *Bill) lookupOrRecall(ctx context.Context, hash payments.Hash) (payments.Invoice, error) {
	inv, err := b.cfg.Wallet.LookupInvoice(ctx, hash)
	if !errors.Is(err, payments.ErrNotFound) {
		return inv, err
	}
	if pay := b.job.Payment; pay != nil && pay.Hash == hash && pay.State == payments.InvoiceSettled {
		return payments.Invoice{
			PaymentHash: hash, State: pay.State, PaidMsats: pay.PaidMsats,
			SettledAt: pay.RecordedAt, Final: true, Outpoints: pay.Outpoints, Preimage: pay.Preimage,
		}, nil
	}
	if !b.madeHere() {
		b.leave()
		return inv, fmt.Errorf("%w: %w", errOtherWallet, err)
	}

	// A wallet that was wrong just now must not be paid after we have given up.
	if err := b.cfg.Wallet.CancelInvoice(ctx, hash); err != nil && !errors.Is(err, payments.ErrNotFound) {
		return inv, fmt.Errorf("cancel an invoice that the wallet does not find: %w", err)
	}

	return payments.Invoice{PaymentHash: hash, State: payments.InvoiceCanceled}, nil
}

// madeHere reports whether the job was quoted with the wallet that we have now. Of
// wallets that share a node, the quote does not tell.
func (b *Bill) madeHere() bool {
	q, node := b.job.QuoteOf(&b.job.Charge), b.cfg.Node()
	return node.Account == "" && q.PayeeNode != nil && *q.PayeeNode == node.PubKey
}

// leave gives the job's place back: it may wait for long, but in nobody's way.
func (b *Bill) leave() { b.cfg.Leave(b.job.RequestID) }

// heard notes since when the wallet has not answered about the job's invoices.
func (b *Bill) heard(ctx context.Context, err error) {
	switch {
	case err == nil:
		b.silentSince = time.Time{}
	case ctx.Err() == nil && b.silentSince.IsZero():
		b.silentSince = time.Now()
	}
}

// IsSilent reports that the job is not to wait any longer for a wallet that does not
// answer: it can be paid for no more, and what was held has gone back, or was taken.
func (b *Bill) IsSilent() bool {
	if b.silentSince.IsZero() || time.Since(b.silentSince) < b.cfg.Times.Silence {
		return false
	}
	over := b.job.ExpiresAt
	if pay := b.job.Payment; pay != nil && pay.SettleBy.After(over) {
		over = pay.SettleBy
	}
	return time.Since(over) >= b.cfg.Times.Silence
}
