package advice_test

import (
	"testing"

	"github.com/lightwork-market/lightwork/internal/advice"
)

func TestSay(t *testing.T) {
	words := map[string]string{advice.Check: "lightwork doctor", advice.ApproveAgent: "lightwork agents approve"}
	for text, want := range map[string]string{
		advice.Check + " looks":                                  "lightwork doctor looks",
		"first " + advice.Check + ", then " + advice.Check:       "first lightwork doctor, then lightwork doctor",
		advice.With(advice.ApproveAgent, "com.a") + " allows it": "lightwork agents approve com.a allows it",
		advice.Resume + " is no word of ours":                    "{resume} is no word of ours",
		`{"check":1}, {CHECK}, {check }, {} and {check-}`:        `{"check":1}, {CHECK}, {check }, {} and {check-}`,
		"": "",
	} {
		if got := advice.Say(text, words); got != want {
			t.Errorf("%q is said as %q, want %q", text, got, want)
		}
	}
}
