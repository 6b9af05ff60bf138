package receipts

import (
	"slices"
	"time"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/market/kinds"
)

// Pruning is a provider's word on what it has pruned of a job, for a bundle that it
// exports: the content of an event.
type Pruning struct {
	Version   int          `json:"version"`
	ReceiptID string       `json:"receipt_id"`
	RequestID string       `json:"request_id"` // event id, 64 hex digits
	Parts     []PrunedPart `json:"parts"`      // each once, in the order of [Parts]
}

// PrunedPart says when a part went.
type PrunedPart struct {
	Part string `json:"part"`
	At   string `json:"at"` // see Timestamp
}

// Canonical validates the document and returns its canonical JSON.
func (p Pruning) Canonical() ([]byte, error) {
	c := checks{document: "pruning"}
	c.version(p.Version)
	c.text("receipt_id", p.ReceiptID)
	c.id("request_id", p.RequestID)
	c.that(len(p.Parts) > 0, "parts are none")
	last := -1
	for _, part := range p.Parts {
		i := slices.Index(Parts(), part.Part)
		c.that(i > last, "parts are unknown, or not in order")
		c.timestamp("at", part.At)
		last = i
	}
	if c.failed != nil {
		return nil, c.failed
	}
	return hashing.CanonicalValue(p)
}

// Event makes the unsigned event of the document.
func (p Pruning) Event(createdAt int64) (Event, error) {
	doc, err := p.Canonical()
	if err != nil {
		return Event{}, err
	}
	return Event{Kind: kinds.Pruning, CreatedAt: createdAt, Content: string(doc), Tags: [][]string{{"e", p.RequestID}, domain.Pruned.Tag()}}, nil
}

// ParsePruning reads the document, which must be its own canonical form. Errors wrap
// [ErrInvalid].
func ParsePruning(doc []byte) (Pruning, error) { return parseDocument[Pruning]("pruning", doc) }

// whyGone says of each part that a provider has pruned when it went, and whether its
// quote had promised more: promised is nil without one, end is the job's, and skew how
// far clocks may differ.
func (p Pruning) whyGone(promised *Retention, end time.Time, skew time.Duration) map[string]string {
	why := map[string]string{}
	for _, part := range p.Parts {
		why[part.Part] = "pruned by its provider at " + part.At
		if promised == nil {
			continue
		}
		at, _ := parseTimestamp(part.At) // checked when it was read
		if keep := promised.Of(part.Part); keep == 0 || at.Add(skew).Before(end.Add(keep.Duration())) {
			why[part.Part] += ", sooner than its quote promised"
		}
	}
	return why
}
