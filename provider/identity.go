package provider

import (
	"errors"
	"fmt"

	"github.com/lightwork-market/lightwork/provider/internal/publish"
	"github.com/lightwork-market/lightwork/receipts"
)

// Errors of Serve where the node was given other secrets than its open jobs have.
// Going on would take money for what the buyer cannot read, or give results away
// that cannot be paid for any more.
var (
	ErrOtherKey    = errors.New("open jobs were quoted with another key; start with that one until they have ended")
	ErrOtherSecret = errors.New("open jobs were quoted with another preimage secret; restore its file from your backup")
	// ErrHidden: open jobs are encrypted, and the key is at a remote signer, which
	// opens nothing here: they could be neither delivered nor ended.
	ErrHidden = errors.New("open jobs are encrypted, which a remote signer does not open; sell with the key itself until they have ended")
)

// mine reports whether a job is one of this key and this preimage secret, and is
// readable here.
func (p *Provider) mine(job Job) error {
	q, err := receipts.ParseQuote(job.Quote)
	switch {
	case err != nil:
		return fmt.Errorf("stored quote of job %s: %w", job.RequestID, err)
	case q.Provider != p.key:
		return fmt.Errorf("%w: job %s is of %s", ErrOtherKey, job.RequestID, q.Provider)
	case q.PaymentHash != nil && p.collector.Preimage(job.RequestID, &job.Charge).Hash() != job.PaymentHash:
		return fmt.Errorf("%w: job %s", ErrOtherSecret, job.RequestID)
	case p.cfg.Cipher == nil && publish.BuyerOf(job).Scheme != "":
		return fmt.Errorf("%w: job %s", ErrHidden, job.RequestID)
	}

	return nil
}
