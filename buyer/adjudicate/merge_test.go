package adjudicate_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/buyer/adjudicate"
	"github.com/lightwork-market/lightwork/schemas"
)

var me = strings.Repeat("a1", 32)

func request(t *testing.T, id schemas.ID, doc string) *schemas.Request {
	t.Helper()
	s, ok := schemas.Lookup(string(id))
	if !ok {
		t.Fatalf("no schema %s", id)
	}
	req, err := s.ParseRequest([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// result is what provider number n delivers for the request.
func result(t *testing.T, req *schemas.Request, n int, value any) *schemas.Result {
	t.Helper()
	doc, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := schemas.Lookup(string(req.SchemaID))
	res, err := s.FinishResult(doc, fmt.Sprintf("%064x", n+1))
	if err == nil {
		err = req.CheckResult(res)
	}
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func ranking(t *testing.T, req *schemas.Request, n int, ids string) *schemas.Result {
	doc := schemas.RerankResult{TopK: []schemas.Ranked{}, Provenance: schemas.Provenance{ModelID: "m", ProviderPubkey: fmt.Sprintf("%064x", n+1)}}
	for i, id := range ids {
		doc.TopK = append(doc.TopK, schemas.Ranked{Rank: int64(i + 1), ID: string(id), Score: float64(-i), Why: "because I say so"})
	}
	return result(t, req, n, doc)
}

func rerank(t *testing.T, k int, ids string) *schemas.Request {
	var candidates []string
	for _, id := range ids {
		candidates = append(candidates, fmt.Sprintf(`{"id":"%c","content":"x"}`, id))
	}
	return request(t, schemas.RetrievalRerank, fmt.Sprintf(`{"user_task":"find","k":%d,"candidates":[%s]}`, k, strings.Join(candidates, ",")))
}

// merged merges and checks that the order of the results changes nothing.
func merged(t *testing.T, req *schemas.Request, results []*schemas.Result) adjudicate.Merged {
	t.Helper()
	m, err := adjudicate.Merge(req, results, me)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		order := rand.Perm(len(results))
		var other []*schemas.Result
		for _, i := range order {
			other = append(other, results[i])
		}
		again, err := adjudicate.Merge(req, other, me)
		if err != nil || string(again.Output) != string(m.Output) {
			t.Fatalf("in another order it is\n%s, not\n%s, %v", again.Output, m.Output, err)
		}
		for to, from := range order {
			if again.Carried[to] != m.Carried[from] {
				t.Errorf("in another order result %d is carried: %v", from, again.Carried[to])
			}
		}
	}
	return m
}

// TestMergedRankings: reciprocal ranks are fused, and who orders otherwise than
// the others, or is alone with what it names, is not borne out.
func TestMergedRankings(t *testing.T) {
	for name, tt := range map[string]struct {
		k       int
		given   []string
		want    string
		carried []bool
	}{
		"agree":                    {3, []string{"abc", "abc", "abc"}, "abc", []bool{true, true, true}},
		"one place apart":          {4, []string{"abcd", "abdc", "abcd"}, "abcd", []bool{true, true, true}},
		"a liar turns it around":   {5, []string{"abcde", "abced", "edcba"}, "abced", []bool{true, true, false}},
		"a liar promotes its own":  {2, []string{"ab", "ab", "zy"}, "ab", []bool{true, true, false}},
		"two that differ":          {3, []string{"abc", "cba"}, "acb", []bool{false, false}},
		"colluders that are more":  {2, []string{"ab", "zy", "zy"}, "zy", []bool{false, true, true}},
		"one place, one dissenter": {1, []string{"a", "a", "b"}, "a", []bool{true, true, false}},
	} {
		t.Run(name, func(t *testing.T) {
			req := rerank(t, tt.k, "abcdefgyz")
			var results []*schemas.Result
			for i, ids := range tt.given {
				results = append(results, ranking(t, req, i, ids))
			}
			m := merged(t, req, results)
			var out schemas.RerankResult
			if err := json.Unmarshal(m.Output, &out); err != nil {
				t.Fatal(err)
			}
			ids := ""
			for _, r := range out.TopK {
				ids += r.ID
				if strings.Contains(r.Why, "because") {
					t.Errorf("the merge says what a provider says: %q", r.Why)
				}
			}
			if ids != tt.want || !slices.Equal(m.Carried, tt.carried) {
				t.Errorf("merged to %s, carried %v", ids, m.Carried)
			}
			if out.Provenance.ProviderPubkey != me || out.Provenance.ModelID != "lightwork/merge-rrf-60/v1" {
				t.Errorf("provenance %+v", out.Provenance)
			}
		})
	}
}

const chunk = `{"task":"review","chunk":{"path":"a.go","start_line":1,"end_line":90,"content":"package a"},"output_constraints":{"max_faults":4}}`

// analysis names symbols by their letters, on the line of their place, and faults
// by their lines.
func analysis(t *testing.T, req *schemas.Request, n int, symbols string, faults ...int64) *schemas.Result {
	doc := schemas.CodeChunkResult{
		Summary: fmt.Sprintf("summary of %d", n), Symbols: []schemas.CodeSymbol{}, SuspectedFaults: []schemas.SuspectedFault{},
		RecommendedNextProbes: []schemas.NextProbe{{Path: "b.go", Reason: "why not", Priority: "low"}}, Confidence: 0.5,
		Provenance: schemas.Provenance{ModelID: "m", ProviderPubkey: fmt.Sprintf("%064x", n+1)},
	}
	for _, s := range symbols {
		doc.Symbols = append(doc.Symbols, schemas.CodeSymbol{Name: string(s), Kind: "func", Line: int64(s-'a') + 1})
	}
	for _, line := range faults {
		doc.SuspectedFaults = append(doc.SuspectedFaults, schemas.SuspectedFault{Line: line, Severity: "low", Description: fmt.Sprintf("found by %d", n)})
	}
	return result(t, req, n, doc)
}

// TestMergedFindings: all findings are in the union, those with most votes first;
// saying nothing, everything, or the same thing twice is not borne out.
func TestMergedFindings(t *testing.T) {
	req := request(t, schemas.CodeChunkAnalysis, chunk)
	results := []*schemas.Result{
		analysis(t, req, 0, "abc", 10, 20),
		analysis(t, req, 1, "abd", 20),
		analysis(t, req, 2, "ab", 20, 20, 30, 30),
		analysis(t, req, 3, ""),
		analysis(t, req, 4, "mnopqrstuvw", 41, 42, 43),
	}
	m := merged(t, req, results)
	var out schemas.CodeChunkResult
	if err := json.Unmarshal(m.Output, &out); err != nil {
		t.Fatal(err)
	}
	names := ""
	for _, s := range out.Symbols {
		names += s.Name
	}
	lines := []int64{}
	for _, f := range out.SuspectedFaults {
		lines = append(lines, f.Line)
	}
	if names != "abcdmnopqrstuvw" || !slices.Equal(lines, []int64{20, 10, 30, 41}) {
		t.Errorf("symbols %s, faults %v", names, lines)
	}
	if !slices.Equal(m.Carried, []bool{true, true, true, false, false}) {
		t.Errorf("carried %v", m.Carried)
	}
	if s := out.Summary; s == "summary of 3" || s == "summary of 4" {
		t.Errorf("the summary is %q: that of a result whose findings nobody shares", s)
	}
	if len(out.RecommendedNextProbes) != 1 || out.Confidence != 0.5 {
		t.Errorf("probes %v, confidence %v", out.RecommendedNextProbes, out.Confidence)
	}
	if m.Support[0] != (adjudicate.Support{Finding: "symbols[0]", Votes: 3}) || m.Support[len(names)] != (adjudicate.Support{Finding: "suspected_faults[0]", Votes: 3}) {
		t.Errorf("support %v", m.Support)
	}
}

// TestNoMerge: what cannot be merged is refused, not made up.
func TestNoMerge(t *testing.T) {
	req := request(t, schemas.TextGeneration, `{"prompt":"say"}`)
	one := result(t, req, 0, schemas.TextResult{Text: "a", Provenance: schemas.Provenance{ModelID: "m", ProviderPubkey: fmt.Sprintf("%064x", 1)}})
	if _, err := adjudicate.Merge(req, []*schemas.Result{one, one}, me); !errors.Is(err, adjudicate.ErrNoMerge) || adjudicate.Merges(schemas.TextGeneration) {
		t.Errorf("texts: %v", err)
	}
	req = rerank(t, 1, "ab")
	if _, err := adjudicate.Merge(req, []*schemas.Result{ranking(t, req, 0, "a")}, me); err == nil {
		t.Error("one result is merged")
	}
}

// TestMergedWordsAreNotGround: who tries out words until its hash is the lowest has
// its words kept no more often than others who found the same.
func TestMergedWordsAreNotGround(t *testing.T) {
	req := request(t, schemas.CodeChunkAnalysis, chunk)
	const rounds = 12
	kept := 0
	for round := range rounds {
		honest := []*schemas.Result{analysis(t, req, 10+round, "a", 20), analysis(t, req, 50+round, "a", 20)}
		var ground *schemas.Result
		for n := 100; ground == nil; n++ {
			r := analysis(t, req, n, "a", 20)
			if slices.Compare(r.OutputHash[:], honest[0].OutputHash[:]) < 0 && slices.Compare(r.OutputHash[:], honest[1].OutputHash[:]) < 0 {
				ground = r
			}
		}
		var out schemas.CodeChunkResult
		if err := json.Unmarshal(merged(t, req, append(honest, ground)).Output, &out); err != nil {
			t.Fatal(err)
		}
		if out.SuspectedFaults[0].Description == ground.Value.(*schemas.CodeChunkResult).SuspectedFaults[0].Description {
			kept++
		}
	}
	if kept == rounds || kept == 0 {
		t.Errorf("its words were kept in %d merges of %d", kept, rounds)
	}
}
