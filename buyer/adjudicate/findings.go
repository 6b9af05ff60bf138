package adjudicate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/lightwork-market/lightwork/schemas"
)

const mergeUnion = "lightwork/merge-findings/v2"

// finding is a symbol or a suspicion: what two results mean when they mean the same.
type finding struct {
	name string // of a symbol; "" for a suspicion
	line int64
}

func findingsOf(r *schemas.CodeChunkResult) map[finding]bool {
	set := map[finding]bool{}
	for _, s := range r.Symbols {
		set[finding{s.Name, s.Line}] = true
	}
	for _, f := range r.SuspectedFaults {
		set[finding{"", f.Line}] = true
	}
	return set
}

// mergeFindings is the union of all findings, those that most results name first.
// A result names a finding once, however often it says it. The summary is that of
// the result whose findings the others name most.
func mergeFindings(req *schemas.CodeChunkRequest, results []*schemas.CodeChunkResult, by string) (*schemas.CodeChunkResult, []bool, []Support) {
	votes := map[finding]int{}
	sets := make([]map[finding]bool, len(results))
	for i, r := range results {
		sets[i] = findingsOf(r)
		for f := range sets[i] {
			votes[f]++
		}
	}

	limits := req.OutputConstraints
	out := &schemas.CodeChunkResult{
		Symbols: cutTo(symbols(results, votes), limits.MaxSymbols), SuspectedFaults: cutTo(faults(results, votes), limits.MaxFaults),
		RecommendedNextProbes: cutTo(probes(results), limits.MaxNextProbes), Provenance: provenance(mergeUnion, by),
	}

	best, most := results[0], -1
	sum := 0.0
	for i, r := range results {
		n := 0
		for f := range sets[i] {
			n += votes[f] - 1
		}
		if n > most {
			best, most = r, n
		}
		sum += r.Confidence
	}

	out.Summary = best.Summary
	out.Confidence = math.Round(100*sum/float64(len(results))) / 100
	return out, carried(sets, shares), support(out, votes)
}

// shares reports whether at least half of what a result names is named by the
// other. Held both ways, neither silence nor naming everything agrees with anybody.
func shares(mine, other map[finding]bool) bool {
	both := 0
	for f := range mine {
		if other[f] {
			both++
		}
	}
	return 2*both >= len(mine)
}

func symbols(results []*schemas.CodeChunkResult, votes map[finding]int) []schemas.CodeSymbol {
	list, seen := []schemas.CodeSymbol{}, map[finding]bool{}
	for _, r := range results {
		for _, s := range r.Symbols {
			if f := (finding{s.Name, s.Line}); !seen[f] {
				seen[f] = true
				list = append(list, s)
			}
		}
	}

	slices.SortStableFunc(list, func(a, b schemas.CodeSymbol) int {
		return cmp.Or(descending(votes[finding{a.Name, a.Line}], votes[finding{b.Name, b.Line}]), cmp.Compare(a.Line, b.Line), strings.Compare(a.Name, b.Name))
	})
	return list
}

func faults(results []*schemas.CodeChunkResult, votes map[finding]int) []schemas.SuspectedFault {
	list, seen := []schemas.SuspectedFault{}, map[int64]bool{}
	for _, r := range results {
		for _, f := range r.SuspectedFaults {
			if !seen[f.Line] {
				seen[f.Line] = true
				list = append(list, f)
			}
		}
	}

	slices.SortStableFunc(list, func(a, b schemas.SuspectedFault) int {
		return cmp.Or(descending(votes[finding{"", a.Line}], votes[finding{"", b.Line}]), cmp.Compare(a.Line, b.Line))
	})
	return list
}

// probes are the union by path, those that most results name first.
func probes(results []*schemas.CodeChunkResult) []schemas.NextProbe {
	list, named := []schemas.NextProbe{}, map[string]int{}
	for _, r := range results {
		mine := map[string]bool{}
		for _, p := range r.RecommendedNextProbes {
			if mine[p.Path] {
				continue
			}
			mine[p.Path] = true
			if named[p.Path]++; named[p.Path] == 1 {
				list = append(list, p)
			}
		}
	}

	slices.SortStableFunc(list, func(a, b schemas.NextProbe) int {
		return cmp.Or(descending(named[a.Path], named[b.Path]), strings.Compare(a.Path, b.Path))
	})
	return list
}

// listMax is the most entries that a list of the schema may have.
const listMax = 1024

func cutTo[T any](list []T, most int64) []T {
	if most == 0 || most > listMax {
		most = listMax
	}
	return list[:min(len(list), int(most))]
}

func support(out *schemas.CodeChunkResult, votes map[finding]int) []Support {
	list := []Support{}
	for i, s := range out.Symbols {
		list = append(list, Support{fmt.Sprintf("symbols[%d]", i), votes[finding{s.Name, s.Line}]})
	}
	for i, f := range out.SuspectedFaults {
		list = append(list, Support{fmt.Sprintf("suspected_faults[%d]", i), votes[finding{"", f.Line}]})
	}
	return list
}
