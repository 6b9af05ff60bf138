package app

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/internal/display"
)

// TestJSONSteersNoTerminal: a provider chooses its name and what it answers, and JSON
// lets both hold characters that a terminal obeys.
func TestJSONSteersNoTerminal(t *testing.T) {
	const hostile = "a\u009b2J\x7f\u202e<b>\u2066"
	doc, err := json.Marshal(map[string]any{"text": hostile, "n": 9007199254740991})
	if err != nil {
		t.Fatal(err)
	}
	var printed bytes.Buffer
	if err := PrintJSON(&printed, map[string]any{"name": hostile, "output": json.RawMessage(`{"text":"` + hostile + `"}`)}); err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{printed.String(), display.PrettyJSON(doc), display.PlainJSON(append(doc, '\r'))} {
		if strings.ContainsAny(shown, "\u009b\x7f\u202e\u2066\r") {
			t.Errorf("shown as it is: %q", shown)
		}
		var got struct {
			Name, Text string
			Output     struct{ Text string }
		}
		if err := json.Unmarshal([]byte(shown), &got); err != nil || got.Text != hostile && (got.Name != hostile || got.Output.Text != hostile) {
			t.Errorf("it means something else: %q, %v", shown, err)
		}
	}
	if !strings.Contains(display.PrettyJSON(doc), "9007199254740991") {
		t.Error("a number is shown otherwise")
	}
}
