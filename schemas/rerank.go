package schemas

import "fmt"

// RerankRequest is the input of oa.retrieval_rerank.v1.
type RerankRequest struct {
	UserTask      string       `json:"user_task" jsonschema:"the task the candidates serve" rule:"minlen=1;maxlen=16384"`
	Candidates    []Candidate  `json:"candidates" jsonschema:"what to rank" rule:"minitems=1;maxitems=1024"`
	K             int64        `json:"k" jsonschema:"how many to return" rule:"min=1;max=1024;default=10"`
	RankingRubric string       `json:"ranking_rubric,omitempty" jsonschema:"how to rank" rule:"minlen=1;maxlen=16384"`
	Verification  Verification `json:"verification" jsonschema:"how the result is judged"`
}

// Candidate is one retrieval hit.
type Candidate struct {
	ID            string         `json:"id" jsonschema:"unique name" rule:"minlen=1;maxlen=256"`
	Content       string         `json:"content" jsonschema:"text" rule:"maxlen=262144"`
	Path          string         `json:"path,omitempty" jsonschema:"where it is from" rule:"minlen=1;maxlen=1024"`
	OriginalScore *float64       `json:"original_score,omitempty" jsonschema:"score of the retriever"`
	Metadata      map[string]any `json:"metadata,omitempty" jsonschema:"anything else" rule:"maxprops=64"`
}

// RerankResult is the output of oa.retrieval_rerank.v1.
type RerankResult struct {
	TopK       []Ranked   `json:"topk" jsonschema:"best candidates, best first" rule:"maxitems=1024"`
	Provenance Provenance `json:"provenance" jsonschema:"who made the result and how"`
}

// Ranked is one place of the ranking.
type Ranked struct {
	Rank  int64   `json:"rank" jsonschema:"place, from 1" rule:"min=1;max=1024"`
	ID    string  `json:"id" jsonschema:"id of the candidate" rule:"minlen=1;maxlen=256"`
	Score float64 `json:"score" jsonschema:"score of the ranking"`
	Why   string  `json:"why,omitempty" jsonschema:"reason" rule:"maxlen=4096"`
}

func (r *RerankRequest) check() error {
	seen := map[string]bool{}
	for i, c := range r.Candidates {
		if seen[c.ID] {
			return &FieldError{child(item("candidates", i), "id"), "is not unique"}
		}
		seen[c.ID] = true
	}
	return nil
}

func (r *RerankResult) check() error {
	seen := map[string]bool{}
	for i, t := range r.TopK {
		if t.Rank != int64(i+1) {
			return &FieldError{child(item("topk", i), "rank"), fmt.Sprintf("is %d, the place is %d", t.Rank, i+1)}
		}
		if seen[t.ID] {
			return &FieldError{child(item("topk", i), "id"), "is ranked twice"}
		}
		seen[t.ID] = true
	}
	return nil
}

func (r *RerankResult) checkAgainst(req *RerankRequest) error {
	if want := min(req.K, int64(len(req.Candidates))); int64(len(r.TopK)) != want {
		return &FieldError{"topk", fmt.Sprintf("has %d places, %d were ordered", len(r.TopK), want)}
	}
	candidates := map[string]bool{}
	for _, c := range req.Candidates {
		candidates[c.ID] = true
	}

	for i, t := range r.TopK {
		if !candidates[t.ID] {
			return &FieldError{child(item("topk", i), "id"), "is no candidate"}
		}
	}

	return nil
}

// agreement is the order alone, because scores and reasons differ between models.
func (r *RerankResult) agreement(bool) any {
	ids := []string{}
	for _, t := range r.TopK {
		ids = append(ids, t.ID)
	}
	return struct {
		IDs []string `json:"ids"`
	}{ids}
}
