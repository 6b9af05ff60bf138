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

// The published events of an encrypted job show nothing, so a dispute discloses their
// contents. It does not disclose the conversation key, which would decrypt everything
// that the two parties ever wrote to each other. The hidden result event proves the
// contents instead: the provider signed it, and it names job_hash and quote_hash. A
// request with that job_hash is therefore the one that the provider answered, and a
// quote with that quote_hash is the provider's.

// isDisclosed reports whether the dispute discloses an encrypted job.
func (d *Dispute) isDisclosed() bool {
	return d.QuoteEvent == nil && d.Quote != nil && d.RequestTags != nil
}

// disclosedTags bounds the tags inside an encrypted event.
const disclosedTags = 512

// discloseRequest adds the hidden tags to those of the request's event.
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

// disclosedQuote reads a quote whose hash the provider signed in the result event, and
// compares the disclosed request with the job_hash of both.
func (j *judge) disclosedQuote() (err error) {
	if j.quote, err = ParseQuote(j.d.Quote); err != nil {
		return err
	}
	if err := j.takeQuote(); err != nil {
		return err
	}
	if j.d.Result == nil {
		j.ruling.Verdict = VerdictNoResult
		return missing("no result event is here, with which the quote of an encrypted job is signed; that none came can be shown by nobody")
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
		return missing("the schema " + quoted(typed.SchemaID) + " is not known here")
	}
	asked, err := schema.ParseRequest(typed.Input)
	if err != nil {
		return escapeError(err)
	}

	return firstMismatch(
		match("job_hash", asked.JobHash, j.quote.JobHash),
		onlyTag(result, "job_hash", j.quote.JobHash.String()),
	)
}

// errNoFee says that the disputed job has no engagement fee.
var errNoFee = errors.New("no engagement fee")

// checkFee checks the proof that an engagement fee was paid too: the provider signed
// its quote or its receipt, and the preimage of its invoice is known.
func (j *judge) checkFee() error {
	d := j.d
	if d.FeeQuoteEvent == nil && d.FeeInvoice == nil && d.FeePreimage == nil && d.FeeReceipt == nil {
		return errNoFee
	}
	if d.FeeQuoteEvent == nil || d.FeeInvoice == nil || d.FeePreimage == nil {
		return missing(FileFeeQuote + ", " + FileFeeInvoice + " or " + FileFeeSecret + " is not there")
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

	if _, err := readPreimage(q, d.FeeInvoice, d.FeePreimage); err != nil {
		return err
	}
	if err := j.checkFeeReceipt(q); err != nil {
		return err
	}

	j.ruling.EngagementMsats = q.PriceMsats
	return nil
}

// checkFeeReceipt compares the provider's receipt of the fee, if there is one, with the
// quote.
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

// readPreimage checks that the invoice is the quote's and returns its preimage.
func readPreimage(q Quote, invoiceFile, preimageFile []byte) (payments.Preimage, error) {
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
