package message

import (
	"bytes"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

func TestConfidenceRange(t *testing.T) {
	requirements.Covers(t, "YE-V6")
	for _, bad := range []any{-1, 101, 100.5, -0.5, "85", raw("null")} {
		wantRefused(t, edit(t, example(t, "response"), "evidence.confidence", bad), ValidationFailed, "evidence.confidence")
	}
	for given, want := range map[any]int{0: 0, 100: 100, 85: 85, 89.9: 89, "1e2": 100} {
		if s, ok := given.(string); ok {
			given = raw(s)
		}
		m := parse(t, edit(t, example(t, "response"), "evidence.confidence", given))
		if got := m.Evidence.chain.Confidence; got != want {
			t.Errorf("confidence %v is %d, want %d", given, got, want)
		}
	}
}

func TestResponseNeedsEvidence(t *testing.T) {
	requirements.Covers(t, "YE-V5", "K-19")
	response := example(t, "response")
	wantRefused(t, edit(t, response, "evidence", nil), ValidationFailed, "evidence")
	for _, part := range []string{"sources", "citations", "provenance"} {
		doc := edit(t, response, "evidence."+part, []any{})
		if part == "sources" {
			// A citation without a source is another fault.
			doc = edit(t, doc, "evidence.citations", []any{})
		}
		wantRefused(t, doc, FabricationDetected, "evidence."+part)
	}
	text := edit(t, edit(t, response, "payload.format", "text"), "payload.content", "About 17 billion.")
	parse(t, text)
	wantRefused(t, edit(t, text, "evidence", raw(emptyChain)), FabricationDetected, "evidence.sources")
}

func TestGapAnswerNeedsNoEvidence(t *testing.T) {
	requirements.Covers(t, "K-19")
	content := map[string]any{"gap": map[string]any{"gapType": "missing_data", "indicator": "GDP"}}
	doc := edit(t, edit(t, example(t, "response"), "payload.content", content), "evidence", raw(emptyChain))
	if r, err := ContentOf[Response](parse(t, doc)); err != nil || r.Gap == nil || r.Gap.Indicator != "GDP" {
		t.Errorf("response is %+v, %v", r, err)
	}
	// A gap is no way to say something after all.
	wantRefused(t, edit(t, doc, "payload.content.data", 17), ValidationFailed, "payload.content.data")
	wantRefused(t, edit(t, doc, "payload.content.answer", "17"), ValidationFailed, "payload.content")
}

func TestCitationsLeadToSources(t *testing.T) {
	requirements.Covers(t, "K-20")
	response := example(t, "response")
	citation := func(source, url string) string {
		c := map[string]any{"text": "GDP", "source": source}
		if url != "" {
			c["url"] = url
		}
		return edit(t, response, "evidence.citations", []any{c})
	}
	for _, ok := range [][2]string{{"src-wb-001", ""}, {"World Bank", ""}, {"WDI", "https://data.worldbank.org/other"}} {
		parse(t, citation(ok[0], ok[1]))
	}
	for _, bad := range [][2]string{{"WDI", ""}, {"world bank", ""}, {"WDI", "https://worldbank.example/other"}, {"WDI", "urn:isbn:1"}} {
		wantRefused(t, citation(bad[0], bad[1]), FabricationDetected, "evidence.citations")
	}
	// Two URLs without a host are not the same place.
	noHost := edit(t, citation("ISBN 2", "urn:isbn:2"), "evidence.sources", []any{map[string]any{"id": "s1", "name": "Book", "url": "urn:isbn:1"}})
	wantRefused(t, noHost, FabricationDetected, "evidence.citations")
	chain := parse(t, response).Evidence.chain
	if _, err := NewEvidence(chain); err == nil {
		t.Error("we wrote a citation that names no source id")
	}
	chain.Citations[0].Source = "src-wb-001"
	if _, err := NewEvidence(chain); err != nil {
		t.Error(err)
	}
}

func TestBadRecordsAreRefused(t *testing.T) {
	source := func(id, url string) any {
		return map[string]any{"id": id, "name": "n", "url": url}
	}
	for field, list := range map[string][]any{
		"evidence.sources.0.url":                {source("a", "/relative")},
		"evidence.sources.1.id":                 {source("a", "https://a.example"), source("", "https://a.example")},
		"evidence.sources":                      {source("a", "https://a.example"), source("a", "https://b.example")},
		"evidence.provenance.0.generatedAtTime": {map[string]any{"entity": "e", "wasGeneratedBy": "a", "generatedAtTime": "2025-01-29T10:30:05"}},
		"evidence.provenance.0.entity":          {map[string]any{"wasGeneratedBy": "a"}},
		"evidence.citations.0.text":             {map[string]any{"source": "a"}},
	} {
		part := strings.Split(field, ".")[1]
		wantRefused(t, edit(t, example(t, "response"), "evidence."+part, list), ValidationFailed, field)
	}
	many := make([]any, maxCitations+1)
	wantRefused(t, edit(t, example(t, "response"), "evidence.citations", many), ValidationFailed, "evidence.citations")
}

// oddChain is written as no encoder of this module would write it.
const oddChain = `{ "provenance":[{"entity":"e\u0031","wasGeneratedBy":"b" , "wasDerivedFrom":"s1","wasAttributedTo":"c","licence":"CC-BY"}],
	"citations" : [{"source":"s1","text":"a\/b \u00e9"}],"confidence":8.50E1,"sources":[{"name":"S","id":"s1","rank":1.10}] }`

func TestEvidenceKeepsItsBytes(t *testing.T) {
	requirements.Covers(t, "YE-O.3", "YEX-4")
	given := edit(t, example(t, "response"), "evidence", nil)
	given = given[:len(given)-1] + `,"evidence":` + oddChain + `}`
	m := parse(t, given)
	if got := m.Evidence.chain; got.Confidence != 85 || got.Provenance[0].WasAttributedTo != "c" || got.Citations[0].Text != "a/b é" {
		t.Errorf("chain is %+v", got)
	}
	for hop := range 5 {
		doc, err := Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(doc, []byte(`"evidence":`+oddChain+`,`)) {
			t.Fatalf("hop %d wrote %s", hop, doc)
		}
		m = parse(t, string(doc))
	}
	if hashing.Bytes(m.Evidence.Bytes()) != hashing.Bytes([]byte(oddChain)) {
		t.Error("evidence changed")
	}
}

func TestEvidenceCannotBeChanged(t *testing.T) {
	given := []byte(oddChain)
	e, err := parseEvidence(given)
	if err != nil {
		t.Fatal(err)
	}
	given[2] = 'X'
	e.Bytes()[2] = 'X'
	if string(e.Bytes()) != oddChain {
		t.Error("evidence changed from outside")
	}
}
