package schemas

import (
	"errors"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

func TestResults(t *testing.T) {
	requirements.Covers(t, "OA-3.5")
	for id, doc := range minimalResults {
		r := parseResult(t, id, doc)
		sum, err := hashing.Sum([]byte(doc))
		if err != nil || r.OutputHash != sum {
			t.Errorf("%s: output_hash %s, want the document's own %s (%v)", id, r.OutputHash, sum, err)
		}
		if err := parseRequest(t, id, minimal[id]).CheckResult(r); err != nil {
			t.Errorf("%s: CheckResult: %v", id, err)
		}
		s := lookup(t, id)
		for old, field := range map[string]string{
			`"model_id":"m","provider_pubkey"`:                                  "provenance.model_id",
			`,"provider_pubkey":"` + pubkey + `"`:                               "provenance.provider_pubkey",
			`,"provenance":{"model_id":"m","provider_pubkey":"` + pubkey + `"}`: "provenance",
		} {
			new := ""
			if strings.HasSuffix(old, `"provider_pubkey"`) {
				new = `"provider_pubkey"`
			}
			broken := strings.Replace(doc, old, new, 1)
			_, err := s.ParseResult([]byte(broken))
			refusal(t, err, field, "required")
		}
	}
	probe := parseResult(t, CodeChunkAnalysis, minimalResults[CodeChunkAnalysis]).Value.(*CodeChunkResult).RecommendedNextProbes[0]
	if probe.Priority != "medium" {
		t.Errorf("priority = %q, want medium", probe.Priority)
	}
}

func TestResultsAgainstRequests(t *testing.T) {
	limited := strings.Replace(minimal[CodeChunkAnalysis], `{"task"`, `{"output_constraints":{"max_symbols":1,"max_summary_length":1},"task"`, 1)
	for _, tt := range []struct {
		id       ID
		request  string
		old, new string
		field    string
	}{
		{CodeChunkAnalysis, limited, `"summary":"s"`, `"summary":"ss"`, "summary"},
		{CodeChunkAnalysis, limited, `[{"name"`, `[{"name":"x","kind":"k","line":2},{"name"`, "symbols"},
		{CodeChunkAnalysis, "", `"function","line":1`, `"function","line":11`, "symbols[0].line"},
		{CodeChunkAnalysis, "", `[{"line":1`, `[{"line":11`, "suspected_faults[0].line"},
		{RetrievalRerank, "", `"id":"2"`, `"id":"3"`, "topk[0].id"},
		{RetrievalRerank, "", `,{"rank":2,"id":"1","score":0.1}`, ``, "topk"},
		{Embedding, "", `,[1,2]`, ``, "embeddings"},
		{Embedding, `{"texts":["a","b"],"dimensions":3}`, `"model_id"`, `"model_id"`, "dimensions"},
	} {
		request := tt.request
		if request == "" {
			request = minimal[tt.id]
		}
		result := parseResult(t, tt.id, strings.Replace(minimalResults[tt.id], tt.old, tt.new, 1))
		refusal(t, parseRequest(t, tt.id, request).CheckResult(result), tt.field, "")
	}
	other := parseResult(t, Embedding, minimalResults[Embedding])
	if err := parseRequest(t, SandboxRun, minimal[SandboxRun]).CheckResult(other); err == nil {
		t.Error("a result of another schema is accepted")
	}
}

func TestResultsThatBreakTheirSchema(t *testing.T) {
	for _, tt := range []struct {
		id            ID
		old, new      string
		field, reason string
	}{
		{RetrievalRerank, `"rank":2`, `"rank":3`, "topk[1].rank", "the place is 2"},
		{RetrievalRerank, `"id":"1"`, `"id":"2"`, "topk[1].id", "twice"},
		{Embedding, `[1,2]`, `[1,2,3]`, "embeddings[1]", "dimensions is 2"},
		{Embedding, `[1,2]`, `[1,"2"]`, "embeddings[1][1]", "must be a number"},
		{CodeChunkAnalysis, `0.5`, `1.5`, "confidence", "at most 1"},
		{CodeChunkAnalysis, `"low"`, `"fatal"`, "suspected_faults[0].severity", "low, medium, high"},
		{CodeChunkAnalysis, `"summary":"s"`, `"summary":"s","sumary":"t"`, "sumary", "not a field"},
		{SandboxRun, `"m","provider_pubkey":"` + pubkey, `"m","provider_pubkey":"npub1xyz`, "provenance.provider_pubkey", "must match"},
	} {
		doc := strings.Replace(minimalResults[tt.id], tt.old, tt.new, 1)
		_, err := lookup(t, tt.id).ParseResult([]byte(doc))
		refusal(t, err, tt.field, tt.reason)
	}
}

func TestFinishResult(t *testing.T) {
	requirements.Covers(t, "OA-3.5")
	s := lookup(t, SandboxRun)
	bare := strings.Replace(minimalResults[SandboxRun], `,"provider_pubkey":"`+pubkey+`"`, "", 1)
	want := parseResult(t, SandboxRun, minimalResults[SandboxRun])
	for _, doc := range []string{bare, minimalResults[SandboxRun]} {
		r, err := s.FinishResult([]byte(doc), pubkey)
		if err != nil || r.OutputHash != want.OutputHash {
			t.Errorf("%v, %v; want %s", r, err, want.OutputHash)
		}
	}
	_, err := s.FinishResult([]byte(minimalResults[SandboxRun]), strings.Repeat("1", 64))
	refusal(t, err, "provenance.provider_pubkey", "another provider")
	_, err = s.FinishResult([]byte(bare), "npub1")
	refusal(t, err, "provenance.provider_pubkey", "must match")
	for _, doc := range []string{`{}`, `[]`, `{"provenance":[]}`} {
		_, err = s.FinishResult([]byte(doc), pubkey)
		refusal(t, err, "provenance", "required")
	}
}

func TestAgreement(t *testing.T) {
	agree := func(id ID, doc string) hashing.Digest {
		t.Helper()
		d, err := parseRequest(t, id, minimal[id]).AgreementHash(parseResult(t, id, doc))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for id, change := range map[ID][2]string{
		RetrievalRerank: {`0.9`, `0.8`},
		Embedding:       {`"model_id":"m","provider_pubkey"`, `"model_id":"other","provider_pubkey"`},
	} {
		doc := minimalResults[id]
		if agree(id, doc) != agree(id, strings.Replace(doc, change[0], change[1], 1)) {
			t.Errorf("%s: %s changes the agreement", id, change[0])
		}
	}
	swapped := `{"topk":[{"rank":1,"id":"1","score":0.9},{"rank":2,"id":"2","score":0.1}],` + provenance + `}`
	if agree(RetrievalRerank, minimalResults[RetrievalRerank]) == agree(RetrievalRerank, swapped) {
		t.Error("another order agrees")
	}
	if _, err := parseResult(t, CodeChunkAnalysis, minimalResults[CodeChunkAnalysis]).AgreementHashes(); !errors.Is(err, ErrNoAgreement) {
		t.Errorf("chunk analysis: %v, want ErrNoAgreement", err)
	}
}
