package toolschema

import (
	"encoding/json"
	"errors"
	"testing"
)

func TestCompileWork(t *testing.T) {
	for doc, want := range map[string]int{
		`{}`: 1,
		`{"properties":{"a":{"type":"string"},"b":{"type":["null","object"]}}}`:               4,
		`{"anyOf":[true,{"uniqueItems":true}],"description":"{true}","minimum":1,"x":[null]}`: 4,
		ofA(`{"allOf":` + list("{}", 2997) + `}`):                                             3000 + 3000,
		ofA(`{"allOf":` + list("{}", 8997) + `}`):                                             9000 + 27_000,
	} {
		left := want
		s, err := CompileWithin(json.RawMessage(doc), &left)
		if err != nil || s.Work() != want || left != 0 {
			t.Errorf("%.80s: work %d, %d left, %v", doc, s.Work(), left, err)
		}
		left = want - 1
		if _, err := CompileWithin(json.RawMessage(doc), &left); !errors.Is(err, ErrSchema) || left != want-1 {
			t.Errorf("%.80s within %d: %d left, %v", doc, want-1, left, err)
		}
	}
	// What is refused was work too.
	left := 10
	if _, err := CompileWithin(json.RawMessage(`{"items":{"type":5}}`), &left); !errors.Is(err, ErrSchema) || left != 8 {
		t.Errorf("%d left, %v", left, err)
	}
}
