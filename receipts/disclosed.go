package receipts

import (
	"errors"
	"fmt"
	"strings"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
	"github.com/lightwork-market/lightwork/schemas"
)

// Of an encrypted job the published events show nothing, and what is in them is
// shown by disclosing it. The key of the conversation, which would open all that
// two parties ever wrote to each other, is not needed for that: the result event
// that was hidden is signed by itself, and names job_hash and quote_hash. So a
// request whose hash is job_hash is the one that the provider answered, and a
// quote whose hash is quote_hash is its own.

// disclosed reports whether the dispute is about an encrypted job.
func (d *Dispute) disclosed() bool {
	return d.QuoteEvent == nil && d.Quote != nil && d.RequestTags != nil
}

// disclosedTags bounds the tags inside an encrypted event.
const disclosedTags = 512

// discloseRequest puts the hidden tags among those of the request's event.
func (j *judge) discloseRequest() error {
	if !isEncrypted(j.request) {
		return fmt.Errorf("%w: the request hides nothing, and %s is there", ErrMismatch, FileTags)
	}
	var tags [][]string
	if err := hashing.Unmarshal(j.d.RequestTags, &tags); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrInvalid, FileTags, err)
	}
	if len(tags) > disclosedTags {
		return fmt.Errorf("%w: %s has more than %d tags", ErrInvalid, FileTags, disclosedTags)
	}
	if d, err := domain.Of(tags); err != nil || d != "" {
		return fmt.Errorf("%w: %s: a tag domain is not among what a request hides", ErrInvalid, FileTags)
	}

	j.request.Tags = append(j.request.Tags[:len(j.request.Tags):len(j.request.Tags)], tags...)
	return nil
}

// disclosedQuote takes a quote that the provider signed by naming its hash in
// the result, and holds the disclosed request against the job in both.
func (j *judge) disclosedQuote() (err error) {
	if j.quote, err = ParseQuote(j.d.Quote); err != nil {
		return err
	}
	if err := j.takeQuote(); err != nil {
		return err
	}
	if j.d.Result == nil {
		j.ruling.Verdict = VerdictNoResult
		return lacking("no result event is here, with which the quote of an encrypted job is signed; that none came can be shown by nobody")
	}

	result, err := ParseEvent(j.d.Result, maxDocument)
	if err != nil {
		return err
	}
	if err := result.Verify(); err != nil {
		return err
	}
	if err := answersQuote(result, j.quote.Provider, j.request.ID, j.hash); err != nil {
		return err
	}

	typed, err := RequestOf(j.request.Tags)
	if err != nil {
		return err
	}
	schema, known := schemas.Lookup(typed.SchemaID)
	if !known {
		return lacking("the schema " + quoted(typed.SchemaID) + " is not known here")
	}
	asked, err := schema.ParseRequest(typed.Input)
	if err != nil {
		return escaped(err)
	}

	return firstMismatch(
		match("job_hash", asked.JobHash, j.quote.JobHash),
		onlyTag(result, "job_hash", j.quote.JobHash.String()),
	)
}

// errNoFee: the dispute is of a job without an engagement fee.
var errNoFee = errors.New("no engagement fee")

// checkFee checks what is shown of an engagement fee that was paid besides: the
// provider signed its quote, or its receipt, and the secret of its invoice is out.
func (j *judge) checkFee() error {
	d := j.d
	if d.FeeQuoteEvent == nil && d.FeeInvoice == nil && d.FeePreimage == nil && d.FeeReceipt == nil {
		return errNoFee
	}
	if d.FeeQuoteEvent == nil || d.FeeInvoice == nil || d.FeePreimage == nil {
		return lacking(FileFeeQuote + ", " + FileFeeInvoice + " or " + FileFeeSecret + " is not there")
	}

	ev, err := ParseEvent(d.FeeQuoteEvent, maxDocument)
	if err != nil {
		return err
	}
	q, err := ParseQuote([]byte(ev.Content))
	if err != nil {
		return err
	}
	if err := CheckQuoteEvent(ev, q, strings.TrimSpace(string(d.FeeInvoice))); err != nil {
		return err
	}

	if err := firstMismatch(
		match("provider", q.Provider, j.quote.Provider),
		match("request_id", q.RequestID, j.request.ID),
		match("buyer", q.Buyer, j.request.PubKey),
		match("purpose", q.Purpose, PurposeEngagement),
	); err != nil {
		return err
	}

	if _, err := paidFor(q, d.FeeInvoice, d.FeePreimage); err != nil {
		return err
	}
	if err := j.checkFeeReceipt(q); err != nil {
		return err
	}

	j.ruling.EngagementMsats = q.PriceMsats
	return nil
}

// checkFeeReceipt holds the provider's own receipt of the fee, if it is there,
// against the quote.
func (j *judge) checkFeeReceipt(q Quote) error {
	if j.d.FeeReceipt == nil {
		return nil
	}
	ev, err := ParseEvent(j.d.FeeReceipt, maxDocument)
	if err != nil {
		return err
	}
	r, err := ParseReceiptEvent(ev)
	if err != nil {
		return err
	}
	hash, err := q.Hash()
	if err != nil {
		return err
	}

	return firstMismatch(
		match("pubkey", ev.PubKey, q.Provider),
		match("quote_hash", r.QuoteHash, hash),
		match("purpose", r.PaidFor(), PurposeEngagement),
	)
}

// paidFor reads the secret of the invoice, which is the quote's.
func paidFor(q Quote, invoiceFile, preimageFile []byte) (payments.Preimage, error) {
	invoice := strings.TrimSpace(string(invoiceFile))
	inv, err := bolt11.Decode(invoice)
	if err != nil {
		return payments.Preimage{}, err
	}
	if _, err := CheckInvoice(q, invoice, inv.Network); err != nil {
		return payments.Preimage{}, err
	}

	preimage, err := payments.ParsePreimage(strings.TrimSpace(string(preimageFile)))
	if err != nil {
		return preimage, err
	}
	return preimage, match("payment_hash", preimage.Hash(), inv.PaymentHash)
}
