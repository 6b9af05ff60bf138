package analysis

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/lightwork-market/lightwork/schemas"
)

// The parameters of BM25: how fast repetitions of a term stop adding to the score,
// and how much a long text is penalized.
const (
	bm25K1 = 1.2
	bm25B  = 0.75
)

// maxWhyTerms bounds the terms listed in the reason for a score.
const maxWhyTerms = 5

// document is a candidate with its counts for BM25.
type document struct {
	*schemas.Candidate
	length int
	count  map[string]int // of the task's terms only, by stem
	score  float64
	why    string
}

// Rerank ranks the candidates by BM25 (k1 1.2, b 0.75) of the task's terms in
// content and path, with document frequencies from these candidates. Function words
// count only if the task has no other words. The rubric, which is meant for models,
// is ignored. Candidates with equal scores are ordered by the original score, then
// by id, so the order of the input does not matter.
func Rerank(req *schemas.RerankRequest) *schemas.RerankResult {
	terms, tokens := query(req.UserTask)
	docs := make([]document, len(req.Candidates))
	for i := range req.Candidates {
		var n int
		docs[i], n = newDocument(&req.Candidates[i], terms)
		tokens += n
	}

	score(docs, terms)
	slices.SortFunc(docs, func(a, b document) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(original(b), original(a)), strings.Compare(a.ID, b.ID))
	})
	r := &schemas.RerankResult{
		TopK:       []schemas.Ranked{},
		Provenance: schemas.Provenance{ModelID: RerankModel, Tokens: &schemas.Tokens{Input: int64(tokens)}},
	}
	for i, d := range docs[:min(req.K, int64(len(docs)))] {
		r.TopK = append(r.TopK, schemas.Ranked{Rank: int64(i + 1), ID: d.ID, Score: d.score, Why: d.why})
	}
	return r
}

// original is the retriever's score; a candidate without one is sorted last.
func original(d document) float64 {
	if d.OriginalScore == nil {
		return math.Inf(-1)
	}
	return *d.OriginalScore
}

// query returns the distinct terms of a task in order, and the number of its words.
func query(task string) ([]word, int) {
	list := words(task)
	var terms, function []word
	seen := map[string]bool{}
	for _, w := range list {
		switch {
		case seen[w.stem]:
		case isFunctionWord(w.stem):
			function = append(function, w)
		default:
			terms = append(terms, w)
		}
		seen[w.stem] = true
	}

	if len(terms) == 0 {
		terms = function
	}
	return terms, len(list)
}

// newDocument counts the terms in a candidate and also returns its number of words.
func newDocument(c *schemas.Candidate, terms []word) (document, int) {
	d := document{Candidate: c, count: map[string]int{}}
	for _, t := range terms {
		d.count[t.stem] = 0
	}

	for _, text := range [...]string{c.Content, c.Path} {
		for _, s := range stems(text) {
			d.length++
			if _, ok := d.count[s]; ok {
				d.count[s]++
			}
		}
	}
	return d, d.length
}

func score(docs []document, terms []word) {
	total := 0
	found := map[string]int{} // documents that contain the term
	for _, d := range docs {
		total += d.length
		for _, t := range terms {
			if d.count[t.stem] > 0 {
				found[t.stem]++
			}
		}
	}

	average := float64(max(total, 1)) / float64(len(docs))
	for i := range docs {
		d := &docs[i]
		var hits []hit
		for _, t := range terms {
			if n := d.count[t.stem]; n > 0 {
				gain := rarity(len(docs), found[t.stem]) * saturation(n, float64(d.length)/average)
				hits = append(hits, hit{t.surface, round6(gain)})
				d.score += round6(gain)
			}
		}
		d.score = round6(d.score)
		d.why = why(hits)
	}
}

// hit is the contribution of one term to a score.
type hit struct {
	term string
	gain float64
}

func why(hits []hit) string {
	if len(hits) == 0 {
		return "holds no term of the task"
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return cmp.Compare(b.gain, a.gain) })
	var names []string
	for _, h := range hits[:min(len(hits), maxWhyTerms)] {
		names = append(names, h.term)
	}
	return "holds " + strings.Join(names, ", ")
}

// saturation is BM25's term frequency factor; length is relative to the average.
func saturation(count int, length float64) float64 {
	n := float64(count)
	penalty := 1 - bm25B + float64(bm25B*length)
	return float64(n*(bm25K1+1)) / (n + float64(bm25K1*penalty))
}

// rarity is the variant of BM25's inverse document frequency that is never
// negative: ln(1 + (n - found + 0.5) / (found + 0.5)).
func rarity(n, found int) float64 {
	return ln(uint64(2*n+2), uint64(2*found+1))
}

// ln is the natural logarithm of num/den, num >= den >= 1, with 24 binary places.
// [math.Log] differs in its last bits between processors.
func ln(num, den uint64) float64 {
	const one = 1 << 32
	hi, lo := bits.Mul64(num, one)

	x, _ := bits.Div64(hi, lo, den) // 32 binary places; num/den < 2^32
	log2 := uint64(bits.Len64(x)-33) << 24
	x >>= bits.Len64(x) - 33 // now 1 <= x < 2
	for bit := uint64(1) << 23; bit > 0; bit >>= 1 {
		hi, lo = bits.Mul64(x, x)
		x = hi<<32 | lo>>32
		if x >= 2*one {
			x >>= 1
			log2 |= bit
		}
	}

	return float64(log2) / (1 << 24) * math.Ln2
}
