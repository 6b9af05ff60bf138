package receipts

import (
	"fmt"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/market/kinds"
)

// Pointer is the content of an event that names a receipt by its hash. It proves
// nothing by itself; the bundle whose RECEIPT.json has this hash does.
type Pointer struct {
	ReceiptID      string         `json:"receipt_id"`
	ReceiptHash    hashing.Digest `json:"receipt_hash"`
	RequestEventID string         `json:"request_event_id"`
	ProviderID     string         `json:"provider_id"` // npub
}

// pointerPrefix is before the hash in the pointer's d tag.
const pointerPrefix = "openagents:receipt_ptr:"

// PointerName is the d tag of the pointer to the receipt with this hash.
func PointerName(receipt hashing.Digest) string { return pointerPrefix + receipt.Hex() }

// PointerTo makes the pointer to the receipt in a document.
func PointerTo(receipt []byte) (Pointer, error) {
	r, err := ParseReceipt(receipt)
	if err != nil {
		return Pointer{}, err
	}
	return Pointer{ReceiptID: r.ReceiptID, ReceiptHash: hashing.Bytes(receipt), RequestEventID: r.RequestEventID, ProviderID: r.ProviderID}, nil
}

// Canonical is the pointer's canonical JSON. Errors wrap [ErrInvalid].
func (p Pointer) Canonical() ([]byte, error) {
	c := checks{document: "pointer"}
	c.text("receipt_id", p.ReceiptID)
	c.digest("receipt_hash", p.ReceiptHash)
	c.id("request_event_id", p.RequestEventID)
	_, err := ParseNpub(p.ProviderID)
	c.err(err)
	if c.failed != nil {
		return nil, c.failed
	}
	return hashing.CanonicalValue(p)
}

// Event makes the unsigned event of the pointer. Errors wrap [ErrInvalid].
func (p Pointer) Event(createdAt int64) (Event, error) {
	doc, err := p.Canonical()
	if err != nil {
		return Event{}, err
	}
	provider, err := ParseNpub(p.ProviderID)
	if err != nil {
		return Event{}, err
	}
	return Event{Kind: kinds.Pointer, CreatedAt: createdAt, Content: string(doc), Tags: [][]string{
		{"d", PointerName(p.ReceiptHash)}, {"x", p.ReceiptHash.Hex()}, {"e", p.RequestEventID}, {"p", provider}, domain.Pointer.Tag(),
	}}, nil
}

// ParsePointerEvent verifies a pointer's event, whoever signed it, and returns the
// pointer. The tags must agree with it. Errors wrap [ErrInvalid] or [ErrMismatch].
func ParsePointerEvent(ev Event) (Pointer, error) {
	fail := func(err error) (Pointer, error) { return Pointer{}, fmt.Errorf("pointer to a receipt: %w", err) }
	if err := ev.Verify(); err != nil {
		return fail(err)
	}
	if err := requireDomain(domain.Pointer)(&ev); err != nil {
		return fail(err)
	}

	p, err := parseDocument[Pointer]("pointer", []byte(ev.Content))
	if err != nil {
		return fail(err)
	}
	provider, err := ParseNpub(p.ProviderID)
	if err != nil {
		return fail(err)
	}
	if err := firstMismatch(
		onlyTag(ev, "d", PointerName(p.ReceiptHash)),
		onlyTag(ev, "x", p.ReceiptHash.Hex()),
		onlyTag(ev, "e", p.RequestEventID),
		onlyTag(ev, "p", provider),
	); err != nil {
		return fail(err)
	}

	return p, nil
}
