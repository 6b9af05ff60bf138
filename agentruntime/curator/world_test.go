package curator_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/curator"
	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/internal/store"
)

// world is a curator over a store of its own, with one thread, "root".
type world struct {
	*curator.Curator
	k   *store.Store
	dir string
	cfg curator.Config
}

func newWorld(t testing.TB, cfg curator.Config) *world {
	t.Helper()
	w := &world{dir: filepath.Join(t.TempDir(), "node"), cfg: cfg}
	w.restart(t)
	t.Cleanup(func() { must(t, w.k.Close()) })
	must(t, w.k.Update(t.Context(), func(tx *store.Tx) error { return tx.EnsureThread("root", "p") }))
	return w
}

// restart forgets everything that is not on disk.
func (w *world) restart(t testing.TB) {
	t.Helper()
	if w.k != nil {
		must(t, w.k.Close())
	}
	var err error
	w.k, err = store.Open(t.Context(), w.dir, store.Options{Now: func() time.Time { return start }})
	must(t, err)
	w.cfg.Store = w.k.ContextStore()
	w.Curator, err = curator.New(w.cfg)
	must(t, err)
}

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func (w *world) put(t testing.TB, texts ...string) (ids []curator.ID) {
	t.Helper()
	for _, text := range texts {
		id, err := w.k.ContextStore().Put(t.Context(), "root", "text/plain", []byte(text))
		must(t, err)
		ids = append(ids, id)
	}
	return ids
}

func (w *world) turn(t testing.TB, task string) (curator.View, []curator.Decision) {
	t.Helper()
	view, decisions, err := w.Turn(t.Context(), "root", task)
	must(t, err)
	return view, decisions
}

func (w *world) original(t testing.TB, id curator.ID) string {
	t.Helper()
	data, err := w.k.ContextStore().Original(t.Context(), "root", id)
	must(t, err)
	return string(data)
}

// shown renders a view for comparing: tier and first word of each item.
func shown(v curator.View) string {
	var list []string
	for _, s := range v.Items {
		word, _, _ := strings.Cut(string(s.Content), " ")
		list = append(list, fmt.Sprintf("%s %s %s", s.ID, s.Status, word))
	}
	return strings.Join(append(list, fmt.Sprintf("%d evicted", v.Evicted)), ", ")
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// files lists what a node keeps.
func files(t testing.TB, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

var (
	forever   = pipeline.Retention{Policy: pipeline.RetainForever}
	threeDays = pipeline.Retention{Policy: pipeline.RetainDays, Days: 3}
)

type threadID = pipeline.ThreadID

// Three texts of about 50 tokens on three subjects.
const (
	billing = "invoice INV-2041 over 1200 EUR for the hosting of March was approved by the accountant and paid on the second of April without any discount; the clerk filed one copy in the red binder of the office downstairs and sent another to the customer, who had asked for it twice by telephone because the first letter was lost"
	parsing = "parser tests failed in parse_test.go after the tokenizer change because an unclosed bracket made the loop read one byte behind the end of its input; a smaller example shows the same with three nested lists, and since the loop stops only at a comma, whoever mends it ought to look at both branches and run everything again with the sanitizer"
	weather = "sunshine is expected on the coast until Thursday with light winds from the west and temperatures of 21 degrees before clouds arrive from the sea; on the hills further inland the night stays cool, so that gardeners should cover young plants, while sailors may expect calm water for most of the week and a little fog early in the morning"
)
