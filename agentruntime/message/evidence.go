package message

import (
	"bytes"
	"math"
	"net/url"

	"github.com/go-json-experiment/json"

	"github.com/lightwork-market/lightwork/hashing"
)

// Chain is the evidence for what a message says.
type Chain struct {
	Sources []Source `json:"sources"`
	// Confidence is 0 to 100. A fraction that arrives counts as the integer
	// below it. It has nothing to do with the relevance of a context segment.
	Confidence int          `json:"confidence"`
	Citations  []Citation   `json:"citations"`
	Provenance []Provenance `json:"provenance"`
}

// Source is where something is from.
type Source struct {
	ID   string `json:"id"` // unique in the chain
	Name string `json:"name"`
	Type string `json:"type,omitzero"`
	URL  string `json:"url,omitzero"` // absolute
}

// Citation is a passage of a source.
type Citation struct {
	Text string `json:"text"`
	// Source is a Source.ID. A received one may also be the source's name, or
	// have a URL on the source's host.
	Source string `json:"source"`
	Date   string `json:"date,omitzero"` // free form
	URL    string `json:"url,omitzero"`
}

// Provenance is how a thing came to be.
type Provenance struct {
	// Entity is the thing: of our agents the digest of a tool's output,
	// "sha256:<hex>".
	Entity string `json:"entity"`
	// WasGeneratedBy is an agent id.
	WasGeneratedBy string `json:"wasGeneratedBy"`
	// WasDerivedFrom is a Source.ID or the digest of what it was made from.
	WasDerivedFrom  string `json:"wasDerivedFrom,omitzero"`
	WasAttributedTo string `json:"wasAttributedTo,omitzero"`
	GeneratedAtTime string `json:"generatedAtTime,omitzero"` // ISO 8601 with a zone
}

// Evidence is a chain in the bytes it was first written in. It cannot change,
// and passing it on writes these bytes again. The zero value is an empty chain.
type Evidence struct {
	raw   []byte
	chain Chain
}

const emptyChain = `{"sources":[],"confidence":0,"citations":[],"provenance":[]}`

// NewEvidence writes a chain. Every citation must name a Source.ID; errors are
// *Error.
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

	raw, err := json.Marshal(c) // nil slices are written as []
	if err != nil {
		return Evidence{}, invalid("evidence", "cannot be written: not UTF-8")
	}
	return parseEvidence(raw)
}

// parseEvidence reads a chain and keeps a copy of its bytes. Errors are *Error.
func parseEvidence(raw []byte) (Evidence, error) {
	if len(raw) > maxBytes {
		return Evidence{}, invalid("evidence", "has more than %d bytes", maxBytes)
	}
	if err := hashing.Check(raw); err != nil {
		return Evidence{}, invalid("evidence", "%v", err)
	}

	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return Evidence{}, invalid("evidence", "does not decode")
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

// decodeEvidence reads a chain that has its shape.
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

// Bytes returns a copy of the chain as it was first written.
func (e Evidence) Bytes() []byte {
	if e.raw == nil {
		return []byte(emptyChain)
	}
	return bytes.Clone(e.raw)
}

// check is what the shape cannot say: source ids are unique and every citation
// leads to a source.
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

// hostOf returns the host of a URL, "" for none.
func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// require is the rule for answers: at least a source, a citation and a record
// of provenance, unless the answer is that there is none (K-19).
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
