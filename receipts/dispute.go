package receipts

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
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
	// request's event as a JSON array, and the decrypted quote. disclosed.go explains
	// why they can be trusted.
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
