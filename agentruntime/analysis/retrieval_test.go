package analysis

import (
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/lightwork-market/lightwork/schemas"
)

// The embedding must find the answer among the first five of 52 documents for
// 96 % of the queries, and among the first alone for 80 %. Chance is 10 % and 2 %.
const (
	wantRecall5 = 0.96
	wantRecall1 = 0.80
)

type fixture struct {
	names, texts []string
	queries      []question
}

type question struct {
	text   string
	answer string
}

func readFixture(t *testing.T) fixture {
	t.Helper()
	doc, err := os.ReadFile("testdata/retrieval.txt")
	if err != nil {
		t.Fatal(err)
	}
	var f fixture
	for line := range strings.Lines(string(doc)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if text, ok := strings.CutPrefix(line, "? "); ok {
			q, answer, ok := strings.Cut(text, " = ")
			if !ok {
				t.Fatalf("no answer: %s", line)
			}
			f.queries = append(f.queries, question{q, answer})
			continue
		}
		name, text, ok := strings.Cut(line, ": ")
		if !ok || slices.Contains(f.names, name) {
			t.Fatalf("not a document of its own: %s", line)
		}
		f.names, f.texts = append(f.names, name), append(f.texts, text)
	}
	if len(f.names) < 40 || len(f.queries) < 30 {
		t.Fatalf("%d documents, %d queries", len(f.names), len(f.queries))
	}
	return f
}

// recall is the share of queries whose answer is among the first k by score;
// documents of equal score are in random order, and the share is the expected
// one.
func (f fixture) recall(t *testing.T, k int, score func(query string) []float64) float64 {
	t.Helper()
	hits := 0.0
	for _, q := range f.queries {
		at := slices.Index(f.names, q.answer)
		if at < 0 {
			t.Fatalf("no document %s", q.answer)
		}
		better, equal := 0, 0 // the answer equals itself
		scores := score(q.text)
		for _, s := range scores {
			switch {
			case s > scores[at]:
				better++
			case s == scores[at]:
				equal++
			}
		}
		hit := min(1, max(0, float64(k-better)/float64(equal)))
		if hit < 1 {
			t.Logf("k=%d: %q is at %d to %d", k, q.text, better+1, better+equal)
		}
		hits += hit
	}
	return hits / float64(len(f.queries))
}

// terms are the lower-case words of a text as they stand, without function words.
func terms(text string) []string {
	list := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	list = slices.DeleteFunc(list, func(w string) bool { return isFunctionWord(stem(w)) })
	slices.Sort(list)
	return slices.Compact(list)
}

func TestEmbeddingRetrieves(t *testing.T) {
	f := readFixture(t)
	var vectors [][]float32
	for _, text := range f.texts {
		vectors = append(vectors, Embed(text))
	}
	byVector := func(q string) []float64 {
		v := Embed(q)
		var s []float64
		for _, d := range vectors {
			s = append(s, similarity(v, d))
		}
		return s
	}
	byTerms := func(q string) []float64 {
		var s []float64
		for _, d := range f.texts {
			n := 0
			for _, w := range terms(q) {
				if slices.Contains(terms(d), w) {
					n++
				}
			}
			s = append(s, float64(n))
		}
		return s
	}
	got5, got1 := f.recall(t, 5, byVector), f.recall(t, 1, byVector)
	plain5, plain1 := f.recall(t, 5, byTerms), f.recall(t, 1, byTerms)
	t.Logf("recall@5 %.3f (term match %.3f), recall@1 %.3f (term match %.3f)", got5, plain5, got1, plain1)
	if got5 < wantRecall5 || got1 < wantRecall1 {
		t.Errorf("recall@5 %.3f, recall@1 %.3f", got5, got1)
	}
	if got5 <= plain5+0.1 || got1 <= plain1+0.2 {
		t.Error("not clearly better than matching terms")
	}
}

// The threshold lets nine of ten right answers pass, and none to questions that
// no document answers.
func TestMatchThreshold(t *testing.T) {
	f := readFixture(t)
	passed := 0
	for _, q := range f.queries {
		if similarity(Embed(q.text), Embed(f.texts[slices.Index(f.names, q.answer)])) >= MatchThreshold {
			passed++
		}
	}
	if share := float64(passed) / float64(len(f.queries)); share < 0.9 {
		t.Errorf("%.2f of the right answers pass", share)
	}
	for _, q := range []string{"order me a pizza", "who won the football match", "knit a sweater", "explain quantum gravity"} {
		for i, text := range f.texts {
			if s := similarity(Embed(q), Embed(text)); s >= MatchThreshold {
				t.Errorf("%q is like %s by %v", q, f.names[i], s)
			}
		}
	}
}

func TestRerankRetrieves(t *testing.T) {
	f := readFixture(t)
	var all []schemas.Candidate
	for i, name := range f.names {
		all = append(all, schemas.Candidate{ID: name, Content: f.texts[i]})
	}
	hits := 0
	for _, q := range f.queries {
		r := Rerank(&schemas.RerankRequest{UserTask: q.text, Candidates: all, K: 5})
		if slices.ContainsFunc(r.TopK, func(x schemas.Ranked) bool { return x.ID == q.answer }) {
			hits++
		}
	}
	if got := float64(hits) / float64(len(f.queries)); got < 0.85 {
		t.Errorf("recall@5 %.3f", got)
	}
}
