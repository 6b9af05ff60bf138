package analysis

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/schemas"
)

func rank(task string, k int64, candidates ...schemas.Candidate) []string {
	var ids []string
	for _, r := range Rerank(&schemas.RerankRequest{UserTask: task, Candidates: candidates, K: k}).TopK {
		ids = append(ids, r.ID)
	}
	return ids
}

func candidate(id, content string) schemas.Candidate {
	return schemas.Candidate{ID: id, Content: content}
}

func TestRerankOrder(t *testing.T) {
	half, whole := 0.5, 1.0
	for name, tt := range map[string]struct {
		task       string
		candidates []schemas.Candidate
		want       []string
	}{
		"rare terms weigh more": {
			"parse the frame",
			[]schemas.Candidate{candidate("a", "parse"), candidate("b", "frame"), candidate("c", "parse")},
			[]string{"b", "a", "c"},
		},
		"repetition saturates, length costs": {
			"frame",
			[]schemas.Candidate{candidate("long", "frame "+strings.Repeat("and more words ", 20)), candidate("short", "one frame"), candidate("twice", "frame frame")},
			[]string{"twice", "short", "long"},
		},
		"forms of a word": {
			"parsing frames",
			[]schemas.Candidate{candidate("a", "bakes bread"), candidate("b", "func parseFrame()")},
			[]string{"b", "a"},
		},
		"the path counts": {
			"supervisor",
			[]schemas.Candidate{candidate("a", "func run()"), {ID: "b", Content: "func run()", Path: "agents/supervisor.go"}},
			[]string{"b", "a"},
		},
		"ties: original score, then id": {
			"nothing of this",
			[]schemas.Candidate{
				candidate("b", "x"), candidate("a", "x"),
				{ID: "d", Content: "x", OriginalScore: &half},
				{ID: "c", Content: "x", OriginalScore: &whole},
			},
			[]string{"c", "d", "a", "b"},
		},
		"only function words": {
			"is it the one",
			[]schemas.Candidate{candidate("a", "two"), candidate("b", "the one")},
			[]string{"b", "a"},
		},
		"function words are left out": {
			"where is the socket",
			[]schemas.Candidate{candidate("a", "the the where is"), candidate("b", "socket")},
			[]string{"b", "a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 10 {
				rand.Shuffle(len(tt.candidates), func(i, j int) {
					tt.candidates[i], tt.candidates[j] = tt.candidates[j], tt.candidates[i]
				})
				if d := cmp.Diff(tt.want, rank(tt.task, 10, tt.candidates...)); d != "" {
					t.Fatal(d)
				}
			}
		})
	}
}

// One score worked out by hand: 2 documents of 2 and 4 words (average 3), the
// term once in the first: ln(1 + 1.5/1.5) * 1*2.2/(1 + 1.2*(0.25 + 0.75*2/3)).
func TestRerankScore(t *testing.T) {
	r := Rerank(&schemas.RerankRequest{UserTask: "zebra", K: 2, Candidates: []schemas.Candidate{
		candidate("a", "zebra stripes"), candidate("b", "four other plain words"),
	}})
	want := math.Ln2 * 2.2 / (1 + 1.2*0.75)
	if math.Abs(r.TopK[0].Score-want) > 1e-5 || r.TopK[1].Score != 0 {
		t.Errorf("%+v, want %v", r.TopK, want)
	}
	if r.TopK[0].Why != "holds zebra" || r.TopK[1].Why == "" {
		t.Errorf("%+v", r.TopK)
	}
}

func TestLn(t *testing.T) {
	for _, q := range [][2]uint64{{1, 1}, {2, 1}, {3, 2}, {7, 3}, {2049, 1}, {2050, 2049}, {1000, 7}} {
		want := math.Log(float64(q[0]) / float64(q[1]))
		if got := ln(q[0], q[1]); math.Abs(got-want) > 1e-6 {
			t.Errorf("ln %d/%d = %v, want %v", q[0], q[1], got, want)
		}
	}
}

func TestRerankAnswersItsRequest(t *testing.T) {
	schema, _ := schemas.Lookup(string(schemas.RetrievalRerank))
	for _, k := range []int{1, 3, 10} {
		req, err := schema.ParseRequest(fmt.Appendf(nil,
			`{"user_task":"find the parser","k":%d,"ranking_rubric":"best first","candidates":[{"id":"a","content":""},{"id":"b","content":"a parser"},{"id":"c","content":"\ud83d\ude00"}]}`, k))
		if err != nil {
			t.Fatal(err)
		}
		r := Rerank(req.Value.(*schemas.RerankRequest))
		if r.Provenance.ModelID != RerankModel || r.Provenance.Tokens.Input != 5 {
			t.Errorf("%+v", r.Provenance)
		}
		r.Provenance.ProviderPubkey = strings.Repeat("ab", 32)
		out, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		result, err := schema.ParseResult(out)
		if err != nil {
			t.Fatal(err)
		}
		if err := req.CheckResult(result); err != nil {
			t.Error(err)
		}
	}
}
