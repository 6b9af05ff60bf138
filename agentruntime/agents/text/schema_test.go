package text

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/lightwork-market/lightwork/agentruntime/model/chat"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/schemas"
)

// TestOneSchema: what the node has of a tool that does a job type is the job
// type's own document, to the last byte of its canonical form: as the agent
// registered it, as a model is offered it, and as it is printed (M-6).
func TestOneSchema(t *testing.T) {
	s := start(t)
	tools, err := s.Tools(ID)
	if err != nil || len(tools) != 3 {
		t.Fatalf("%d tools, %v", len(tools), err)
	}
	jobs := map[string]schemas.ID{ToolCodeChunk: schemas.CodeChunkAnalysis, ToolRerank: schemas.RetrievalRerank, ToolEmbedding: schemas.Embedding}
	for _, tool := range tools {
		job, ok := schemas.Lookup(string(jobs[tool.Name]))
		if !ok {
			t.Fatalf("%s does no job type", tool.Name)
		}
		want := digestOf(t, job.InputSchema())
		if got := digestOf(t, tool.InputSchema); got != want {
			t.Errorf("%s is registered with %s, %s has %s", tool.Name, got, job.ID, want)
		}
		if got := digestOf(t, chat.Offer(tool.Name, tool.Description, tool.InputSchema).Function.Parameters); got != want {
			t.Errorf("a model is offered %s with %s", tool.Name, got)
		}
		var doc struct {
			Properties map[string]struct {
				Type        string `json:"type"`
				Description string `json:"description"`
			} `json:"properties"`
			Required []string `json:"required"`
		}
		if err := json.Unmarshal(tool.InputSchema, &doc); err != nil {
			t.Fatal(err)
		}
		inputs := job.Document().Inputs
		if len(inputs) != len(doc.Properties) {
			t.Errorf("%s: %d inputs, %d properties", job.ID, len(inputs), len(doc.Properties))
		}
		for name, p := range doc.Properties {
			if got, want := inputs[name], (schemas.InputField{Type: p.Type, Required: slices.Contains(doc.Required, name), Description: p.Description}); got != want {
				t.Errorf("%s.%s: %+v, want %+v", job.ID, name, got, want)
			}
		}
	}
}

func digestOf(t *testing.T, doc json.RawMessage) hashing.Digest {
	t.Helper()
	d, err := hashing.Sum(doc)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
