package message

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(asAgent) != "" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := playAnalyst(ctx); err != nil {
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// noon is shortly after the examples were written.
var noon = time.Date(2025, 1, 29, 10, 30, 6, 0, time.UTC)

// printed returns an example of the specification as it is printed.
func printed(t testing.TB, name string) string {
	t.Helper()
	doc, err := os.ReadFile(filepath.Join("testdata", "examples", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return string(doc)
}

// example returns an example with its ids made valid: no prefix, version 4.
func example(t testing.TB, name string) string {
	t.Helper()
	doc := strings.ReplaceAll(printed(t, name), "msg-", "")
	return strings.ReplaceAll(doc, "-12d3-", "-42d3-")
}

// edit sets the member at a dotted path of a document, or removes it if value
// is nil.
func edit(t testing.TB, doc, path string, value any) string {
	t.Helper()
	var root map[string]any
	if err := json.Unmarshal([]byte(doc), &root); err != nil {
		t.Fatal(err)
	}
	names := strings.Split(path, ".")
	at := root
	for _, name := range names[:len(names)-1] {
		next, ok := at[name].(map[string]any)
		if !ok {
			t.Fatalf("%s has no object %s", path, name)
		}
		at = next
	}
	last := names[len(names)-1]
	if at[last] = value; value == nil {
		delete(at, last)
	}
	out, err := json.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// raw is a JSON value for edit.
func raw(s string) json.RawMessage { return json.RawMessage(s) }

func parse(t testing.TB, doc string) Message {
	t.Helper()
	m, err := Parse([]byte(doc))
	if err != nil {
		t.Fatalf("%v\n%s", err, doc)
	}
	return m
}

// wantRefused parses doc and wants an error with the code and field.
func wantRefused(t testing.TB, doc string, code Code, field string) {
	t.Helper()
	_, err := Parse([]byte(doc))
	wantError(t, err, code, field)
}

func wantError(t testing.TB, err error, code Code, field string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got error %v, want %s in %s", err, code, field)
	}
	if e.Code() != code || e.Field != field {
		t.Fatalf("got %v, want %s in %q", err, code, field)
	}
}
