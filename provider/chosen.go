package provider

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// A wallet of another program may choose the preimage itself as it makes an invoice.
// The description hash of that invoice is the quote's hash, so the quote is there
// before and names no payment hash. Such a quote is for prepay and for postpay in the
// clear: what is held, and what is sealed, needs a preimage that is ours.

// walletChooses reports whether a quote in this mode names no payment hash.
func (p *Provider) walletChooses(mode receipts.Mode) bool {
	return p.cfg.MakeInvoice != nil && (mode == receipts.ModePrepay || mode == receipts.ModePostpay)
}

// walletChose reports whether a quote names no payment hash: the charge has one
// once it has its invoice.
func walletChose(c *Charge) bool {
	q, err := receipts.ParseQuote(c.Quote)
	return err == nil && q.Mode != receipts.ModeFree && q.PaymentHash == nil
}

// createInvoice asks the wallet for an invoice of the job's. One whose payment hash
// the wallet chooses may be there from a call whose answer was lost, or that a crash
// kept from being recorded: it is found again. Where the wallet cannot know of it
// another is made, and of the first one nobody was told.
func (p *Provider) createInvoice(ctx context.Context, job Job, in payments.NewInvoice) (payments.Invoice, error) {
	switch {
	case !in.PaymentHash.IsZero():
		return p.cfg.Wallet.CreateInvoice(ctx, in)
	case p.cfg.MakeInvoice == nil:
		return payments.Invoice{}, fmt.Errorf("%w: the job was quoted for a wallet that chooses the payment hash", payments.ErrUnsupported)
	}
	return p.cfg.MakeInvoice(ctx, in, job.AddedAt)
}

// unshown reports that an invoice is settled without the preimage that the wallet
// chose for it: no receipt can be made then.
func unshown(c *Charge, inv payments.Invoice) bool {
	return inv.State == payments.InvoiceSettled && inv.PaymentHash == c.PaymentHash && inv.Preimage.IsZero() && walletChose(c)
}

// noPreimage ends a job whose payment the wallet does not show: what came is owed.
func (p *Provider) noPreimage(ctx context.Context, job Job) error {
	p.log.Error("the wallet calls an invoice paid and shows no preimage, without which there is no receipt; sell with another wallet",
		"request", job.RequestID, "payment_hash", job.PaymentHash.String())
	return p.giveBack(ctx, job, StateFailed, because(CodeInternal, "the provider's wallet shows no proof of the payment, so there can be no receipt"))
}

// preimageOf is the preimage of a charge's payment.
func (p *Provider) preimageOf(job Job, c *Charge, pay Payment) payments.Preimage {
	if walletChose(c) {
		return pay.Preimage
	}
	return p.preimage(job.RequestID, c)
}

// lapse cancels the invoice of a charge whose time is over. One that the wallet cannot
// cancel ends by itself soon after, and the job is in nobody's way until then.
func (p *Provider) lapse(ctx context.Context, job Job, c *Charge, sig *jobSignal) error {
	err := p.cfg.Wallet.CancelInvoice(ctx, c.PaymentHash)
	p.listen(ctx, job, err)
	if !errors.Is(err, payments.ErrUnsupported) {
		return err
	}
	p.gate.Leave(job.RequestID)

	select {
	case <-sig.wake:
	case <-time.After(p.limits.LookupEvery):
	case <-ctx.Done():
		return ctx.Err()
	}

	return nil
}

// untold reports whether nobody was told of an invoice: that of postpay goes
// out with the result. Where the wallet cannot cancel it, it is as good as cancelled.
func untold(job Job, c *Charge) bool { return !job.PaidFirst(c) && job.Result == nil }
