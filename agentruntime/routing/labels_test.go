package routing

import (
	"encoding/json"
	"testing"
)

func TestRulesReadLabels(t *testing.T) {
	c := Capability{Schema: json.RawMessage(`{"type":"object","required":["text"],"properties":{
		"text":{"type":"string"},"to":{"type":"string"},"times":{"type":"integer"},"tags":{"type":"array"},"loud":{"type":"boolean"}}}`)}
	for _, tt := range []struct{ need, want string }{
		{"translate text: good morning", `{"text":"good morning"}`},
		{"please translate text: good morning, to: French", `{"text":"good morning","to":"French"}`},
		{`Text = "a: b" times=3 loud: true`, `{"loud":true,"text":"a: b","times":3}`},
		{"tags: [\"x\"]\ntext: first\nmore words", `{"tags":["x"],"text":"first"}`},
		{"text: one, text: two", `{"text":"one"}`},
		{"context: this is no label", `{"text":"context: this is no label"}`},
		{"times: often, text: x", ""},
	} {
		got, err := Rules().Fill(t.Context(), c, tt.need)
		if string(got) != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("%q: got %s, %v", tt.need, got, err)
		}
	}
}

func TestExample(t *testing.T) {
	for _, tt := range []struct{ schema, want string }{
		{`{"type":"object","properties":{"ms":{"type":"integer","minimum":0}},"required":["ms"]}`, `{"ms":1}`},
		{`{"type":"object","properties":{"a":{"type":"string"},"b":{"enum":["x","y"]},"c":{"type":"array","items":{"type":"boolean"}}}}`, `{"a":"...","b":"x","c":[true]}`},
		{`{"type":"object","properties":{"n":{"type":"number","minimum":5},"m":{"default":7},"o":{"type":"object"}},"required":["n","o"]}`, `{"n":5,"o":{}}`},
		{`3`, `{}`},
	} {
		if got := Example(json.RawMessage(tt.schema)); string(got) != tt.want {
			t.Errorf("%s: got %s", tt.schema, got)
		}
	}
	deep := `{"type":"string"}`
	for range 50 {
		deep = `{"type":"object","properties":{"x":` + deep + `}}`
	}
	if got := Example(json.RawMessage(deep)); len(got) > 100 {
		t.Errorf("a deep schema gave %s", got)
	}
}
