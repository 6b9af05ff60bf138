package message

import (
	"bytes"
	"math"
	"net/url"

	"github.com/go-json-experiment/json"

	"github.com/lightwork-market/lightwork/hashing"
)

// Chain is the evidence for the content of a message.
type Chain struct {
	Sources []Source `json:"sources"`
	// Confidence is 0 to 100. Received fractions are rounded down. It is unrelated
	// to the relevance of a context segment.
	Confidence int          `json:"confidence"`
	Citations  []Citation   `json:"citations"`
	Provenance []Provenance `json:"provenance"`
}

// Source is the origin of a statement or figure.
type Source struct {
	ID   string `json:"id"` // unique in the chain
	Name string `json:"name"`
	Type string `json:"type,omitzero"`
	URL  string `json:"url,omitzero"` // absolute
}

// Citation quotes a passage of a source.
type Citation struct {
	Text string `json:"text"`
	// Source is a Source.ID. In a received citation it may also be the name of a
	// source, or a URL on its host.
	Source string `json:"source"`
	Date   string `json:"date,omitzero"` // free form
	URL    string `json:"url,omitzero"`
}

// Provenance records how a thing was made.
type Provenance struct {
	// Entity is the thing. Our own agents name the digest of a tool's output,
	// "sha256:<hex>".
	Entity string `json:"entity"`
	// WasGeneratedBy is an agent id.
	WasGeneratedBy string `json:"wasGeneratedBy"`
	// WasDerivedFrom is a Source.ID, or the digest of the input that the entity was
	// made from.
	WasDerivedFrom  string `json:"wasDerivedFrom,omitzero"`
	WasAttributedTo string `json:"wasAttributedTo,omitzero"`
	GeneratedAtTime string `json:"generatedAtTime,omitzero"` // ISO 8601 with a zone
}

// Evidence is a chain in the bytes in which it was first written. It is immutable
// and is passed on byte for byte. The zero value is an empty chain.
type Evidence struct {
	raw   []byte
	chain Chain
}

const emptyChain = `{"sources":[],"confidence":0,"citations":[],"provenance":[]}`

// NewEvidence writes a chain. Every citation must name a Source.ID. Errors are of
// type *Error.
func NewEvidence(c Chain) (Evidence, error) {
	ids := map[string]bool{}
	for _, s := range c.Sources {
		ids[s.ID] = true
	}

	for _, citation := range c.Citations {
		if !ids[citation.Source] {
			return Evidence{}, fabricated(LawAttribution, "evidence.citations", "a citation names no source id of the chain")
		}
	}

	raw, err := json.Marshal(c) // writes nil slices as []
	if err != nil {
		return Evidence{}, invalid("evidence", "cannot be written: not UTF-8")
	}
	return parseEvidence(raw)
}

// parseEvidence reads a chain and keeps a copy of its bytes. Errors are of type
// *Error.
func parseEvidence(raw []byte) (Evidence, error) {
	if len(raw) > maxBytes {
		return Evidence{}, invalid("evidence", "has more than %d bytes", maxBytes)
	}
	var tree any
	if err := hashing.UnmarshalKnown(raw, &tree); err != nil {
		return Evidence{}, invalid("evidence", "%v", err)
	}
	if err := evidenceShape().check(tree, "evidence"); err != nil {
		return Evidence{}, err
	}

	e, err := decodeEvidence(raw)
	if err != nil {
		return Evidence{}, err
	}
	return e, nil
}

// decodeEvidence reads a chain whose shape was checked.
func decodeEvidence(raw []byte) (Evidence, *Error) {
	var wire struct {
		Sources    []Source     `json:"sources"`
		Confidence float64      `json:"confidence"`
		Citations  []Citation   `json:"citations"`
		Provenance []Provenance `json:"provenance"`
	}
	if err := json.Unmarshal(raw, &wire); err != nil {
		return Evidence{}, invalid("evidence", "does not decode")
	}
	e := Evidence{raw: bytes.Clone(raw), chain: Chain{
		Sources: wire.Sources, Confidence: int(math.Floor(wire.Confidence)), Citations: wire.Citations, Provenance: wire.Provenance,
	}}
	return e, e.chain.check()
}

// Bytes returns a copy of the chain in the bytes in which it was first written.
func (e Evidence) Bytes() []byte {
	if e.raw == nil {
		return []byte(emptyChain)
	}
	return bytes.Clone(e.raw)
}

// check makes the checks that a shape cannot express: source ids are unique, and
// every citation names a source.
func (c Chain) check() *Error {
	ids, names, hosts := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, s := range c.Sources {
		if ids[s.ID] {
			return invalid("evidence.sources", "an id is there twice")
		}
		ids[s.ID], names[s.Name] = true, true
		if h := hostOf(s.URL); h != "" {
			hosts[h] = true
		}
	}

	for _, citation := range c.Citations {
		if !ids[citation.Source] && !names[citation.Source] && !hosts[hostOf(citation.URL)] {
			return fabricated(LawAttribution, "evidence.citations", "a citation leads to no source of the chain")
		}
	}
	return nil
}

// hostOf returns the host of a URL, "" if it has none.
func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// require requires an answer to have at least one source, one citation and one
// record of provenance (K-19). Only a gap needs none.
func (c Chain) require() *Error {
	switch {
	case len(c.Sources) == 0:
		return fabricated(LawFabrication, "evidence.sources", "an answer has no source")
	case len(c.Citations) == 0:
		return fabricated(LawAttribution, "evidence.citations", "an answer cites nothing")
	case len(c.Provenance) == 0:
		return fabricated(LawProvenance, "evidence.provenance", "an answer does not say how it came to be")
	}
	return nil
}
