package provider

import (
	"context"
	"errors"
	"fmt"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// errOtherWallet: the job's invoice was made by a wallet that is not configured any
// more. Only that one knows what came for it.
var errOtherWallet = errors.New("its invoice is of another wallet than the configured one; configure that wallet again until the job has ended")

// jobInvoice is how an invoice that was made for a job stands. One that our wallet
// knows no more was canceled: lnd can be told to drop those
// (gc-canceled-invoices-on-the-fly). What we have on record as ours stays ours.
func (p *Provider) jobInvoice(ctx context.Context, job Job, hash payments.Hash) (payments.Invoice, error) {
	inv, err := p.askedInvoice(ctx, job, hash)
	p.listen(ctx, job, err)
	return inv, err
}

func (p *Provider) askedInvoice(ctx context.Context, job Job, hash payments.Hash) (payments.Invoice, error) {
	inv, err := p.cfg.Wallet.LookupInvoice(ctx, hash)
	if !errors.Is(err, payments.ErrNotFound) {
		return inv, err
	}
	if pay := job.Payment; pay != nil && pay.Hash == hash && pay.State == payments.InvoiceSettled {
		return payments.Invoice{
			PaymentHash: hash, State: pay.State, PaidMsats: pay.PaidMsats,
			SettledAt: pay.RecordedAt, Final: true, Outpoints: pay.Outpoints, Preimage: pay.Preimage,
		}, nil
	}
	if !p.madeHere(job) {
		p.gate.Leave(job.RequestID) // it may wait for long, but in nobody's way
		return inv, fmt.Errorf("%w: %w", errOtherWallet, err)
	}

	// A wallet that was wrong just now must not be paid after we have given up.
	if err := p.cfg.Wallet.CancelInvoice(ctx, hash); err != nil && !errors.Is(err, payments.ErrNotFound) {
		return inv, fmt.Errorf("cancel an invoice that the wallet does not find: %w", err)
	}

	return payments.Invoice{PaymentHash: hash, State: payments.InvoiceCanceled}, nil
}

// madeHere reports whether the job was quoted with the wallet that we have now. Of
// wallets that share a node, the quote does not tell.
func (p *Provider) madeHere(job Job) bool {
	q, err := receipts.ParseQuote(job.Quote)
	return err == nil && p.node.Account == "" && q.PayeeNode != nil && *q.PayeeNode == p.node.PubKey
}
