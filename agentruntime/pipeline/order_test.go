package pipeline

import (
	"errors"
	"testing"

	"github.com/lightwork-market/lightwork/internal/requirements"
)

// TestSchemaBetweenStructureAndSecurity: a message is first held against the
// envelope's form, then its schema, and only then is a route looked for.
func TestSchemaBetweenStructureAndSecurity(t *testing.T) {
	requirements.Covers(t, "AP-2.3.1")
	asked := 0
	w := newWorld(t, Config{
		Handlers: []Handler{echo("reader", "Read"), echo("writer", "Write")},
		Profiles: []Profile{{Name: "main", Handlers: []string{"reader"}}},
		Schemas: map[string]Validate{"Write": func(payload []byte) error {
			asked++
			return exactly("good")(payload)
		}},
	})
	var malformed *MalformedError
	in := ingress("Write", "bad")
	in.Namespace = ""
	if _, err := w.Submit(t.Context(), in); !errors.As(err, &malformed) || asked != 0 {
		t.Errorf("bad in every way: %v, the schema was asked %d times", err, asked)
	}
	var invalid *ValidationError
	if _, err := w.Submit(t.Context(), ingress("Write", "bad")); !errors.As(err, &invalid) || asked != 1 {
		t.Errorf("no schema and no route: %v, the schema was asked %d times", err, asked)
	}
	if _, err := w.Submit(t.Context(), ingress("Write", "good")); !isNoRoute(err) || asked != 2 {
		t.Errorf("no route: %v, the schema was asked %d times", err, asked)
	}
	wantReasons(t, w.log, RejectMalformed, RejectValidation, RejectRoute)
}
