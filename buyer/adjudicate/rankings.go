package adjudicate

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/lightwork-market/lightwork/schemas"
)

const (
	mergeRRF = "lightwork/merge-rrf-60/v1"
	// rrfK is the constant of reciprocal rank fusion, as Cormack, Clarke and
	// Buettcher (2009) have it: a place is worth 1/(60+place).
	rrfK = 60
)

// mergeRankings is reciprocal rank fusion. Equal sums are in the order of the
// request's candidates, which no provider chooses.
func mergeRankings(req *schemas.RerankRequest, results []*schemas.RerankResult, by string) (*schemas.RerankResult, []bool) {
	out := &schemas.RerankResult{TopK: []schemas.Ranked{}, Provenance: provenance(mergeRRF, by)}
	scores := fuse(results)
	for i, id := range fused(req, scores) {
		n := 0
		for _, r := range results {
			if slices.ContainsFunc(r.TopK, func(t schemas.Ranked) bool { return t.ID == id }) {
				n++
			}
		}
		out.TopK = append(out.TopK, schemas.Ranked{
			Rank: int64(i + 1), ID: id, Score: math.Round(scores[id]*1e9) / 1e9, Why: fmt.Sprintf("ranked by %d of %d", n, len(results)),
		})
	}

	return out, carried(results, concordant)
}

func fuse(results []*schemas.RerankResult) map[string]float64 {
	// Sums in one order, whatever that of the results: addition of floats is not
	// associative, and the order must change nothing.
	places := map[string][]int64{}
	for _, r := range results {
		for _, t := range r.TopK {
			places[t.ID] = append(places[t.ID], t.Rank)
		}
	}

	scores := map[string]float64{}
	for id, at := range places {
		slices.Sort(at)
		for _, rank := range at {
			scores[id] += 1 / float64(rrfK+rank)
		}
	}

	return scores
}

// fused are the best ids, as many as were ordered.
func fused(req *schemas.RerankRequest, scores map[string]float64) []string {
	var ids []string
	for _, c := range req.Candidates {
		if _, ok := scores[c.ID]; ok {
			ids = append(ids, c.ID)
		}
	}
	slices.SortStableFunc(ids, func(a, b string) int { return -cmp.Compare(scores[a], scores[b]) })
	return ids[:min(len(ids), int(req.K))]
}

// concordant reports whether a ranking puts at least two thirds of the pairs that
// a reference orders into the same order; by chance it would be half. What it
// leaves out comes after what it names, and a pair of which it names neither is in
// no order.
func concordant(reference, r *schemas.RerankResult) bool {
	place := map[string]int64{}
	for _, t := range r.TopK {
		place[t.ID] = t.Rank
	}
	at := func(id string) int64 {
		if p, ok := place[id]; ok {
			return p
		}
		return math.MaxInt64
	}
	if len(reference.TopK) < 2 {
		return slices.EqualFunc(reference.TopK, r.TopK, func(a, b schemas.Ranked) bool { return a.ID == b.ID })
	}

	same, pairs := 0, 0
	for i, a := range reference.TopK {
		for _, b := range reference.TopK[i+1:] {
			pairs++
			if at(a.ID) < at(b.ID) {
				same++
			}
		}
	}

	return 3*same >= 2*pairs
}
