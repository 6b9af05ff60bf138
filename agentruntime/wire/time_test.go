package wire

import (
	"encoding/json"
	"regexp"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/internal/requirements"
)

// TestTimesAndIDs: what is written is UTC with milliseconds and "Z", what is read
// may have any offset; ids are bare UUIDs of version 4.
func TestTimesAndIDs(t *testing.T) {
	requirements.Covers(t, "K-16", "K-23")
	const want = `"2025-01-29T10:30:00.500Z"`
	for _, text := range []string{`"2025-01-29T10:30:00.5Z"`, `"2025-01-29T13:30:00.500+03:00"`, `"2025-01-29T05:00:00.5009-05:30"`} {
		var at Time
		if err := json.Unmarshal([]byte(text), &at); err != nil {
			t.Fatal(err)
		}
		if doc, err := json.Marshal(at); err != nil || string(doc) != want {
			t.Errorf("%s became %s, %v", text, doc, err)
		}
	}
	var at Time
	for _, text := range []string{`"2025-01-29T10:30:00.5"`, `"2025-01-29"`, `1738146600`, `"1738146600"`} {
		if err := json.Unmarshal([]byte(text), &at); err == nil {
			t.Errorf("%s was read as %s", text, at)
		}
	}
	if doc, err := json.Marshal(Time{time.Unix(1738146600, 0).In(time.FixedZone("", 3600))}); err != nil || string(doc) != `"2025-01-29T10:30:00.000Z"` {
		t.Errorf("%s, %v", doc, err)
	}
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	for range 1000 {
		if id := NewID(); !form.MatchString(id) {
			t.Fatalf("id %s", id)
		}
	}
}
