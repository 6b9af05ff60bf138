// Package adjudicate makes one answer of several results of a subjective job: a
// merge that anybody can repeat, or a judge's choice among results whose makers it
// is not told. It decides nothing about money and talks to nobody.
//
// Results are strangers' words. A merge copies them into fields of the same kind
// and counts; a judge gets them as data in a JSON document, in an order of chance.
package adjudicate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/schemas"
)

// ErrNoMerge: results of this job type have no merge that means anything.
var ErrNoMerge = errors.New("results of this job type cannot be merged: let a judge choose one, or a majority agree where they can be compared")

// Merged is several results made one.
type Merged struct {
	Output []byte // canonical document of the job type
	// Carried says, for each result, whether it and those that it agrees with are
	// more than half of all. What agreeing is depends on the job type.
	Carried []bool
	// Support says how many results name each finding, in the order of the
	// document; empty for a ranking.
	Support []Support
}

// Support is how many of the results name a finding.
type Support struct {
	Finding string `json:"finding"` // as "symbols[0]"
	Votes   int    `json:"votes"`
}

// Merges reports whether results of the job type can be merged.
func Merges(id schemas.ID) bool {
	return id == schemas.RetrievalRerank || id == schemas.CodeChunkAnalysis
}

// Merge makes one result of at least two, which must all answer the request. by is
// the x-only key of who merges, for the provenance. The order of results changes
// nothing. ErrNoMerge for a job type without a merge.
func Merge(req *schemas.Request, results []*schemas.Result, by string) (Merged, error) {
	if len(results) < 2 {
		return Merged{}, fmt.Errorf("merge: %d results, at least 2 are needed", len(results))
	}

	var m Merged
	var doc any
	switch r := req.Value.(type) {
	case *schemas.RerankRequest:
		doc, m.Carried = mergeRankings(r, values[schemas.RerankResult](results), by)
	case *schemas.CodeChunkRequest:
		doc, m.Carried, m.Support = mergeFindings(r, ordered(results), by)
		m.Carried = unordered(results, m.Carried)
	default:
		return Merged{}, ErrNoMerge
	}

	output, err := hashing.CanonicalValue(doc)
	if err != nil {
		return Merged{}, fmt.Errorf("merge: %w", err)
	}
	s, _ := schemas.Lookup(string(req.SchemaID))
	merged, err := s.ParseResult(output)
	if err == nil {
		err = req.CheckResult(merged)
	}
	if err != nil {
		return Merged{}, fmt.Errorf("merge: what came out is no result: %w", err)
	}
	m.Output = merged.Canonical
	return m, nil
}

func values[T any](results []*schemas.Result) []*T {
	list := make([]*T, len(results))
	for i, r := range results {
		list[i] = r.Value.(*T) // held against the request before
	}
	return list
}

// byHash is an order of results that nobody can choose for what it says: by the
// digest of each one's hash and all the others'. By its own hash alone a provider
// could try out words until its result comes first, and where several name the
// same finding the first one's words are kept.
func byHash(results []*schemas.Result) []int {
	var all [][]byte
	for _, r := range results {
		all = append(all, r.OutputHash[:])
	}
	slices.SortFunc(all, slices.Compare)
	set := slices.Concat(all...)
	order, key := make([]int, len(results)), make([]hashing.Digest, len(results))
	for i, r := range results {
		order[i], key[i] = i, hashing.Bytes(append(r.OutputHash[:], set...))
	}
	slices.SortStableFunc(order, func(a, b int) int { return slices.Compare(key[a][:], key[b][:]) })
	return order
}

func ordered(results []*schemas.Result) []*schemas.CodeChunkResult {
	list := make([]*schemas.CodeChunkResult, len(results))
	for to, from := range byHash(results) {
		list[to] = results[from].Value.(*schemas.CodeChunkResult)
	}
	return list
}

func unordered(results []*schemas.Result, carried []bool) []bool {
	list := make([]bool, len(results))
	for from, to := range byHash(results) {
		list[to] = carried[from]
	}
	return list
}

func provenance(how, by string) schemas.Provenance {
	return schemas.Provenance{ModelID: how, ProviderPubkey: by}
}

// carried compares each with each other: who agrees with nobody is alone, and
// who disagrees cannot make two others disagree.
func carried[T any](list []T, agree func(a, b T) bool) []bool {
	out := make([]bool, len(list))
	for i, a := range list {
		n := 1
		for j, b := range list {
			if i != j && agree(a, b) && agree(b, a) {
				n++
			}
		}
		out[i] = 2*n > len(list)
	}
	return out
}

// descending orders by a count, the larger first.
func descending(a, b int) int { return -cmp.Compare(a, b) }
