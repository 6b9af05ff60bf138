package curator

import "testing"

// TestJSONOfOneMeaning: a text of which two readers could see different members, or that
// goes on behind its value, is not taken for JSON.
func TestJSONOfOneMeaning(t *testing.T) {
	for doc, want := range map[string]bool{
		`{"status":"ok","count":12345678901234567890}`: true,
		`[1,"two"]`:                           true,
		`{"status":"ok","status":"failed"}`:   false,
		`{"status":"ok"}]`:                    false,
		`{"status":"ok"} {"status":"failed"}`: false,
		`"status"`:                            false,
		`{"status":"` + "\xff" + `"}`:         false,
	} {
		var found [factKinds]facts
		if got := extractJSON([]byte(doc), &found); got != want {
			t.Errorf("%s: %v", doc, got)
		}
	}
}
