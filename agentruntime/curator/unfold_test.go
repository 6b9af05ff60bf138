package curator_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/agentruntime/curator"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/internal/store"
)

// ask has one request answered.
func (w *world) ask(t *testing.T, thread threadID, request string) (curator.Original, error) {
	t.Helper()
	doc, err := w.Original(t.Context(), thread, []byte(request))
	var o curator.Original
	if err == nil {
		must(t, json.Unmarshal(doc, &o))
	}
	return o, err
}

// TestAskingForWhatIsOutOfView is the one round trip: by id, and by words where
// the id was never seen.
func TestAskingForWhatIsOutOfView(t *testing.T) {
	requirements.Covers(t, "AP-6.5.2")
	w := newWorld(t, curator.Config{Budget: 115})
	binary := "\xff\xfe bracket"
	w.put(t, weather, billing, strings.Repeat("huge ", 100), binary, parsing)
	must(t, w.k.Update(t.Context(), func(tx *store.Tx) error {
		if err := tx.EnsureThread("root.other", "p"); err != nil {
			return err
		}
		_, err := tx.PutSegment("root.other", "text/plain", []byte("private harbour"))
		return err
	}))
	view, _ := w.turn(t, "fix the parser tests with the bracket")
	if view.Evicted == 0 {
		t.Fatal(shown(view))
	}
	before, err := w.cfg.Store.Segments(t.Context(), "root", 0)
	must(t, err)
	for request, want := range map[string]curator.Original{
		`{"id":"ctx-1"}`: {ID: "ctx-1", ContentType: "text/plain", Content: weather},
		`{"about":"temperatures and sunshine of the coast"}`: {ID: "ctx-1", ContentType: "text/plain", Content: weather},
		`{"about":"hosting invoice"}`:                        {ID: "ctx-2", ContentType: "text/plain", Content: billing},
		`{"id":"ctx-4"}`: {
			ID: "ctx-4", ContentType: "text/plain", Content: base64.StdEncoding.EncodeToString([]byte(binary)), Encoding: "base64",
		},
	} {
		got, err := w.ask(t, "root", request)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", request, err, diff)
		}
	}
	for request, code := range map[string]string{
		`{"id":"ctx-99"}`:                   curator.CodeUnknown,
		`{"id":"ctx-6"}`:                    curator.CodeUnknown, // another thread's
		`{"about":"harbour"}`:               curator.CodeUnknown,
		`{"about":"of the"}`:                curator.CodeUnknown,
		`{"id":"ctx-3"}`:                    curator.CodeTooLarge,
		`{}`:                                "",
		`{"id":"ctx-1","about":"x"}`:        "",
		`{"id":"ctx-01"}`:                   curator.CodeUnknown, // no id at all
		`{"id":"ctx-1","thread":"r.other"}`: "",
		`{"about":"` + strings.Repeat("x", 2000) + `"}`: "",
		`nonsense`: "",
	} {
		_, err := w.ask(t, "root", request)
		if got, _ := curator.CodeOf(err); err == nil || got != code {
			t.Errorf("%.60s: %v, want %q", request, err, code)
		}
	}
	after, err := w.cfg.Store.Segments(t.Context(), "root", 0)
	must(t, err)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("asking changed the tiers:\n%s", diff)
	}
}

func TestViewText(t *testing.T) {
	got := curator.View{Evicted: 2, Items: []curator.Segment{
		{ID: 3, ContentType: "text/plain", Status: curator.Expanded, Content: []byte("all of it\xff")},
		{ID: 5, ContentType: "text/csv", Status: curator.Folded, Content: []byte("a table"), TokenEstimate: 900},
	}}.Text()
	want := `[ctx-3, text/plain, in full]
all of it?

[ctx-5, text/csv, summary; in full it has about 900 tokens]
a table

[2 more out of view]
`
	if got != want {
		t.Errorf("got %s", got)
	}
	if got := (curator.View{}).Text(); got != "" {
		t.Errorf("nothing reads %q", got)
	}
}

func TestUnfoldSchemaIsJSON(t *testing.T) {
	if !json.Valid([]byte(curator.UnfoldSchema)) {
		t.Error("it is not")
	}
}
