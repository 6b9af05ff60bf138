package contract

import (
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	const doc = `{"n":1,"s":"a\"b","id":"0f8fad5b-d9cb-469f-a165-70867728950e","ts":"2026-01-16T12:00:00.5Z","o":{"x":true,"y":null},"l":[1,"z"]}`
	for _, tt := range []struct{ pattern, diff string }{
		{`{}`, ""},
		{`{"n":1,"o":{"x":true,"y":null}}`, ""},
		{`{"n":"$int","s":"$string","id":"$uuid","ts":"$ts","o":"$object","l":"$array"}`, ""},
		{`{"n":"$any","no":"$absent","o":{"y":"$absent"}}`, ""},
		{`{"s":"~a.b","l":[1,"~[a-z]"]}`, ""},
		{`{"s":"$NEW","l":["$int","$OTHER"]}`, ""},
		{`{"n":2}`, "n is 1, want 2"},
		{`{"n":1.0}`, "n is 1, want 1.0"},
		{`{"no":1}`, "no is missing"},
		{`{"n":"$absent"}`, "n is there"},
		{`{"s":"~b"}`, `s is "a\"b", want ~b`},
		{`{"s":"$uuid"}`, `s is "a\"b", want $uuid`},
		{`{"id":"$ts"}`, `want $ts`},
		{`{"o":"$array"}`, "want $array"},
		{`{"o":{"x":false}}`, "o.x is true, want false"},
		{`{"l":[1]}`, "want an array of 1"},
		{`{"l":[1,"y"]}`, "l[1] is"},
		{`{"s":"$SAME","id":"$SAME"}`, "want $SAME"},
		{`{"n":"$NEW"}`, "want $NEW"},
		{`{"s":{}}`, "want an object"},
		{`[]`, "want an array"},
	} {
		pattern, err := decode([]byte(tt.pattern))
		if err != nil {
			t.Fatal(err)
		}
		got, err := decode([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		diff := match(pattern, got, "", vars{})
		if (diff == "") != (tt.diff == "") || !strings.Contains(diff, tt.diff) {
			t.Errorf("%s: %q, want %q", tt.pattern, diff, tt.diff)
		}
	}
}

func TestLearntNamesStayJSON(t *testing.T) {
	learnt := vars{}
	got := map[string]any{"id": "a\"b\\"}
	if diff := match(map[string]any{"id": "$ID"}, got, "", learnt); diff != "" {
		t.Fatal(diff)
	}
	again, err := decode([]byte(learnt.fill(`{"id":"$ID"}`)))
	if err != nil || match(again, got, "", learnt) != "" {
		t.Errorf("%v %v", again, err)
	}
}

func TestNumbered(t *testing.T) {
	if got := replaceNumber(`$N $N00 $NAME "a-$N"`, 7); got != `7 700 $NAME "a-7"` {
		t.Error(got)
	}
}

func TestDecodeAll(t *testing.T) {
	for text, want := range map[string]int{`{}`: 1, `{} | 1|[] `: 3, `{} |`: 0, `{} {}`: 0, ``: 0, `{`: 0} {
		values, err := decodeAll([]byte(text))
		if len(values) != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %v %v", text, values, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for name, doc := range map[string]string{
		"no script":      "About.\n# OS-2.1.1\n",
		"another file":   "About.\n# OS-2.1.1\n-- other --\nalive:\n",
		"unknown verb":   "About.\n# OS-2.1.1\n-- script --\ndance:\n",
		"no lines":       "About.\n-- script --\nalive:\n",
		"no description": "# OS-2.1.1\n-- script --\nalive:\n",
		"no steps":       "About.\n# OS-2.1.1\n-- script --\n# alive:\n",
	} {
		if _, err := parse("x", []byte(doc)); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	c, err := parse("x", []byte("About\nit.\n# OS-2.1.1 OS-2.1.2\n# needs: b a\n-- script --\n# first\n\nwithin: 3s\n"))
	if err != nil || c.About != "About it." || len(c.Lines) != 2 || c.Needs[0] != "a" || c.steps[0] != (step{3, "within", "3s"}) {
		t.Errorf("%+v %v", c, err)
	}
}

func TestBreakingInputs(t *testing.T) {
	for schema, want := range map[string]int{
		`{}`:                               0,
		`{"type":"object"}`:                0,
		`{"type":"object","required":[1]}`: 0, // does not compile
		`{"type":"object","additionalProperties":false}`:          1,
		`{"required":["a"]}`:                                      2,
		`{"properties":{"a":{"type":"integer"}}}`:                 3,
		`{"properties":{"a":{"type":"string"}},"required":["a"]}`: 4,
	} {
		if got := breaking([]byte(schema)); len(got) != want {
			t.Errorf("%s: %s", schema, got)
		}
	}
}

func TestOutputSeesTokenInPieces(t *testing.T) {
	o := newOutput("secret")
	for _, part := range []string{strings.Repeat("x", 2*keepOutput), "sec", "ret", strings.Repeat("y", 2*keepOutput)} {
		if _, err := o.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if text, leaked := o.read(); !leaked || len(text) != keepOutput {
		t.Errorf("%d bytes, leaked %t", len(text), leaked)
	}
}
