package receipts

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"strings"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
	"github.com/lightwork-market/lightwork/schemas"
)

// Dispute is the evidence of a buyer who paid and got no good result: its own signed
// events, the provider's, the payment's preimage, and the boxes that were delivered.
// [ReadDispute] reads one, and [Dispute.Rule] judges it.
type Dispute struct {
	Request    []byte // the buyer's event
	QuoteEvent []byte // the provider's event that carries the quote
	Invoice    []byte // BOLT 11
	Preimage   []byte // hex
	Acceptance []byte // the buyer's event; optional
	Result     []byte // the provider's result event; optional
	// An encrypted job has these in place of QuoteEvent: the hidden tags of the
	// request's event as a JSON array, and the decrypted quote. The comment above isDisclosed
	// explains why they can be trusted.
	RequestTags, Quote []byte
	// The quote of an engagement fee that was paid too, and the proof of its payment.
	FeeQuoteEvent, FeeInvoice, FeePreimage, FeeReceipt []byte
	// Outputs is a [ChainPayment], in place of Preimage if the job was paid on the
	// chain.
	Outputs []byte
	Boxes   map[string][]byte
}

// Names of the files of a dispute.
const (
	FileInvoice    = "INVOICE.txt"
	FileTags       = "REQUEST.tags.json"
	FileFeeQuote   = "ENGAGEMENT_QUOTE.event.json"
	FileFeeInvoice = "ENGAGEMENT_INVOICE.txt"
	FileFeeSecret  = "ENGAGEMENT_PREIMAGE.txt"
	FileFeeReceipt = "ENGAGEMENT_RECEIPT.event.json"
	FilePreimage   = "PREIMAGE.txt"
	FileOutputs    = "OUTPUTS.json"
	BoxDir         = "boxes" // boxes/<sha256 in hex>
)

func (d *Dispute) parts() []bundlePart {
	return []bundlePart{
		{FileRequest, &d.Request, false},
		{FileQuoteEvent, &d.QuoteEvent, false},
		{FileInvoice, &d.Invoice, false},
		{FilePreimage, &d.Preimage, false},
		{FileAcceptance, &d.Acceptance, false},
		{FileResultEvent, &d.Result, false},
		{FileTags, &d.RequestTags, false},
		{FileQuote, &d.Quote, false},
		{FileFeeQuote, &d.FeeQuoteEvent, false},
		{FileFeeInvoice, &d.FeeInvoice, false},
		{FileFeeSecret, &d.FeePreimage, false},
		{FileFeeReceipt, &d.FeeReceipt, false},
		{FileOutputs, &d.Outputs, false},
	}
}

// Files yields name and content of every file that is there.
func (d *Dispute) Files() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for _, p := range d.parts() {
			if *p.data != nil && !yield(p.name, *p.data) {
				return
			}
		}
		for hash, box := range d.Boxes {
			if !yield(BoxDir+"/"+hash, box) {
				return
			}
		}
	}
}

// ReadDispute reads a dispute from a folder. Errors wrap [ErrBundle].
func ReadDispute(fsys fs.FS, limits Limits) (*Dispute, error) {
	limits = limits.orDefault()
	d := &Dispute{Boxes: map[string][]byte{}}
	total := limits.TotalBytes
	read := func(name string, most int64) ([]byte, error) {
		info, err := fs.Lstat(fsys, name)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrBundle, err)
		}
		if !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%w: %s is not a regular file", ErrBundle, quoted(name))
		}

		f, err := fsys.Open(name)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrBundle, err)
		}
		defer f.Close()

		data, err := io.ReadAll(io.LimitReader(f, min(most, total)+1))
		if err != nil || int64(len(data)) > min(most, total) {
			return nil, fmt.Errorf("%w: %s cannot be read or is too large", ErrBundle, quoted(name))
		}
		total -= int64(len(data))
		return data, nil
	}

	for _, p := range d.parts() {
		data, err := read(p.name, maxDocument)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		*p.data = data
	}

	entries, err := fs.ReadDir(fsys, BoxDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrBundle, err)
	}
	if len(entries) > maxSealed+1 {
		return nil, fmt.Errorf("%w: too many boxes", ErrBundle)
	}

	for _, e := range entries {
		if !isHex(e.Name(), 64) {
			return nil, fmt.Errorf("%w: a box is named by its SHA-256 in hex, not %s", ErrBundle, quoted(e.Name()))
		}
		if d.Boxes[e.Name()], err = read(BoxDir+"/"+e.Name(), limits.FileBytes); err != nil {
			return nil, err
		}
	}

	if d.Request == nil || d.QuoteEvent == nil && !d.isDisclosed() {
		return nil, fmt.Errorf("%w: no %s or no %s", ErrBundle, FileRequest, FileQuoteEvent)
	}
	return d, nil
}

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
