package curator

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lightwork-market/lightwork/internal/requirements"
)

// seg is a segment of 100 tokens with a summary of 10, unless tokens says
// otherwise.
func seg(id ID, s Status, relevance float64, tokens ...int) item {
	it := item{Segment: Segment{ID: id, Status: s, Relevance: relevance, TokenEstimate: 100, Summary: string(make([]byte, 40))}, from: s}
	if len(tokens) > 0 {
		it.TokenEstimate = tokens[0]
	}
	return it
}

func decide(items []item, budget int) []Decision {
	byRelevance(items, 0.2, 0.5, budget)
	byBudget(items, budget)
	decisions, _ := outcome(items)
	return decisions
}

func TestDecide(t *testing.T) {
	requirements.Covers(t, "AP-6.3.1", "AP-6.3.2", "AP-6.3.3", "AP-6.3.4")
	claimed := func(it item, c claim) item {
		if it.claim = c; c >= askedBefore {
			it.pin(c)
		}
		return it
	}
	for name, tt := range map[string]struct {
		items  []item
		budget int
		want   []Decision
	}{
		"far below budget, low relevance folds": {
			[]item{seg(1, Expanded, 0.1), seg(2, Expanded, 0.2)},
			1000,
			[]Decision{{1, Expanded, Folded, 0.1, ReasonIrrelevant}},
		},
		"between the thresholds all stay": {
			[]item{seg(1, Expanded, 0.3), seg(2, Folded, 0.3), seg(3, Evicted, 0.49)}, 1000, nil,
		},
		"relevant again": {
			[]item{seg(1, Folded, 0.5), seg(2, Evicted, 0.9)},
			1000,
			[]Decision{{1, Folded, Expanded, 0.5, ReasonRelevant}, {2, Evicted, Expanded, 0.9, ReasonRelevant}},
		},
		"over budget, the least relevant goes": {
			[]item{seg(1, Expanded, 0.9), seg(2, Expanded, 0.3), seg(3, Expanded, 0.6)},
			250,
			[]Decision{{2, Expanded, Evicted, 0.3, ReasonBudget}},
		},
		"at the budget nothing goes": {[]item{seg(1, Expanded, 0.9), seg(2, Expanded, 0.6)}, 200, nil},
		"among equals the oldest goes": {
			[]item{seg(1, Expanded, 0.6), seg(2, Expanded, 0.6)},
			150,
			[]Decision{{1, Expanded, Evicted, 0.6, ReasonBudget}},
		},
		"folded and evicted in one turn": {
			[]item{seg(1, Expanded, 0.1), seg(2, Expanded, 0.9)},
			105,
			[]Decision{{1, Expanded, Evicted, 0.1, ReasonBudget}},
		},
		"unfolding pushes another out": {
			[]item{seg(1, Expanded, 0.4), seg(2, Folded, 0.8)},
			150,
			[]Decision{{1, Expanded, Evicted, 0.4, ReasonBudget}, {2, Folded, Expanded, 0.8, ReasonRelevant}},
		},
		"no place for all that is relevant": {
			[]item{seg(1, Evicted, 0.6), seg(2, Expanded, 0.8)}, 150, nil,
		},
		"alone over the budget": {
			[]item{seg(1, Expanded, 0.9, 500), seg(2, Folded, 0.9, 500), seg(3, Evicted, 0.9, 500)},
			150,
			[]Decision{{1, Expanded, Folded, 0.9, ReasonBudget}, {3, Evicted, Folded, 0.9, ReasonRelevant}},
		},
		"the newest is not folded": {[]item{seg(1, Expanded, 0.9), claimed(seg(2, Expanded, 0), newest)}, 1000, nil},
		"the newest goes last": {
			[]item{seg(1, Expanded, 0.9), claimed(seg(2, Expanded, 0), newest)},
			150,
			[]Decision{{1, Expanded, Evicted, 0.9, ReasonBudget}},
		},
		"asked for": {
			[]item{claimed(seg(1, Evicted, 0), askedNow), seg(2, Expanded, 1), claimed(seg(3, Expanded, 0), newest)},
			150,
			[]Decision{{1, Evicted, Expanded, 1, ReasonAsked}, {2, Expanded, Evicted, 1, ReasonBudget}, {3, Expanded, Evicted, 0, ReasonBudget}},
		},
		"asked for before and now": {
			[]item{claimed(seg(1, Evicted, 0), askedNow), claimed(seg(2, Expanded, 0), askedBefore)},
			150,
			[]Decision{{1, Evicted, Expanded, 1, ReasonAsked}, {2, Expanded, Evicted, 1, ReasonBudget}},
		},
		"nothing": {nil, 10, nil},
	} {
		if diff := cmp.Diff(tt.want, decide(tt.items, tt.budget)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

// TestDecideHoldsItsRules draws any context at all.
func TestDecideHoldsItsRules(t *testing.T) {
	requirements.Covers(t, "AP-6.3.2", "AP-6.3.4")
	rapid.Check(t, func(t *rapid.T) {
		var items []item
		for i := range rapid.IntRange(0, 20).Draw(t, "segments") {
			items = append(items, seg(ID(i+1), rapid.SampledFrom([]Status{Expanded, Folded, Evicted}).Draw(t, "tier"),
				rapid.Float64Range(0, 1).Draw(t, "relevance"), rapid.IntRange(0, 300).Draw(t, "tokens")))
		}
		budget := rapid.IntRange(0, 1000).Draw(t, "budget")
		decide(items, budget)
		total, gone := 0, 0.0
		for _, it := range items {
			total += it.cost()
			if it.Status == Expanded && it.Relevance < 0.2 {
				t.Fatalf("irrelevant and expanded: %+v", it)
			}
			if it.Status == Evicted && it.from != Evicted {
				gone = max(gone, it.Relevance)
			}
		}
		if total > budget {
			t.Fatalf("%d tokens of %d", total, budget)
		}
		for _, it := range items {
			if it.Status != Evicted && it.cost() > 0 && it.Relevance < gone {
				t.Fatalf("%s stays at %v and one of %v went", it.ID, it.Relevance, gone)
			}
		}
		settled := slices.Clone(items)
		for i := range settled {
			settled[i].from = settled[i].Status
		}
		if again := decide(settled, budget); len(again) > 0 {
			t.Fatalf("the same task decided again: %+v", again)
		}
	})
}

func TestLexical(t *testing.T) {
	texts := []string{
		"--- FAIL: TestSum sum_test.go:17: got 4", "invoice for March, paid", "The TEST plan.", "", "sum_test fails in test",
	}
	scores := lexical("Please fix the failing test in sum_test.go", texts)
	if !(scores[0] > scores[4] && scores[4] > scores[2] && scores[2] > scores[1]) || scores[1] != 0 || scores[3] != 0 {
		t.Errorf("scores %v", scores)
	}
	for name, got := range map[string][]float64{
		"no task": lexical("", texts[:2]), "function words only": lexical("what is the", texts[:2]),
		"another subject": lexical("compile a kernel", texts[:2]),
	} {
		if diff := cmp.Diff([]float64{0, 0}, got); diff != "" {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := lexical("今天的天气", []string{"昨天的天气很好", "一个测试"}); got[0] < 0.5 || got[1] != 0 {
		t.Errorf("without spaces: %v", got)
	}
	if len(lexical("x", nil)) != 0 {
		t.Error("scores for no text")
	}
}

func TestLexicalIsInRangeAndTheSameEachTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		task, texts := rapid.String().Draw(t, "task"), rapid.SliceOf(rapid.String()).Draw(t, "texts")
		scores := lexical(task, texts)
		for _, s := range scores {
			if !(0 <= s && s <= 1+1e-9) {
				t.Fatalf("score %v", s)
			}
		}
		if !slices.Equal(scores, lexical(task, texts)) {
			t.Fatal("other scores the second time")
		}
	})
}

func TestUnit(t *testing.T) {
	for in, want := range map[float64]float64{-1: 0, 0: 0, 0.5: 0.5, 1: 1, 2: 1, math.Inf(1): 1, math.Inf(-1): 0} {
		if got := unit(in); got != want {
			t.Errorf("unit(%v) = %v", in, got)
		}
	}
	if unit(math.NaN()) != 0 {
		t.Error("NaN is relevant")
	}
}

func TestID(t *testing.T) {
	for s, want := range map[string]ID{
		"ctx-1": 1, "ctx-9223372036854775807": math.MaxInt64,
		"": 0, "1": 0, "ctx-": 0, "ctx-0": 0, "ctx--1": 0, "ctx-+1": 0, "ctx-01": 0, "ctx-9223372036854775808": 0, "CTX-1": 0, "ctx-1 ": 0,
	} {
		if got, err := parseID(s); got != want || (err == nil) != (want != 0) {
			t.Errorf("ParseID(%q) = %d, %v", s, got, err)
		}
	}
	if got := EstimateTokens(0) + EstimateTokens(1) + EstimateTokens(4) + EstimateTokens(5); got != 4 {
		t.Errorf("estimates sum up to %d", got)
	}
}
