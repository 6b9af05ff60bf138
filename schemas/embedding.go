package schemas

import "fmt"

// EmbeddingRequest is the input of oa.embedding.v1.
type EmbeddingRequest struct {
	Texts        []string     `json:"texts" jsonschema:"what to embed" rule:"minitems=1;maxitems=256;each.maxlen=65536"`
	ModelHint    string       `json:"model_hint,omitempty" jsonschema:"model the buyer prefers" rule:"minlen=1;maxlen=128"`
	Dimensions   int64        `json:"dimensions,omitempty" jsonschema:"vector length" rule:"min=1;max=16384"`
	Verification Verification `json:"verification" jsonschema:"how the result is judged"`
}

// EmbeddingResult is the output of oa.embedding.v1.
type EmbeddingResult struct {
	Embeddings [][]float64 `json:"embeddings" jsonschema:"one vector for each text, in order" rule:"minitems=1;maxitems=256;each.minitems=1;each.maxitems=16384"`
	ModelID    string      `json:"model_id" jsonschema:"model that embedded" rule:"minlen=1;maxlen=128"`
	Dimensions int64       `json:"dimensions" jsonschema:"length of every vector" rule:"min=1;max=16384"`
	Provenance Provenance  `json:"provenance" jsonschema:"who made the result and how"`
}

func (r *EmbeddingRequest) check() error { return nil }

func (r *EmbeddingResult) check() error {
	for i, v := range r.Embeddings {
		if int64(len(v)) != r.Dimensions {
			return &FieldError{item("embeddings", i), fmt.Sprintf("has %d numbers, dimensions is %d", len(v), r.Dimensions)}
		}
	}
	return nil
}

func (r *EmbeddingResult) checkAgainst(req *EmbeddingRequest) error {
	if len(r.Embeddings) != len(req.Texts) {
		return &FieldError{"embeddings", fmt.Sprintf("has %d vectors for %d texts", len(r.Embeddings), len(req.Texts))}
	}
	if req.Dimensions > 0 && r.Dimensions != req.Dimensions {
		return &FieldError{"dimensions", fmt.Sprintf("is %d, %d was ordered", r.Dimensions, req.Dimensions)}
	}
	return nil
}

// agreement is every number, because the same model gives the same vectors for the
// same texts.
func (r *EmbeddingResult) agreement(bool) any {
	return struct {
		Dimensions int64       `json:"dimensions"` // in canonical order
		Embeddings [][]float64 `json:"embeddings"`
		ModelID    string      `json:"model_id"`
	}{r.Dimensions, r.Embeddings, r.ModelID}
}
