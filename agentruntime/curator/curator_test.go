package curator_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lightwork-market/lightwork/agentruntime/curator"
	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/internal/store/journal"
	"github.com/lightwork-market/lightwork/internal/store/row"
)

// TestThreeTiers takes three segments through a change of task and a budget.
func TestThreeTiers(t *testing.T) {
	requirements.Covers(t, "AP-6.1.1", "AP-6.2.1", "AP-6.3.1", "AP-6.3.2", "AP-6.3.3", "AP-6.3.4", "AP-6.4.2")
	w := newWorld(t, curator.Config{Budget: 220})
	ids := w.put(t, billing, parsing, weather)

	// Two of three would do, yet what is off the subject folds below budget.
	view, decisions := w.turn(t, "Fix the failed parser tests: an unclosed bracket in parse_test.go")
	if got, want := shown(view), "ctx-1 Folded outcome:, ctx-2 Expanded parser, ctx-3 Expanded sunshine, 0 evicted"; got != want {
		t.Errorf("first task: %s\nwant %s", got, want)
	}
	if len(decisions) != 1 || decisions[0].Reason != curator.ReasonIrrelevant || view.Tokens > 220 {
		t.Errorf("%d tokens, decisions %+v", view.Tokens, decisions)
	}
	if got := view.Items[0]; got.ByteSize != len(billing) || got.TokenEstimate != curator.EstimateTokens(len(billing)) || got.Relevance >= 0.15 ||
		got.ThreadID != "root" || got.ContentType != "text/plain" || string(got.Content) != got.Summary {
		t.Errorf("item %+v", got)
	}

	w.put(t, "receipt "+billing+", and a third one to the tax office")
	view, decisions = w.turn(t, "Was invoice INV-2041 for hosting approved and paid?")
	if got, want := shown(view), "ctx-1 Expanded invoice, ctx-3 Folded numbers:, ctx-4 Expanded receipt, 1 evicted"; got != want {
		t.Errorf("second task: %s\nwant %s", got, want)
	}
	reasons := map[curator.ID]curator.Reason{1: curator.ReasonRelevant, 2: curator.ReasonBudget, 3: curator.ReasonIrrelevant}
	for _, d := range decisions {
		if d.Reason != reasons[d.ID] {
			t.Errorf("decision %+v", d)
		}
	}
	if string(view.Items[0].Content) != billing {
		t.Errorf("unfolded as %q", view.Items[0].Content)
	}
	for i, text := range []string{billing, parsing, weather} {
		if got := w.original(t, ids[i]); got != text {
			t.Errorf("original %d is %q", i, got)
		}
	}
}

// TestFoldingIsProactive has so much room that nothing forces a fold.
func TestFoldingIsProactive(t *testing.T) {
	requirements.Covers(t, "AP-6.3.4")
	w := newWorld(t, curator.Config{Budget: 1 << 20})
	w.put(t, billing, parsing)
	view, _ := w.turn(t, "fix the parser tests")
	if view.Items[0].Status != curator.Folded || view.Tokens > 1<<10 {
		t.Errorf("%s at %d tokens of a million", shown(view), view.Tokens)
	}
	// The same task again decides nothing: there is no flapping.
	if _, decisions := w.turn(t, "fix the parser tests"); len(decisions) > 0 {
		t.Errorf("decided again: %+v", decisions)
	}
}

// TestNoSummaryIsLongerThanWhatItSumsUp: a short text stays as it is, however
// little it has to do with the task.
func TestNoSummaryIsLongerThanWhatItSumsUp(t *testing.T) {
	w := newWorld(t, curator.Config{})
	w.put(t, "my room is number 4711", billing, parsing)
	view, decisions := w.turn(t, "fix the parser tests")
	if got, want := shown(view), "ctx-1 Expanded my, ctx-2 Folded outcome:, ctx-3 Expanded parser, 0 evicted"; got != want || len(decisions) != 1 {
		t.Errorf("%s, want %s; decisions %+v", got, want, decisions)
	}
	for _, s := range view.Items {
		if len(s.Content) > s.ByteSize {
			t.Errorf("%s is shown as %q, longer than its %d bytes", s.ID, s.Content, s.ByteSize)
		}
	}
}

// TestNothingIsFoldedWithRoomToSpare: below FoldFrom all is shown; from there on what
// is off the subject is folded, before the budget forces anything out.
func TestNothingIsFoldedWithRoomToSpare(t *testing.T) {
	w := newWorld(t, curator.Config{Budget: 1000, FoldFrom: 200})
	w.put(t, billing, parsing)
	if view, _ := w.turn(t, "fix the parser tests"); shown(view) != "ctx-1 Expanded invoice, ctx-2 Expanded parser, 0 evicted" {
		t.Errorf("with room: %s", shown(view))
	}
	w.put(t, weather)
	if view, _ := w.turn(t, "fix the parser tests"); shown(view) != "ctx-1 Folded outcome:, ctx-2 Expanded parser, ctx-3 Expanded sunshine, 0 evicted" {
		t.Errorf("without: %s", shown(view))
	}
}

// TestUnfoldOnRequest is the worst case: what the model needs was put out of
// view. It asks once and has it, for as long as the task lasts.
func TestUnfoldOnRequest(t *testing.T) {
	requirements.Covers(t, "AP-6.5.2")
	w := newWorld(t, curator.Config{Budget: 115})
	ids := w.put(t, weather, billing, parsing)
	const task = "fix the parser tests with the bracket"
	view, _ := w.turn(t, task)
	if got, want := shown(view), "ctx-3 Expanded parser, 2 evicted"; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	for range 2 {
		view, decisions, err := w.Unfold(t.Context(), "root", task, ids[0])
		must(t, err)
		if i := slices.IndexFunc(view.Items, func(s curator.Segment) bool { return s.ID == ids[0] }); i < 0 || string(view.Items[i].Content) != weather {
			t.Fatalf("asked for and not shown: %s, %+v", shown(view), decisions)
		}
	}
	w.restart(t) // the wish is on disk
	view, _ = w.turn(t, task)
	if !strings.Contains(shown(view), "ctx-1 Expanded") {
		t.Errorf("the same task: %s", shown(view))
	}
	view, _ = w.turn(t, "was the invoice over 1200 EUR paid?")
	if strings.Contains(shown(view), "ctx-1 Expanded") {
		t.Errorf("another task: %s", shown(view))
	}
}

// TestUnfoldOfWhatIsShown keeps it in view on the next turn.
func TestUnfoldOfWhatIsShown(t *testing.T) {
	w := newWorld(t, curator.Config{})
	ids := w.put(t, billing, parsing)
	_, _, err := w.Unfold(t.Context(), "root", "compile", ids[0])
	must(t, err)
	if view, _ := w.turn(t, "compile"); !strings.HasPrefix(shown(view), "ctx-1 Expanded") {
		t.Errorf("then %s", shown(view))
	}
}

func TestUnfoldRefuses(t *testing.T) {
	w := newWorld(t, curator.Config{Budget: 100})
	ids := w.put(t, billing, strings.Repeat("large ", 100))
	must(t, w.k.Update(t.Context(), func(tx *store.Tx) error { return tx.EnsureThread("root.other", "p") }))
	for name, tt := range map[string]struct {
		thread pipeline.ThreadID
		id     curator.ID
		is     error
	}{
		"unknown":             {"root", 99, curator.ErrUnknownSegment},
		"no id":               {"root", 0, curator.ErrUnknownSegment},
		"of another thread":   {"root.other", ids[0], curator.ErrUnknownSegment},
		"larger than budget":  {"root", ids[1], curator.ErrOverBudget},
		"of a thread unknown": {"root.none", ids[0], curator.ErrUnknownSegment},
	} {
		if _, _, err := w.Unfold(t.Context(), tt.thread, "task", tt.id); !errors.Is(err, tt.is) {
			t.Errorf("%s: %v, want %v", name, err, tt.is)
		}
	}
}

// TestOtherThreadsAreInvisible curates one thread beside another.
func TestOtherThreadsAreInvisible(t *testing.T) {
	w := newWorld(t, curator.Config{})
	w.put(t, billing)
	must(t, w.k.Update(t.Context(), func(tx *store.Tx) error { return tx.EnsureThread("root.other", "p") }))
	view, _, err := w.Turn(t.Context(), "root.other", "invoice INV-2041 over 1200 EUR")
	if err != nil || len(view.Items) != 0 || view.Evicted != 0 {
		t.Errorf("%s, %v", shown(view), err)
	}
}

// TestAnyTasksLoseNothing draws contents, tasks, requests and restarts, and
// compares every original and every view.
func TestAnyTasksLoseNothing(t *testing.T) {
	requirements.Covers(t, "AP-6.5.1", "AP-B.5")
	vocabulary := strings.Fields(billing + " " + parsing + " " + weather)
	text := func(t *rapid.T, name string, most int) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(vocabulary), 0, most).Draw(t, name), " ")
	}
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, curator.Config{Budget: rapid.IntRange(1, 200).Draw(rt, "budget")})
		originals := map[curator.ID]string{}
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			switch rapid.SampledFrom([]string{"put", "put", "turn", "turn", "unfold", "restart"}).Draw(rt, "op") {
			case "put":
				s := text(rt, "content", 60)
				originals[w.put(t, s)[0]] = s
			case "turn":
				view, _ := w.turn(t, text(rt, "task", 8))
				checkView(rt, view, originals, w.cfg.Budget)
			case "unfold":
				id := curator.ID(rapid.IntRange(1, 12).Draw(rt, "id"))
				view, _, err := w.Unfold(t.Context(), "root", text(rt, "task", 8), id)
				asked := slices.ContainsFunc(view.Items, func(s curator.Segment) bool { return s.ID == id && s.Status == curator.Expanded })
				if !asked && !errors.Is(err, curator.ErrUnknownSegment) && !errors.Is(err, curator.ErrOverBudget) {
					rt.Fatalf("%s was asked for: %s, %v", id, shown(view), err)
				}
			case "restart":
				w.restart(t)
			}
		}
		for id, want := range originals {
			if got := w.original(t, id); got != want {
				rt.Fatalf("%s: %q came back as %q", id, want, got)
			}
		}
	})
}

func checkView(t *rapid.T, v curator.View, originals map[curator.ID]string, budget int) {
	t.Helper()
	if v.Tokens > budget || len(v.Items)+v.Evicted != len(originals) {
		t.Fatalf("%d tokens of %d, %s", v.Tokens, budget, shown(v))
	}
	for _, s := range v.Items {
		switch original := originals[s.ID]; {
		case s.Status == curator.Expanded && string(s.Content) != original:
			t.Fatalf("%s: %q is shown as %q", s.ID, original, s.Content)
		case s.Status == curator.Folded:
			if err := curator.CheckSummary(string(s.Content), []byte(original)); err != nil {
				t.Fatalf("%s: %q is summed up as %q: %v", s.ID, original, s.Content, err)
			}
		}
	}
}

// TestEverythingButTheStoreCanBeRebuilt restarts between any two steps: the
// views are those of a curator that lived through all of it.
func TestEverythingButTheStoreCanBeRebuilt(t *testing.T) {
	requirements.Covers(t, "AP-14.0.1")
	play := func(restarts bool) (views []curator.View, dir []string) {
		w := newWorld(t, curator.Config{Budget: 240})
		for _, task := range []string{"parser tests bracket", "invoice hosting paid", "sunshine coast winds", "parser tests bracket"} {
			w.put(t, billing+task, parsing+task)
			view, _ := w.turn(t, task)
			views = append(views, view)
			if restarts {
				w.restart(t)
			}
		}
		must(t, w.k.Update(t.Context(), func(tx *store.Tx) error {
			_, err := tx.AppendJournalPayload(journal.Entry{
				Thread: "root", Direction: journal.Inbound, Handler: "h", PayloadTag: "t", Retention: journal.RetainForever,
			}, []byte("payload"))
			return err
		}))
		return views, files(t, w.dir)
	}
	want, _ := play(false)
	got, dir := play(true)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("restarts changed the views:\n%s", diff)
	}
	for _, name := range dir { // threads, context and journal are one file with one log
		if !strings.HasPrefix(name, store.FileName) {
			t.Errorf("the node keeps %s beside its database: %v", name, dir)
		}
	}
}

// TestReturnFoldsWithSummaries goes through the curator, as a node does.
func TestReturnFoldsWithSummaries(t *testing.T) {
	requirements.Covers(t, "AP-5.2.4")
	for name, tt := range map[string]struct {
		retention pipeline.Retention
		want      string
	}{
		"retain": {forever, "[{ctx-1 Expanded} {ctx-2 Expanded}]"},
		"fold":   {threeDays, "[{ctx-1 Folded} {ctx-2 Folded}]"},
		"prune":  {pipeline.Retention{Policy: pipeline.PruneOnDelivery}, "[]"},
	} {
		w := newWorld(t, curator.Config{})
		w.put(t, billing, parsing)
		must(t, w.Return(t.Context(), curator.Returned{Thread: "root", Retention: tt.retention}))
		segments, err := w.cfg.Store.Segments(t.Context(), "root", 0)
		must(t, err)
		got := []struct {
			ID     curator.ID
			Status curator.Status
		}{}
		for _, s := range segments {
			got = append(got, struct {
				ID     curator.ID
				Status curator.Status
			}{s.ID, s.Status})
			if s.Status == curator.Folded && curator.CheckSummary(s.Summary, []byte(w.original(t, s.ID))) != nil {
				t.Errorf("%s: summary %q", name, s.Summary)
			}
		}
		if fmt.Sprint(got) != tt.want {
			t.Errorf("%s: %v, want %s", name, got, tt.want)
		}
	}
	w := newWorld(t, curator.Config{})
	if err := w.Return(t.Context(), curator.Returned{Thread: "root.none", Retention: forever}); !errors.Is(err, row.ErrNotFound) {
		t.Errorf("return of nothing: %v", err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	store := newWorld(t, curator.Config{}).cfg.Store
	for name, cfg := range map[string]curator.Config{
		"no store":        {},
		"negative budget": {Store: store, Budget: -1},
		"negative room":   {Store: store, FoldFrom: -1},
		"crossed":         {Store: store, FoldBelow: 0.5, UnfoldAbove: 0.4},
		"above one":       {Store: store, FoldBelow: 0.5, UnfoldAbove: 1.5},
		"negative":        {Store: store, FoldBelow: -0.5, UnfoldAbove: 0.5},
		"NaN":             {Store: store, FoldBelow: math.NaN(), UnfoldAbove: 0.5},
	} {
		if _, err := curator.New(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	c, err := curator.New(curator.Config{Store: store, Score: func(string, []string) []float64 { return make([]float64, 9) }})
	must(t, err)
	if _, _, err := c.Turn(t.Context(), "root", ""); err == nil {
		t.Error("scores of other segments were taken")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := c.Turn(ctx, "root", ""); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled turn: %v", err)
	}
}

// TestDefaults: a view costs 8,000 tokens at most, and what is folded comes back
// from a relevance of 0.3 on.
func TestDefaults(t *testing.T) {
	requirements.Covers(t, "APX-7")
	relevance := 0.0
	w := newWorld(t, curator.Config{Score: func(_ string, texts []string) []float64 {
		return slices.Repeat([]float64{relevance}, len(texts))
	}})
	ids := w.put(t, strings.Repeat("abc ", 8000), strings.Repeat("abc ", 8001), billing)
	for i, want := range []error{nil, curator.ErrOverBudget} {
		if _, _, err := w.Unfold(t.Context(), "root", "task", ids[i]); !errors.Is(err, want) {
			t.Errorf("unfold of %s: %v, want %v", ids[i], err, want)
		}
	}
	w = newWorld(t, w.cfg)
	w.put(t, billing, parsing) // the newest stays in view
	for _, step := range []struct {
		relevance float64
		expanded  bool
	}{{0, false}, {0.29, false}, {0.3, true}} {
		relevance = step.relevance
		if view, _ := w.turn(t, fmt.Sprint("task ", relevance)); strings.Contains(shown(view), "ctx-1 Expanded") != step.expanded {
			t.Errorf("at %v: %s", relevance, shown(view))
		}
	}
}
