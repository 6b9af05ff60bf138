package schemas

import (
	"strconv"
	"testing"

	"github.com/lightwork-market/lightwork/internal/requirements"
)

func TestConfidence(t *testing.T) {
	requirements.Covers(t, "K-21")
	for stated, want := range map[string]int{"0": 0, "0.004": 0, "0.29": 29, "0.57": 57, "0.299": 29, "0.999": 99, "1": 100} {
		c, err := strconv.ParseFloat(stated, 64)
		if err != nil {
			t.Fatal(err)
		}
		if got := (&Result{SchemaID: CodeChunkAnalysis, Value: &CodeChunkResult{Confidence: c}}).Confidence(); got != want {
			t.Errorf("%s is %d %%", stated, got)
		}
	}
	for id, want := range map[ID]int{SandboxRun: 100, Embedding: 100, TextGeneration: 0} {
		if got := (&Result{SchemaID: id}).Confidence(); got != want {
			t.Errorf("%s: %d %%", id, got)
		}
	}
	ranked := &Result{SchemaID: RetrievalRerank, Value: &RerankResult{TopK: []Ranked{{Rank: 1, ID: "a", Score: 0.9}}}}
	if got := ranked.Confidence(); got != 0 {
		t.Errorf("a relevance of 0.9 became a confidence of %d %%", got)
	}
}
