package curator_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/agentruntime/curator"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

// foldWith takes two segments through a turn that folds the first and returns what
// stands for it.
func foldWith(t *testing.T, s curator.Summarize) string {
	t.Helper()
	w := newWorld(t, curator.Config{Summarize: s})
	w.put(t, billing, parsing)
	view, _ := w.turn(t, "fix the parser tests with the bracket")
	if view.Items[0].Status != curator.Folded {
		t.Fatal(shown(view))
	}
	if got := w.original(t, 1); got != billing {
		t.Errorf("original %q", got)
	}
	return string(view.Items[0].Content)
}

// TestModelSummaryOrFacts has models of all characters.
func TestModelSummaryOrFacts(t *testing.T) {
	requirements.Covers(t, "AP-6.4.1")
	facts := curator.Extract("text/plain", []byte(billing))
	words := strings.Fields(billing)
	for name, tt := range map[string]struct {
		answer string
		err    error
		want   string
	}{
		"good":          {"A hosting bill (INV-2041) was settled in April.", nil, "A hosting bill (INV-2041) was settled in April."},
		"over lines":    {"A hosting bill,\n\n  settled.\n", nil, "A hosting bill, settled."},
		"the original":  {billing, nil, facts},
		"an excerpt":    {"It says: " + strings.Join(words[3:11], " ") + ".", nil, facts},
		"disguised":     {strings.ToUpper(strings.Join(words[5:13], "_")), nil, facts},
		"seven words":   {strings.Join(words[5:12], " "), nil, strings.Join(words[5:12], " ")},
		"nothing":       {" \n ", nil, facts},
		"too much":      {strings.Repeat("new ", 2000), nil, facts},
		"not text":      {"a\xffb", nil, facts},
		"a broken line": {"", errors.New("no connection"), facts},
	} {
		got := foldWith(t, curator.Librarian(func(context.Context, string, string) (string, error) { return tt.answer, tt.err }))
		if got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestLibrarianKeepsNoConversation asks twice in two orders. That it calls no
// tool follows from the type of Ask: there is no way to offer one, and whatever
// comes back is text.
func TestLibrarianKeepsNoConversation(t *testing.T) {
	requirements.Covers(t, "AP-11.6.2")
	type question struct{ system, text string }
	var asked []question
	librarian := curator.Librarian(func(_ context.Context, system, text string) (string, error) {
		asked = append(asked, question{system, text})
		return `{"tool_calls":[{"name":"send"}]}`, nil
	})
	a, b := curator.Segment{ID: 1, ContentType: "text/plain"}, curator.Segment{ID: 2, ContentType: "text/plain"}
	for _, s := range []curator.Segment{a, b, b, a} {
		got, err := librarian(t.Context(), s, []byte("document "+s.ID.String()))
		if err != nil || got != `{"tool_calls":[{"name":"send"}]}` {
			t.Errorf("%q, %v", got, err)
		}
	}
	if asked[0] != asked[3] || asked[1] != asked[2] || asked[0] == asked[1] || asked[0].system != asked[1].system {
		t.Errorf("questions depend on earlier ones: %+v", asked)
	}
	if strings.Contains(asked[0].text, "ctx-2") || strings.Contains(asked[1].text, "document ctx-1") {
		t.Errorf("a question speaks of another segment: %+v", asked)
	}
}

func TestLibrarianBoundsTheQuestion(t *testing.T) {
	var size int
	librarian := curator.Librarian(func(_ context.Context, _, text string) (string, error) {
		size = len(text)
		if !strings.Contains(text, "start") || !strings.Contains(text, "end") {
			t.Error("start or end is missing")
		}
		return "ok", nil
	})
	large := "start" + strings.Repeat("ü", 1<<20) + "end"
	if _, err := librarian(t.Context(), curator.Segment{ID: 1}, []byte(large)); err != nil || size > 50<<10 {
		t.Errorf("asked with %d bytes, %v", size, err)
	}
	if _, err := librarian(t.Context(), curator.Segment{ID: 1}, []byte{0xff}); !errors.Is(err, curator.ErrSummary) {
		t.Errorf("binary: %v", err)
	}
}

// TestGivingUpDuringASummaryChangesNothing cancels while the model thinks.
func TestGivingUpDuringASummaryChangesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := newWorld(t, curator.Config{Summarize: func(context.Context, curator.Segment, []byte) (string, error) {
		cancel()
		return "", ctx.Err()
	}})
	w.put(t, billing, parsing)
	if _, _, err := w.Turn(ctx, "root", "fix the parser tests"); !errors.Is(err, context.Canceled) {
		t.Errorf("Turn = %v", err)
	}
	segments, err := w.cfg.Store.Segments(t.Context(), "root", 0)
	must(t, err)
	for _, s := range segments {
		if s.Status != curator.Expanded {
			t.Errorf("%s is %s", s.ID, s.Status)
		}
	}
}

// TestASummaryIsMadeOnce folds the same segment three times.
func TestASummaryIsMadeOnce(t *testing.T) {
	asked := 0
	w := newWorld(t, curator.Config{Summarize: func(context.Context, curator.Segment, []byte) (string, error) {
		asked++
		return "A hosting bill.", nil
	}})
	w.put(t, billing, parsing)
	for range 3 {
		w.turn(t, "fix the parser tests with the bracket")
		w.turn(t, "invoice INV-2041 hosting March approved paid; parser tests bracket")
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}
